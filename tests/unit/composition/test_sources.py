"""Reading a complete parent: any file that is not what was built is refused by its name, and what is read is frozen."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy as copy_of
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from airflow_provider_dpone.composition import plain_files, release, workload_pins
from airflow_provider_dpone.composition.execution_plan import plan_composition_execution
from airflow_provider_dpone.composition.manifest import read_workload
from airflow_provider_dpone.composition.relations import WrittenRelation
from airflow_provider_dpone.composition.sources import build_composition_source_reader
from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.errors import AdmissionRefused, ConfigurationError
from tests.support.compositions import COMPOSITION, NATIVE, ORDINARY, write_source

Damage = Callable[[Path], None]
READER = build_composition_source_reader()


def changed(file: Path) -> None:
    """One bit, so that the size stays."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def longer(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"\n")


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def missing(file: Path) -> None:
    file.unlink()


def linked(file: Path) -> None:
    """A symbolic link to the very same bytes."""
    shutil.copy(file, elsewhere(file))
    file.unlink()
    file.symlink_to(elsewhere(file))


def linked_twice(file: Path) -> None:
    elsewhere(file).hardlink_to(file)


def link_to_nothing(file: Path) -> None:
    file.unlink()
    file.symlink_to("nothing")


def pipe(file: Path) -> None:
    """Opening one would wait for ever."""
    file.unlink()
    os.mkfifo(file)


def folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def oversized(file: Path) -> None:
    with open(file, "ab") as opened:
        opened.truncate(plain_files.FILE_LIMIT + 1)


def renamed(file: Path) -> None:
    file.rename(file.with_name(file.name.upper() + "~"))


DAMAGES: tuple[Damage, ...] = (
    *(changed, longer, emptied, missing, linked, linked_twice, link_to_nothing, pipe, folder, oversized, renamed),
)


def elsewhere(file: Path) -> Path:
    return file.parents[len(file.parents) - 1] / "tmp" / f"dpone-elsewhere-{os.getpid()}"


@contextmanager
def damaged(file: Path, damage: Damage) -> Iterator[None]:
    kept = file.read_bytes()
    try:
        damage(file)
        yield
    finally:
        elsewhere(file).unlink(missing_ok=True)
        file.with_name(file.name.upper() + "~").unlink(missing_ok=True)
        shutil.rmtree(file) if file.is_dir() and not file.is_symlink() else file.unlink(missing_ok=True)
        file.write_bytes(kept)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release with a file of each kind, in folders of folders, for damages that are undone."""
    root = tmp_path_factory.mktemp("damaged")
    return sources_with(root, planes=ARCHIVED)


@pytest.fixture(scope="module")
def release_id(copy: Path) -> str:
    return READER.read_sources(copy).release_id


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_every_file_that_is_damaged_is_refused_by_its_name(copy: Path, release_id: str, damage: Damage) -> None:
    files = [path for path in sorted(copy.rglob("*")) if path.is_file()]
    assert {file.name for file in files} >= {
        "release.json",
        "composition.yaml",
        "native.yaml",
        "planes.sql",
        "more.sql",
        "delays.json",
        "planes.json",
    }
    for file in files:
        with damaged(file, damage):
            with pytest.raises(ConfigurationError) as refused:
                READER.read_sources(copy, expected_release_id=release_id)
                pytest.fail(f"accepted: {damage.__name__} {file}")
            assert file.relative_to(copy).as_posix() in str(refused.value), refused.value
    assert READER.read_sources(copy, expected_release_id=release_id).release_id == release_id


def test_a_file_more_in_any_folder_is_refused_by_its_name(copy: Path, release_id: str) -> None:
    folders = [copy, *(path for path in copy.rglob("*") if path.is_dir())]
    for number, where in enumerate(folders):
        for name, make in (("extra", Path.touch), ("extra link", lambda path: path.symlink_to(copy))):
            extra = where / f"{name} {number}"
            make(extra)
            with pytest.raises(ConfigurationError) as refused:
                READER.read_sources(copy, expected_release_id=release_id)
            assert extra.name in str(refused.value)
            extra.unlink()


def test_one_file_more_than_a_release_may_have_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release.build(write_source(tmp_path / "source"), tmp_path / "release")
    monkeypatch.setattr(plain_files, "FILE_COUNT_LIMIT", 6)
    READER.read_sources(tmp_path / "release")
    (tmp_path / "release" / "seventh").touch()
    with pytest.raises(ConfigurationError, match="release_size"):
        READER.read_sources(tmp_path / "release")


def test_a_file_that_changes_between_the_look_and_the_parse_is_refused(
    flights_release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is parsed are the bytes that were compared."""
    folder = Path(shutil.copytree(flights_release, tmp_path / "release"))
    manifest = folder / "workloads" / "planes.yaml"
    compare = release._compare

    def then_changed(*arguments: object) -> None:
        compare(*arguments)  # type: ignore[arg-type]  # the same arguments
        manifest.write_text(manifest.read_text().replace("table: planes", "table: airlines"))

    monkeypatch.setattr(release, "_compare", then_changed)
    with pytest.raises(ConfigurationError, match=r"planes\.yaml changed while it was read"):
        READER.read_sources(folder)


