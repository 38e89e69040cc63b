"""What each kind of error leaves of a transaction: nesting x XACT_ABORT x TRY x error.

The expectations are rules from SQL Server's documentation (SET XACT_ABORT, TRY...CATCH, THROW, RAISERROR, XACT_STATE,
ROLLBACK TRANSACTION in triggers), not what was once observed:

- A statement error ends the statement only; under XACT_ABORT ON it ends batch and transaction. RAISERROR does not honour
  XACT_ABORT. THROW ends the batch, and the transaction under XACT_ABORT ON.
- A failed conversion and a deadlock end batch and transaction under either setting.
- In a TRY the error goes to CATCH instead; what would have ended the transaction makes it uncommittable (-1), and the
  server rolls it back with 3998 at the end of the batch.
- ROLLBACK in a trigger ends the transaction at once; the statement that fired it fails with 3609.
- A trigger runs with XACT_ABORT ON, whatever the session's setting is.
- No CATCH sees an attention; the transaction stays open, or under XACT_ABORT ON is rolled back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import pyodbc
import pytds
import pytest
from tsqldev.pytest_plugin import TsqlServer, cancelling

from .session_client import Client, Connect

STATEMENTS = {
    "duplicate": "INSERT kept VALUES (1)",
    "conversion": "DECLARE @i int = CONVERT(int, 'x')",
    "raiserror": "RAISERROR('raised', 16, 1)",
    "throw": "THROW 51000, 'thrown', 1",
    "timeout": "UPDATE other SET v = 1 WHERE id = 1",
    "deadlock": "UPDATE other SET v = 1 WHERE id = 1",
    "trigger": "INSERT fired VALUES (1)",
}
NUMBERS = {
    "duplicate": 2627,
    "conversion": 245,
    "raiserror": 50000,
    "throw": 51000,
    "timeout": 1222,
    "deadlock": 1205,
    "trigger": 3609,
}
# Without XACT_ABORT and TRY, the next statement of the batch runs.
GOES_ON = {"duplicate", "raiserror", "timeout"}
ALWAYS_FATAL = {"conversion", "deadlock"}


@dataclass(frozen=True)
class Case:
    nesting: int
    abort: bool
    tried: bool
    error: str
    inside: bool = False  # the error happens in a trigger that the statement fires

    @property
    def kills(self) -> bool:
        """Whether the error ends the transaction, or dooms it in a TRY."""
        return self.error in ALWAYS_FATAL or ((self.abort or self.inside) and self.error != "raiserror")

    @property
    def goes_on(self) -> bool:
        return self.error in GOES_ON and not self.tried and not (self.kills and self.error != "raiserror")

    @property
    def in_catch(self) -> tuple[int, int, int]:
        """ERROR_NUMBER(), XACT_STATE(), @@TRANCOUNT."""
        if self.error == "trigger":
            return NUMBERS[self.error], 0, 0
        state = 0 if not self.nesting else -1 if self.kills else 1
        return NUMBERS[self.error], state, self.nesting

    @property
    def survives(self) -> bool:
        """Whether the transaction is open after the batch."""
        return self.nesting > 0 and self.error != "trigger" and not self.kills

    @property
    def after(self) -> tuple[int, int]:
        """@@TRANCOUNT, XACT_STATE() in the next batch."""
        return (self.nesting, 1) if self.survives else (0, 0)

    @property
    def rows(self) -> list[int]:
        """The rows after COMMIT of what is still open: 1 from before the error, 2 from behind it."""
        if self.nesting and not self.survives:
            return []
        return [1, 2] if self.goes_on else [1]

    def __str__(self) -> str:
        parts = [f"trancount{self.nesting}", "abort" if self.abort else "", "try" if self.tried else ""]
        parts += ["inside" if self.inside else "", self.error]
        return "-".join(part for part in parts if part)


CASES = [
    Case(nesting, abort, tried, error)
    for nesting, abort, tried, error in product((0, 1, 2), (False, True), (False, True), STATEMENTS)
    # One statement alone can be the victim of a deadlock too; here the victim holds a lock from before.
    if not (error == "deadlock" and nesting == 0)
] + [
    Case(nesting, abort, tried, error, inside=True)
    for nesting, abort, tried, error in product(
        (0, 1, 2), (False, True), (False, True), ("duplicate", "conversion", "throw", "timeout")
    )
    # What CATCH sees of the transaction of a single statement is not documented.
    if nesting or not tried
]


@pytest.fixture
def other(connect: Connect) -> Client:
    """A second session on tables that both use."""
    client = connect()
    client.run("CREATE TABLE kept (id int NOT NULL PRIMARY KEY); CREATE TABLE fired (id int)")
    client.run("CREATE TABLE other (id int NOT NULL PRIMARY KEY, v int); INSERT other VALUES (1, 0), (2, 0)")
    client.run("CREATE TRIGGER ends ON fired AFTER INSERT AS ROLLBACK TRANSACTION")
    return client


def outcome(client: Client, sql: str) -> tuple[list[tuple[object, ...]], list[int]]:
    """The rows and the error numbers that a batch sends, in order."""
    rows: list[tuple[object, ...]] = []
    errors: list[int] = []
    cursor = client.connection.cursor()
    more: object = True
    try:
        cursor.execute(sql)
        while more:
            if cursor.description:
                rows += [tuple(row) for row in cursor.fetchall()]
            more = cursor.nextset()
    except pytds.tds_base.Error as error:
        errors.append(int(getattr(error, "number", 0) or 0))
    return rows, errors


def prepare(client: Client, case: Case) -> None:
    client.run(
        f"SET XACT_ABORT {'ON' if case.abort else 'OFF'}; SET LOCK_TIMEOUT {0 if case.error == 'timeout' else -1}"
    )
    client.run("BEGIN TRAN; " * case.nesting + "INSERT kept VALUES (1)")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_error(case: Case, one: Client, other: Client) -> None:
    prepare(one, case)
    waiting = None
    statement = STATEMENTS[case.error]
    if case.inside:
        other.run("CREATE TABLE inside (id int)")
        other.run(f"CREATE TRIGGER fails ON inside AFTER INSERT AS BEGIN {statement} END")
        statement = "INSERT inside VALUES (1)"
    if case.error in ("timeout", "deadlock"):
        other.run("BEGIN TRAN; UPDATE other SET v = 2 WHERE id = 1")
    if case.error == "deadlock":
        one.run("SET DEADLOCK_PRIORITY LOW; UPDATE other SET v = 1 WHERE id = 2")
        waiting = other.later("UPDATE other SET v = 2 WHERE id = 2")
        blocked = "SELECT COUNT(*) FROM sys.dm_exec_requests WHERE blocking_session_id = @@SPID"
        end = time.monotonic() + 10
        while not one.value(blocked) and time.monotonic() < end:
            time.sleep(0.02)
    body = f"{statement}; INSERT kept VALUES (2)"
    if case.tried:
        body = f"BEGIN TRY {body} END TRY BEGIN CATCH SELECT ERROR_NUMBER(), XACT_STATE(), @@TRANCOUNT END CATCH"

    rows, errors = outcome(one, body)

    if case.tried:
        assert rows == [case.in_catch]
        assert errors == ([3998] if case.in_catch[1] == -1 else [])
    else:
        assert errors == [NUMBERS[case.error]]
    assert one.row("SELECT @@TRANCOUNT, XACT_STATE()") == case.after
    if waiting is not None:
        waiting.result(10)
    one.run("COMMIT; " * case.after[0])
    other.run("IF @@TRANCOUNT > 0 ROLLBACK")
    assert [row[0] for row in other.rows("SELECT id FROM kept ORDER BY id")] == case.rows


@pytest.fixture
def odbc(tsql_server: TsqlServer, tsql_database: str) -> Iterator[pyodbc.Connection]:
    connection = tsql_server.connect("pyodbc", database=tsql_database)
    yield connection
    connection.close()


@pytest.mark.parametrize(("nesting", "abort", "tried"), list(product((0, 1, 2), (False, True), (False, True))))
def test_an_attention(odbc: pyodbc.Connection, other: Client, nesting: int, abort: bool, tried: bool) -> None:
    cursor = odbc.cursor()
    cursor.execute(f"SET XACT_ABORT {'ON' if abort else 'OFF'}")
    cursor.execute("BEGIN TRAN; " * nesting + "INSERT kept VALUES (1)")
    body = "WAITFOR DELAY '00:00:20'; INSERT kept VALUES (2)"
    if tried:
        body = f"BEGIN TRY {body} END TRY BEGIN CATCH INSERT kept VALUES (3) END CATCH"
    with pytest.raises(pyodbc.Error), cancelling(cursor):
        cursor.execute(body)
    left = 0 if abort else nesting
    assert tuple(cursor.execute("SELECT @@TRANCOUNT, XACT_STATE()").fetchone()) == (left, 1 if left else 0)
    for _ in range(left):
        cursor.execute("COMMIT")
    kept = [] if nesting and abort else [1]
    assert [row[0] for row in other.rows("SELECT id FROM kept ORDER BY id")] == kept
