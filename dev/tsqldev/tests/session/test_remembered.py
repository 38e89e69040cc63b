"""What is remembered is what the server would answer now: after every kind of change, and for everyone who asks."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

import pytest
from tsqldev.pytest_plugin import TsqlServer

from .session_client import Client, Connect

PASSWORD = "Rem3mber!" + secrets.token_hex(4)
TABLES = "SELECT COUNT(*) FROM sys.tables"


@pytest.fixture
def reader(tsql_server: TsqlServer, tsql_database: str) -> Iterator[str]:
    """A login with a user of the same name in the test's database. Tests ask for it first: its sessions end before it."""
    name = f"reader_{secrets.token_hex(4)}"
    dba = Client(tsql_server.connect("python-tds", database=tsql_database))
    dba.run(f"CREATE LOGIN [{name}] WITH PASSWORD = '{PASSWORD}'; CREATE USER [{name}] FOR LOGIN [{name}]")
    yield name
    dba.run(f"DROP USER [{name}]")
    for _ in range(100):
        if not dba.rows(f"SELECT 1 FROM sys.dm_exec_sessions WHERE original_login_name = N'{name}'"):
            break
        dba.run("WAITFOR DELAY '00:00:00.050'")
    dba.run(f"DROP LOGIN [{name}]")
    dba.close()


def twice(client: Client, sql: str, *parameters: object) -> object:
    """The answer of a question that is asked again."""
    first = client.value(sql, *parameters)
    assert client.value(sql, *parameters) == first
    return first


def test_a_change_of_another_session(one: Client, two: Client) -> None:
    assert twice(one, TABLES) == 0
    assert twice(one, "SELECT OBJECT_ID(N'dbo.t')") is None
    two.run("CREATE TABLE dbo.t (a int)")
    assert twice(one, TABLES) == 1
    assert twice(one, "SELECT OBJECT_ID(N'dbo.t')") is not None
    assert twice(one, "SELECT name FROM sys.columns WHERE object_id = OBJECT_ID(N'dbo.t')") == "a"
    two.run("EXEC sp_rename N'dbo.t.a', N'b', N'COLUMN'")
    assert twice(one, "SELECT name FROM sys.columns WHERE object_id = OBJECT_ID(N'dbo.t')") == "b"
    properties = "SELECT COUNT(*) FROM sys.extended_properties WHERE name = N'p'"
    assert twice(one, properties) == 0
    two.run("EXEC sp_addextendedproperty N'p', N'v'")
    assert twice(one, properties) == 1


def test_a_change_that_is_taken_back(one: Client, two: Client) -> None:
    assert twice(one, TABLES) == 0
    one.run("BEGIN TRANSACTION; CREATE TABLE dbo.t (a int)")
    assert twice(one, TABLES) == 1
    one.run("ROLLBACK")
    assert twice(one, TABLES) == 0
    one.run("BEGIN TRANSACTION; SAVE TRANSACTION s; CREATE TABLE dbo.t (a int)")
    assert twice(one, TABLES) == 1
    one.run("ROLLBACK TRANSACTION s")
    assert twice(one, TABLES) == 0
    one.run("COMMIT")
    assert twice(two, TABLES) == 0
    one.run("BEGIN TRANSACTION; CREATE TABLE dbo.t (a int)")
    one.run("COMMIT")
    assert twice(two, TABLES) == 1


def test_two_transactions_whose_changes_are_interleaved(one: Client, two: Client, connect: Connect) -> None:
    """They made the first and fourth, and the second and third of five changes: as many, with the same sum and maximum."""
    one.run("BEGIN TRANSACTION; CREATE TABLE dbo.first (a int)")
    two.run("BEGIN TRANSACTION; CREATE TABLE dbo.second (a int); CREATE TABLE dbo.third (a int)")
    one.run("CREATE TABLE dbo.fourth (a int)")
    connect().run("CREATE TABLE dbo.fifth (a int)")
    there = "SELECT CASE WHEN OBJECT_ID(N'dbo.first') IS NULL THEN 0 ELSE 1 END"
    assert (twice(one, there), twice(two, there)) == (1, 0)
    assert two.error("SELECT a FROM dbo.first") == 208


@pytest.mark.parametrize("isolation", ["SNAPSHOT", "READ COMMITTED"])
def test_definitions_in_a_transaction(one: Client, two: Client, isolation: str) -> None:
    """A snapshot is taken by the first look at anything; it then holds for definitions too, as for the rows beside them."""
    two.run("CREATE TABLE dbo.first (a int)")
    one.run(
        "DECLARE @s nvarchar(300) = N'ALTER DATABASE ' + QUOTENAME(DB_NAME()) + N' SET ALLOW_SNAPSHOT_ISOLATION ON'; EXEC (@s)"
    )
    assert twice(one, TABLES) == 1
    one.run(f"SET TRANSACTION ISOLATION LEVEL {isolation}; BEGIN TRANSACTION")
    assert twice(one, TABLES) == 1
    two.run("CREATE TABLE dbo.second (a int)")
    assert twice(two, TABLES) == 2
    assert twice(one, TABLES) == (1 if isolation == "SNAPSHOT" else 2)
    one.run("COMMIT")
    assert twice(one, TABLES) == 2


