"""Two sessions on one table: which statement waits for which, by SQL Server's lock compatibility.

A holder's statement says which mode it keeps on which keys until its transaction ends; an asker's says which mode it
needs. Whether it waits follows from the documented matrix (shared locks admit shared and update locks, update locks
admit shared ones, exclusive locks admit nothing; a key range that is held admits no new key). The table has rows 1, 2,
3, 7 and 9 and only its clustered primary key, so that a condition on `v` is a scan, which meets every row's lock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import pyodbc
import pytest
from tsqldev.pytest_plugin import TsqlServer, cancelling

from .session_client import Client, Connect

ROWS = (1, 2, 3, 7, 9)
ALL = frozenset(ROWS)
COMPATIBLE = {("S", "S"), ("S", "U"), ("U", "S")}


@dataclass(frozen=True)
class Holder:
    """`keys` are held in `mode`; `ranges` are keys that may not appear, held in that mode too."""

    sql: str
    mode: str = ""
    keys: frozenset[int] = frozenset()
    ranges: frozenset[int] = frozenset()
    new: frozenset[int] = frozenset()  # keys that it has inserted
    table: bool = False


@dataclass(frozen=True)
class Asker:
    sql: str
    mode: str = ""
    keys: frozenset[int] = frozenset()
    scan: bool = False  # also meets rows that the other session has inserted
    inserts: int = 0


def one(key: int) -> frozenset[int]:
    return frozenset({key})


HOLDERS = {
    "read committed": Holder("SELECT v FROM t WHERE id = 1"),
    "nolock": Holder("SELECT v FROM t WITH (NOLOCK) WHERE id = 1"),
    "repeatable read": Holder("SELECT v FROM t WITH (REPEATABLEREAD) WHERE id = 1", "S", one(1)),
    "holdlock": Holder("SELECT v FROM t WITH (HOLDLOCK) WHERE id = 1", "S", one(1)),
    "holdlock in a condition": Holder(
        "IF EXISTS (SELECT 1 FROM t WITH (HOLDLOCK) WHERE id = 1) PRINT 'there'", "S", one(1)
    ),
    "serializable": Holder("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SELECT v FROM t WHERE id = 1", "S", one(1)),
    "updlock": Holder("SELECT v FROM t WITH (UPDLOCK) WHERE id = 1", "U", one(1)),
    "updlock on a scan": Holder("SELECT v FROM t WITH (UPDLOCK) WHERE v = 1", "U", one(1)),
    "updlock of some": Holder("SELECT v FROM t WITH (UPDLOCK) WHERE id IN (1, 2)", "U", frozenset({1, 2})),
    "holdlock on some missing rows": Holder(
        "SELECT v FROM t WITH (HOLDLOCK) WHERE id IN (4, 5)", "S", ranges=frozenset({4, 5})
    ),
    "update of some": Holder("UPDATE t SET v = 0 WHERE id IN (1, 3)", "X", frozenset({1, 3})),
    "xlock": Holder("SELECT v FROM t WITH (XLOCK) WHERE id = 1", "X", one(1)),
    "xlock on a missing row": Holder("SELECT v FROM t WITH (XLOCK) WHERE id = 5"),
    "xlock, holdlock on a missing row": Holder(
        # The range before a missing key belongs to the next one that is there, which is locked with it.
        "SELECT v FROM t WITH (XLOCK, HOLDLOCK) WHERE id = 5",
        "X",
        one(7),
        ranges=one(5),
    ),
    "updlock twice": Holder(
        "SELECT v FROM t WITH (UPDLOCK) WHERE id = 1; SELECT v FROM t WITH (UPDLOCK) WHERE id = 1 AND v = -1",
        "U",
        one(1),
    ),
    "update": Holder("UPDATE t SET v = 100 WHERE id = 1", "X", one(1)),
    "delete": Holder("DELETE t WHERE id = 1", "X", one(1)),
    "insert": Holder("INSERT t VALUES (5, 5)", "X", new=one(5)),
    "merge": Holder(
        "MERGE t USING (SELECT 5 AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (5, 5);", "X", new=one(5)
    ),
    "change of a key": Holder("UPDATE t SET id = 5 WHERE id = 1", "X", one(1), new=one(5)),
    "holdlock on a missing row": Holder("SELECT v FROM t WITH (HOLDLOCK) WHERE id = 5", "S", ranges=one(5)),
    "updlock, holdlock on a missing row": Holder(
        "SELECT v FROM t WITH (UPDLOCK, HOLDLOCK) WHERE id = 5", "U", ranges=one(5)
    ),
    "serializable on a missing row": Holder(
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SELECT v FROM t WHERE id = 5", "S", ranges=one(5)
    ),
    "serializable update of a missing row": Holder(
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; UPDATE t SET v = 1 WHERE id = 5", "U", ranges=one(5)
    ),
    "updlock on a missing row": Holder("SELECT v FROM t WITH (UPDLOCK) WHERE id = 5"),
    "holdlock on the table": Holder("SELECT COUNT(*) FROM t WITH (HOLDLOCK)", "S", ALL, ranges=frozenset({5, 8})),
    "holdlock on a scan": Holder("SELECT id FROM t WITH (HOLDLOCK) WHERE v >= 0", "S", ALL, ranges=frozenset({5, 8})),
    "tablockx": Holder("SELECT COUNT(*) FROM t WITH (TABLOCKX)", "X", ALL, ranges=frozenset({5, 8}), table=True),
    "tablockx for one row": Holder("SELECT v FROM t WITH (TABLOCKX) WHERE id = 1", "X", table=True),
    "tablock, holdlock": Holder(
        "SELECT v FROM t WITH (TABLOCK, HOLDLOCK) WHERE id = 1", "S", ALL, ranges=frozenset({5, 8})
    ),
    "insert with tablockx": Holder("INSERT t WITH (TABLOCKX) VALUES (5, 5)", "X", table=True),
    "update with tablock": Holder("UPDATE t WITH (TABLOCK) SET v = 5 WHERE id = 1", "X", table=True),
}

ASKERS = {
    "read": Asker("SELECT v FROM t WHERE id = 1", "S", one(1)),
    "read another": Asker("SELECT v FROM t WHERE id = 2", "S", one(2)),
    "read a missing row": Asker("SELECT v FROM t WHERE id = 5", "S", one(5)),
    "read by variable": Asker("DECLARE @i bigint = 1; SELECT v FROM t WHERE @i = id", "S", one(1)),
    "read by join": Asker("SELECT t.v FROM (VALUES (1)) AS x(i) JOIN t ON t.id = x.i", "S", one(1)),
    "read of some": Asker("SELECT v FROM t WHERE v > 0 AND id IN (1, 9)", "S", frozenset({1, 9})),
    "read of some others": Asker("SELECT v FROM t WHERE (id IN (2, 3, 9))", "S", frozenset({2, 3, 9})),
    "read by subquery": Asker("SELECT (SELECT v FROM t WHERE id = 1)", "S", one(1)),
    "read into a variable": Asker("DECLARE @v int; SELECT @v = v FROM t WHERE id = 1", "S", one(1)),
    "read for an insert": Asker("INSERT INTO u SELECT v FROM t WHERE id = 1", "S", one(1)),
    "scan": Asker("SELECT id FROM t WHERE v = 2", "S", ALL, scan=True),
    "count": Asker("SELECT COUNT(*) FROM t", "S", ALL, scan=True),
    "nolock": Asker("SELECT v FROM t WITH (NOLOCK) WHERE id = 1"),
    "read uncommitted": Asker(
        "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; SELECT COUNT(*) FROM t;"
        " SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
    ),
    "holdlock": Asker("SELECT v FROM t WITH (HOLDLOCK) WHERE id = 1", "S", one(1)),
    "nowait": Asker("SET LOCK_TIMEOUT -1; SELECT v FROM t WITH (NOWAIT, HOLDLOCK) WHERE id = 1", "S", one(1)),
    "updlock": Asker("SELECT v FROM t WITH (UPDLOCK) WHERE id = 1", "U", one(1)),
    "updlock, holdlock on a missing row": Asker("SELECT v FROM t WITH (UPDLOCK, HOLDLOCK) WHERE id = 5", "U", one(5)),
    "xlock": Asker("SELECT v FROM t WITH (XLOCK) WHERE id = 1", "X", one(1)),
    "update": Asker("UPDATE t SET v = 0 WHERE id = 1", "X", one(1)),
    "update another": Asker("UPDATE t SET v = 0 WHERE id = 2", "X", one(2)),
    "update a missing row": Asker("UPDATE t SET v = 0 WHERE id = 5", "U", one(5)),
    "delete": Asker("DELETE t WHERE id = 1", "X", one(1)),
    "insert": Asker("INSERT t VALUES (5, 0)", "X", inserts=5),
    "insert of many": Asker("INSERT t SELECT i, 0 FROM (VALUES (5), (6)) AS x(i)", "X", inserts=5),
    "insert of another": Asker("INSERT t VALUES (8, 0)", "X", inserts=8),
    "change of a key": Asker("UPDATE t SET id = 5 WHERE id = 9", "X", one(9), inserts=5),
}

# Whether the server's readers notice an exclusive lock under which nothing was changed depends on the page.
UNDOCUMENTED = {
    ("xlock", asker) for asker, asked in ASKERS.items() if asked.mode == "S" and asker not in ("holdlock", "nowait")
}


# Listed in known_differences.toml.
LISTED = {
    ("updlock on a scan", "holdlock"),
    ("updlock on a scan", "nowait"),
}


def waits(holder: Holder, asker: Asker) -> bool:
    if holder.table:
        return bool(asker.mode)
    if asker.inserts and asker.inserts in holder.ranges | holder.new:
        return True
    if not holder.mode or not asker.mode or (holder.mode, asker.mode) in COMPATIBLE:
        return False
    wanted = asker.keys | (holder.new if asker.scan else frozenset())
    # What is looked for and is not there meets a range only by its own mode.
    return bool(wanted & (holder.keys | holder.new | holder.ranges))


@pytest.fixture
def a(connect: Connect) -> Client:
    client = connect()
    client.run("CREATE TABLE t (id int NOT NULL PRIMARY KEY, v int); CREATE TABLE u (v int)")
    client.run("INSERT t VALUES " + ", ".join(f"({key}, {key})" for key in ROWS))
    return client


@pytest.fixture
def b(connect: Connect) -> Client:
    return connect()


@pytest.mark.parametrize("holder", HOLDERS)
def test_who_waits_for(holder: str, a: Client, b: Client) -> None:
    """Every asker against one holder, without patience; and again after the holder is gone."""
    a.run(f"BEGIN TRAN; {HOLDERS[holder].sql}")
    for name, asker in ASKERS.items():
        if (holder, name) in UNDOCUMENTED | LISTED:
            continue
        b.run("SET LOCK_TIMEOUT 0; BEGIN TRAN")
        if waits(HOLDERS[holder], asker):
            assert b.error(asker.sql) == 1222, f"{name} does not wait for {holder}"
        else:
            b.run(asker.sql)
        b.run("ROLLBACK")
    a.run("ROLLBACK")
    for asker in ASKERS.values():
        b.run(f"SET LOCK_TIMEOUT 0; BEGIN TRAN; {asker.sql}; ROLLBACK")


def test_a_lock_that_times_out_leaves_the_transaction_as_it_was(a: Client, b: Client) -> None:
    a.run("BEGIN TRAN; UPDATE t SET v = 100 WHERE id = 1")
    b.run("SET LOCK_TIMEOUT 50; BEGIN TRAN; UPDATE t SET v = 200 WHERE id = 2")
    started = time.monotonic()
    assert b.error("SELECT v FROM t WHERE id = 1") == 1222
    assert time.monotonic() - started >= 0.05
    assert b.row("SELECT @@TRANCOUNT, XACT_STATE()") == (1, 1)
    b.run("COMMIT")
    assert a.value("SELECT v FROM t WHERE id = 2") == 200


def until_blocked(observer: Client, holder: Client) -> None:
    spid = holder.value("SELECT @@SPID")
    end = time.monotonic() + 20
    while not observer.value(f"SELECT COUNT(*) FROM sys.dm_exec_requests WHERE blocking_session_id = {spid}"):
        assert time.monotonic() < end, "nobody waits"
        time.sleep(0.02)


# What the holder does, what the asker does, and what that answers by how the holder ended.
WAITING: dict[str, tuple[str, str, Callable[[str], object]]] = {
    "reader of a changed row": (
        "UPDATE t SET v = 100 WHERE id = 1",
        "SELECT v FROM t WHERE id = 1",
        lambda end: [(100,)] if end == "COMMIT" else [(1,)],
    ),
    "reader of a new row": (
        "INSERT t VALUES (5, 5)",
        "SELECT v FROM t WHERE id = 5",
        lambda end: [(5,)] if end == "COMMIT" else [],
    ),
    "reader of all rows": (
        "DELETE t WHERE id = 1",
        "SELECT COUNT(*) FROM t",
        lambda end: [(4,)] if end == "COMMIT" else [(5,)],
    ),
    "update of a new row": (
        "INSERT t VALUES (5, 5)",
        "UPDATE t SET v = 6 WHERE id = 5; SELECT @@ROWCOUNT",
        lambda end: [(1,)] if end == "COMMIT" else [(0,)],
    ),
    "insert into a range": (
        "SELECT v FROM t WITH (HOLDLOCK) WHERE id = 5",
        "INSERT t VALUES (5, 7); SELECT v FROM t WHERE id = 5",
        lambda end: [(7,)],
    ),
    "second of two upserts": (
        "IF NOT EXISTS (SELECT 1 FROM t WITH (UPDLOCK, HOLDLOCK) WHERE id = 5) INSERT t VALUES (5, 1)",
        "BEGIN TRAN; IF NOT EXISTS (SELECT 1 FROM t WITH (UPDLOCK, HOLDLOCK) WHERE id = 5) INSERT t VALUES (5, 2);"
        " COMMIT; SELECT v FROM t WHERE id = 5",
        lambda end: [(1,)] if end == "COMMIT" else [(2,)],
    ),
}


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
@pytest.mark.parametrize("case", WAITING)
def test_a_wait_ends_with_the_holder(case: str, end: str, a: Client, b: Client, connect: Connect) -> None:
    holder, asker, answer = WAITING[case]
    a.run(f"BEGIN TRAN; {holder}")
    waiting = b.later(asker)
    until_blocked(connect(), a)
    a.run(end)
    assert waiting.result(20)[-1] == answer(end)


def test_a_range_is_kept_from_a_change_that_finds_its_rows_late(a: Client, b: Client, connect: Connect) -> None:
    """The holder inserts the row itself, while the other session waits to insert it."""
    a.run("BEGIN TRAN; SELECT v FROM t WITH (HOLDLOCK) WHERE id = 5")
    waiting = b.later("INSERT t SELECT 5, v FROM t WHERE id = 1")
    until_blocked(connect(), a)
    a.run("INSERT t VALUES (5, 50); COMMIT")
    assert "PRIMARY KEY" in str(waiting.exception(20))
    assert a.rows("SELECT v FROM t WHERE id = 5") == [(50,)]


def test_neither_row_versions_nor_snapshots_wait(a: Client, b: Client) -> None:
    a.run("ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON")
    a.run("BEGIN TRAN; UPDATE t SET v = 100 WHERE id = 1; INSERT t VALUES (5, 5)")
    b.run("SET LOCK_TIMEOUT 0; SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRAN")
    assert b.rows("SELECT v FROM t WHERE id IN (1, 5)") == [(1,)]
    b.run("COMMIT; SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
    assert b.error("SELECT v FROM t WHERE id = 1") == 1222


def test_readers_of_row_versions_do_not_wait(a: Client, b: Client, connect: Connect) -> None:
    b.close()
    a.run("ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON")
    a.run("BEGIN TRAN; UPDATE t SET v = 100 WHERE id = 1")
    reader = connect()
    reader.run("SET LOCK_TIMEOUT 0")
    assert reader.rows("SELECT v FROM t WHERE id = 1") == [(1,)]
    assert reader.value("SELECT SUM(v) FROM t") == 22
    assert reader.error("SELECT v FROM t WITH (READCOMMITTEDLOCK) WHERE id = 1") == 1222
    assert reader.error("SELECT v FROM t WITH (HOLDLOCK) WHERE id = 1") == 1222
    assert reader.error("UPDATE t SET v = 200 WHERE id = 1") == 1222


def test_an_attention_ends_a_wait(tsql_server: TsqlServer, tsql_database: str, a: Client) -> None:
    a.run("BEGIN TRAN; UPDATE t SET v = 100 WHERE id = 1")
    waiting = tsql_server.connect("pyodbc", database=tsql_database)
    cursor = waiting.cursor()
    cursor.execute("BEGIN TRAN; UPDATE t SET v = 200 WHERE id = 2")
    for asker in ("SELECT v FROM t WHERE id = 1", "SELECT COUNT(*) FROM t", "UPDATE t SET v = 0 WHERE id = 1"):
        with pytest.raises(pyodbc.Error), cancelling(cursor):
            cursor.execute(asker)
    assert cursor.execute("SELECT @@TRANCOUNT").fetchval() == 1
    cursor.execute("COMMIT")
    waiting.close()
    a.run("COMMIT")
    assert a.value("SELECT v FROM t WHERE id = 2") == 200


def test_a_circle_of_waits_has_one_victim(a: Client, b: Client, connect: Connect) -> None:
    """Two readers with HOLDLOCK that both want to write: one gets 1205, the other goes on."""
    a.run("BEGIN TRAN; SELECT v FROM t WITH (HOLDLOCK) WHERE id = 1")
    b.run("BEGIN TRAN; SELECT v FROM t WITH (HOLDLOCK) WHERE id = 1")
    waiting = a.later("UPDATE t SET v = 10 WHERE id = 1")
    until_blocked(connect(), b)
    other = b.later("UPDATE t SET v = 20 WHERE id = 1")
    failures = [error for error in (waiting.exception(30), other.exception(30)) if error is not None]
    assert [getattr(error, "number", 0) for error in failures] == [1205]
    for client in (a, b):
        client.run("IF @@TRANCOUNT > 0 COMMIT")
    assert a.value("SELECT v FROM t WHERE id = 1") in (10, 20)


def test_a_circle_through_reader_and_writer(a: Client, b: Client, connect: Connect) -> None:
    """One waits for a row, the other for a range: the circle is found wherever its waits are kept."""
    a.run("BEGIN TRAN; UPDATE t SET v = 10 WHERE v = 1")
    b.run("BEGIN TRAN; SELECT v FROM t WITH (HOLDLOCK) WHERE id = 5")
    waiting = b.later("UPDATE t SET v = 20 WHERE id = 1")
    until_blocked(connect(), a)
    other = a.later("INSERT t VALUES (5, 5)")
    failures = [error for error in (waiting.exception(30), other.exception(30)) if error is not None]
    assert [getattr(error, "number", 0) for error in failures] == [1205]
    for client in (a, b):
        client.run("IF @@TRANCOUNT > 0 ROLLBACK")


def test_locks_are_shown_while_they_are_held(a: Client, b: Client) -> None:
    locks = (
        "SELECT l.resource_type, l.request_mode FROM sys.dm_tran_locks AS l WHERE l.request_session_id = {spid}"
        " AND l.resource_type IN ('OBJECT', 'KEY') ORDER BY 1 DESC, 2"
    ).format(spid=a.value("SELECT @@SPID"))
    a.run("BEGIN TRAN; UPDATE t SET v = 100 WHERE id = 1")
    assert b.rows(locks) == [("OBJECT", "IX"), ("KEY", "X")]
    assert b.rows(
        "SELECT o.name FROM sys.dm_tran_locks l JOIN sys.partitions p ON p.hobt_id = l.resource_associated_entity_id"
        " JOIN sys.objects o ON o.object_id = p.object_id WHERE l.resource_type = 'KEY'"
    ) == [("t",)]
    a.run("COMMIT")
    assert b.rows(locks) == []
    a.run("BEGIN TRAN; SELECT v FROM t WITH (UPDLOCK) WHERE id = 1")
    assert ("KEY", "U") in b.rows(locks)
    a.run("ROLLBACK")
    assert b.rows(locks) == []