def test_a_snapshot_is_detached_and_cannot_be_changed(flights_release: Path) -> None:
    sources = READER.read_sources(flights_release)
    with pytest.raises(dataclasses.FrozenInstanceError):
        sources.release_id = "other"  # type: ignore[misc]  # what is tried
    originals = dict(sources.transfer_manifests)
    native = {"publish_daily_delays", "publish_flights", "publish_flights_without_airline"}
    ordinary = {"airlines", "airports", "planes", "retirements"}
    assert set(originals) == native | ordinary
    assert originals["publish_flights"] == (flights_release / "workloads" / "publish_flights.yaml").read_bytes()
    assert set(sources.native.workload_ids) == {*native, "warehouse"}
    assert set(sources.ordinary.workload_ids) == ordinary
    assert {workload_id for workload_id, _ in sources.workload_pins} == {
        workload_id for workload_id, _ in sources.relation_writes
    }


def test_every_workload_has_its_generated_runtime_manifest(flights_release: Path) -> None:
    """The plan that an attempt is bound to by `plan_sha256`, to the byte: every option, by logical names only."""
    sources = READER.read_sources(flights_release)
    runtime = dict(sources.runtime_manifests)
    assert set(runtime) == {workload_id for workload_id, _ in sources.workload_pins}
    for workload in sources.workloads:
        data = (flights_release / "runtime" / f"{workload.workload_id}.json").read_bytes()
        assert data == runtime[workload.workload_id]
        assert canonical.sha256_text(data) == workload.plan_sha256
        plan = canonical.strict_object(data)
        assert plan["options"] == workload.manifest.model_dump(mode="json", by_alias=True)
        assert plan["outlets"] == list(workload.outlets)
    assert canonical.strict_object(runtime["publish_flights"])["bindings"] == {
        alias: sources.binding(alias).model_dump() for alias in ("warehouse", "analytics")
    }


