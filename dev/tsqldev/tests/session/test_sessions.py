"""Application locks, LOGON triggers, KILL, impersonation, and what the sys.dm_ views tell of sessions."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterator

import pyodbc
import pytds
import pytest
from tsqldev.pytest_plugin import TsqlServer, cancelling

from .session_client import Client, Connect

LOCK = (
    "DECLARE @r int; EXEC @r = sys.sp_getapplock @Resource = N'r', @LockMode = N'{}', @LockOwner = N'{}',"
    " @LockTimeout = {}; SELECT @r"
)


def native_error(error: BaseException) -> int:
    """The server's error number in the text of an ODBC error."""
    found = re.search(r"\((\d+)\) \(SQLDriverConnect\)", str(error))
    assert found is not None, error
    return int(found.group(1))


@pytest.fixture
def login(tsql_server: TsqlServer) -> Iterator[tuple[str, str]]:
    name, password = f"l_{secrets.token_hex(5)}", "Xy!" + secrets.token_hex(8)
    admin = tsql_server.connect("python-tds")
    admin.cursor().execute(f"CREATE LOGIN [{name}] WITH PASSWORD = N'{password}'")
    yield name, password
    ended = Client(admin)
    deadline = time.monotonic() + 5
    while ended.rows(f"SELECT 1 FROM sys.dm_exec_sessions WHERE original_login_name = N'{name}'"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    admin.cursor().execute(f"DROP LOGIN [{name}]")
    admin.close()


def test_an_exclusive_lock_is_held_to_the_end_of_its_transaction(one: Client, two: Client) -> None:
    one.run("BEGIN TRAN")
    assert one.value(LOCK.format("Exclusive", "Transaction", 0)) == 0
    assert one.value("SELECT APPLOCK_MODE(N'public', N'r', N'Transaction')") == "Exclusive"
    assert two.value(LOCK.format("Shared", "Session", 0)) == -1
    waiting = two.later(LOCK.format("Shared", "Session", 10000))
    time.sleep(0.2)
    assert not waiting.done()
    one.run("COMMIT")
    assert waiting.result(5)[-1] == [(1,)]
    assert two.value("EXEC sp_releaseapplock N'r', N'Session'; SELECT 1") == 1
    assert two.error("EXEC sp_releaseapplock N'r', N'Session'") == 1223


def test_applock_answers_without_a_transaction(one: Client) -> None:
    assert one.value(LOCK.format("Exclusive", "Transaction", 0)) == -999
    assert one.value(LOCK.format("Nonsense", "Session", 0)) == -999
    assert one.error("SELECT APPLOCK_MODE(N'public', N'r', N'Transaction')") == 3918
    assert one.value("SELECT APPLOCK_MODE(N'public', N'r', N'Session')") == "NoLock"


def test_locks_belong_to_a_database(one: Client, two: Client) -> None:
    assert one.value(LOCK.format("Exclusive", "Session", 0)) == 0
    assert two.value("USE tempdb;" + LOCK.format("Exclusive", "Session", 0)) == 0


def test_a_session_that_ends_leaves_no_lock(one: Client, connect: Connect) -> None:
    other = connect()
    assert other.value(LOCK.format("Exclusive", "Session", 0)) == 0
    other.close()
    assert one.value(LOCK.format("Exclusive", "Session", 5000)) in (0, 1)


def test_row_locks(one: Client, two: Client) -> None:
    one.run("CREATE TABLE t (id int NOT NULL PRIMARY KEY, v int); INSERT t VALUES (1, 1), (2, 2)")
    one.run("BEGIN TRAN; SELECT v FROM t WITH (UPDLOCK, HOLDLOCK) WHERE id = 1")
    assert two.error("SELECT v FROM t WITH (UPDLOCK, NOWAIT) WHERE id = 1") == 1222
    assert two.error("SET LOCK_TIMEOUT 100; UPDATE t SET v = 3 WHERE id = 1") == 1222
    assert two.value("SELECT @@LOCK_TIMEOUT") == 100
    assert two.value("SELECT v FROM t WITH (UPDLOCK, NOWAIT) WHERE id = 2") == 2
    two.run("SET LOCK_TIMEOUT -1")
    waiting = two.later("UPDATE t SET v = v + 10 WHERE id = 1")
    time.sleep(0.2)
    assert not waiting.done()
    one.run("UPDATE t SET v = 5 WHERE id = 1; COMMIT")
    waiting.result(5)
    assert one.value("SELECT v FROM t WHERE id = 1") == 15


def test_a_deadlock_has_one_victim(one: Client, two: Client) -> None:
    one.run("CREATE TABLE t (id int NOT NULL PRIMARY KEY, v int); INSERT t VALUES (1, 1), (2, 2)")
    one.run("BEGIN TRAN; UPDATE t SET v = 10 WHERE id = 1")
    two.run("BEGIN TRAN; UPDATE t SET v = 20 WHERE id = 2")
    waiting = one.later("UPDATE t SET v = 11 WHERE id = 2")
    time.sleep(0.3)
    outcomes = []
    try:
        two.run("UPDATE t SET v = 21 WHERE id = 1")
        outcomes.append(0)
    except Exception as error:
        outcomes.append(error.number)  # type: ignore[attr-defined]  # SqlError
    try:
        waiting.result(10)
        outcomes.append(0)
    except Exception as error:
        outcomes.append(error.number)  # type: ignore[attr-defined]  # SqlError
    assert sorted(outcomes) == [0, 1205]
    victim = two if outcomes[0] else one
    assert victim.value("SELECT @@TRANCOUNT") == 0


def test_kill_rolls_back_and_ends(one: Client, connect: Connect) -> None:
    one.run("CREATE TABLE t (id int)")
    other = connect()
    spid = other.value("SELECT @@SPID")
    other.run("BEGIN TRAN; INSERT t VALUES (1)")
    other.run(LOCK.format("Exclusive", "Transaction", 0))
    assert one.row(
        f"SELECT open_transaction_count, is_user_process FROM sys.dm_exec_sessions WHERE session_id = {spid}"
    ) == (1, True)
    one.run(f"KILL {spid}")
    deadline = time.monotonic() + 5
    while one.rows(f"SELECT 1 FROM sys.dm_exec_sessions WHERE session_id = {spid}"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert one.value("SELECT COUNT(*) FROM t") == 0
    assert one.value(LOCK.format("Exclusive", "Session", 0)) == 0
    with pytest.raises((pytds.tds_base.Error, OSError)):
        other.value("SELECT 1")


def test_kill_reaches_a_session_that_waits(one: Client, connect: Connect) -> None:
    one.value(LOCK.format("Exclusive", "Session", 0))
    for sql in (LOCK.format("Exclusive", "Session", -1), "WAITFOR DELAY '00:01:00'"):
        other = connect()
        spid = other.value("SELECT @@SPID")
        waiting = other.later(sql)
        time.sleep(0.2)
        one.run(f"KILL {spid}")
        with pytest.raises((pytds.tds_base.Error, OSError)):
            waiting.result(5)
        deadline = time.monotonic() + 5
        while one.rows(f"SELECT 1 FROM sys.dm_exec_sessions WHERE session_id = {spid}"):
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_kill_refuses(login: tuple[str, str], one: Client, connect: Connect) -> None:
    assert one.error("KILL 32000") == 6106
    assert one.error("DECLARE @s int = @@SPID; EXEC('KILL ' + CONVERT(varchar(10), @@SPID))") in (6104, 102)
    assert one.error("KILL 20") == 6107
    assert one.error("BEGIN TRAN; KILL 32000") == 6115
    one.run("ROLLBACK")
    poor = connect(user=login[0], password=login[1], database="master")
    assert poor.error("KILL 32000") == 6102


def test_a_caller_without_view_server_state_sees_itself(login: tuple[str, str], one: Client, connect: Connect) -> None:
    poor = connect(user=login[0], password=login[1], database="master")
    assert poor.rows("SELECT session_id, login_name FROM sys.dm_exec_sessions") == [
        (poor.value("SELECT @@SPID"), login[0])
    ]
    one.run(f"USE master; GRANT VIEW SERVER STATE TO [{login[0]}]")
    assert len(poor.rows("SELECT session_id FROM sys.dm_exec_sessions")) >= 2


def test_impersonation_does_not_hide_the_original_login(login: tuple[str, str], one: Client) -> None:
    assert one.error(f"EXECUTE AS LOGIN = N'{login[0]}'") == 916
    one.run(f"USE master; EXECUTE AS LOGIN = N'{login[0]}'")
    assert one.row("SELECT SUSER_SNAME(), ORIGINAL_LOGIN()") == (login[0], "sa")
    assert one.row(
        "SELECT login_name, original_login_name, original_security_id, security_id FROM sys.dm_exec_sessions"
    ) == (login[0], "sa", b"\x01", one.value(f"SELECT SUSER_SID(N'{login[0]}')"))
    one.run("REVERT")
    assert one.value("SELECT SUSER_SNAME()") == "sa"


def test_impersonation_in_a_dynamic_batch_ends_with_it(login: tuple[str, str], one: Client) -> None:
    one.run("USE master")
    assert one.value(f"EXEC('EXECUTE AS LOGIN = N''{login[0]}''; SELECT SUSER_SNAME()')") == login[0]
    assert one.value("SELECT SUSER_SNAME()") == "sa"
    assert one.value(f"EXEC('SELECT SUSER_SNAME()') AS LOGIN = N'{login[0]}'") == login[0]


def test_logins_that_may_not_enter(login: tuple[str, str], tsql_server: TsqlServer, one: Client) -> None:
    def number(**options: str) -> int:
        with pytest.raises(Exception) as refused:
            tsql_server.connect("pyodbc", **options)  # type: ignore[arg-type]  # of several types
        return native_error(refused.value)

    name, password = login
    assert number(user=name, password="wrong") == 18456
    assert number(user="nobody at all", password="x") == 18456
    assert number(user=name, password=password, database="no such database") == 4060
    one.run(f"ALTER LOGIN [{name}] DISABLE")
    assert number(user=name, password=password) == 18470


@pytest.fixture
def logon_trigger(tsql_server: TsqlServer) -> Iterator[Client]:
    admin = Client(tsql_server.connect("python-tds"))
    yield admin
    for (name,) in admin.rows("SELECT name FROM sys.server_triggers"):
        admin.run(f"DROP TRIGGER [{name}] ON ALL SERVER")
    admin.close()


def test_a_logon_trigger_refuses(login: tuple[str, str], tsql_server: TsqlServer, logon_trigger: Client) -> None:
    name, password = login
    admin = logon_trigger
    admin.run("CREATE TABLE tempdb.dbo.seen (who nvarchar(128), spid int, early bit)")
    try:
        admin.run(
            "CREATE TRIGGER gate ON ALL SERVER WITH EXECUTE AS N'sa' FOR LOGON AS BEGIN\n"
            " INSERT tempdb.dbo.seen SELECT ORIGINAL_LOGIN(), @@SPID,"
            " CASE WHEN login_time = '1900-01-01' THEN 1 ELSE 0 END"
            " FROM sys.dm_exec_sessions WHERE session_id = @@SPID;\n"
            f" IF ORIGINAL_LOGIN() = N'{name}' ROLLBACK;\n"
            "END"
        )
        with pytest.raises(Exception) as refused:
            tsql_server.connect("pyodbc", user=name, password=password)
        assert native_error(refused.value) == 17892
        Client(tsql_server.connect("python-tds")).close()
        assert admin.rows("SELECT who, early FROM tempdb.dbo.seen") == [("sa", True)]
    finally:
        admin.run("DROP TABLE tempdb.dbo.seen")


def test_a_broken_logon_trigger_locks_everyone_out(
    login: tuple[str, str], tsql_server: TsqlServer, logon_trigger: Client
) -> None:
    logon_trigger.run("CREATE TRIGGER broken ON ALL SERVER FOR LOGON AS SELECT * FROM nowhere.dbo.nothing")
    with pytest.raises(Exception) as refused:
        tsql_server.connect("pyodbc")
    assert native_error(refused.value) == 17892
    logon_trigger.run("DISABLE TRIGGER broken ON ALL SERVER")
    Client(tsql_server.connect("python-tds")).close()


def test_a_cancelled_request_ends_and_rolls_back_under_xact_abort(tsql_server: TsqlServer, tsql_database: str) -> None:
    connection = tsql_server.connect("pyodbc", database=tsql_database)
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE t (a int)")
    cursor.execute("SET XACT_ABORT ON; BEGIN TRAN; INSERT t VALUES (1)")
    started = time.monotonic()
    with pytest.raises(pyodbc.Error), cancelling(cursor):
        cursor.execute("WAITFOR DELAY '00:00:20'")
    assert time.monotonic() - started < 5
    assert cursor.execute("SELECT @@TRANCOUNT").fetchone()[0] == 0
    connection.close()


def test_a_module_runs_as_its_owner(login: tuple[str, str], one: Client, connect: Connect) -> None:
    one.run("CREATE TABLE secret (v int); INSERT secret VALUES (42)")
    one.run(f"CREATE USER [{login[0]}] FOR LOGIN [{login[0]}]")
    one.run("CREATE PROCEDURE reads AS SELECT v FROM secret")
    one.run("CREATE PROCEDURE reads_dynamically AS EXEC('SELECT v FROM secret')")
    one.run("CREATE PROCEDURE reads_as_owner WITH EXECUTE AS OWNER AS EXEC('SELECT v, USER_NAME() FROM secret')")
    for name in ("reads", "reads_dynamically", "reads_as_owner"):
        one.run(f"GRANT EXECUTE ON {name} TO [{login[0]}]")
    poor = connect(user=login[0], password=login[1])
    assert poor.error("SELECT v FROM secret") == 229
    assert poor.value("EXEC reads") == 42
    assert poor.error("EXEC reads_dynamically") == 229
    assert poor.row("EXEC reads_as_owner") == (42, "dbo")
    assert poor.value("SELECT USER_NAME()") == login[0]
    one.run(f"DROP USER [{login[0]}]")
