"""What a client with few rights meets: logins, rights, ownership chains, impersonation and LOGON triggers."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import mssql_python
import pytds
import pytest
from tsqldev.pytest_plugin import TsqlServer

PASSWORD = "Correct-Horse-1"

Run = Callable[[str], list[tuple[Any, ...]]]


def runner(connection: Any) -> Run:
    """Runs a batch and answers its last rows."""

    def run(batch: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        with closing(connection.cursor()) as cursor:
            cursor.execute(batch)
            while True:
                if cursor.description:
                    rows = [tuple(row) for row in cursor.fetchall()]
                if not cursor.nextset():
                    return rows

    return run


def number(run: Run, batch: str) -> int:
    """The error number with which a batch ends."""
    with pytest.raises(pytds.tds_base.DatabaseError) as caught:
        run(batch)
    return int(caught.value.number)


@pytest.fixture
def admin(tsql_server: TsqlServer, tsql_database: str) -> Iterator[Run]:
    with closing(tsql_server.connect("python-tds", database=tsql_database)) as connection:
        yield runner(connection)


@pytest.fixture
def login(admin: Run) -> Iterator[str]:
    """A login with a user of its name in the database, in role `writers`."""
    name = f"writer_{secrets.token_hex(4)}"
    admin(f"CREATE LOGIN [{name}] WITH PASSWORD = N'{PASSWORD}', CHECK_POLICY = ON, CHECK_EXPIRATION = OFF")
    admin(f"CREATE USER [{name}] FOR LOGIN [{name}]; CREATE ROLE writers; ALTER ROLE writers ADD MEMBER [{name}]")
    yield name
    # The server may notice a closed connection a moment later; until then the login is in use.
    for _ in range(50):
        if not admin(f"SELECT 1 FROM sys.dm_exec_sessions WHERE original_login_name = N'{name}'"):
            break
        time.sleep(0.1)
    admin(f"DROP USER [{name}]; DROP LOGIN [{name}]")


@pytest.fixture
def writer(tsql_server: TsqlServer, tsql_database: str, login: str) -> Iterator[Run]:
    with closing(
        tsql_server.connect("python-tds", user=login, password=PASSWORD, database=tsql_database)
    ) as connection:
        yield runner(connection)


def refused(server: TsqlServer, login: str, password: str, database: str) -> None:
    # python-tds would try again until its time is up.
    with pytest.raises(mssql_python.Error):
        server.connect("mssql-python", user=login, password=password, database=database)


def test_a_login_is_refused_for_its_password_its_state_and_its_database(
    tsql_server: TsqlServer, tsql_database: str, admin: Run, login: str
) -> None:
    refused(tsql_server, login, "wrong", tsql_database)
    refused(tsql_server, login, PASSWORD, "no_such_database")
    with closing(
        tsql_server.connect("python-tds", user=login, password=PASSWORD, database=tsql_database)
    ) as connection:
        assert runner(connection)("SELECT SUSER_SNAME(), USER_NAME(), DB_NAME()") == [(login, login, tsql_database)]
    admin(f"ALTER LOGIN [{login}] DISABLE")
    refused(tsql_server, login, PASSWORD, tsql_database)


def test_rights_by_schema_role_and_deny(admin: Run, login: str, writer: Run) -> None:
    admin("CREATE SCHEMA mart")
    admin("GRANT SELECT, INSERT ON SCHEMA::mart TO writers")
    admin("CREATE TABLE mart.later (i int)")
    writer("INSERT INTO mart.later VALUES (1)")
    assert writer("SELECT i FROM mart.later") == [(1,)]
    assert number(writer, "DELETE FROM mart.later") == 229
    admin(f"DENY SELECT ON mart.later TO [{login}]")
    assert number(writer, "SELECT i FROM mart.later") == 229
    assert writer("SELECT HAS_PERMS_BY_NAME('mart.later', 'OBJECT', 'SELECT')") == [(0,)]
    admin(f"REVOKE SELECT ON mart.later FROM [{login}]")
    assert writer("SELECT i FROM mart.later") == [(1,)]


def test_a_procedure_reaches_what_its_owner_owns(admin: Run, login: str, writer: Run) -> None:
    admin("CREATE TABLE dbo.journal (i int)")
    admin("CREATE PROCEDURE dbo.record @i int AS INSERT INTO dbo.journal VALUES (@i)")
    assert number(writer, "EXEC dbo.record 1") == 229
    admin(f"GRANT EXECUTE ON dbo.record TO [{login}]")
    writer("EXEC dbo.record 1")
    assert number(writer, "INSERT INTO dbo.journal VALUES (2)") == 229
    assert admin("SELECT i FROM dbo.journal") == [(1,)]


def test_definitions_need_rights_of_their_own(admin: Run, writer: Run) -> None:
    assert number(writer, "CREATE TABLE dbo.t (i int)") == 262
    admin("GRANT CREATE TABLE TO writers")
    assert number(writer, "CREATE TABLE dbo.t (i int)") == 2760
    assert number(writer, "CREATE LOGIN another WITH PASSWORD = 'Correct-Horse-2'") == 15247
    assert number(writer, "EXECUTE AS LOGIN = 'sa'") == 15406


def test_impersonation_is_confined_and_ends(admin: Run, login: str) -> None:
    rows = admin(f"EXECUTE AS LOGIN = N'{login}'; SELECT SUSER_SNAME(), ORIGINAL_LOGIN(), IS_SRVROLEMEMBER('sysadmin')")
    assert re.fullmatch(r"writer_\w+", rows[0][0]) and rows[0][1] != login and rows[0][2] == 0
    assert number(admin, "ALTER DATABASE CURRENT SET TRUSTWORTHY ON") in (5011, 5069, 15247)
    admin("REVERT")
    assert admin("SELECT IS_SRVROLEMEMBER('sysadmin')") == [(1,)]


def test_a_rolled_back_transaction_leaves_no_principal(admin: Run) -> None:
    name = f"gone_{secrets.token_hex(4)}"
    admin(
        f"BEGIN TRANSACTION; CREATE LOGIN [{name}] WITH PASSWORD = N'{PASSWORD}';"
        f" CREATE USER [{name}] FOR LOGIN [{name}]; ROLLBACK"
    )
    assert admin(f"SELECT SUSER_ID(N'{name}'), DATABASE_PRINCIPAL_ID(N'{name}')") == [(None, None)]


def test_a_logon_trigger_decides(tsql_server: TsqlServer, tsql_database: str, admin: Run, login: str) -> None:
    trigger = f"gate_{secrets.token_hex(4)}"
    admin(f"CREATE TRIGGER [{trigger}] ON ALL SERVER FOR LOGON AS IF ORIGINAL_LOGIN() = N'{login}' ROLLBACK")
    try:
        refused(tsql_server, login, PASSWORD, tsql_database)
        admin(f"DISABLE TRIGGER [{trigger}] ON ALL SERVER")
        tsql_server.connect("python-tds", user=login, password=PASSWORD, database=tsql_database).close()
    finally:
        admin(f"DROP TRIGGER [{trigger}] ON ALL SERVER")


def test_a_connected_login_is_not_dropped(admin: Run, login: str, writer: Run) -> None:
    assert writer("SELECT 1") == [(1,)]
    assert number(admin, f"DROP LOGIN [{login}]") == 15434
