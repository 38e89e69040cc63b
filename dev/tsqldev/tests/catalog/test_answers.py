"""What the answer of a query rests on: only what definitions and values fix may be remembered."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest
from tsqldev.catalog import Catalog
from tsqldev.compile import CompileContext, Compiler
from tsqldev.pgserver import PostgresProcess
from tsqldev.session import dmvs
from tsqldev.session.answers import Answers, Rests
from tsqldev.types import INT, nvarchar

from .support import Session

VARIABLES = {"@x": INT, "@t": nvarchar(100)}


@pytest.fixture
def rests(postgres: PostgresProcess) -> Iterator[Callable[[str], Rests]]:
    with psycopg.connect(postgres.conninfo()) as connection:
        answers = Answers(connection)
        compiler = Compiler(Catalog(connection, dmvs.COLUMNS), CompileContext("master", 1, variables=VARIABLES))
        yield lambda text: answers.rests_on(compiler.statement(text))


CASES = {
    Rests.VALUES: [
        "SELECT 1",
        "SELECT @x + 1, UPPER(@t)",
        "SELECT CASE WHEN @x > 3 THEN N'data.t1 now()' ELSE 'pg_temp.x' END",
        "SELECT CONVERT(varchar(64), HASHBYTES('SHA2_256', @t), 2)",
        "SELECT @@SPID, @@TRANCOUNT, XACT_STATE()",
    ],
    Rests.DEFINITIONS: [
        "SELECT COUNT(*) FROM sys.columns",
        "SELECT STRING_AGG(o.name, ',') WITHIN GROUP (ORDER BY o.name) FROM sys.objects o WHERE o.type = 'U'",
        "SELECT OBJECT_ID(N'dbo.x'), DB_ID(), SUSER_SNAME(), HAS_PERMS_BY_NAME(NULL, NULL, 'CONTROL SERVER')",
        "SELECT name FROM sys.database_permissions p JOIN sys.schemas s ON s.schema_id = p.major_id",
        "SELECT definition FROM sys.sql_modules",
    ],
    Rests.DATA: [
        "SELECT SYSUTCDATETIME()",
        "SELECT GETDATE(), @x",
        "SELECT CURRENT_TIMESTAMP",
        "SELECT NEWID()",
        "SELECT RAND()",
        "SELECT IDENT_CURRENT(N'dbo.x')",
        "SELECT last_value FROM sys.identity_columns",
        "SELECT rows FROM sys.partitions",
        "SELECT DATEDIFF(day, create_date, SYSDATETIME()) FROM sys.objects",
        "SELECT session_id FROM sys.dm_exec_sessions",
        "SELECT * INTO #x FROM sys.objects",
        "SELECT APPLOCK_MODE(N'public', @t, N'Session')",
    ],
}


@pytest.mark.parametrize(("text", "on"), [(text, on) for on, texts in CASES.items() for text in texts])
def test_what_an_answer_rests_on(rests: Callable[[str], Rests], text: str, on: Rests) -> None:
    assert rests(text) is on


def test_a_function_that_asks_the_clock_somewhere_inside_is_seen(postgres: PostgresProcess) -> None:
    with psycopg.connect(postgres.conninfo()) as connection:
        connection.execute("create function meta.late() returns int8 stable language sql return sys.sysdatetime()")
        connection.execute(
            "create function meta.later() returns int8 stable language sql as 'select meta.late() -- it''s'"
        )
        connection.execute(
            "create function meta.early() returns int stable language sql as 'select count(*) from meta.logins'"
        )
        answers = Answers(connection)
        connection.rollback()
    assert answers.of_text("SELECT meta.later()") is Rests.DATA
    assert answers.of_text('SELECT "meta"."later" ()') is Rests.DATA
    assert answers.of_text("SELECT meta.early()") is Rests.DEFINITIONS
    assert answers.of_text("SELECT E'\\'' || sys.sysdatetime() || ''") is Rests.DATA
    assert answers.of_text("SELECT c1 FROM data.t5") is Rests.DATA


def test_rights_change_no_names(writer: Session) -> None:
    """Logins, users, members and rights come and go all the time: what texts mean stays compiled."""
    writer.run("CREATE TABLE dbo.t (a int)")
    writer.run("CREATE ROLE readers")
    writer.run("CREATE USER module WITHOUT LOGIN")
    for text, names in (
        ("CREATE LOGIN other WITH PASSWORD = N'Abcdefg1!'", False),
        ("ALTER LOGIN other DISABLE", False),
        ("CREATE USER other FOR LOGIN other", False),
        ("ALTER ROLE readers ADD MEMBER other", False),
        ("GRANT SELECT ON dbo.t TO other", False),
        ("DENY SELECT ON dbo.t TO other", False),
        ("ALTER USER other WITH NAME = another", True),
        ("DROP USER another", False),
        ("DROP LOGIN other", False),
        ("CREATE PROCEDURE dbo.p WITH EXECUTE AS 'module' AS SELECT 1", True),
        ("ALTER AUTHORIZATION ON OBJECT::dbo.t TO writer", True),
        ("CREATE TRIGGER dbo.tr ON dbo.t AFTER INSERT AS RETURN", True),
        ("DISABLE TRIGGER dbo.tr ON dbo.t", True),
        ("CREATE SCHEMA s", True),
        ("ALTER TABLE dbo.t ADD b int", True),
        ("DROP USER module", True),
    ):
        before, before_names = writer.catalog.version, writer.catalog.names_version
        writer.run(text)
        assert writer.catalog.version != before, text
        assert (writer.catalog.names_version != before_names) is names, text
