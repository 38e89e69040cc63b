"""A profile is green only when exactly its cases ran, once each, and passed."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from airflow_provider_dpone.composition.profile_folder import read_profile_folder
from airflow_provider_dpone.contracts.canonical import sha256_text
from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.contracts.gate_profile import PROFILE_CASES, Source, engine_of
from tests.support.gate_receipts import COMMIT, profile_runner

ROOT = Path(__file__).parents[3]
ENGINE = engine_of("Microsoft SQL Server 2022 (RTM)", "16.0.4135.4")
CLEAN, DIRTY = Source(commit=COMMIT, clean=True), Source(commit=COMMIT, clean=False)
NODES = {name: f"tests/x.py::test_{number}" for number, name in enumerate(PROFILE_CASES["gate"])}


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return profile_runner()


def ran(tool: ModuleType, *changes: tuple[str, str], engine: Any = ENGINE) -> Any:
    """Every case passed, but for the changes; a second entry for a node is a second run of it."""
    outcomes = [(node, "passed") for node in NODES.values()]
    for node, outcome in changes:
        outcomes = [pair for pair in outcomes if pair[0] != node or outcome == "again"]
        outcomes += [] if outcome == "missing" else [(node, "passed" if outcome == "again" else outcome)]
    return tool.Ran(cases=[tool.RanCase(node=n, outcome=o, seconds="0.1") for n, o in outcomes], engine=engine)


def found(tool: ModuleType, given: Any, source: Source = CLEAN, *, dirty: bool = False) -> list[str]:
    return list(tool.problems("gate", NODES, given, source, dirty=dirty))


FIRST, NODE = next(iter(NODES.items()))


def test_exactly_the_required_cases_pass(tool: ModuleType) -> None:
    assert found(tool, ran(tool)) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ((NODE, "missing"), f"missing: {FIRST}"),
        ((NODE, "skipped"), f"skipped: {FIRST}"),
        ((NODE, "failed"), f"failed: {FIRST}"),
        ((NODE, "error"), f"error: {FIRST}"),
        ((NODE, "again"), f"repeated: {FIRST}"),
        (("tests/y.py::test_y", "passed"), "foreign test: tests/y.py::test_y"),
    ],
)
def test_anything_else_is_said_and_leaves_nothing_to_record(
    tool: ModuleType, tmp_path: Path, change: tuple[str, str], said: str
) -> None:
    given = ran(tool, change)
    problems = found(tool, given)
    assert said in problems
    tool.write(tmp_path, "gate", "evidence", NODES, given, CLEAN, problems)
    if change[1] == "passed":
        with pytest.raises(ConfigurationError, match="left no receipt: foreign test"):
            read_profile_folder(tmp_path)
    else:
        assert not read_profile_folder(tmp_path).green


def test_an_unknown_engine_or_an_unclean_source_is_not_green_unless_it_is_meant(tool: ModuleType) -> None:
    assert found(tool, ran(tool, engine=None)) == ["the engine or the driver was not recorded"]
    assert "--working-tree" in found(tool, ran(tool), DIRTY)[0]
    assert found(tool, ran(tool), DIRTY, dirty=True) == []


def test_the_profiles_name_the_products_cases_and_each_test_exists(tool: ModuleType) -> None:
    profiles = tomllib.loads((ROOT / "dev/profiles/profiles.toml").read_text(encoding="utf-8"))
    assert set(PROFILE_CASES) <= set(profiles)
    for name in PROFILE_CASES:
        for node in tool.nodes_of(name, profiles[name]["cases"]).values():
            path, _, test = node.partition("::")
            assert f"def {test.partition('[')[0]}(" in (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("change", ["left out", "added", "renamed", "one test for two"])
def test_other_names_than_the_products_are_refused(tool: ModuleType, change: str) -> None:
    names = dict(NODES)
    if change in ("left out", "renamed"):
        del names[FIRST]
    if change in ("added", "renamed"):
        names["another-case"] = NODE
    if change == "one test for two":
        names[FIRST] = names[PROFILE_CASES["gate"][1]]
    with pytest.raises(SystemExit, match="not those of the product"):
        tool.nodes_of("gate", names)


def test_what_is_not_there_refuses_by_name(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tool, "PROFILES", tmp_path / "profiles.toml")
    tool.PROFILES.write_text('[other]\nunavailable = "it is not part of this version"\n')
    assert tool.main(["--profile", "other", "--output-dir", str(tmp_path / "new")]) == 2
    assert "not part of this version" in capsys.readouterr().err


def test_results_go_into_a_new_folder_outside_of_the_checkout(tool: ModuleType, tmp_path: Path) -> None:
    assert tool.main(["--profile", "gate", "--output-dir", str(tmp_path)]) == 2
    assert tool.main(["--profile", "gate", "--output-dir", str(ROOT / "somewhere")]) == 2
    assert not (ROOT / "somewhere").exists()


@pytest.fixture
def folder(tool: ModuleType, tmp_path: Path) -> Path:
    tool.write(tmp_path, "gate", "evidence", NODES, ran(tool), CLEAN, [])
    return tmp_path


def test_a_green_run_reads_back_as_its_receipt(tool: ModuleType, folder: Path) -> None:
    receipt = read_profile_folder(folder)
    assert receipt.green
    assert (receipt.engine, receipt.source) == (ENGINE, CLEAN)
    assert receipt == tool.receipt(NODES, ran(tool), CLEAN, [])


def test_a_run_of_the_same_clean_source_is_known_and_no_other_is(tool: ModuleType, folder: Path) -> None:
    assert tool.is_known(folder, CLEAN)
    for other in (DIRTY, Source(commit="5" * 40, clean=True), Source(commit=None, clean=False)):
        assert not tool.is_known(folder, other)
    assert not tool.is_known(folder / "nowhere", CLEAN)
    tool.write(folder, "gate", "evidence", NODES, ran(tool), DIRTY, [])
    assert not tool.is_known(folder, DIRTY), "nobody knows which working tree that was"


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    change(summary)
    (folder / "summary.json").write_text(json.dumps(summary))


EDITS: dict[str, Callable[[dict[str, Any]], object]] = {
    "another server": lambda s: s["engine"].update(product_version="16.0.9999.9"),
    "another name": lambda s: s["engine"].update(name="Microsoft SQL Server 2019"),
    "clean": lambda s: s["source"].update(clean=False),
    "commit": lambda s: s["source"].update(commit="5" * 40),
    "version": lambda s: s.update(product_version="9.9"),
    "result": lambda s: s.update(result="FAIL"),
    "outcome": lambda s: s["cases"][0].update(outcome="failed"),
    "a case less": lambda s: s["cases"].pop(),
    "no digest": lambda s: s.pop("receipt_sha256"),
    "another digest": lambda s: s.update(receipt_sha256=sha256_text(b"")),
    "another junit": lambda s: s.update(junit_sha256=sha256_text(b"")),
    "profile": lambda s: s.update(profile="store"),
    "schema": lambda s: s.update(schema="dpone.component-profile-result.v1"),
    "no engine": lambda s: s.update(engine=None),
    "no cases": lambda s: s.update(cases=None),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_summary_is_refused(folder: Path, name: str) -> None:
    edit(folder, EDITS[name])
    with pytest.raises(ConfigurationError) as refused:
        read_profile_folder(folder)
    assert refused.value.reason == "gate_profile_folder"
    assert refused.value.not_done == "nothing was recorded."


def test_an_edited_junit_is_refused_also_when_the_summary_was_edited_to_match(folder: Path) -> None:
    junit = (folder / "junit.xml").read_bytes()
    for changed in (junit + b" ", junit.replace(FIRST.encode(), b"another-case"), b"", b"<", b"<testsuite/>"):
        (folder / "junit.xml").write_bytes(changed)
        with pytest.raises(ConfigurationError, match=r"junit\.xml is not the one"):
            read_profile_folder(folder)
    failed = junit.replace(f'name="{FIRST}" time="0.1" />'.encode(), f'name="{FIRST}"><failure /></testcase>'.encode())
    assert failed != junit
    for changed, said in ((failed, "other cases or outcomes"), (b"<", "not XML"), (b"<testsuite/>", "other cases")):
        (folder / "junit.xml").write_bytes(changed)
        edit(folder, lambda summary, data=changed: summary.update(junit_sha256=sha256_text(data)))
        with pytest.raises(ConfigurationError, match=said):
            read_profile_folder(folder)


@pytest.mark.parametrize("name", ["summary.json", "junit.xml"])
def test_a_missing_or_huge_or_garbled_file_is_refused(folder: Path, name: str) -> None:
    for change in (lambda p: p.write_bytes(b"x" * 2_000_000), lambda p: p.write_bytes(b"\xff"), lambda p: p.unlink()):
        change(folder / name)
        with pytest.raises(ConfigurationError):
            read_profile_folder(folder)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", ["summary.json", "junit.xml"])
def test_a_pipe_is_not_waited_for(folder: Path, name: str) -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(ConfigurationError, match="no plain file"):
        read_profile_folder(folder)


@pytest.mark.parametrize("encoding", ["utf-7", "shift_jis", "no-such-encoding"])
def test_a_junit_in_an_unknown_encoding_is_refused(folder: Path, encoding: str) -> None:
    junit = f'<?xml version="1.0" encoding="{encoding}"?><testsuite/>'.encode()
    (folder / "junit.xml").write_bytes(junit)
    edit(folder, lambda summary: summary.update(junit_sha256=sha256_text(junit)))
    with pytest.raises(ConfigurationError, match="not XML"):
        read_profile_folder(folder)


def test_what_a_run_says_went_wrong_is_shown_without_what_a_terminal_would_obey(folder: Path) -> None:
    problems = ["\x1b[2Jred\nINFO recorded", "\ud800", "x" * 9000]
    edit(folder, lambda summary: summary.update(receipt_sha256=None, problems=problems))
    with pytest.raises(ConfigurationError, match=r"no receipt: \?\[2Jred\?INFO recorded; \?; x+ \.\.\.") as refused:
        read_profile_folder(folder)
    assert len(refused.value.happened) < 3000


@pytest.fixture
def checkout(tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of one committed file, of a user whose git shows no new files."""
    root = tmp_path / "checkout"
    root.mkdir()
    monkeypatch.setattr(tool, "ROOT", root)
    (root / "known.py").write_text("1")
    identity = ("-c", "user.name=n", "-c", "user.email=e")
    for command in (
        ("init",),
        ("config", "status.showUntrackedFiles", "no"),
        ("add", "."),
        (*identity, "commit", "-m", "m"),
    ):
        subprocess.run(["git", "-C", root, *command], check=True, capture_output=True)
    return root


