"""Five clients, eight things that each must be able to do.

What a client cannot do by itself stands in CANNOT with the reason, and is asserted there: a client that learns it fails
the test until its entry goes.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import re
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from tsqldev.pytest_plugin import CLIENTS, TsqlServer, cancelling

PASSWORD = "A1;'é\"[]= %@{x"  # FreeTDS cannot be given a closing brace


@dataclass(frozen=True, slots=True)
class Client:
    """One client with a login of its own, in a database of its own."""

    name: str
    server: TsqlServer
    login: str
    database: str
    opened: list[Any]

    def connect(self, **options: Any) -> Any:
        options.setdefault("database", self.database)
        options.setdefault("user", self.login)
        options.setdefault("password", PASSWORD)
        connection = self.server.connect(self.name, **options)
        self.opened.append(connection)
        return connection

    @property
    def mark(self) -> str:
        """How it writes a parameter."""
        return "%s" if self.name in ("pymssql", "python-tds") else "?"

    def number(self, error: Exception) -> int:
        """The error number of SQL Server in what the client raised; 0 where the client does not tell."""
        if self.name == "pymssql":
            return int(error.args[0])
        if self.name == "python-tds":
            return int(getattr(error, "number", 0))
        if self.name == "mssql-python":
            return 0
        found = [int(part) for part in str(error).replace(")", "(").split("(") if part.isdigit()]
        return found[-1] if found else 0


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, tsql_server: TsqlServer, tsql_database: str) -> Iterator[Client]:
    login = f"client_{secrets.token_hex(4)}"
    administrator = tsql_server.connect()
    password = PASSWORD.replace("'", "''")
    administrator.execute(f"CREATE LOGIN [{login}] WITH PASSWORD = N'{password}', CHECK_POLICY = OFF")
    administrator.execute(f"ALTER SERVER ROLE sysadmin ADD MEMBER [{login}]")
    client = Client(request.param, tsql_server, login, tsql_database, [])
    yield client
    for connection in client.opened:
        with contextlib.suppress(Exception):  # one that a test closed, or whose statement timed out
            connection.close()
    end = time.monotonic() + 10
    gone = f"SELECT COUNT(*) FROM sys.dm_exec_sessions WHERE original_login_name = '{login}'"
    while administrator.execute(gone).fetchone()[0] and time.monotonic() < end:
        time.sleep(0.02)
    administrator.execute(f"DROP LOGIN [{login}]")
    administrator.close()


def rows(connection: Any, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    cursor = connection.cursor()
    if parameters:
        cursor.execute(sql, parameters)
    else:
        cursor.execute(sql)
    return [tuple(row) for row in cursor.fetchall()] if cursor.description else []


# -- what cannot be done


def _no_bulk_in_odbc(client: Client) -> None:
    import pyodbc

    assert not any("bulk" in name.lower() for name in (*dir(pyodbc.Cursor), *dir(pyodbc.Connection)))


def _no_cancel_in_pymssql(client: Client) -> None:
    import pymssql

    assert not hasattr(pymssql.Cursor, "cancel")
    assert not hasattr(pymssql.Connection, "cancel")


CANNOT: dict[tuple[str, str], tuple[str, Callable[[Client], None]]] = {
    ("pyodbc", "bulk"): ("pyodbc has no bulk load: fast_executemany sends a prepared INSERT", _no_bulk_in_odbc),
    ("pyodbc-freetds", "bulk"): ("pyodbc has no bulk load, with no driver", _no_bulk_in_odbc),
    ("pymssql", "cancel"): (
        "pymssql cannot cancel a statement; its query timeout ends the connection",
        _no_cancel_in_pymssql,
    ),
}


# -- what each must do


def refused(client: Client, **options: str) -> None:
    # python-tds tries some refusals again until its time is over, and keeps the server's answer as the cause.
    patience = {"timeout": 2} if client.name == "python-tds" else {}
    with pytest.raises(Exception, match=r".*") as caught:
        client.connect(**options, **patience)
    said = f"{caught.value} {caught.value.__cause__}"
    assert re.search(r"18456|18470|4060|Login failed|Cannot open database", said), said


def login(client: Client) -> None:
    connection = client.connect()
    assert rows(connection, "SELECT ORIGINAL_LOGIN(), DB_NAME()") == [(client.login, client.database)]
    for wrong in ({"password": "A1wrong"}, {"user": "nobody"}, {"database": "nowhere"}):
        refused(client, **wrong)
    administrator = client.server.connect()
    administrator.execute(f"ALTER LOGIN [{client.login}] DISABLE")
    refused(client)
    administrator.execute(f"ALTER LOGIN [{client.login}] ENABLE")
    administrator.close()
    # The sessions that were there stay.
    assert rows(connection, "SELECT 1") == [(1,)]
    encrypted = "SELECT encrypt_option FROM sys.dm_exec_connections WHERE session_id = @@SPID"
    clear = client.connect(encrypt=False)
    assert rows(clear, "SELECT N'日本'") == [("日本",)]
    if client.name in ("mssql-python", "pyodbc", "pyodbc-freetds"):
        assert rows(connection, encrypted) == [("TRUE",)]
        assert rows(clear, encrypted) == [("FALSE",)]


_TYPES: list[tuple[str, str, Any]] = [
    ("bit", "1", True),
    ("tinyint", "255", 255),
    ("smallint", "-32768", -32768),
    ("int", "-2147483648", -2147483648),
    ("bigint", "9223372036854775807", 9223372036854775807),
    (
        "decimal(38, 10)",
        "-1234567890123456789012345678.0123456789",
        Decimal("-1234567890123456789012345678.0123456789"),
    ),
    ("money", "-922337203685477.5808", Decimal("-922337203685477.5808")),
    ("smallmoney", "214748.3647", Decimal("214748.3647")),
    ("real", "0.5", 0.5),
    ("float", "-1.5E100", -1.5e100),
    ("date", "'2021-07-30'", dt.date(2021, 7, 30)),
    ("time(6)", "'23:59:59.999999'", dt.time(23, 59, 59, 999999)),
    ("datetime2(6)", "'2021-07-30T01:02:03.123456'", dt.datetime(2021, 7, 30, 1, 2, 3, 123456)),
    ("datetime", "'2021-07-30T01:00:00.003'", dt.datetime(2021, 7, 30, 1, 0, 0, 3000)),
    ("smalldatetime", "'2021-07-30T01:01:00'", dt.datetime(2021, 7, 30, 1, 1)),
    ("uniqueidentifier", "'6F9619FF-8B86-D011-B42D-00C04FC964FF'", UUID("6f9619ff-8b86-d011-b42d-00c04fc964ff")),
    ("char(5)", "'ab'", "ab   "),
    ("varchar(20)", "'naïve €'", "naïve €"),
    ("nchar(3)", "N'Ж'", "Ж  "),
    ("nvarchar(20)", "N'日本 🎉'", "日本 🎉"),
    ("binary(4)", "0x0102", b"\x01\x02\x00\x00"),
    ("varbinary(10)", "0x00FF", b"\x00\xff"),
]


def types(client: Client) -> None:
    connection = client.connect()
    columns = ", ".join(f"c{number} {name}" for number, (name, _, _) in enumerate(_TYPES))
    rows(connection, f"CREATE TABLE dbo.t ({columns})")
    rows(connection, f"INSERT dbo.t VALUES ({', '.join(literal for _, literal, _ in _TYPES)})")
    (found,) = rows(connection, "SELECT * FROM dbo.t")
    for (name, _, expected), value in zip(_TYPES, found, strict=True):
        if name == "uniqueidentifier" and isinstance(value, str):
            value = UUID(value)  # pyodbc answers text
        assert (name, value) == (name, expected)


def null(client: Client) -> None:
    connection = client.connect()
    columns = ", ".join(f"c{number} {name}" for number, (name, _, _) in enumerate(_TYPES))
    rows(connection, f"CREATE TABLE dbo.t ({columns}, m nvarchar(max), n varbinary(max), o varchar(max))")
    rows(connection, "INSERT dbo.t DEFAULT VALUES")
    assert rows(connection, "SELECT * FROM dbo.t") == [(None,) * (len(_TYPES) + 3)]
    # As a parameter too, in a comparison and in a column.
    assert rows(connection, f"SELECT COUNT(*) FROM dbo.t WHERE c3 = {client.mark}", None) == [(0,)]
    rows(connection, f"INSERT dbo.t (c3, c19) VALUES ({client.mark}, {client.mark})", 7, None)
    assert rows(connection, "SELECT c3, c19 FROM dbo.t WHERE c3 = 7") == [(7, None)]


def max_(client: Client) -> None:
    connection = client.connect()
    rows(connection, "CREATE TABLE dbo.t (id int, a varchar(max), b nvarchar(max), c varbinary(max))")
    mark = client.mark
    text, unicode, data = "x" * 1_000_000, "Ж" * 300_000 + "🎉", bytes(range(256)) * 4000
    if client.name == "python-tds":
        import pytds

        data = pytds.Binary(data)  # plain bytes are text to it
    sent = f"INSERT dbo.t VALUES ({mark}, {mark}, {mark}, {mark})"
    rows(connection, sent, 1, text, unicode, data)
    rows(connection, "INSERT dbo.t VALUES (2, '', N'', 0x)")
    assert rows(connection, "SELECT DATALENGTH(a), DATALENGTH(b), DATALENGTH(c) FROM dbo.t ORDER BY id") == [
        (1_000_000, 600_004, 1_024_000),
        (0, 0, 0),
    ]
    assert rows(connection, "SELECT a, b, c FROM dbo.t ORDER BY id") == [(text, unicode, data), ("", "", b"")]


def errors(client: Client) -> None:
    connection = client.connect()
    rows(connection, "CREATE TABLE dbo.k (a int NOT NULL CONSTRAINT pk_k PRIMARY KEY)")
    rows(connection, "INSERT dbo.k VALUES (1)")
    for sql, number, text in [
        ("SELECT * FROM dbo.nowhere", 208, "Invalid object name 'dbo.nowhere'"),
        ("INSERT dbo.k VALUES (1)", 2627, "Violation of PRIMARY KEY constraint 'pk_k'"),
        ("SELECT 1 / 0", 8134, "Divide by zero"),
        ("THROW 51000, 'CODE', 1", 51000, "CODE"),
        ("RAISERROR('said %d', 16, 1, 5)", 50000, "said 5"),
    ]:
        with pytest.raises(Exception, match=text) as caught:
            rows(connection, sql)
        assert client.number(caught.value) in ((number,) if client.name != "mssql-python" else (0,))
        assert rows(connection, "SELECT COUNT(*) FROM dbo.k") == [(1,)]


def cancel(client: Client) -> None:
    connection = client.connect(autocommit=False)
    rows(connection, "CREATE TABLE dbo.c (a int)")
    if client.name == "mssql-python":
        connection.timeout = 1  # it has no cancel; the driver's timeout sends the same attention
    cursor = connection.cursor()
    started = time.monotonic()
    if client.name == "python-tds":
        # Its cancel is for a result that is being read.
        cursor.execute("SELECT a.object_id FROM sys.all_columns a, sys.all_columns b, sys.all_columns c")
        assert cursor.fetchone()
        cursor.cancel()
    else:
        with (
            pytest.raises(Exception, match=r"(?i)cancel|timeout|HYT00|HY008|S1008"),
            contextlib.nullcontext() if client.name == "mssql-python" else cancelling(cursor),
        ):
            cursor.execute("WAITFOR DELAY '00:00:30'")
    assert time.monotonic() - started < 15
    assert rows(connection, "SELECT @@TRANCOUNT") == [(1,)]
    connection.rollback()
    assert rows(connection, "SELECT OBJECT_ID('dbo.c')") == [(None,)]


def transactions(client: Client) -> None:
    connection = client.connect(autocommit=False)
    rows(connection, "CREATE TABLE dbo.r (a int)")
    connection.commit()
    rows(connection, "INSERT dbo.r VALUES (1)")
    connection.rollback()
    rows(connection, "INSERT dbo.r VALUES (2)")
    assert rows(connection, "SELECT @@TRANCOUNT, XACT_STATE()") == [(1, 1)]
    connection.commit()
    # What T-SQL opened, the driver's commit ends; what the session left open, its end rolls back.
    other = client.connect()
    [(session,)] = rows(other, "SELECT CONVERT(int, @@SPID)")
    rows(other, "BEGIN TRANSACTION; INSERT dbo.r VALUES (3)")
    third = client.connect()
    other.close()
    there = f"SELECT COUNT(*) FROM sys.dm_exec_sessions WHERE session_id = {session}"
    end = time.monotonic() + 10
    while rows(third, there) != [(0,)]:
        assert time.monotonic() < end, "a session outlives its connection"
        time.sleep(0.05)
    assert rows(third, "SELECT a FROM dbo.r") == [(2,)]


def bulk(client: Client) -> None:
    connection = client.connect()
    rows(connection, "CREATE TABLE dbo.b (id int NOT NULL, name nvarchar(20), at datetime2(6), amount decimal(18, 4))")
    at = dt.datetime(2021, 7, 30, 1, 2, 3, 123456)
    given = [(n, None if n % 7 == 0 else f"name Ж {n}", at, Decimal(n) / 4) for n in range(5000)]
    if client.name == "mssql-python":
        assert connection.cursor().bulkcopy("dbo.b", given)["rows_copied"] == 5000
    elif client.name == "pymssql":
        connection.bulk_copy("dbo.b", [(n, name, str(at), str(amount)) for n, name, at, amount in given])
    else:
        import pytds
        from pytds.tds_types import DateTime2Type, DecimalType, IntType, NVarCharType

        columns = [
            pytds.Column("id", type=IntType()),
            pytds.Column("name", type=NVarCharType(20)),
            pytds.Column("at", type=DateTime2Type(precision=6)),
            pytds.Column("amount", type=DecimalType(precision=18, scale=4)),
        ]
        connection.cursor().copy_to(data=given, table_or_view="b", schema="dbo", columns=columns)
    found = rows(connection, "SELECT COUNT(*), COUNT(name), SUM(amount), MIN(at), MAX(name) FROM dbo.b")
    assert found == [(5000, 4285, sum(row[3] for row in given), at, "name Ж 999")]


ASPECTS: dict[str, Callable[[Client], None]] = {
    "login": login,
    "types": types,
    "null": null,
    "max": max_,
    "errors": errors,
    "cancel": cancel,
    "transactions": transactions,
    "bulk": bulk,
}


@pytest.mark.parametrize("aspect", ASPECTS)
def test_client(client: Client, aspect: str) -> None:
    if (client.name, aspect) in CANNOT:
        _, shows = CANNOT[client.name, aspect]
        shows(client)
    else:
        ASPECTS[aspect](client)


def test_what_cannot_be_done_is_part_of_the_matrix() -> None:
    for client, aspect in CANNOT:
        assert client in CLIENTS
        assert aspect in ASPECTS
