"""Every command with hostile words in every place: one message and an exit code, whatever the words are."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import mssql_python
import pytest

from airflow_provider_dpone.cli import main as command_line

HOSTILE = {
    "empty": "",
    "blank": "  ",
    "quote": "x'; DROP TABLE y; --]\"`",
    "batch": "x\nGO\nDROP DATABASE y\nGO\n",
    "long": "x" * 5000,
    "path": "../beside/it",
    "digest": "sha256:" + "A" * 64,
    "uuid": "{0F8FAD5B-D9CD-469F-A165-70867728950E}",
    "unicode": "día\u202e 日本 \u0661",
    "undecodable": "x\udce9",
    "option": "-x",
    "number": "99999999999999999999",
}

CONFIG = """
service_id = "0f8fad5b-d9cd-469f-a165-70867728950e"
release_root = "{folder}/root"
[mssql]
host = "127.0.0.1"
port = 1
control_database = "dpone_control"
[mssql.roles.controller]
user = "controller"
password_file = "{folder}/password"
"""
ROLES = ("closer", "outcome_reader", "source_reader", "installer", "issuer")


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


#: The profiles' runner is a process of its own, with tests of its own.
COMMANDS = {
    " ".join(path): (path, command) for path, command in commands(command_line.cli) if path != ("component-check",)
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "password").write_text("canary-}{;'\n", encoding="utf-8")
    path = tmp_path / "dpone.toml"
    shared = "".join(f'[mssql.roles.{role}]\nsame_as = "controller"\n' for role in ROLES)
    path.write_text(CONFIG.format(folder=tmp_path) + shared, encoding="utf-8")
    return path


def nobody(*arguments: object, **options: object) -> None:
    """No server, at once: good words come this far."""
    raise mssql_python.OperationalError("Client unable to establish connection", "nobody is there")


def words(command: click.Command, value: str) -> list[str]:
    options = [
        f"{each.opts[0]}={value}" for each in command.params if isinstance(each, click.Option) and not each.is_flag
    ]
    arguments = [value for each in command.params if isinstance(each, click.Argument)]
    return [*options, "--", *arguments]


@pytest.mark.parametrize("name", COMMANDS)
def test_hostile_words_end_in_one_message(
    name: str, config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, command = COMMANDS[name]
    monkeypatch.chdir(config.parent)
    monkeypatch.setattr(mssql_python, "connect", nobody)
    for kind, value in HOSTILE.items():
        monkeypatch.setattr(sys, "argv", ["dponectl", "--config", str(config), *path, *words(command, value)])
        with pytest.raises(SystemExit) as ended:
            command_line.main()
        said = capsys.readouterr()
        code = int(ended.value.code or 0)
        assert code in (0, 1, 2), (kind, code)
        assert "Traceback" not in said.err and "canary" not in said.out + said.err
        assert code == 0 or said.err.strip(), kind
        if command.params and code:
            assert said.err.startswith(("DPONE_", "Usage:", "Error:", "dponectl:")), (kind, said.err[:200])
