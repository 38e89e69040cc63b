"""Rights as SQL Server decides them: deny wins, grants reach what is made later, owners and fixed roles."""

from __future__ import annotations

import pytest
from tsqldev.errors import SqlError
from tsqldev.interfaces import ObjectUse

from .support import Session


def may(session: Session, name: str, permission: str) -> bool:
    table = session.table(name)
    use = ObjectUse(permission, session.principal.database, table.object_id, table.schema_id, table.owner_id)
    try:
        session.access.check([use], session.principal)
    except SqlError as error:
        assert error.number == 229
        return False
    return True


def test_nothing_is_allowed_without_a_grant(writer: Session) -> None:
    writer.run("CREATE TABLE dbo.t (i int)")
    writer.login("writer")
    assert not any(may(writer, "dbo.t", p) for p in ("SELECT", "INSERT", "UPDATE", "DELETE"))


def test_a_grant_on_a_schema_covers_tables_made_later(writer: Session) -> None:
    writer.run("CREATE SCHEMA s")
    writer.run("GRANT SELECT, INSERT ON SCHEMA::s TO writers")
    writer.run("CREATE TABLE s.later (i int)")
    writer.login("writer")
    assert may(writer, "s.later", "SELECT") and may(writer, "s.later", "INSERT")
    assert not may(writer, "s.later", "DELETE")


def test_a_grant_on_the_database_covers_every_schema(writer: Session) -> None:
    writer.run("CREATE TABLE dbo.t (i int)")
    writer.run("GRANT SELECT TO writer")
    writer.login("writer")
    assert may(writer, "dbo.t", "SELECT")


@pytest.mark.parametrize("denied", ["DENY SELECT ON dbo.t TO writer", "DENY SELECT ON SCHEMA::dbo TO writers",
                                    "DENY SELECT TO public", "DENY CONTROL ON dbo.t TO writers"])  # fmt: skip
def test_a_deny_at_any_level_and_to_any_role_wins(writer: Session, denied: str) -> None:
    writer.run("CREATE TABLE dbo.t (i int)")
    writer.run("GRANT SELECT ON dbo.t TO writer")
    writer.run("GRANT SELECT TO writers")
    writer.run(denied)
    writer.login("writer")
    assert not may(writer, "dbo.t", "SELECT")


def test_revoke_removes_a_grant_and_a_deny(writer: Session) -> None:
    writer.run("CREATE TABLE dbo.t (i int)")
    writer.run("GRANT SELECT ON dbo.t TO writers")
    writer.run("DENY SELECT ON dbo.t TO writer")
    writer.run("REVOKE SELECT ON dbo.t FROM writer")
    writer.login("writer")
    assert may(writer, "dbo.t", "SELECT")
    writer.login("sa")
    writer.run("REVOKE SELECT ON dbo.t FROM writers")
    writer.login("writer")
    assert not may(writer, "dbo.t", "SELECT")


@pytest.mark.parametrize(
    ("role", "allowed", "refused"),
    [
        ("db_datareader", ["SELECT"], ["INSERT"]),
        ("db_datawriter", ["INSERT", "UPDATE", "DELETE"], ["SELECT"]),
        ("db_owner", ["SELECT", "INSERT", "UPDATE", "DELETE"], []),
        ("db_ddladmin", [], ["SELECT", "INSERT"]),
    ],
)
def test_fixed_database_roles(writer: Session, role: str, allowed: list[str], refused: list[str]) -> None:
    writer.run("CREATE TABLE dbo.t (i int)")
    writer.run(f"ALTER ROLE {role} ADD MEMBER writer")
    writer.login("writer")
    assert all(may(writer, "dbo.t", p) for p in allowed)
    assert not any(may(writer, "dbo.t", p) for p in refused)


def test_db_denydatareader_beats_db_owner_but_not_sysadmin(writer: Session) -> None:
    writer.run("CREATE TABLE dbo.t (i int)")
    writer.run("ALTER ROLE db_owner ADD MEMBER writer")
    writer.run("ALTER ROLE db_denydatareader ADD MEMBER writer")
    writer.login("writer")
    assert not may(writer, "dbo.t", "SELECT")
    writer.login("sa")
    writer.run("ALTER SERVER ROLE sysadmin ADD MEMBER writer")
    writer.login("writer")
    assert writer.principal.user == "dbo"
    assert may(writer, "dbo.t", "SELECT")


def test_the_owner_of_a_schema_owns_what_is_in_it(writer: Session) -> None:
    writer.run("CREATE SCHEMA own AUTHORIZATION writer")
    writer.run("CREATE TABLE own.t (i int)")
    writer.login("writer")
    assert may(writer, "own.t", "DELETE")


def test_ownership_chaining_skips_the_check_for_the_same_owner_only(writer: Session) -> None:
    writer.run("CREATE TABLE dbo.t (i int)")
    table = writer.table("dbo.t")
    writer.login("writer")
    use = ObjectUse("INSERT", "Control", table.object_id, table.schema_id, table.owner_id)
    writer.access.check([use], writer.principal, chain_owner=table.owner_id)
    with pytest.raises(SqlError, match="INSERT permission was denied on the object 't'"):
        writer.access.check([use], writer.principal, chain_owner=writer.principal.user_id)


