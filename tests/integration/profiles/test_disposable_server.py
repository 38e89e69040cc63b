"""A server is looked at before it is used and emptied after it, and nothing of the system is touched."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from tsqldev.process import served

from tests.support.gate_receipts import profile_runner

#: With what a connection string could trip over.
PASSWORD = "a}b;{'1\" A"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return profile_runner()


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Iterator[argparse.Namespace]:
    """The options of a run on a server of this file's own."""
    folder = tmp_path_factory.mktemp("server")
    password = tmp_path_factory.mktemp("secret") / "password"
    password.write_text(f"{PASSWORD}\nsecond line\n", encoding="utf-8")
    with served(folder, PASSWORD) as endpoint:
        yield argparse.Namespace(
            dsn=f"SERVER=127.0.0.1,{endpoint.port};UID=sa", password_file=password, disposable=True, bulk_file=None
        )


def test_an_empty_server_is_used_filled_and_emptied_again(tool: ModuleType, given: argparse.Namespace) -> None:
    server = tool.server_given(given)
    assert PASSWORD not in f"{server} {server.environment()}"
    connection = server.connect()
    try:
        for statement in (
            "CREATE DATABASE [left ]] behind]",
            "CREATE LOGIN [some ]] login] WITH PASSWORD = N'aA1!aA1!aA1!', CHECK_POLICY = OFF",
            "USE [left ]] behind]; CREATE USER [some ]] login] FOR LOGIN [some ]] login]",
            "USE [master]; EXEC (N'CREATE TRIGGER [a gate] ON ALL SERVER FOR LOGON AS RETURN')",
        ):
            connection.execute(statement)
    finally:
        connection.close()

    # A session that a case left open, in the database that has to go.
    left_open = server.connect()
    left_open.execute("USE [left ]] behind]")

    found = tool.contents(server.connect)
    assert (found.databases, found.logins, found.triggers) == (("left ] behind",), ("some ] login",), ("a gate",))
    with pytest.raises(SystemExit, match="1 databases, 1 logins, 1 server triggers") as refused:
        tool.server_given(given)
    assert "Nothing was run, and nothing was removed" in str(refused.value)
    assert tool.contents(server.connect) == found

    scratch = given.password_file.parent / "scratch"
    scratch.mkdir()
    assert tool.clean_up(scratch, server) == []
    with pytest.raises(Exception, match=r"(?i)connection|link|session|kill"):
        left_open.execute("SELECT 1")
    assert not tool.contents(server.connect)
    assert tool.server_given(given) == server


def test_a_server_that_is_gone_is_a_failed_clean_up(tool: ModuleType, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text(PASSWORD, encoding="utf-8")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    server = tool.DisposableServer(dsn="SERVER=127.0.0.1,1;UID=sa", password_file=password, login_timeout=1)
    [said] = tool.clean_up(scratch, server)
    assert said.startswith("the server could not be emptied")
    assert PASSWORD not in said
