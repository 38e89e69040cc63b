"""Temporary tables that stay with a connection: empty for the next use, and there whatever was taken back."""

from __future__ import annotations

import pytest
from tsqldev.session.standing import StandingTables

from .session_client import Client

NAME, CREATE = "pg_temp.v1_0_0123abcd", "create temporary table pg_temp.v1_0_0123abcd (c1 int4)"
MADE = f"DROP TABLE IF EXISTS {NAME};\n{CREATE}"


def used(tables: StandingTables, *, in_transaction: bool) -> str:
    text = tables.emptying(NAME, CREATE)
    tables.emptied(NAME, in_transaction=in_transaction)
    return text


def test_made_once_and_emptied_after() -> None:
    tables = StandingTables()
    assert [used(tables, in_transaction=False) for _ in range(3)] == [
        MADE,
        f"DELETE FROM {NAME}",
        f"DELETE FROM {NAME}",
    ]
    # Emptying leaves room behind: once in a while a new one.
    assert [used(tables, in_transaction=False) for _ in range(1000)].count(MADE) == 2


def test_what_could_not_be_made_is_not_there() -> None:
    tables = StandingTables()
    assert tables.emptying(NAME, CREATE) == tables.emptying(NAME, CREATE) == MADE


@pytest.mark.parametrize(("in_transaction", "then"), [(True, MADE), (False, f"DELETE FROM {NAME}")])
def test_a_rollback_takes_what_its_transaction_made(in_transaction: bool, then: str) -> None:
    tables = StandingTables()
    used(tables, in_transaction=in_transaction)
    tables.rolled_back()
    assert used(tables, in_transaction=False) == then


def test_a_commit_leaves_it() -> None:
    tables = StandingTables()
    used(tables, in_transaction=True)
    tables.committed()
    tables.rolled_back()
    assert used(tables, in_transaction=True) == f"DELETE FROM {NAME}"


def test_other_tables_end_with_the_session() -> None:
    tables = StandingTables()
    used(tables, in_transaction=False)
    assert tables.session_ended() == ""
    tables.others = True
    assert tables.session_ended() == "DISCARD TEMP; "
    assert used(tables, in_transaction=False) == MADE
    assert [tables.session_ended() for _ in range(1000)].count("DISCARD TEMP; ") == 2


def test_variables_start_empty(one: Client) -> None:
    batch = "DECLARE @t TABLE (a int PRIMARY KEY, b nvarchar(20)); INSERT @t VALUES (%s, N'x'); SELECT COUNT(*) FROM @t"
    for number in (1, 1, 2):
        assert one.value(batch % number) == 1
    assert one.rows("DECLARE @t TABLE (a nvarchar(5)); INSERT @t VALUES (N'text'); SELECT * FROM @t") == [("text",)]
    assert one.row("DECLARE @t TABLE (i int IDENTITY, a int); INSERT @t (a) VALUES (7); SELECT * FROM @t") == (1, 7)
    assert one.row("DECLARE @t TABLE (i int IDENTITY, a int); INSERT @t (a) VALUES (8); SELECT * FROM @t") == (1, 8)


def test_variables_around_rollbacks(one: Client) -> None:
    """A table variable outlives a rollback with its rows, also where the transaction made its table, or emptied it."""
    batch = (
        "BEGIN TRANSACTION; {} EXEC (N'DECLARE @t TABLE (a int); INSERT @t VALUES (1), (2); "
        "IF @@TRANCOUNT > 0 ROLLBACK; SELECT COUNT(*) FROM @t'); IF @@TRANCOUNT > 0 ROLLBACK"
    )
    ask = "EXEC (N'DECLARE @t TABLE (a int); SELECT COUNT(*) FROM @t')"
    for _ in range(2):
        assert one.value(ask) == 0
        one.run("EXEC (N'DECLARE @t TABLE (a int); INSERT @t VALUES (1), (2), (3)')")
        assert one.sets(batch.format(""))[0] == [(2,)]
        assert one.value(ask) == 0
    one.run("BEGIN TRANSACTION; DECLARE @n TABLE (z bigint, y int); INSERT @n VALUES (1, 1); ROLLBACK")
    assert one.value("DECLARE @n TABLE (z bigint, y int); SELECT COUNT(*) FROM @n") == 0


def test_a_trigger_sees_its_own_rows_only_whatever_was_taken_back(one: Client) -> None:
    one.run("CREATE TABLE dbo.t (a int); CREATE TABLE dbo.seen (n int)")
    one.run("CREATE TRIGGER dbo.tr ON dbo.t AFTER INSERT AS INSERT dbo.seen SELECT COUNT(*) FROM inserted")
    one.run("BEGIN TRANSACTION; INSERT dbo.t VALUES (1), (2); ROLLBACK")
    one.run("INSERT dbo.t VALUES (1), (2), (3)")
    one.run("BEGIN TRANSACTION; INSERT dbo.t VALUES (1), (2); ROLLBACK")
    one.run("INSERT dbo.t VALUES (1)")
    assert one.rows("SELECT n FROM dbo.seen ORDER BY n") == [(1,), (3,)]
