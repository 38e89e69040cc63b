"""DAGs from the activation in force: parsed without any network, one broken composition beside whole ones."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dpone.composition import deployment, release
from airflow_provider_dpone.dags import load_compositions
from tests.support.compositions import COMPOSITION, NATIVE, ORDINARY, Store, activation, write_source

FLIGHTS = Path(__file__).resolve().parents[2] / "examples" / "flights"
STEPS = ("work", "close_gate", "prove_quiescence", "finalize")
PUBLISHED = ("publish_daily_delays", "publish_flights", "publish_flights_without_airline")

DAGS = """
dags:
  slow: {schedule: '@daily', retries: 3, steps: one_task}
  wrong: {schedule: '99 * * * *'}
parent: {dag_id: whole, order: [slow, d]}
"""

#: One process parses everything; a socket, a name or a connection that it asks for ends it.
PARSE = """
import json, os, socket, sys, time
from airflow.sdk import BaseHook
import airflow.providers.standard.operators.trigger_dagrun
from airflow.sdk.definitions._internal.dag_parsing_context import _airflow_parsing_context_manager
from airflow.serialization.serialized_objects import DagSerialization
from airflow_provider_dpone.dags import load_compositions

def refuse(*_args, **_kwargs):
    raise AssertionError("the network was used while DAGs were parsed")

for name in ("connect", "connect_ex", "bind", "sendto"):
    setattr(socket.socket, name, refuse)
socket.getaddrinfo = refuse
BaseHook.get_connection = classmethod(refuse)
opened = []
sys.addaudithook(lambda event, args: opened.append(args[0]) if event == "open" and type(args[0]) is str else None)

def task(each):
    names = ("workload_id", "release_root", "retries", "reason")
    partial = getattr(each, "partial_kwargs", {})
    shown = {name: getattr(each, name, partial.get(name)) for name in names}
    if partial:
        shown["mapped"] = each.expand_input.value
        shown["at_once"] = partial.get("max_active_tis_per_dagrun")
    held = {name: getattr(each, name, partial.get(name)) for name in ("retry_delay", "overlap_poll")}
    shown |= {name: None if value is None else value.total_seconds() for name, value in held.items()}
    return shown | {"downstream": sorted(each.downstream_task_ids), "outlets": [asset.uri for asset in each.outlets]}

for path in sys.argv[1:]:
    namespace = {}
    opened.clear()
    load_compositions(namespace, path)
    opens = len(opened)
    began = time.process_time()
    load_compositions({}, path)
    stored = json.loads(json.dumps([DagSerialization.to_dict(dag) for dag in namespace.values() if len(dag.tasks) < 50]))
    for dag in stored:
        DagSerialization.from_dict(dag)
    # As a task's process has it: Airflow sets it for good.
    with _airflow_parsing_context_manager(dag_id="slow", task_id="slow"):
        for_a_task = load_compositions({}, path)
    for name in [name for name in os.environ if name.startswith("_AIRFLOW_PARSING_CONTEXT")]:
        del os.environ[name]
    print(json.dumps({
        "for_a_task": for_a_task,
        "stored": [dag["dag"]["dag_id"] for dag in stored],
        "seconds": time.process_time() - began,
        "opened": opens,
        "dags": {dag.dag_id: {"schedule": dag.schedule, "tags": sorted(dag.tags), "doc": dag.doc_md,
                              "tasks": {each.task_id: task(each) for each in dag.tasks}}
                 for dag in namespace.values()},
    }), flush=True)