def forged(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """A release.json that says of every file what is there: only its id gives it away."""
    path = folder / "release.json"
    document = canonical.strict_object(path.read_bytes())
    document["files"] = {
        name: plain_files.entry((folder / name).read_bytes()) for name in plain_files.names(folder) if name != path.name
    }
    change(document)
    path.write_bytes(canonical.exact_bytes(document))


@pytest.mark.parametrize("damage", [longer, missing, renamed], ids=lambda damage: damage.__name__)
def test_a_runtime_manifest_that_was_handcrafted_is_refused_although_release_json_lists_it(
    tmp_path: Path, damage: Damage
) -> None:
    """It is made again from the workload and compared."""
    folder = sources_with(tmp_path, planes=ARCHIVED)
    damage(folder / "runtime" / "planes.json")
    forged(folder, lambda document: None)
    with pytest.raises(ConfigurationError, match=r"runtime/planes\.json") as refused:
        READER.read_sources(folder)
    assert refused.value.reason == "runtime_manifest"


def test_a_runtime_manifest_of_no_workload_is_refused_although_release_json_lists_it(tmp_path: Path) -> None:
    folder = sources_with(tmp_path, planes=ARCHIVED)
    shutil.copy(folder / "runtime" / "planes.json", folder / "runtime" / "other.json")
    forged(folder, lambda document: None)
    with pytest.raises(ConfigurationError, match=r"extra \['runtime/other\.json'\]"):
        READER.read_sources(folder)


def test_other_writes_of_a_transfer_than_its_manifest_says_are_refused(tmp_path: Path) -> None:
    folder = sources_with(tmp_path)

    def other(document: dict[str, Any]) -> None:
        document["workloads"][1]["relations"][0]["name"] = "elsewhere"

    forged(folder, other)
    with pytest.raises(ConfigurationError, match="not what `build` writes"):
        READER.read_sources(folder)


def test_writes_of_a_dbt_project_that_were_left_out_are_found_by_building_again(
    flights_release: Path, tmp_path: Path
) -> None:
    """What no reader can see without dbt: a release.json that was made whole again after it."""
    release.require_rebuilt(flights_release, READER.read_sources(flights_release).release_id)
    folder = Path(shutil.copytree(flights_release, tmp_path / "release"))
    document = canonical.strict_object((folder / "release.json").read_bytes())
    (warehouse,) = (each for each in document["workloads"] if each["workload_id"] == "warehouse")
    kept = [each for each in warehouse["relations"] if each["role"] == "target"]
    composition = release.read(folder).composition
    manifest = release.read(folder).workload("warehouse").manifest
    made = workload_pins.pins(composition, manifest, tuple(WrittenRelation(**each) for each in kept), document["files"])
    warehouse.update(relations=kept, pack_sha256=made.pack_sha256, plan_sha256=made.plan_sha256)
    (folder / "release.json").write_bytes(canonical.exact_bytes(document))
    forged_id = READER.read_sources(folder).release_id
    with pytest.raises(ConfigurationError, match="release_not_rebuilt"):
        release.require_rebuilt(folder, forged_id)


@pytest.mark.parametrize(
    ("limit", "what"), [("RELEASE_LIMIT", "the files of a release"), ("MANIFESTS_LIMIT", "the manifests")]
)
def test_files_that_are_too_large_together_are_refused_by_the_one_that_is_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, what: str
) -> None:
    source = write_source(tmp_path / "source")
    sizes = [(source / name).stat().st_size for name in ("composition.yaml", "native.yaml", "planes.yaml")]
    monkeypatch.setattr(plain_files, limit, sum(sizes[limit == "MANIFESTS_LIMIT" :]) - 1)
    with pytest.raises(ConfigurationError, match=rf"release_size[\s\S]*planes\.yaml {what}"):
        release.build(source, tmp_path / "release")
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


@pytest.mark.parametrize("name", ["runtime/planes.json", "runtime/other.txt", "release.json"])
def test_a_folder_that_brings_what_is_generated_is_refused_by_name(tmp_path: Path, name: str) -> None:
    source = write_source(tmp_path / "source")
    (source / name).parent.mkdir(exist_ok=True)
    (source / name).write_text("{}")
    with pytest.raises(ConfigurationError, match=name.split("/")[0]) as refused:
        release.build(source, tmp_path / "release")
    assert refused.value.reason == "release_generated"
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_two_targets_of_one_spelling_are_told_apart_where_their_engine_does(tmp_path: Path) -> None:
    listed = COMPOSITION.replace("WORKLOAD", "planes.yaml, more.yaml")
    clickhouse = NATIVE.replace("workload_id: delays", "workload_id: more").replace(
        "ch, table: delays", "ch, table: Delays"
    )
    release.build(write_source(tmp_path / "exact", composition=listed, more=clickhouse), tmp_path / "release")
    sql_server = ORDINARY.replace("workload_id: planes", "workload_id: more").replace("raw, table", "RAW, table")
    with pytest.raises(ConfigurationError, match="relation_written_twice"):
        release.build(write_source(tmp_path / "folded", composition=listed, more=sql_server), tmp_path / "second")