def test_the_first_look_at_definitions_takes_the_snapshot(one: Client, two: Client) -> None:
    two.run("CREATE TABLE dbo.t (a int)")
    one.run(
        "DECLARE @s nvarchar(300) = N'ALTER DATABASE ' + QUOTENAME(DB_NAME()) + N' SET ALLOW_SNAPSHOT_ISOLATION ON'; EXEC (@s)"
    )
    assert twice(one, TABLES) == 1
    one.run("SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRANSACTION")
    assert one.value(TABLES) == 1
    two.run("INSERT INTO dbo.t VALUES (1)")
    assert one.value("SELECT COUNT(*) FROM dbo.t") == 0
    one.run("COMMIT")
    assert one.value("SELECT COUNT(*) FROM dbo.t") == 1


def test_rights_of_another_session(reader: str, one: Client, connect: Connect) -> None:
    """Granted, denied and revoked rights hold at once: for a statement, for what is seen, and for what is told."""
    one.run("CREATE TABLE dbo.t (a int); INSERT INTO dbo.t VALUES (1)")
    other = connect(user=reader, password=PASSWORD)
    told = "SELECT HAS_PERMS_BY_NAME(N'dbo.t', N'OBJECT', N'SELECT')"
    rows = "SELECT a FROM dbo.t"

    def refused() -> None:
        assert (twice(other, TABLES), twice(other, told)) in ((0, 0), (0, None))
        assert other.error(rows) == other.error(rows) == 229

    def allowed() -> None:
        assert (twice(other, TABLES), twice(other, told), twice(other, rows)) == (1, 1, 1)

    refused()
    one.run(f"GRANT SELECT ON dbo.t TO [{reader}]")
    allowed()
    one.run(f"DENY SELECT ON dbo.t TO [{reader}]")
    assert other.error(rows) == 229
    one.run(f"REVOKE SELECT ON dbo.t FROM [{reader}]")
    refused()
    one.run(f"ALTER ROLE db_datareader ADD MEMBER [{reader}]")
    allowed()
    one.run(f"ALTER ROLE db_datareader DROP MEMBER [{reader}]")
    refused()
    one.run(f"BEGIN TRANSACTION; GRANT SELECT ON dbo.t TO [{reader}]; ROLLBACK")
    refused()


def test_who_asks_and_where(reader: str, one: Client, connect: Connect) -> None:
    one.run("CREATE TABLE dbo.t (a int)")
    other = connect(user=reader, password=PASSWORD)
    assert (twice(one, TABLES), twice(other, TABLES)) == (1, 0)
    assert (twice(one, "SELECT SUSER_SNAME()"), twice(other, "SELECT SUSER_SNAME()")) == ("sa", reader)
    one.run(f"EXECUTE AS LOGIN = N'{reader}'")
    assert twice(one, TABLES) == 0
    one.run("REVERT")
    assert twice(one, TABLES) == 1
    assert one.rows(f"{TABLES}; USE master; SELECT DB_NAME(), (SELECT COUNT(*) FROM sys.tables WHERE name = N't')") == [
        ("master", 0)
    ]


def test_a_login_that_is_changed(
    reader: str, one: Client, connect: Connect, refused: Callable[[str, str], None]
) -> None:
    connect(user=reader, password=PASSWORD).close()
    connect(user=reader, password=PASSWORD).close()
    one.run(f"ALTER LOGIN [{reader}] DISABLE")
    refused(reader, PASSWORD)
    one.run(f"ALTER LOGIN [{reader}] ENABLE")
    connect(user=reader, password=PASSWORD).close()
    one.run(f"ALTER LOGIN [{reader}] WITH PASSWORD = N'An0ther-{PASSWORD}'")
    refused(reader, PASSWORD)
    connect(user=reader, password=f"An0ther-{PASSWORD}").close()
    database = one.value("SELECT DB_NAME()")
    one.run(f"USE master; DENY CONNECT SQL TO [{reader}]")
    refused(reader, f"An0ther-{PASSWORD}")
    one.run(f"GRANT CONNECT SQL TO [{reader}]; USE [{database}]")
    one.run(f"DROP USER [{reader}]")
    refused(reader, f"An0ther-{PASSWORD}")
    one.run(f"CREATE USER [{reader}] FOR LOGIN [{reader}]")
    assert connect(user=reader, password=f"An0ther-{PASSWORD}").value("SELECT DB_NAME()") == database


@pytest.fixture
def refused(tsql_server: TsqlServer, tsql_database: str) -> Callable[[str, str], None]:
    # python-tds tries a refused login again for half a minute.
    import pymssql

    def check(user: str, password: str) -> None:
        for _ in range(2):
            with pytest.raises(pymssql.exceptions.OperationalError):
                tsql_server.connect("pymssql", user=user, password=password, database=tsql_database)

    return check