def test_server_rights_are_granted_in_master_only(writer: Session) -> None:
    assert writer.refused("GRANT VIEW SERVER STATE TO writer") == 4621
    writer.use("master")
    writer.run("GRANT VIEW SERVER STATE TO writer")
    writer.use("Control")
    writer.login("writer")
    writer.access.require_server(writer.principal, "VIEW SERVER STATE")
    writer.access.require_server(writer.principal, "VIEW SERVER PERFORMANCE STATE")
    with pytest.raises(SqlError) as caught:
        writer.access.require_server(writer.principal, "ALTER ANY LOGIN")
    assert caught.value.number == 300


def test_has_perms_by_name_answers_what_is_enforced(writer: Session) -> None:
    writer.run("CREATE TABLE dbo.t (i int)")
    writer.run("GRANT SELECT ON dbo.t TO writers")
    writer.run("GRANT CREATE TABLE TO writer")
    writer.login("writer")

    def has(securable: str | None, kind: str | None, permission: str) -> int | None:
        return writer.value("select sys.has_perms_by_name(%s, %s, %s, null, null)", securable, kind, permission)

    assert has("dbo.t", "OBJECT", "SELECT") == 1
    assert has("[Control].[dbo].[t]", "OBJECT", "INSERT") == 0
    assert has("dbo.absent", "OBJECT", "SELECT") is None
    assert has("dbo.t", "OBJECT", "NO SUCH RIGHT") is None
    assert has("Control", "DATABASE", "CREATE TABLE") == 1
    assert has("dbo", "SCHEMA", "ALTER") == 0
    assert has(None, None, "VIEW SERVER STATE") == 0
    assert has(None, None, "CONNECT SQL") == 1


def test_a_table_needs_create_table_and_alter_on_the_schema(writer: Session) -> None:
    writer.run("CREATE SCHEMA s")
    writer.login("writer")
    assert writer.refused("CREATE TABLE s.t (i int)") == 262
    writer.login("sa")
    writer.run("GRANT CREATE TABLE TO writers")
    writer.login("writer")
    assert writer.refused("CREATE TABLE s.t (i int)") == 2760
    writer.login("sa")
    writer.run("GRANT ALTER ON SCHEMA::s TO writers")
    writer.login("writer")
    writer.run("CREATE TABLE s.t (i int)")
    assert writer.refused("GRANT SELECT ON s.t TO public") == 15151


def test_metadata_is_shown_to_those_who_have_a_right_on_it(writer: Session) -> None:
    writer.run("CREATE TABLE dbo.seen (i int primary key)")
    writer.run("CREATE TABLE dbo.hidden (i int)")
    writer.run("GRANT INSERT ON dbo.seen TO writer")
    writer.login("writer")
    assert writer.view("sys.tables", "name") == [("seen",)]
    assert [row[0] for row in writer.view("sys.indexes", "is_primary_key")] == [1]
    assert writer.value("select sys.object_id('dbo.hidden', null)") is None
    assert writer.value("select sys.object_id('dbo.seen', 'U')") is not None


def test_a_use_in_another_database_needs_a_user_there(writer: Session) -> None:
    writer.run("CREATE DATABASE Other")
    writer.use("Other")
    writer.run("CREATE TABLE dbo.t (i int)")
    table = writer.table("dbo.t")
    writer.use("Control")
    writer.login("writer")
    with pytest.raises(SqlError) as caught:
        writer.access.check(
            [ObjectUse("SELECT", "Other", table.object_id, table.schema_id, table.owner_id)], writer.principal
        )
    assert caught.value.number == 916


def test_a_name_in_another_database_needs_a_user_there_too(writer: Session) -> None:
    writer.run("CREATE DATABASE Other")
    writer.login("writer")
    with pytest.raises(SqlError) as caught:
        writer.resolve("Other.dbo.t")
    assert caught.value.number == 916
    assert writer.resolve("master.sys.databases") is not None
    writer.become(writer.access.as_user(writer.principal, "writer"))
    with pytest.raises(SqlError) as confined:
        writer.resolve("master.sys.databases")
    assert confined.value.number == 916


@pytest.mark.parametrize(
    ("statements", "everything"),
    [
        ([], False),
        (["GRANT VIEW DEFINITION TO writer"], True),
        (["USE master", "GRANT VIEW ANY DEFINITION TO writer", "USE Control"], True),
        (["GRANT VIEW DEFINITION ON SCHEMA::dbo TO writer"], False),
        (["GRANT VIEW DEFINITION TO writer", "DENY VIEW DEFINITION ON dbo.t TO writers"], False),
    ],
)
def test_who_sees_everything_is_known_without_looking_at_each_object(
    writer: Session, statements: list[str], everything: bool
) -> None:
    writer.run("CREATE TABLE dbo.t (i int)")
    writer.run("CREATE TABLE dbo.u (i int)")
    for statement in statements:
        if statement.startswith("USE "):
            writer.use(statement[4:])
        else:
            writer.run(statement)
    writer.login("writer")
    assert writer.value("select meta.sees_everything(meta.current_db())") is everything
    expected = [] if not statements else ["u"] if "DENY" in statements[-1] else ["t", "u"]
    assert [row[0] for row in writer.view("sys.tables", "name")] == expected
