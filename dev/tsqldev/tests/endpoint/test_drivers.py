"""Unmodified clients on the whole endpoint: what a program that knows SQL Server only may expect."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from tsqldev.pytest_plugin import DRIVERS, TsqlServer, cancelling


@pytest.fixture
def connect(tsql_server: TsqlServer, tsql_database: str) -> Iterator[Callable[..., Any]]:
    opened: list[Any] = []

    def run(driver: str = "mssql-python", **options: Any) -> Any:
        options.setdefault("database", tsql_database)
        connection = tsql_server.connect(driver, **options)
        opened.append(connection)
        return connection

    yield run
    for connection in opened:
        connection.close()


def _all(connection: Any, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    cursor = connection.cursor()
    if parameters:
        cursor.execute(sql, parameters)
    else:
        cursor.execute(sql)
    return [tuple(row) for row in cursor.fetchall()] if cursor.description else []


_TABLE = """CREATE TABLE dbo.every (
    id int NOT NULL PRIMARY KEY, a bit, b tinyint, c smallint, d bigint, e decimal(38, 10), f money, g smallmoney,
    h real, i float, j date, k time(7), l datetime2(7), m datetime, n smalldatetime, o uniqueidentifier, p char(5),
    q varchar(20), r varchar(max), s nchar(3), t nvarchar(20), u nvarchar(max), v binary(4), w varbinary(10),
    x varbinary(max), y datetime2(3), z datetimeoffset(7))"""
_VALUES = """INSERT INTO dbo.every VALUES (1, 1, 255, -32768, 9223372036854775807,
    -1234567890123456789012345678.0123456789, -922337203685477.5808,
    214748.3647, 0.5, -1.5E100, '2021-07-30', '23:59:59.9999999', '2021-07-30T01:02:03.1234567',
    '2021-07-30T01:00:00.003', '2021-07-30T01:01:00', '6F9619FF-8B86-D011-B42D-00C04FC964FF', 'ab', 'naïve €',
    REPLICATE(CAST('v' AS varchar(max)), 9000), N'Ж', N'日本 🎉', REPLICATE(CAST(N'Ж' AS nvarchar(max)), 40000), 0x0102,
    0x00FF, CONVERT(varbinary(max), REPLICATE(CAST('x' AS varchar(max)), 100000)), '2021-07-30T01:02:03.123',
    '2021-07-30T05:30:00.1234567+05:30')"""
_EXPECTED = (
    1,
    True,
    255,
    -32768,
    9223372036854775807,
    Decimal("-1234567890123456789012345678.0123456789"),
    Decimal("-922337203685477.5808"),
    Decimal("214748.3647"),
    0.5,
    -1.5e100,
    dt.date(2021, 7, 30),
    dt.time(23, 59, 59, 999999),
    dt.datetime(2021, 7, 30, 1, 2, 3, 123456),
    dt.datetime(2021, 7, 30, 1, 0, 0, 3000),
    dt.datetime(2021, 7, 30, 1, 1),
    UUID("6f9619ff-8b86-d011-b42d-00c04fc964ff"),
    "ab   ",
    "naïve €",
    "v" * 9000,
    "Ж  ",
    "日本 🎉",
    "Ж" * 40000,
    b"\x01\x02\x00\x00",
    b"\x00\xff",
    b"x" * 100000,
    dt.datetime(2021, 7, 30, 1, 2, 3, 123000),
)


@pytest.mark.parametrize("driver", DRIVERS)
def test_every_type_is_stored_and_read_back(connect: Callable[..., Any], driver: str) -> None:
    connection = connect(driver)
    _all(connection, _TABLE)
    _all(connection, _VALUES)
    _all(connection, "INSERT INTO dbo.every (id) VALUES (2)")
    columns = ", ".join(("id", *"abcdefghijklmnopqrstuvwxy"))
    full, empty = _all(connection, f"SELECT {columns} FROM dbo.every ORDER BY id")
    # ODBC through pyodbc answers uniqueidentifier as text.
    values = tuple(UUID(v) if isinstance(v, str) and len(v) == 36 else v for v in full)
    assert values == _EXPECTED
    assert empty == (2,) + (None,) * 25
    assert _all(connection, "SELECT CONVERT(varchar(34), z, 121) FROM dbo.every WHERE id = 1") == [
        ("2021-07-30 05:30:00.1234567 +05:30",)
    ]


@pytest.mark.parametrize("driver", ["mssql-python", "pyodbc"])
def test_parameters_of_every_kind_are_typed(connect: Callable[..., Any], driver: str) -> None:
    connection = connect(driver)
    given = (
        7,
        2**40,
        Decimal("12345.6789"),
        1.25,
        "téxt Ж",
        b"\x00\x01",
        dt.datetime(2021, 7, 30, 1, 2, 3, 123456),
        dt.date(2021, 7, 30),
        True,
        None,
        "x" * 10_000,
    )
    (row,) = _all(connection, "SELECT ?, ?, ?, ?, ?, ?, CAST(? AS datetime2(6)), ?, ?, ?, ?", *given)
    assert row == given


@pytest.mark.parametrize("driver", DRIVERS)
def test_errors_have_the_numbers_of_sql_server_and_leave_the_connection_usable(
    connect: Callable[..., Any], driver: str
) -> None:
    connection = connect(driver)
    _all(connection, "CREATE TABLE dbo.k (a int NOT NULL CONSTRAINT pk_k PRIMARY KEY, b varchar(3))")
    _all(connection, "INSERT INTO dbo.k VALUES (1, 'x')")
    for sql, text in [
        ("SELECT * FROM dbo.nowhere", "Invalid object name 'dbo.nowhere'"),
        ("SELECT nothing FROM dbo.k", "Invalid column name 'nothing'"),
        ("INSERT INTO dbo.k VALUES (1, 'y')", "Violation of PRIMARY KEY constraint 'pk_k'"),
        ("INSERT INTO dbo.k VALUES (NULL, 'y')", "Cannot insert the value NULL into column 'a'"),
        ("SELECT 1 / 0", "Divide by zero"),
        ("SELEC 1", "."),
        ("THROW 51000, 'CODE', 1", "CODE"),
    ]:
        with pytest.raises(Exception, match=text):
            _all(connection, sql)
        assert _all(connection, "SELECT COUNT(*) FROM dbo.k") == [(1,)]


@pytest.mark.parametrize("driver", DRIVERS)
def test_commit_keeps_and_rollback_drops(connect: Callable[..., Any], driver: str) -> None:
    connection = connect(driver, autocommit=False)
    _all(connection, "CREATE TABLE dbo.r (a int)")
    connection.commit()
    _all(connection, "INSERT INTO dbo.r VALUES (1)")
    connection.rollback()
    _all(connection, "INSERT INTO dbo.r VALUES (2)")
    assert _all(connection, "SELECT @@TRANCOUNT, XACT_STATE()") == [(1, 1)]
    connection.commit()
    assert _all(connect(driver), "SELECT a FROM dbo.r") == [(2,)]


def test_cancel_ends_the_statement_and_the_transaction_stays(connect: Callable[..., Any]) -> None:
    connection = connect("pyodbc", autocommit=False)
    _all(connection, "CREATE TABLE dbo.c (a int)")
    cursor = connection.cursor()
    started = time.monotonic()
    with pytest.raises(Exception, match="cancel"), cancelling(cursor):
        cursor.execute("WAITFOR DELAY '00:00:20'")
    assert time.monotonic() - started < 5
    assert _all(connection, "SELECT @@TRANCOUNT") == [(1,)]
    connection.rollback()


def test_a_result_that_is_not_read_to_its_end_can_be_left(connect: Callable[..., Any]) -> None:
    connection = connect("pyodbc")
    _all(connection, "CREATE TABLE dbo.tens (n int)")
    _all(connection, "INSERT INTO dbo.tens VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)")
    for _ in range(3):
        cursor = connection.cursor()
        cursor.execute("SELECT a.n FROM dbo.tens a, dbo.tens b, dbo.tens c, dbo.tens d, dbo.tens e, dbo.tens f")
        assert cursor.fetchone()
        cursor.close()
        assert _all(connection, "SELECT 1") == [(1,)]


def test_a_session_ends_with_its_client_and_rolls_back(connect: Callable[..., Any], tsql_server: TsqlServer) -> None:
    watcher = connect()
    _all(watcher, "CREATE TABLE dbo.gone (a int)")
    leaver = tsql_server.connect("pymssql", autocommit=False, database=_all(watcher, "SELECT DB_NAME()")[0][0])
    ((spid,),) = _all(leaver, "SELECT @@SPID")
    _all(leaver, "INSERT INTO dbo.gone VALUES (1)")
    leaver.close()
    end = time.monotonic() + 10
    while _all(watcher, f"SELECT 1 FROM sys.dm_exec_sessions WHERE session_id = {spid}") and time.monotonic() < end:
        time.sleep(0.05)
    assert _all(watcher, f"SELECT 1 FROM sys.dm_exec_sessions WHERE session_id = {spid}") == []
    assert _all(watcher, "SELECT COUNT(*) FROM dbo.gone") == [(0,)]


@pytest.mark.parametrize("driver", ["mssql-python", "python-tds"])
def test_64_sessions_at_once(connect: Callable[..., Any], tsql_server: TsqlServer, driver: str) -> None:
    _all(connect(), "CREATE TABLE dbo.many (a int NOT NULL PRIMARY KEY)")
    ((database,),) = _all(connect(), "SELECT DB_NAME()")
    failures: list[BaseException] = []
    together = threading.Barrier(64, timeout=120)

    def work(number: int) -> None:
        try:
            connection = tsql_server.connect(driver, database=database)
            together.wait()
            _all(connection, f"INSERT INTO dbo.many VALUES ({number})")
            assert _all(connection, f"SELECT a FROM dbo.many WHERE a = {number}") == [(number,)]
            connection.close()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(180)
    assert failures == []
    assert _all(connect(), "SELECT COUNT(*) FROM dbo.many") == [(64,)]