def test_a_logon_trigger_that_comes_and_goes(
    reader: str, one: Client, connect: Connect, refused: Callable[[str, str], None]
) -> None:
    name = f"gate_{secrets.token_hex(4)}"
    connect(user=reader, password=PASSWORD).close()
    one.run(
        "USE master; EXEC (N'CREATE TRIGGER "
        + name
        + f" ON ALL SERVER FOR LOGON AS IF ORIGINAL_LOGIN() = N''{reader}'' ROLLBACK')"
    )
    try:
        refused(reader, PASSWORD)
        one.run(f"DISABLE TRIGGER {name} ON ALL SERVER")
        connect(user=reader, password=PASSWORD).close()
        one.run(f"ENABLE TRIGGER {name} ON ALL SERVER")
        refused(reader, PASSWORD)
    finally:
        one.run(f"DROP TRIGGER {name} ON ALL SERVER")
    connect(user=reader, password=PASSWORD).close()


def test_options_and_session_values(one: Client) -> None:
    assert twice(one, "SELECT @@LOCK_TIMEOUT") == -1
    one.run("SET LOCK_TIMEOUT 50")
    assert twice(one, "SELECT @@LOCK_TIMEOUT") == 50
    numbers = "SELECT n FROM (VALUES (1), (2), (3)) v (n)"
    assert len(one.rows(numbers)) == len(one.rows(numbers)) == 3
    one.run("SET ROWCOUNT 2")
    assert len(one.rows(numbers)) == len(one.rows(numbers)) == 2
    one.run("SET ROWCOUNT 0")
    assert len(one.rows(numbers)) == 3
    assert twice(one, "SELECT @@TRANCOUNT") == 0
    one.run("BEGIN TRANSACTION")
    assert twice(one, "SELECT @@TRANCOUNT") == 1
    one.run("ROLLBACK")


def test_values_that_only_python_takes_for_equal(one: Client) -> None:
    texts = ["CAST(1 AS bit)", "CAST(1 AS int)", "CAST(1.0 AS decimal(5, 1))", "N'1'", "'1'", "0x31"]
    for _ in range(2):
        assert [one.value(f"SELECT DATALENGTH({text})") for text in texts] == [1, 4, 5, 2, 1, 1]
        given = [
            one.value(f"DECLARE @x decimal(9, 4) = {number}; SELECT CAST(@x AS varchar(20))")
            for number in ("1", "1.50", "2.0")
        ]
        assert given == ["1.0000", "1.5000", "2.0000"]


def test_what_goes_on_by_itself_is_never_remembered(one: Client) -> None:
    one.run("CREATE TABLE dbo.t (id int IDENTITY(1, 1), a int)")
    last = "SELECT CAST(last_value AS int) FROM sys.identity_columns WHERE object_id = OBJECT_ID(N'dbo.t')"
    rows = "SELECT SUM(rows) FROM sys.partitions WHERE object_id = OBJECT_ID(N'dbo.t') AND index_id < 2"
    for number in (1, 2, 3):
        one.run("INSERT INTO dbo.t (a) VALUES (1)")
        assert one.value(last) == number
        assert one.value(rows) == number
        assert one.value("SELECT CAST(IDENT_CURRENT(N'dbo.t') AS int)") == number
    assert one.value("SELECT NEWID()") != one.value("SELECT NEWID()")
    assert one.value("SELECT SYSUTCDATETIME()") < one.value("SELECT SYSUTCDATETIME()")


def test_temporary_tables_are_no_definitions(one: Client, two: Client) -> None:
    there = "SELECT CASE WHEN OBJECT_ID(N'tempdb..#x') IS NULL THEN 0 ELSE 1 END"
    assert twice(one, there) == 0
    one.run("CREATE TABLE #x (a int)")
    assert (twice(one, there), twice(two, there)) == (1, 0)
    one.run("DROP TABLE #x")
    assert twice(one, there) == 0


def test_a_variable_keeps_its_value_where_no_row_is_found(one: Client) -> None:
    for _ in range(2):
        assert (
            one.value(
                "DECLARE @n nvarchar(128) = N'none'; SELECT @n = name FROM sys.tables WHERE name = N'no such'; SELECT @n"
            )
            == "none"
        )
        assert one.row("DECLARE @n int; SELECT @n = v.n FROM (VALUES (1), (2)) v (n); SELECT @n, @@ROWCOUNT") == (2, 2)


def test_an_error_is_an_error_each_time(one: Client) -> None:
    for _ in range(2):
        assert one.error("SELECT 1 / 0") == 8134
        assert one.error("SELECT CAST(N'x' AS int)") == 245


def test_more_rows_than_are_remembered(one: Client) -> None:
    many = "WITH n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) SELECT i FROM n OPTION (MAXRECURSION 1000)"
    for _ in range(2):
        assert [row[0] for row in one.rows(many)] == list(range(1, 1001))