def test_the_identities_of_parent_and_children_depend_on_what_is_theirs(tmp_path: Path) -> None:
    def snapshot(name: str, **manifests: str) -> tuple[str, str, str]:
        release.build(write_source(tmp_path / f"{name} source", **manifests), tmp_path / name)
        sources = READER.read_sources(tmp_path / name)
        return sources.subject_sha256, sources.native.release_id, sources.ordinary.inventory_sha256

    first = snapshot("first")
    assert snapshot("again") == first
    native = snapshot("native", native=NATIVE.replace("1000000", "1000001"))
    ordinary = snapshot("ordinary", planes=ORDINARY.replace("schema: raw", "schema: other"))
    assert native[2] == first[2] and ordinary[1] == first[1]
    assert len({first[0], native[0], ordinary[0]}) == len({first[1], native[1]}) + 1 == 3


ARCHIVED = """
schema: dpone.workload.v1
workload_id: planes
constituent_id: standalone
cell: transfer_archive_v1
dag_id: d
source: {binding: ops, sql: queries/planes.sql}
sink: {binding: dw, schema: raw, table: planes, mode: full_refresh, guarantee: target_atomic}
"""
TABLE = ARCHIVED.replace("sql: queries/planes.sql", "schema: public, table: planes")
DBT = "schema: dpone.workload.v1\nworkload_id: planes\ncell: sqlserver_dbt_v1\ndag_id: d\n"


def sources_with(tmp_path: Path, **manifests: str) -> Path:
    source = write_source(tmp_path / "source", **manifests)
    (source / "queries" / "of" / "more").mkdir(parents=True)
    (source / "queries" / "planes.sql").write_text("SELECT 1;\n")
    (source / "queries" / "of" / "more" / "more.sql").write_text("SELECT 1;\n")
    release.build(source, tmp_path / "release")
    return tmp_path / "release"


def test_the_plan_keeps_every_option_and_every_write(flights_release: Path) -> None:
    sources = READER.read_sources(flights_release)
    plan = plan_composition_execution(sources)
    assert plan.cells == {
        *("sqlserver_dbt_v1", "mssql_clickhouse_full_refresh_v1", "postgres_mssql_full_refresh_v1"),
    }
    assert plan.options("publish_flights")["source"]["max_source_bytes"] == 536870912
    assert plan.options("warehouse")["dbt"]["content_check"] == "digest"
    assert len(plan.writes) == len(sources.relation_writes) == sum(len(each.write_subjects) for each in plan.workloads)


OPTIONS = """
runtime: {batch_rows: 1000, compress: true}
quality: {}
gitops: {repository: flights, commit: 0a1b2c3, path: null}
"""


def test_options_are_kept_and_none_can_be_changed(tmp_path: Path) -> None:
    """As they were declared: in the snapshot, in the plan's pin, and in the runtime manifest."""
    native = NATIVE.replace("max_source_bytes: 1000000}", "max_source_bytes: 1000000, options: {isolation: snapshot}}")
    sources = READER.read_sources(sources_with(tmp_path, native=native + OPTIONS))
    (kept,) = (each for each in sources.workloads if each.workload_id == "delays")
    options = canonical.strict_object(kept.runtime)["options"]
    assert options["runtime"] == {"batch_rows": 1000, "compress": True}
    assert options["gitops"] == {"repository": "flights", "commit": "0a1b2c3", "path": None}
    assert options["source"]["options"] == {"isolation": "snapshot"} and options["sink"]["options"] == {}
    assert b"compress: true" in kept.original
    with pytest.raises(ValidationError):
        kept.manifest.runtime = ()  # type: ignore[misc]  # what is tried
    assert kept.manifest.runtime == (("batch_rows", 1000), ("compress", True))
    assert copy_of(kept.manifest) == kept.manifest and hash(kept.manifest) is not None


def test_where_a_declaration_comes_from_changes_nothing_of_what_is_executed(tmp_path: Path) -> None:
    gitops = OPTIONS.replace("runtime: {batch_rows: 1000, compress: true}", "")
    plan = plan_composition_execution(READER.read_sources(sources_with(tmp_path, native=NATIVE + gitops)))
    assert plan.options("delays")["gitops"]["commit"] == "0a1b2c3"


