"""A release is what it was built from, to the byte, or it is refused by name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from airflow_provider_dpone.composition import dbt_manifest, manifest, release
from airflow_provider_dpone.contracts.errors import ConfigurationError
from tests.support.compositions import COMPOSITION, write_source

SOURCE = Path(__file__).resolve().parents[3] / "examples" / "flights"


@pytest.fixture
def built(flights_release: Path) -> Path:
    return flights_release


def test_reading_gives_the_same_release_again(built: Path) -> None:
    first, second = release.read(built), release.read(built)

    assert first.release_id == second.release_id
    assert [workload.workload_id for workload in first.workloads] == [
        "airlines",
        "airports",
        "planes",
        "publish_daily_delays",
        "publish_flights",
        "publish_flights_without_airline",
        "retirements",
        "warehouse",
    ]


def test_building_twice_gives_the_same_identity(built: Path, tmp_path: Path) -> None:
    assert release.build(SOURCE, tmp_path / "again").release_id == release.read(built).release_id


def test_a_dbt_workload_declares_targets_and_helper_relations(built: Path) -> None:
    relations = release.read(built).workload("warehouse").relations

    names = {(relation.schema, relation.name): relation for relation in relations}
    assert names["marts", "fct_flights"].role == "target"
    assert names["marts", "fct_flights__dbt_tmp"].role == "intermediate"
    assert names["snapshots", "airlines_history"].materialized == "snapshot"
    assert names["marts", "fct_flights"].rebuildable


def test_another_release_than_the_expected_one_is_refused(built: Path) -> None:
    with pytest.raises(ConfigurationError, match="release_id"):
        release.read(built, expected_release_id="sha256:" + "0" * 64)


def test_an_existing_destination_is_never_changed(built: Path) -> None:
    with pytest.raises(ConfigurationError, match="release_exists"):
        release.build(SOURCE, built)


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    source = Path(shutil.copytree(SOURCE, tmp_path / "source"))
    (source / "dbt" / "models" / "marts" / "broken.sql").write_text("select * from {{ ref('nowhere') }}\n")

    with pytest.raises(ConfigurationError, match="dbt_parse"):
        release.build(source, tmp_path / "release")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["source"]


def test_a_dbt_that_does_not_end_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Path(shutil.copytree(SOURCE, tmp_path / "source"))
    child = tmp_path / "child"
    script = f"import os, subprocess; p = subprocess.Popen(['sleep', '600']); open({str(child)!r}, 'w').write(str(p.pid)); p.wait()"
    program = tmp_path / "dbt"
    program.write_text(f"#!{sys.executable}\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))

    with pytest.raises(ConfigurationError, match=r"had not parsed dbt after 2 s") as refused:
        release.build(source, tmp_path / "release", dbt_timeout=2)

    assert refused.value.reason == "dbt_parse_timeout"
    left = Path(f"/proc/{child.read_text()}/stat")
    assert not left.exists() or left.read_text().split(") ")[1][0] == "Z", "its child is gone with it"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["child", "dbt", "source"]


@pytest.mark.parametrize("code", [0, 2])
def test_what_dbt_started_and_left_is_ended_when_dbt_ends(tmp_path: Path, code: int) -> None:
    child = tmp_path / "child"
    script = (
        f"import subprocess; open({str(child)!r}, 'w').write(str(subprocess.Popen(['sleep', '600']).pid)); exit({code})"
    )
    found = dbt_manifest._run(
        [sys.executable, "-c", script], str(tmp_path), {"PATH": os.environ["PATH"]}, tmp_path / "said", 60
    )
    assert found == code
    left = Path(f"/proc/{child.read_text()}/stat")
    deadline = time.monotonic() + 10
    while left.exists() and left.read_text().split(") ")[1][0] != "Z":
        assert time.monotonic() < deadline, "it is still running"
        time.sleep(0.01)


def test_what_dbt_writes_into_one_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dbt_manifest, "_FILE_LIMIT", 1024 * 1024)
    said = tmp_path / "said"
    script = "import time; time.sleep(1)\nwhile True: print('x' * 65536, flush=True)"
    code = dbt_manifest._run([sys.executable, "-c", script], str(tmp_path), {"PATH": os.environ["PATH"]}, said, 60)
    assert code not in (0, None) and said.stat().st_size <= 1024 * 1024


def test_a_workload_of_an_impossible_name_is_refused_by_it(tmp_path: Path) -> None:
    source = write_source(tmp_path / "source", composition=COMPOSITION.replace("native.yaml", r'"a\0b"'))
    with pytest.raises(ConfigurationError, match=r"'a\\x00b' is not a plain file of its own"):
        release.build(source, tmp_path / "release")
    assert not (tmp_path / "release").exists()


def test_what_a_killed_build_left_is_removed_by_the_next_one_and_a_living_one_is_not(tmp_path: Path) -> None:
    source = write_source(tmp_path / "source")
    program = (
        "import sys, time, pathlib\n"
        "from airflow_provider_dpone.composition.staging import staging_folder\n"
        "with staging_folder(pathlib.Path(sys.argv[1])) as folder:\n"
        "    (folder / 'release').mkdir(); print(folder.name, flush=True); time.sleep(600)\n"
    )
    builders = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        killed, living = (builder.stdout.readline().strip() for builder in builders if builder.stdout is not None)
        builders[0].kill()
        builders[0].wait()
        (tmp_path / ".dpone-building-unlocked").mkdir()

        release.build(source, tmp_path / "release")

        assert killed != living
        assert {path.name for path in tmp_path.iterdir()} == {"source", "release", living}
        assert (tmp_path / living / "release").is_dir()
    finally:
        for builder in builders:
            builder.kill()
            builder.communicate()


def test_a_build_takes_nothing_away_that_no_build_made(tmp_path: Path) -> None:
    source, elsewhere = write_source(tmp_path / "source"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("x")
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / ".dpone-building-link").symlink_to(elsewhere)
    mine = beside / ".dpone-building-mine"
    mine.mkdir()
    (mine / "precious").write_text("x")
    (beside / ".dpone-building-file").write_text("x")
    locked = beside / ".dpone-building-locked-by-a-link"
    locked.mkdir()
    (locked / "lock").symlink_to(elsewhere / "precious")
    before = sorted(tmp_path.rglob("*"))

    release.build(source, beside / "release")

    assert sorted(path for path in tmp_path.rglob("*") if beside / "release" not in (path, *path.parents)) == before


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("cell: postgres_mssql_append_v1", "cell"),
        ("surprise: 1", "surprise"),
        ("dag_id: 'a\\b'", "dag_id"),
    ],
)
def test_an_unknown_cell_member_or_identity_is_refused(change: str, named: str) -> None:
    lines = (SOURCE / "workloads" / "planes.yaml").read_text().splitlines()
    name = change.split(":")[0]
    text = "\n".join([line for line in lines if not line.startswith(name)] + [change])

    with pytest.raises(ConfigurationError, match=named):
        manifest.read_workload(text, "planes.yaml")


def test_a_publication_without_a_byte_budget_is_refused() -> None:
    text = (SOURCE / "workloads" / "publish_flights.yaml").read_text()

    with pytest.raises(ConfigurationError, match="max_source_bytes"):
        manifest.read_workload(text.replace("max_source_bytes: 536870912", "max_source_bytes: 0"), "publish")


@pytest.mark.parametrize("name", ["a\0b", "a" * 300, "loop", "nowhere"])
def test_a_destination_that_no_release_can_have_is_refused_by_name(tmp_path: Path, name: str) -> None:
    source = write_source(tmp_path / "source")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "nowhere").symlink_to("not there")
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(ConfigurationError, match=r"release_not_written|release_exists"):
        release.build(source, tmp_path / name)

    assert sorted(tmp_path.rglob("*")) == before


def dbt_that(script: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "dbt"
    program.write_text(f"#!{sys.executable}\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))


VERSION = '{"metadata": {"dbt_schema_version": "https://schemas.getdbt.com/dbt/manifest/v12.json"}'


@pytest.mark.parametrize(
    "manifest",
    [None, "", "[]", "{}", "\udcff", "[" * 100_000, "NaN", '{"metadata": []}']
    + [VERSION + rest for rest in ("}", ', "nodes": [1]}', ', "nodes": {"a": null}}', ', "nodes": {"a": {}}}')],
)
def test_a_manifest_that_is_none_of_dbts_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manifest: str | None
) -> None:
    source = Path(shutil.copytree(SOURCE, tmp_path / "source"))
    given = tmp_path / "given"
    script = "pass"
    if manifest is not None:
        given.write_bytes(manifest.encode("utf-8", "surrogateescape"))
        script = (
            "import pathlib, shutil, sys\n"
            "target = pathlib.Path(sys.argv[sys.argv.index('--target-path') + 1])\n"
            f"target.mkdir(); shutil.copy({str(given)!r}, target / 'manifest.json')"
        )
    dbt_that(script, tmp_path, monkeypatch)

    with pytest.raises(ConfigurationError) as refused:
        release.build(source, tmp_path / "release")

    assert refused.value.reason == "dbt_manifest"
    assert not (tmp_path / "release").exists()


def test_dbt_is_asked_where_the_host_has_a_lower_bound_for_files(tmp_path: Path) -> None:
    """A process that may not raise its own bound."""
    program = (
        "import pathlib, resource, sys\n"
        "from airflow_provider_dpone.composition import dbt_manifest\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
        "def refused(pid, kind, bound):\n"
        "    if bound[1] > resource.getrlimit(kind)[1]: raise PermissionError(1, 'Operation not permitted')\n"
        "    return true(pid, kind, bound)\n"
        "true, resource.prlimit = resource.prlimit, refused\n"
        "where = pathlib.Path(sys.argv[1])\n"
        "print(dbt_manifest._run(['true'], str(where), {'PATH': '/usr/bin:/bin'}, where / 'said', 60))\n"
    )
    said = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert said.stdout == "0\n", said.stderr