def test_a_new_file_is_a_change_whatever_the_users_git_shows(tool: ModuleType, checkout: Path) -> None:
    assert tool.source_now().clean
    (checkout / "conftest.py").write_text("raise SystemExit")
    assert not tool.source_now().clean


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_a_change_that_the_index_hides_is_a_change(tool: ModuleType, checkout: Path, flag: str) -> None:
    subprocess.run(["git", "-C", checkout, "update-index", flag, "known.py"], check=True)
    (checkout / "known.py").write_text("2")
    assert not tool.source_now().clean


def test_the_repository_of_a_hook_is_another_one(
    tool: ModuleType, checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = tool.source_now().commit
    (checkout / "known.py").write_text("2")
    subprocess.run(["git", "init", tmp_path / "other"], check=True, capture_output=True)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    source = tool.source_now()
    assert (source.commit, source.clean) == (commit, False)


def test_no_password_stands_in_a_command_line(tool: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("p")
    common = ["--profile", "gate", "--output-dir", str(tmp_path / "new"), "--disposable"]
    for dsn in ("SERVER=h;UID=sa;PWD=x", "SERVER=h;UID=sa;Password = x"):
        with pytest.raises(SystemExit, match="holds no password itself"):
            tool.main([*common, "--password-file", str(tmp_path / "password"), "--dsn", dsn])