@pytest.mark.parametrize(
    "line",
    ["runtime: {a: 1.0}", "quality: {a: [1]}", "gitops: {a: {b: 1}}", "runtime: 1", "runtime: {1: a}", "other: {a: 1}"],
)
def test_an_option_of_another_type_is_refused_and_not_converted(line: str) -> None:
    with pytest.raises(ConfigurationError, match=line.split(":")[0]) as refused:
        read_workload(f"{NATIVE}{line}\n", "native.yaml")
    assert refused.value.reason == "manifest_refused"


@pytest.mark.parametrize(
    ("manifests", "reason", "said"),
    [
        ({"planes": ARCHIVED}, "extraction", "extracts by queries/planes.sql"),
        ({"planes": TABLE.replace("full_refresh", "append")}, "strategy", "its mode is append"),
        ({"planes": TABLE.replace("full_refresh", "incremental")}, "strategy", "its mode is incremental"),
        ({"planes": TABLE.replace(", guarantee: target_atomic", "")}, "guarantee", "target_atomic"),
        ({"native": NATIVE + "runtime: {batch_rows: 1000}\n"}, "option", "declares runtime.batch_rows"),
        ({"native": NATIVE + "quality: {unique: id}\n"}, "option", "declares quality.unique"),
        ({"native": NATIVE.replace("table: delays, max", "table: delays, options: {top: 1}, max")}, "option", "source.options.top"),
        ({"planes": ORDINARY.replace("full_refresh, g", "full_refresh, options: {truncate: true}, g")}, "option", "sink.options.truncate"),
        ({"planes": TABLE}, "archived", "is declared as its execution cell"),
        ({"native": NATIVE.replace("native", "standalone"), "planes": ORDINARY.replace("standalone", "native")}, "route", "ordinary SQL Server to ClickHouse"),
        ({"planes": ORDINARY.replace("standalone", "native"), "native": NATIVE, "more": ORDINARY.replace("planes", "more")}, "route", "native PostgreSQL to SQL Server"),
        ({"planes": ORDINARY.replace("table: planes, mode", f"table: testview_{'a' * 32}_1300, mode")}, "reserved_name", "dbt-sqlserver gives such names"),
    ],
)  # fmt: skip
def test_what_is_outside_of_the_matrix_is_archived_and_refused_with_its_reason(
    tmp_path: Path, manifests: dict[str, str], reason: str, said: str
) -> None:
    listed = COMPOSITION.replace("WORKLOAD", "planes.yaml, more.yaml" if "more" in manifests else "planes.yaml")
    source = write_source(tmp_path / "source", composition=listed, **manifests)
    (source / "queries").mkdir()
    (source / "queries" / "planes.sql").write_text("SELECT 1;\n")
    release.build(source, tmp_path / "release")
    sources = READER.read_sources(tmp_path / "release")
    with pytest.raises(AdmissionRefused, match=f"plan_{reason}") as refused:
        plan_composition_execution(sources)
    assert refused.value.code == "DPONE_COMPOSITION_ADMISSION_UNAVAILABLE"
    assert said in str(refused.value) and "nothing was reserved" in str(refused.value)


def test_a_declared_sql_file_is_pinned_and_a_missing_one_is_refused(tmp_path: Path) -> None:
    built = sources_with(tmp_path, planes=ARCHIVED)
    pins = dict(READER.read_sources(built).workload_pins)
    source = tmp_path / "source"
    (source / "queries" / "planes.sql").write_text("SELECT 2;\n")
    release.build(source, tmp_path / "second")
    changed_pins = dict(READER.read_sources(tmp_path / "second").workload_pins)
    assert changed_pins["delays"] == pins["delays"] and changed_pins["planes"] != pins["planes"]
    (source / "queries" / "planes.sql").unlink()
    with pytest.raises(ConfigurationError, match="sql_file"):
        release.build(source, tmp_path / "third")


def test_outlets_are_logical(flights_release: Path) -> None:
    outlets = release.read(flights_release).workload("warehouse").outlets
    assert "dpone://warehouse/marts/fct_flights" in outlets
    assert not any("__dbt" in outlet or "flights_dw" in outlet for outlet in outlets)
