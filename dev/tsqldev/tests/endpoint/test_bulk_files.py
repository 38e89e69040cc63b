"""BULK INSERT and OPENROWSET(BULK ...) of a file of the server's machine: an administrator's, and refused to others."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tsqldev.pytest_plugin import TsqlServer

# The file must be on the server's machine.
pytestmark = pytest.mark.skipif("MSSQL_TEST_DSN" in os.environ, reason="the server may run on another machine")

_TABLE = "CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, name nvarchar(10), at datetime2(0), amount decimal(9, 2))"


@pytest.fixture
def connection(tsql_server: TsqlServer, tsql_database: str) -> Iterator[Any]:
    connection = tsql_server.connect(database=tsql_database)
    yield connection
    connection.close()


@pytest.fixture
def file(tmp_path: Path) -> Callable[[bytes], str]:
    def write(data: bytes) -> str:
        path = tmp_path / "it's a file.txt"
        path.write_bytes(data)
        return str(path).replace("'", "''")

    return write


def _rows(connection: Any, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in connection.execute(sql).fetchall()]


def _number(connection: Any, sql: str) -> int:
    """The number of the error that a statement ends with; 0 for none."""
    connection.execute("CREATE TABLE #error (number int)")
    text = sql.replace("'", "''")
    connection.execute(f"BEGIN TRY EXEC (N'{text}') END TRY BEGIN CATCH INSERT #error SELECT ERROR_NUMBER() END CATCH")
    found = _rows(connection, "SELECT number FROM #error")
    connection.execute("DROP TABLE #error")
    return found[0][0] if found else 0


def test_a_file_of_tabs_and_lines_is_loaded(connection: Any, file: Callable[[bytes], str]) -> None:
    path = file(b"1\tone\t2024-02-29 23:59:59\t12.50\r\n2\t\t\t-1\r\n")
    connection.execute(_TABLE)
    connection.execute(f"BULK INSERT dbo.t FROM '{path}'")
    assert _rows(
        connection, "SELECT id, name, CONVERT(varchar(19), at, 120), CONVERT(varchar(20), amount) FROM dbo.t"
    ) == [
        (1, "one", "2024-02-29 23:59:59", "12.50"),
        (2, None, None, "-1.00"),
    ]


def test_csv_with_quotes_a_heading_and_unix_lines(connection: Any, file: Callable[[bytes], str]) -> None:
    path = file('id,name,at,amount\n1,"a, ""b""",2024-01-01,1\n2,Žofie,,\n'.encode())
    connection.execute(_TABLE)
    connection.execute(
        f"BULK INSERT dbo.t FROM '{path}' WITH "
        "(FORMAT = 'CSV', FIRSTROW = 2, CODEPAGE = '65001', ROWTERMINATOR = '0x0a', TABLOCK)"
    )
    assert _rows(connection, "SELECT id, name, amount FROM dbo.t ORDER BY id")[0][1] == 'a, "b"'
    assert _rows(connection, "SELECT name FROM dbo.t WHERE id = 2") == [("Žofie",)]


@pytest.mark.parametrize(
    ("data", "number"),
    [
        (b"1\tone\t2024-01-01\tmuch\r\n", 4864),
        (b"1\ta name too long\t\t\r\n", 4863),
        (b"1\tone\r\n", 4832),
        (b"1\ta\t\t\r\n1\tb\t\t\r\n", 2627),
    ],
)
def test_a_file_that_does_not_fit_loads_nothing(
    connection: Any, file: Callable[[bytes], str], data: bytes, number: int
) -> None:
    path = file(data)
    connection.execute(_TABLE)
    assert _number(connection, f"BULK INSERT dbo.t FROM '{path}'") == number
    assert _rows(connection, "SELECT COUNT(*) FROM dbo.t") == [(0,)]


def test_the_whole_file_is_one_value(connection: Any, file: Callable[[bytes], str]) -> None:
    data = bytes(range(256)) * 100
    path = file(data)
    assert _rows(connection, f"SELECT * FROM OPENROWSET(BULK '{path}', SINGLE_BLOB) AS f") == [(data,)]
    assert _rows(
        connection,
        f"SELECT DATALENGTH(f.BulkColumn), HASHBYTES('MD5', x.b) FROM OPENROWSET(BULK N'{path}', SINGLE_BLOB) f"
        f" CROSS JOIN (SELECT CAST(0x00 AS varbinary(9)) AS b) x",
    )[0][0] == len(data)
    path = file("naïve €".encode("cp1252"))
    assert _rows(connection, f"SELECT BulkColumn FROM OPENROWSET(BULK '{path}', SINGLE_CLOB) AS f") == [("naïve €",)]
    assert _number(connection, f"SELECT * FROM OPENROWSET(BULK '{path}', SINGLE_NCLOB) AS f") == 4809
    path = file("日本".encode("utf-16"))
    assert _rows(connection, f"SELECT BulkColumn FROM OPENROWSET(BULK '{path}', SINGLE_NCLOB) AS f") == [("日本",)]


