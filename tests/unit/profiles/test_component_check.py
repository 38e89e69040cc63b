"""What a profile's run looks after besides its cases: its endpoint, its server, and where `dponectl` finds it."""

from __future__ import annotations

import argparse
import errno
import functools
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

from airflow_provider_dpone.cli.main import cli
from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.contracts.gate_profile import PROFILE_CASES
from tests.support.gate_receipts import profile_runner

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return profile_runner()


def test_the_profiles_have_as_many_cases_as_they_say_and_each_is_explained() -> None:
    assert {name: len(cases) for name, cases in PROFILE_CASES.items()} == {
        "store": 7,
        "gate": 16,
        "trust": 9,
        "registration": 18,
    }
    explained = [
        line.split("|")[1].strip()
        for line in (ROOT / "docs/component-profiles.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| ") and not line.startswith("| case ")
    ]
    assert explained == [case for cases in PROFILE_CASES.values() for case in cases]


def given(**changes: object) -> argparse.Namespace:
    values: dict[str, object] = {"dsn": None, "password_file": None, "disposable": False, "bulk_file": None}
    return argparse.Namespace(**(values | changes))


def test_an_endpoint_of_its_own_is_the_default_and_a_server_from_the_environment_is_refused(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MSSQL_TEST_DSN", raising=False)
    assert tool.server_given(given()) is None
    monkeypatch.setenv("MSSQL_TEST_DSN", "SERVER=somewhere;UID=sa;PWD=canary")
    with pytest.raises(SystemExit, match="MSSQL_TEST_DSN is set") as refused:
        tool.server_given(given())
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"disposable": True},
        {"password_file": Path("p")},
        {"password_file": Path("p"), "disposable": True, "dsn": "SERVER=127.0.0.1,1;UID=sa;PWD=canary"},
    ],
)
def test_a_server_needs_its_declaration_and_its_password_in_a_file(
    tool: ModuleType, changes: dict[str, object]
) -> None:
    with pytest.raises(SystemExit, match="--password-file and --disposable") as refused:
        tool.server_given(given(**({"dsn": "SERVER=127.0.0.1,1;UID=sa"} | changes)))
    assert "canary" not in str(refused.value)


def test_a_server_that_cannot_be_looked_at_is_not_used(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The driver tries a refused port again until this time is over.
    monkeypatch.setattr(tool, "DisposableServer", functools.partial(tool.DisposableServer, login_timeout=1))
    password = tmp_path / "password"
    password.write_text("canary\n")
    with pytest.raises(SystemExit, match="cannot be looked at") as refused:
        tool.server_given(given(dsn="SERVER=127.0.0.1,1;UID=sa", password_file=password, disposable=True))
    assert "canary" not in str(refused.value)


def test_what_a_run_leaves_is_removed_and_said(tool: ModuleType, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    assert tool.clean_up(scratch, None) == []
    assert not scratch.exists()

    scratch.mkdir()
    program = "import sys, time; print('ready', flush=True); time.sleep(600)"
    left = subprocess.Popen([sys.executable, "-c", program, str(scratch)], stdout=subprocess.PIPE)
    assert left.stdout is not None
    assert left.stdout.readline() == b"ready\n"
    tool_seconds = tool._processes_of.__defaults__
    tool._processes_of.__defaults__ = (0.2,)
    try:
        assert tool.clean_up(scratch, None) == ["1 processes of the endpoint were still running"]
    finally:
        tool._processes_of.__defaults__ = tool_seconds
    assert left.wait(10) != 0
    left.stdout.close()
    assert not scratch.exists()


def test_a_failed_clean_up_and_a_strange_output_folder_are_not_green(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "output"

    def run(cases: Sequence[str], server: object, bulk_file: object) -> object:
        (output / "foreign").touch()
        passed = [tool.RanCase(node=node, outcome="passed", seconds="0") for node in cases]
        engine = tool.gate_profile.engine_of("An emulation - 1", "1.0")
        return tool.Ran(cases=passed, engine=engine, driver="d 1", left_behind=["something"])

    monkeypatch.delenv("MSSQL_TEST_DSN", raising=False)
    monkeypatch.setattr(tool, "run", run)
    assert tool.main(["--profile", "trust", "--output-dir", str(output), "--working-tree"]) == 1
    said = capsys.readouterr().out
    assert "clean-up failed: something" in said
    assert "the output folder is not as it was left" in said
    assert '"result": "FAIL"' in (output / "summary.json").read_text()


def test_a_full_disk_is_no_result(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output, write = tmp_path / "output", Path.write_text

    def full(path: Path, *arguments: Any, **options: Any) -> int:
        if path.parent == output:
            path.touch()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, *arguments, **options)

    monkeypatch.delenv("MSSQL_TEST_DSN", raising=False)
    monkeypatch.setattr(tool, "run", lambda *_: tool.Ran(cases=[], engine=None))
    monkeypatch.setattr(Path, "write_text", full)
    assert tool.main(["--profile", "gate", "--output-dir", str(output), "--working-tree"]) == 1
    assert "No space left on device" in capsys.readouterr().err
    with pytest.raises(ConfigurationError, match="gate_profile_folder"):
        tool.read_profile_folder(output)


def test_the_command_starts_the_runner_of_the_checkout_it_stands_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def call(command: list[str]) -> int:
        commands.append(command)
        return 7

    monkeypatch.setattr(subprocess, "call", call)
    password = tmp_path / "password"
    password.touch()
    options = ["--profile", "trust", "--output-dir", "new", "--checkout", str(ROOT / "docs")]
    server = ["--dsn", "SERVER=s;UID=sa", "--password-file", str(password), "--disposable", "--bulk-file", "/f"]
    ended = CliRunner().invoke(cli, ["component-check", *options, *server])
    assert ended.exit_code == 7
    [command] = commands
    runner = str(ROOT / "dev/profiles/component_profile.py")
    assert command[:4] == [sys.executable, runner, "--profile", "trust"]
    assert command[4:6] == ["--output-dir", str(Path("new").absolute())]
    assert sorted(command[6:]) == sorted(server)


@pytest.mark.parametrize("repository", [False, True])
def test_elsewhere_than_in_a_checkout_it_says_so(tmp_path: Path, repository: bool) -> None:
    if repository:
        subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    options = ["--profile", "trust", "--output-dir", "new", "--checkout", str(tmp_path)]
    ended = CliRunner().invoke(cli, ["component-check", *options])
    assert isinstance(ended.exception, ConfigurationError)
    assert ended.exception.reason == "component_checkout"
