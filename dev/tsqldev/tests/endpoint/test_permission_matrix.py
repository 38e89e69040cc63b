"""Who may what, generated: every pair of a grant and a denial, by grantee and level, and each way to a table.

The rule, from "Permissions (Database Engine)": a right is held if it is granted to one of the caller's identities at one
of the levels above the securable, and denied to none of them at any. Ownership chains skip the question; EXECUTE AS asks
it of the other principal.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import product

import pytest
from tsqldev.pytest_plugin import TsqlServer

from .test_security import PASSWORD, Run, number, runner

RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE", "EXECUTE")
GRANTEES = ("[{user}]", "team", "guild", "public")  # guild has team as a member, and team the user
LEVELS = ("object", "SCHEMA::mart", "database")

# What is done to find out, and on what the right is asked for.
ATTEMPTS = {
    "SELECT": ("SELECT a FROM mart.t", "mart.t"),
    "INSERT": ("INSERT INTO mart.t VALUES (1)", "mart.t"),
    "UPDATE": ("UPDATE mart.t SET a = 1", "mart.t"),
    "DELETE": ("DELETE FROM mart.t", "mart.t"),
    "EXECUTE": ("EXEC mart.p", "mart.p"),
}
FIXED = {
    "db_datareader": ({"SELECT"}, set()),
    "db_datawriter": ({"INSERT", "UPDATE", "DELETE"}, set()),
    "db_owner": (set(RIGHTS), set()),
    "db_ddladmin": (set(), set()),
    "db_denydatareader": (set(), {"SELECT"}),
    "db_denydatawriter": (set(), {"INSERT", "UPDATE", "DELETE"}),
}


@dataclass(frozen=True, slots=True)
class Stage:
    admin: Run
    user: Run
    name: str
    database: str

    def change(self, verb: str, grantee: str, level: str) -> str:
        """GRANT, DENY or REVOKE of all five rights to a grantee at a level."""
        to = grantee.format(user=self.name)
        word = "FROM" if verb == "REVOKE" else "TO"
        if level == "object":
            tables, procedure = ", ".join(RIGHTS[:4]), "EXECUTE"
            return f"{verb} {tables} ON mart.t {word} {to}; {verb} {procedure} ON mart.p {word} {to};"
        on = "" if level == "database" else f" ON {level}"
        return f"{verb} {', '.join(RIGHTS)}{on} {word} {to};"

    def held(self) -> set[str]:
        """What HAS_PERMS_BY_NAME says, what the statements do, and both again under EXECUTE AS USER: one answer."""
        questions = ", ".join(f"HAS_PERMS_BY_NAME('{on}', 'OBJECT', '{right}')" for right, (_, on) in ATTEMPTS.items())
        asked = self.user(f"SELECT {questions}")[0]
        done = self.user(_TRIALS)[0]
        quoted = _TRIALS.replace("'", "''")
        as_user = f"EXECUTE AS USER = N'{self.name}'"
        impersonated = self.admin(f"{as_user}; SELECT {questions}; REVERT")[0]
        repeated = self.admin(f"{as_user}; EXEC(N'{quoted}'); REVERT")[0]
        assert asked == done == impersonated == repeated
        return {right for right, holds in zip(RIGHTS, asked, strict=True) if holds}


_TRIALS = (
    "SET NOCOUNT ON; DECLARE @held TABLE (a int); DECLARE @s int = 1, @i int = 1, @u int = 1, @d int = 1, @e int = 1; "
)
for _variable, _right in zip("siude", RIGHTS, strict=True):
    _statement = ATTEMPTS[_right][0]
    if _right == "SELECT":
        _statement = "DECLARE @x int = (SELECT COUNT(a) FROM mart.t)"
    _TRIALS += f"BEGIN TRY EXEC(N'{_statement}') END TRY BEGIN CATCH IF ERROR_NUMBER() <> 229 THROW; SET @{_variable} = 0 END CATCH; "
_TRIALS += "SELECT @s, @i, @u, @d, @e"


@pytest.fixture(scope="module")
def stage(tsql_server: TsqlServer) -> Iterator[Stage]:
    name, database = f"user_{secrets.token_hex(4)}", f"matrix_{secrets.token_hex(4)}"
    with closing(tsql_server.connect("python-tds")) as first:
        create = runner(first)
        create(f"CREATE DATABASE [{database}]")
        create(f"CREATE LOGIN [{name}] WITH PASSWORD = N'{PASSWORD}'")
        with closing(tsql_server.connect("python-tds", database=database)) as connection:
            admin = runner(connection)
            admin(
                f"CREATE USER [{name}] FOR LOGIN [{name}]; CREATE ROLE team; CREATE ROLE guild; CREATE USER other WITHOUT LOGIN"
            )
            admin(f"ALTER ROLE team ADD MEMBER [{name}]; ALTER ROLE guild ADD MEMBER team")
            admin("CREATE SCHEMA mart")
            admin("CREATE TABLE mart.t (a int)")
            admin("CREATE PROCEDURE mart.p AS DECLARE @nothing int")
            options = {"user": name, "password": PASSWORD, "database": database}
            with closing(tsql_server.connect("python-tds", **options)) as own:  # type: ignore[arg-type]  # all are text
                yield Stage(admin, runner(own), name, database)
        create(f"DROP DATABASE [{database}]")
        create(f"DROP LOGIN [{name}]")


@pytest.mark.parametrize("granted", GRANTEES)
@pytest.mark.parametrize("level", LEVELS)
def test_a_grant_holds_unless_denied_to_any_identity_at_any_level(stage: Stage, granted: str, level: str) -> None:
    stage.admin(stage.change("GRANT", granted, level))
    try:
        assert stage.held() == set(RIGHTS)
        for denied, at in product(GRANTEES, LEVELS):
            if (denied, at) == (granted, level):
                continue  # a denial would take the place of the grant
            stage.admin(stage.change("DENY", denied, at))
            assert stage.held() == set(), f"denied to {denied} at {at}"
            stage.admin(stage.change("REVOKE", denied, at))
        assert stage.held() == set(RIGHTS)
        stage.admin(stage.change("DENY", granted, level))
        assert stage.held() == set()
    finally:
        stage.admin(stage.change("REVOKE", granted, level))
    assert stage.held() == set()


@pytest.mark.parametrize("role", FIXED)
def test_a_fixed_role_grants_and_denies_as_documented(stage: Stage, role: str) -> None:
    grants, denies = FIXED[role]
    stage.admin(f"ALTER ROLE {role} ADD MEMBER [{stage.name}]")
    try:
        assert stage.held() == grants
        for grantee, level in product(("[{user}]", "guild"), ("object", "database")):
            stage.admin(stage.change("GRANT", grantee, level))
            assert stage.held() == set(RIGHTS) - denies, f"granted to {grantee} at {level}"
            stage.admin(stage.change("DENY", grantee, level))
            assert stage.held() == set(), f"denied to {grantee} at {level}"
            stage.admin(stage.change("REVOKE", grantee, level))
    finally:
        stage.admin(f"ALTER ROLE {role} DROP MEMBER [{stage.name}]")


@pytest.mark.parametrize("covering", ["CONTROL ON mart.t", "CONTROL ON SCHEMA::mart", "CONTROL"])
def test_control_covers_every_right_below_it(stage: Stage, covering: str) -> None:
    tables = set(RIGHTS[:4])
    expected = tables if covering == "CONTROL ON mart.t" else set(RIGHTS)
    stage.admin(f"GRANT {covering} TO team")
    assert stage.held() == expected
    stage.admin(f"DENY SELECT ON mart.t TO [{stage.name}]")
    assert stage.held() == expected - {"SELECT"}
    stage.admin(
        f"REVOKE SELECT ON mart.t FROM [{stage.name}]; REVOKE {covering} FROM team; GRANT SELECT ON mart.t TO public"
    )
    stage.admin(f"DENY {covering} TO team")
    assert stage.held() == set()
    stage.admin(f"REVOKE {covering} FROM team; REVOKE SELECT ON mart.t FROM public")


# Modules of dbo that reach dbo's table `base`, and how the user calls each.
CHAINS = {
    "view": ("CREATE VIEW dbo.m AS SELECT a FROM dbo.base", "SELECT", "SELECT a FROM dbo.m"),
    "view of a view": (
        "EXEC(N'CREATE VIEW dbo.n AS SELECT a FROM dbo.base'); EXEC(N'CREATE VIEW dbo.m AS SELECT a FROM dbo.n')",
        "SELECT",
        "SELECT a FROM dbo.m",
    ),
    "procedure": ("CREATE PROCEDURE dbo.m AS SELECT a FROM dbo.base", "EXECUTE", "EXEC dbo.m"),
    "procedure over a view": (
        "EXEC(N'CREATE VIEW dbo.n AS SELECT a FROM dbo.base'); EXEC(N'CREATE PROCEDURE dbo.m AS SELECT a FROM dbo.n')",
        "EXECUTE",
        "EXEC dbo.m",
    ),
    "procedure in a procedure": (
        "EXEC(N'CREATE PROCEDURE dbo.n AS SELECT a FROM dbo.base'); EXEC(N'CREATE PROCEDURE dbo.m AS EXEC dbo.n')",
        "EXECUTE",
        "EXEC dbo.m",
    ),
    "trigger": (
        "EXEC(N'CREATE TABLE dbo.m (a int)'); EXEC(N'CREATE TRIGGER dbo.n ON dbo.m AFTER INSERT AS DELETE dbo.base WHERE a = 0')",
        "INSERT",
        "INSERT INTO dbo.m VALUES (1)",
    ),
    "instead of trigger": (
        "EXEC(N'CREATE TABLE dbo.m (a int)'); EXEC(N'CREATE TRIGGER dbo.n ON dbo.m INSTEAD OF INSERT AS DELETE dbo.base WHERE a = 0')",
        "INSERT",
        "INSERT INTO dbo.m VALUES (1)",
    ),
}


@pytest.mark.parametrize("chain", CHAINS)
def test_a_chain_of_one_owner_asks_once_and_a_broken_one_again(stage: Stage, chain: str) -> None:
    definition, right, call = CHAINS[chain]
    stage.admin("CREATE TABLE dbo.base (a int); INSERT INTO dbo.base VALUES (1)")
    try:
        stage.admin(definition)
        assert number(stage.user, call) == 229
        stage.admin(f"GRANT {right} ON dbo.m TO team")
        stage.user(call)
        stage.admin("DENY SELECT, DELETE ON dbo.base TO public")
        stage.user(call)
        stage.admin("ALTER AUTHORIZATION ON dbo.base TO other")
        assert number(stage.user, call) == 229
        stage.admin("REVOKE SELECT, DELETE ON dbo.base FROM public")
        assert number(stage.user, call) == 229
        stage.admin(f"GRANT SELECT, DELETE ON dbo.base TO [{stage.name}]")
        stage.user(call)
        stage.admin("ALTER AUTHORIZATION ON dbo.base TO SCHEMA OWNER")
        stage.user(call)
    finally:
        for kind, name in (("TRIGGER", "n"), ("VIEW", "m"), ("PROCEDURE", "m"), ("TABLE", "m"), ("VIEW", "n"),
                           ("PROCEDURE", "n"), ("TABLE", "base")):  # fmt: skip
            types = {"TRIGGER": "TR", "VIEW": "V", "PROCEDURE": "P", "TABLE": "U"}
            stage.admin(f"IF OBJECT_ID('dbo.{name}', '{types[kind]}') IS NOT NULL DROP {kind} dbo.{name}")


def test_a_view_of_another_owner_breaks_the_chain_of_the_procedure_around_it(stage: Stage) -> None:
    stage.admin("CREATE TABLE dbo.base (a int)")
    stage.admin("CREATE VIEW dbo.v AS SELECT a FROM dbo.base")
    stage.admin("CREATE PROCEDURE dbo.m AS SELECT a FROM dbo.v")
    stage.admin(f"GRANT EXECUTE ON dbo.m TO [{stage.name}]")
    stage.user("EXEC dbo.m")
    stage.admin("ALTER AUTHORIZATION ON dbo.v TO other")
    assert number(stage.user, "EXEC dbo.m") == 229
    stage.admin(f"GRANT SELECT ON dbo.v TO [{stage.name}]")
    assert number(stage.user, "EXEC dbo.m") == 229
    stage.admin(f"GRANT SELECT ON dbo.base TO [{stage.name}]")
    stage.user("EXEC dbo.m")
    stage.admin("DROP PROCEDURE dbo.m; DROP VIEW dbo.v; DROP TABLE dbo.base")


def test_dynamic_text_leaves_the_chain_and_execute_as_owner_replaces_it(stage: Stage) -> None:
    stage.admin("CREATE TABLE dbo.base (a int)")
    stage.admin("CREATE PROCEDURE dbo.plain AS EXEC(N'SELECT a FROM dbo.base')")
    stage.admin(
        "CREATE PROCEDURE dbo.owned WITH EXECUTE AS OWNER AS EXEC(N'SELECT a FROM dbo.base'); SELECT USER_NAME()"
    )
    stage.admin(f"GRANT EXECUTE ON dbo.plain TO [{stage.name}]; GRANT EXECUTE ON dbo.owned TO [{stage.name}]")
    assert number(stage.user, "EXEC dbo.plain") == 229
    assert stage.user("EXEC dbo.owned") == [("dbo",)]
    assert stage.user("SELECT USER_NAME()") == [(stage.name,)]
    stage.admin("DROP PROCEDURE dbo.plain; DROP PROCEDURE dbo.owned; DROP TABLE dbo.base")


@pytest.mark.parametrize(
    ("statement", "needed"),
    [
        ("UPDATE dbo.base SET b = 1", {"UPDATE"}),
        ("UPDATE dbo.base SET b = a", {"UPDATE", "SELECT"}),
        ("UPDATE dbo.base SET b = 1 WHERE a = 1", {"UPDATE", "SELECT"}),
        ("UPDATE dbo.base SET b = 1 OUTPUT deleted.a", {"UPDATE", "SELECT"}),
        ("DELETE FROM dbo.base", {"DELETE"}),
        ("DELETE FROM dbo.base WHERE a = 1", {"DELETE", "SELECT"}),
        ("INSERT INTO dbo.base VALUES (1, 1)", {"INSERT"}),
        ("INSERT INTO dbo.base OUTPUT inserted.a VALUES (1, 1)", {"INSERT", "SELECT"}),
        ("INSERT INTO dbo.base SELECT a, b FROM dbo.base", {"INSERT", "SELECT"}),
        ("MERGE dbo.base AS t USING (SELECT 1 AS a) AS s ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = 2;", {"UPDATE", "SELECT"}),
    ],
)  # fmt: skip
def test_a_statement_needs_exactly_these_rights(stage: Stage, statement: str, needed: set[str]) -> None:
    stage.admin("CREATE TABLE dbo.base (a int, b int)")
    try:
        for missing in sorted(needed):
            for right in needed - {missing}:
                stage.admin(f"GRANT {right} ON dbo.base TO [{stage.name}]")
            assert number(stage.user, statement) == 229
            stage.admin(f"REVOKE SELECT, INSERT, UPDATE, DELETE ON dbo.base FROM [{stage.name}]")
        for right in needed:
            stage.admin(f"GRANT {right} ON dbo.base TO [{stage.name}]")
        stage.user(statement)
    finally:
        stage.admin("DROP TABLE dbo.base")