def test_a_file_that_is_not_there_and_a_row_set_without_a_name(connection: Any, tmp_path: Path) -> None:
    connection.execute(_TABLE)
    assert _number(connection, f"BULK INSERT dbo.t FROM '{tmp_path}/nothing'") == 4860
    assert _number(connection, f"BULK INSERT dbo.t FROM '{tmp_path}'") == 4861
    assert _number(connection, f"SELECT * FROM OPENROWSET(BULK '{tmp_path}/nothing', SINGLE_BLOB) AS f") == 4860
    assert _number(connection, f"SELECT * FROM OPENROWSET(BULK '{tmp_path}/nothing', SINGLE_BLOB)") == 491


def _drop_login(connection: Any, login: str) -> None:
    """A login can be dropped when its last session is gone, which is soon after the client closed it."""
    end = time.monotonic() + 10
    while _number(connection, f"DROP LOGIN [{login}]") and time.monotonic() < end:
        time.sleep(0.05)
    assert _rows(connection, f"SELECT SUSER_ID('{login}')") == [(None,)]


def test_nobody_else_reads_a_file(
    connection: Any, tsql_server: TsqlServer, tsql_database: str, file: Callable[[bytes], str]
) -> None:
    path = file(b"1\tone\t\t\r\n")
    connection.execute(_TABLE)
    login = f"loader_{tsql_database}"
    connection.execute(f"CREATE LOGIN [{login}] WITH PASSWORD = 'aA1!aA1!aA1!', CHECK_POLICY = OFF")
    connection.execute(f"CREATE USER [{login}] FOR LOGIN [{login}]; ALTER ROLE db_owner ADD MEMBER [{login}]")
    other = tsql_server.connect(user=login, password="aA1!aA1!aA1!", database=tsql_database)
    try:
        # Everything in the database is theirs; the server's files are not.
        assert _number(other, f"BULK INSERT dbo.t FROM '{path}'") == 4834
        assert _number(other, f"SELECT * FROM OPENROWSET(BULK '{path}', SINGLE_BLOB) AS f") == 4834
        assert _number(other, "SELECT * FROM OPENROWSET(BULK '/nowhere', SINGLE_BLOB) AS f") == 4834
        assert _rows(other, "SELECT COUNT(*) FROM dbo.t") == [(0,)]
        # Its user in the database, without the login, has no right at the server.
        connection.execute("USE master")
        connection.execute(f"GRANT ADMINISTER BULK OPERATIONS TO [{login}]")
        connection.execute(f"USE [{tsql_database}]")
        assert _number(other, f"BULK INSERT dbo.t FROM '{path}'") == 0
        assert _rows(other, "SELECT id FROM dbo.t") == [(1,)]
        connection.execute(f"EXECUTE AS USER = '{login}'")
        assert _number(connection, f"BULK INSERT dbo.t FROM '{path}'") == 4834
        connection.execute("REVERT")
        # To load, one must also be allowed to insert.
        connection.execute(f"ALTER ROLE db_owner DROP MEMBER [{login}]")
        assert _number(other, f"BULK INSERT dbo.t FROM '{path}'") == 229
    finally:
        other.close()
        connection.execute(f"DROP USER [{login}]")
        _drop_login(connection, login)


def test_what_is_not_emulated_is_refused_by_name(connection: Any, file: Callable[[bytes], str]) -> None:
    path = file(b"1\r\n")
    connection.execute(_TABLE)
    for options in (
        "BATCHSIZE = 5",
        "MAXERRORS = 3",
        "FORMATFILE = '/x'",
        "DATAFILETYPE = 'native'",
        "CODEPAGE = '932'",
    ):
        with pytest.raises(Exception, match=options.split()[0]):
            connection.execute(f"BULK INSERT dbo.t FROM '{path}' WITH ({options})")
    with pytest.raises(Exception, match="FORMATFILE"):
        connection.execute(f"SELECT * FROM OPENROWSET(BULK '{path}', FORMATFILE = '/x') AS f")
