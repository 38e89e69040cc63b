"""A campaign, with an Airflow that answers from a script: what it says while it runs, and what it leaves behind."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dpone.campaign import AirflowApi, Campaign, EvidenceFolder
from airflow_provider_dpone.campaign import run as campaign_run
from airflow_provider_dpone.campaign.loaded_dags import wait_for_dags
from airflow_provider_dpone.composition import projection, release
from airflow_provider_dpone.contracts.errors import ConfigurationError, ControlUnavailable, Overlap
from tests.support.compositions import Store, activation, write_source
from tests.support.scripted_airflow import RUN, Airflow, instance, scripted_airflow


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[type[Airflow], str]]:
    monkeypatch.setattr(campaign_run.time, "sleep", lambda _: None)
    with scripted_airflow() as served:
        yield served


@pytest.fixture
def airflow(scripted: tuple[type[Airflow], str]) -> type[Airflow]:
    return scripted[0]


class NoAttempts:
    """A ledger in which no attempt was admitted."""

    def find(self, *_: Any) -> tuple[()]:
        return ()


@pytest.fixture
def campaign(scripted: tuple[type[Airflow], str], tmp_path: Path) -> tuple[Campaign, list[str], Store]:
    store, said = Store(), list[str]()
    evidence = EvidenceFolder(tmp_path / "evidence")
    evidence.create()
    made = Campaign(
        activation=activation(tmp_path / "root", store),
        attempts=NoAttempts(),  # type: ignore[arg-type]  # the one call that is made
        airflow=AirflowApi(scripted[1], "u", "p"),
        evidence=evidence,
        say=said.append,
    )
    made.begin(Path(__file__).parent, "a server 16.0")
    return made, said, store


def document(tmp_path: Path, name: str) -> Any:
    return json.loads((tmp_path / "evidence" / name).read_text())


def test_every_change_of_a_task_is_said_once_and_everything_is_kept(
    campaign: tuple[Campaign, list[str], Store], airflow: type[Airflow], tmp_path: Path
) -> None:
    steps, said, store = campaign
    release.build(write_source(tmp_path / "source"), tmp_path / "release")
    active = steps.put_in_force(tmp_path / "release")
    many = [instance(f"t{number}", "success") for number in range(120)]
    airflow.looks = [
        [instance("load", None)],
        [instance("load", "running")],
        [instance("load", "running")],
        [instance("load", "running", 2)],
        [instance("load", "success", 2), *many],
    ]
    tries = steps.run_dags("parent", ["d", "never_triggered"], RUN)
    lines = [line.split("s  ")[1] for line in said if "load" in line]
    assert lines == ["d.load: running", "d.load: running, try 2", "d.load: success, try 2"]
    assert len(tries) == 122 and tries[:2] == [("d", RUN, "load", -1, 1), ("d", RUN, "load", -1, 2)]
    steps.reconciled(True)
    assert steps.succeeded
    retired = steps.retire(active)
    assert retired is not None and retired.state == "RETIRED" and set(store.states.values()) == {"RETIRED"}

    about = document(tmp_path, "campaign.json")
    assert about["server"] == "a server 16.0" and about["versions"]["python"] and len(about["source"]["commit"]) == 40
    assert {name: step["result"] for name, step in about["steps"].items() if name != "attempts"} == {
        "put_in_force": "ACTIVE",
        "dags_loaded": {"release_id": None, "dags": ["d", "never_triggered", "parent"]},
        "run": "success",
        "reconciled": True,
        "retired": "RETIRED",
    }
    assert document(tmp_path, "activation.json")["activation_id"] == active.activation_id
    parent = document(tmp_path, "parent.json")
    assert {each["workload_id"] for each in parent["workloads"]} == {"planes", "delays"}
    assert len(document(tmp_path, "airflow.json")["task_instances"]) == 121
    assert [tuple(each) for each in document(tmp_path, "tries.json")] == tries


def test_a_failed_parent_is_no_success_and_says_why_its_tasks_failed(
    campaign: tuple[Campaign, list[str], Store], airflow: type[Airflow], tmp_path: Path
) -> None:
    steps, said, _ = campaign
    airflow.end = "failed"
    airflow.looks = [[instance("load", "failed", 2), instance("other", "upstream_failed")]]
    airflow.log = [
        {"event": "first", "level": "error"},
        {"event": "Task failed", "level": "error", "error_detail": [{"exc_type": "E", "exc_value": "the cause"}]},
        {"event": "later", "level": "info"},
    ]
    steps.run_dags("parent", ["d"], RUN)
    assert not steps.succeeded
    assert "    failed: d.load, try 2: E: the cause" in said
    assert [each["error"] for each in document(tmp_path, "airflow.json")["errors"]] == ["E: the cause"] * 2

    airflow.log = []
    steps.run_dags("parent", ["d"], RUN)
    assert said[-1].startswith("    failed: d.load, try 2: its log names no error")


MINE, BEFORE = projection.mark("x", "sha256:mine"), projection.mark("x", "sha256:before")


def test_a_dag_of_another_release_is_waited_out_and_never_triggered(
    campaign: tuple[Campaign, list[str], Store], airflow: type[Airflow]
) -> None:
    steps, said, _ = campaign
    airflow.docs = [BEFORE, "", "stale", MINE]
    steps.run_dags("parent", [], RUN, release_id="sha256:mine")
    trigger = airflow.asked.index(("POST", "/api/v2/dags/parent/dagRuns"))
    assert airflow.docs == [MINE], "everything that came before was looked at first"
    asked = [path for method, path in airflow.asked[:trigger] if method == "PUT"]
    assert asked == ["/api/v2/parseDagFile/a%2Ftoken"], "once a file"
    assert any("has not parsed parent of this release" in line for line in said)


def test_what_a_dag_quotes_of_other_releases_is_not_what_it_was_made_from() -> None:
    assert projection.marked(QUOTES) == "sha256:before"
    assert projection.marked(f"After release `sha256:before`.\n\n{MINE}\n") == "sha256:mine"
    assert projection.marked("See release `sha256:mine`.") is None


@pytest.mark.parametrize("docs", [[BEFORE], [], [""]], ids=["of another release", "not there", "by hand"])
def test_dags_that_never_come_are_an_error_that_says_what_airflow_has(
    scripted: tuple[type[Airflow], str], docs: list[str]
) -> None:
    airflow, url = scripted
    airflow.docs = docs
    with pytest.raises(TimeoutError, match="SyntaxError") as missing:
        wait_for_dags(AirflowApi(url, "u", "p"), {"parent": "sha256:mine"}, timeout=0)
    assert ("Of another release: parent" in str(missing.value)) is bool(docs)


QUOTES = f"It comes before release `sha256:mine`. {MINE}\n\n{BEFORE}"


@pytest.mark.parametrize(
    ("doc", "waits"),
    [("By hand.", False), ("By hand, see release `y`.", False), (BEFORE, True), (MINE, False), (QUOTES, True)],
)
def test_one_that_is_named_by_hand_may_be_of_no_release_but_of_no_other(
    scripted: tuple[type[Airflow], str], doc: str, waits: bool
) -> None:
    airflow, url = scripted
    airflow.docs = [doc]
    wanted = {"parent": "sha256:mine"}
    with pytest.raises(TimeoutError) if waits else contextlib.nullcontext():
        wait_for_dags(AirflowApi(url, "u", "p"), wanted, by_hand=frozenset(wanted), timeout=0)


def test_a_dag_that_cannot_be_made_is_refused_with_its_reason(
    campaign: tuple[Campaign, list[str], Store], airflow: type[Airflow]
) -> None:
    steps, _, _ = campaign
    airflow.docs, airflow.tags = [f"```\nthe cause\n```\n\n{MINE}"], ("dpone", "refused")
    with pytest.raises(ConfigurationError, match="dag_refused") as refused:
        steps.run_dags("parent", [], RUN, release_id="sha256:mine")
    assert "In its place stands: the cause\n" in str(refused.value)
    assert not any("dagRuns" in path for _, path in airflow.asked)


def test_a_run_that_does_not_end_is_an_error_and_retires_nothing(
    campaign: tuple[Campaign, list[str], Store], airflow: type[Airflow], tmp_path: Path
) -> None:
    steps, _, store = campaign
    release.build(write_source(tmp_path / "source"), tmp_path / "release")
    steps.put_in_force(tmp_path / "release")
    airflow.end = "running"
    with pytest.raises(TimeoutError, match="still running"):
        steps.run_dags("parent", ["d"], RUN, timeout=0)
    assert set(store.states.values()) == {"ACTIVE"}
    assert "retired" not in document(tmp_path, "campaign.json")["steps"]


def test_an_unresolved_attempt_at_the_end_stands_in_the_evidence(
    campaign: tuple[Campaign, list[str], Store], tmp_path: Path
) -> None:
    steps, _, store = campaign
    release.build(write_source(tmp_path / "source"), tmp_path / "release")
    active = steps.put_in_force(tmp_path / "release")

    def blocked(_: Any) -> Any:
        raise Overlap("owner_unresolved", blockers=["sha256:1 (COMMIT_UNKNOWN)"])

    store.finalize_retirement = blocked  # type: ignore[method-assign]  # as a ledger with an unknown outcome
    with pytest.raises(Overlap):
        steps.retire(active)
    retired = document(tmp_path, "campaign.json")["steps"]["retired"]["result"]
    assert retired["blockers"] == ["sha256:1 (COMMIT_UNKNOWN)"]
    assert set(store.states.values()) == {"RETIRING"}


def test_a_folder_of_another_campaign_is_refused(tmp_path: Path) -> None:
    EvidenceFolder(tmp_path / "one").create()
    with pytest.raises(FileExistsError):
        EvidenceFolder(tmp_path / "one").create()


def test_an_airflow_that_is_not_there_or_refuses_is_one_clear_error(scripted: tuple[type[Airflow], str]) -> None:
    with pytest.raises(ControlUnavailable, match="airflow_unreachable"):
        AirflowApi("http://127.0.0.1:1", "u", "secret-of-airflow")
    api = AirflowApi(scripted[1], "u", "p")
    with pytest.raises(ConfigurationError, match="airflow_refused") as refused:
        api.run_state("other", RUN)
    assert "404" in str(refused.value)


def test_an_airflow_that_is_away_for_a_while_is_asked_again_before_anything_is_triggered(
    campaign: tuple[Campaign, list[str], Store], airflow: type[Airflow], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, said, _ = campaign
    usual, away = airflow.do_GET, [503, 500]

    def do_GET(self: Airflow) -> None:
        self.answer({}, away.pop()) if away and self.path.endswith("/details") else usual(self)

    monkeypatch.setattr(airflow, "do_GET", do_GET)
    airflow.docs = [MINE]
    steps.run_dags("parent", [], RUN, release_id="sha256:mine")
    assert away == [] and any("answered 503" in line and "asked again" in line for line in said)


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/api/v2/dags?", {"dags": ["a", None]}),
        ("/api/v2/importErrors", {"import_errors": ["a"]}),
        ("/details", [1]),
    ],
)
def test_an_answer_that_is_not_airflows_is_refused_by_name(
    scripted: tuple[type[Airflow], str], monkeypatch: pytest.MonkeyPatch, path: str, answer: Any
) -> None:
    airflow, url = scripted
    usual = airflow.do_GET
    monkeypatch.setattr(airflow, "do_GET", lambda self: self.answer(answer) if path in self.path else usual(self))
    airflow.docs = [BEFORE]
    with pytest.raises(ConfigurationError, match="airflow_answer"):
        wait_for_dags(AirflowApi(url, "u", "p"), {"parent": "sha256:mine"}, timeout=0.2)


def test_what_airflow_answers_of_files_and_logs_is_taken_as_it_comes(scripted: tuple[type[Airflow], str]) -> None:
    _, url = scripted
    api = AirflowApi(url, "u", "p")
    api.parse_soon([{"bundle_name": [], "fileloc": {}, "file_token": 1}])
    Airflow.log = [{"level": ["error"]}, {"level": {}}]
    assert api.last_error(instance("load", "failed")) is None
    Airflow.log = []