"""


def many(root: Path, count: int) -> Path:
    """A composition of `count` transfers and a native one, in force."""
    manifests = {
        f"t{number}": ORDINARY.replace("planes", f"t{number}").replace("dag_id: d", f"dag_id: d{number // 100}")
        for number in range(count)
    }
    listed = ", ".join(f"{name}.yaml" for name in manifests)
    composition = COMPOSITION.replace("WORKLOAD", listed)
    release.build(write_source(root / "source", composition=composition, **manifests), root / "release")
    activation(root / "in force", Store()).activate(root / "release")
    return root / "in force"


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What parsing gave: of several compositions beside each other, of 100, and of 1,000 workloads."""
    folder = tmp_path_factory.mktemp("compositions")
    with pytest.MonkeyPatch.context() as patch:
        # Nothing here has to survive a power cut, and the disk is asked once a file.
        patch.setattr(deployment, "sync", lambda path: None)
        paths = _in_force(folder)
    nowhere = "postgresql+psycopg://nobody@127.0.0.1:1/none"
    done = subprocess.run(
        [sys.executable, "-c", PARSE, *map(str, paths.values())],
        env=os.environ
        | {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": nowhere, "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": nowhere},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"for_a_task"')]
    return dict(zip(paths, answers, strict=True))


def _in_force(folder: Path) -> dict[str, Path]:
    roots = folder / "roots"
    slow = ORDINARY.replace("planes", "slow").replace("dag_id: d", "dag_id: slow")
    wrong = ORDINARY.replace("planes", "wrong").replace("dag_id: d", "dag_id: wrong")
    composition = COMPOSITION.replace("WORKLOAD", "planes.yaml, slow.yaml, wrong.yaml") + DAGS
    release.build(write_source(folder / "source", composition=composition, slow=slow, wrong=wrong), folder / "release")
    activation(roots / "whole one", Store()).activate(folder / "release")
    broken = many(folder / "small", 1).rename(roots / "broken é one")
    next(broken.glob("deployments/*/release/t0.yaml")).write_text(NATIVE)
    (roots / "nothing yet").mkdir()
    return {
        "roots": roots,
        "hostile": _hostile(folder),
        "flights": _flights(folder),
        "nothing": roots / "nothing yet",
        "100": many(folder / "100", 100),
        "1000": many(folder / "1000", 1000),
    }


def _flights(folder: Path) -> Path:
    """The example of the demo, in force."""
    release.build(FLIGHTS, folder / "flights release")
    activation(folder / "flights", Store()).activate(folder / "flights release")
    return folder / "flights"


def no_text(current: Path) -> None:
    """A document that names a release by a NUL, which no path and no database of Airflow holds."""
    kept = next((current.parent / "activations").iterdir())
    kept.write_text(json.dumps(json.loads(kept.read_text()) | {"release": "a\0b"}))


def pipe(current: Path) -> None:
    current.unlink()
    os.mkfifo(current)


def sparse(current: Path) -> None:
    os.truncate(current, 1 << 40)


def link_to(where: str) -> Callable[[Path], None]:
    def link(current: Path) -> None:
        current.unlink()
        current.symlink_to(where)

    return link


DAMAGES: dict[str, Callable[[Path], None]] = {
    "pipe": pipe,
    "sparse": sparse,
    "device": link_to("/dev/zero"),
    "nowhere": link_to("nowhere"),
    "loop": link_to("current.json"),
    "no text": no_text,
    "removed": lambda current: shutil.rmtree(current.parent / "deployments"),
    "no \udcff utf8": lambda current: None,
    "z" * 255: lambda current: None,
}


def _hostile(folder: Path) -> Path:
    """Roots whose `current` is anything but a document, and a whole one whose names are all that a name may be."""
    hostile = folder / "hostile"
    tables = ("a#b", "a#c", "a/b", "a?b", "a@b:1", "[x]", "\u0410", "x")
    manifests = {
        f"w{number}": ORDINARY.replace("workload_id: planes", f"workload_id: w{number}")
        .replace("dag_id: d", f"dag_id: {'active' if number else 'y' * 200}")
        .replace("table: planes, mode", f"table: {json.dumps(table)}, mode")
        for number, table in enumerate(tables)
    }
    never = ORDINARY.replace("dag_id: d", "dag_id: never")
    composition = COMPOSITION.replace("WORKLOAD", ", ".join(["planes.yaml", *(f"{name}.yaml" for name in manifests)]))
    composition += "dags: {never: {schedule: '0 0 30 2 *'}}\nparent: {dag_id: whole, order: [active, d]}\n"
    source = write_source(folder / "hostile source", composition=composition, planes=never, **manifests)
    release.build(source, folder / "hostile release")
    activation(hostile / "a", Store()).activate(folder / "hostile release")
    for name, damage in DAMAGES.items():
        damage(Path(shutil.copytree(hostile / "a", hostile / name)) / "current.json")
    return hostile


def tasks_of(answer: dict[str, Any], dag_id: str) -> dict[str, Any]:
    found: dict[str, Any] = answer["dags"][dag_id]["tasks"]
    return found


def test_one_dag_a_constituent_by_explicit_triggers_unless_the_author_says_otherwise(parsed: dict[str, Any]) -> None:
    dags = parsed["roots"]["dags"]
    assert {dag_id: dag["schedule"] for dag_id, dag in dags.items() if "refused" not in dag["tags"]} == {
        "d": None,
        "slow": "@daily",
        "whole": None,
    }
    tasks = tasks_of(parsed["roots"], "d")
    assert set(tasks) == {f"{workload}.{step}" for workload in ("planes", "delays") for step in STEPS}
    assert tasks["delays.finalize"]["downstream"] == ["planes.work"], "in the order of composition.yaml"
    assert tasks["planes.finalize"]["outlets"] == ["dpone://dw/raw/planes"]
    (slow,) = tasks_of(parsed["roots"], "slow").values()
    assert (slow["workload_id"], slow["retries"]) == ("slow", 3)
    assert slow["release_root"].endswith("whole one")


@pytest.mark.parametrize("roots", ["roots", "hostile"])
def test_airflow_can_store_every_dag(parsed: dict[str, Any], roots: str) -> None:
    """What the DAG processor does with a parsed file; one DAG that it cannot store takes the whole file down."""
    assert set(parsed[roots]["stored"]) == set(parsed[roots]["dags"])
    text = json.dumps(parsed[roots]["dags"], ensure_ascii=False)
    assert "\\u0000" not in text and text.encode(), "PostgreSQL holds no NUL and no half of a character"


def test_whatever_current_is_its_root_says_so_and_a_whole_root_is_there(parsed: dict[str, Any]) -> None:
    dags = parsed["hostile"]["dags"]
    reasons = {dag_id: dag["tasks"]["refused"]["reason"] for dag_id, dag in dags.items() if "refused" in dag["tags"]}
    for name in ("pipe", "sparse", "device", "nowhere", "loop", "no_text", "removed", "no___utf8"):
        assert f"{name}__refused" in reasons
    assert "never comes" in reasons["never"] and "'active'" in reasons["whole"]
    assert set(dags) - set(reasons) == {"d", "active", "y" * 200}
    twins = [reason for reason in reasons.values() if "is there already" in reason]
    assert len(twins) == 5 and max(map(len, dags)) <= 240


def test_every_table_is_an_asset_of_its_own(parsed: dict[str, Any]) -> None:
    uris = [uri for task in tasks_of(parsed["hostile"], "active").values() for uri in task["outlets"]]
    assert len(set(uris)) == len(uris) == 7 and "dpone://dw/raw/a%23c" in uris


def test_a_task_that_starts_parses_its_own_dag_only(parsed: dict[str, Any]) -> None:
    assert parsed["roots"]["for_a_task"] == ["broken___one__refused", "slow"], "what is broken is always said"
    assert parsed["1000"]["for_a_task"] == []


def test_the_example_has_the_tasks_that_the_demo_and_the_readme_name(parsed: dict[str, Any]) -> None:
    answer = parsed["flights"]
    assert {dag_id: set(dag["tasks"]) for dag_id, dag in answer["dags"].items()} == {
        "flights_reference": {"load"},
        "flights_warehouse": {f"warehouse.{step}" for step in STEPS},
        "flights_publish": {f"{name}.{step}" for name in PUBLISHED for step in STEPS},
        "flights_parent": {"active", "flights_reference", "flights_warehouse", "flights_publish"},
    }
    work = tasks_of(answer, "flights_warehouse")["warehouse.work"]
    assert (work["retries"], work["retry_delay"], work["overlap_poll"]) == (1, 2, 2)
    assert tasks_of(answer, "flights_parent")["active"]["release_root"].endswith("/flights"), "not the setting's"


def test_workloads_of_one_cell_are_one_mapped_task_in_their_order(parsed: dict[str, Any]) -> None:
    (load,) = tasks_of(parsed["flights"], "flights_reference").values()
    assert load["mapped"] == {"workload_id": ["airlines", "airports", "planes", "retirements"]}
    assert (load["at_once"], load["retries"], load["retry_delay"]) == (1, 1, 2)
    assert load["release_root"].endswith("/flights") and load["outlets"] == []


def test_what_the_author_left_out_is_airflows_own(parsed: dict[str, Any]) -> None:
    work = tasks_of(parsed["roots"], "d")["planes.work"]
    assert (work["retry_delay"], work["overlap_poll"]) == (300, 15)


def test_every_dag_says_which_release_it_is_from(parsed: dict[str, Any]) -> None:
    for roots in ("roots", "flights"):
        said = [dag["doc"] for dag_id, dag in parsed[roots]["dags"].items() if "broken" not in dag_id]
        assert len({doc.rpartition("Of ")[2] for doc in said}) == 1 and "release `sha256:" in said[0]


def test_the_parent_triggers_in_the_authors_order(parsed: dict[str, Any]) -> None:
    tasks = tasks_of(parsed["roots"], "whole")
    assert [tasks[each]["downstream"] for each in ("active", "slow", "d")] == [["slow"], ["d"], []]


def test_what_is_broken_says_why_and_leaves_the_others_alone(parsed: dict[str, Any]) -> None:
    refused = {dag_id: dag for dag_id, dag in parsed["roots"]["dags"].items() if "refused" in dag["tags"]}
    assert set(refused) == {"broken___one__refused", "wrong"}
    reasons = {dag_id: dag["tasks"]["refused"]["reason"] for dag_id, dag in refused.items()}
    assert "t0.yaml" in reasons["broken___one__refused"] and "99 * * * *" in reasons["wrong"]
    assert "t0.yaml" in refused["broken___one__refused"]["doc"]
    assert "99 * * * *" in refused["wrong"]["doc"] and "release `sha256:" in refused["wrong"]["doc"]


def test_a_root_without_an_activation_has_no_dags(parsed: dict[str, Any]) -> None:
    assert parsed["nothing"]["dags"] == {}


def test_a_thousand_workloads_are_parsed_in_two_seconds_and_in_proportion(parsed: dict[str, Any]) -> None:
    few, many_ = parsed["100"], parsed["1000"]
    assert sum(len(dag["tasks"]) for dag in many_["dags"].values()) == 4 * 1001
    assert many_["seconds"] < 2.0
    assert many_["seconds"] < 15 * few["seconds"]
    per_workload = (many_["opened"] - few["opened"]) / 900
    assert per_workload <= 3.0, (
        "a manifest and its runtime are opened to be verified, and the first once more to be read"
    )


def test_every_workload_of_a_large_composition_is_there(parsed: dict[str, Any]) -> None:
    workloads = {task["workload_id"] for dag in parsed["1000"]["dags"].values() for task in dag["tasks"].values()}
    assert workloads - {None} == {"delays", *(f"t{number}" for number in range(1000))}


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two roots whose DAGs have one id."""
    folder = tmp_path_factory.mktemp("twins")
    release.build(write_source(folder / "source"), folder / "release")
    activation(folder / "roots" / "a", Store()).activate(folder / "release")
    shutil.copytree(folder / "roots" / "a", folder / "roots" / "b")
    return folder / "roots"


def test_a_task_of_a_dag_that_another_root_has_already_finds_its_dag(
    twins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = load_compositions({}, twins)
    assert len(made) == 2 and "__in__b__" in made[1]
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", made[1])
    assert made[1] in load_compositions({}, twins)


def _link_to_itself(folder: Path) -> Path:
    (folder / "loop").symlink_to("loop")
    return folder / "loop"


def _file(folder: Path) -> Path:
    (folder / "file").write_text("")
    return folder / "file"


@pytest.mark.parametrize(
    "where",
    [
        _link_to_itself,
        _file,
        lambda _: "",
        lambda _: "releases",
        lambda folder: f"{folder}/a\0b",
        lambda _: "/" + "x" * 300,
    ],
    ids=["a link to itself", "a file", "no text", "relative", "NUL", "too long"],
)
def test_a_path_that_can_hold_no_root_says_so_and_leaves_the_file_alone(
    tmp_path: Path, where: Callable[[Path], Path | str]
) -> None:
    namespace: dict[str, Any] = {}
    (dag_id,) = load_compositions(namespace, where(tmp_path))
    (dag,) = namespace.values()
    assert dag_id.endswith("__refused") or len(dag_id) == 240
    assert ("refused" in dag.tags and "release_root" in dag.doc_md) or "cannot be read" in dag.doc_md


def test_a_folder_that_cannot_be_listed_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", denied)
    namespace: dict[str, Any] = {}
    assert load_compositions(namespace, tmp_path) == ("dpone__refused",)
    assert "Permission denied" in next(iter(namespace.values())).doc_md
