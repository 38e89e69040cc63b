"""Logins, users and roles: creating, refusing, authenticating, impersonating."""

from __future__ import annotations

import hashlib

import pytest
from tsqldev.errors import SqlError

from .support import SA_PASSWORD, Session


def failure(session: Session, user: str, password: str) -> int:
    with pytest.raises(SqlError) as caught:
        session.access.authenticate(user, password)
    return caught.value.number


def test_a_login_with_a_clear_password_authenticates_without_regard_to_the_case_of_its_name(session: Session) -> None:
    session.run("CREATE LOGIN [Reader] WITH PASSWORD = N'Abc-1234'")
    assert session.access.authenticate("READER", "Abc-1234").name == "Reader"
    assert failure(session, "Reader", "abc-1234") == 18456
    assert failure(session, "nobody", "x") == 18456


def test_a_hashed_password_is_sql_servers_format(session: Session) -> None:
    salt = bytes.fromhex("01020304")
    stored = b"\x02\x00" + salt + hashlib.sha512("Pässword 1".encode("utf-16-le") + salt).digest()
    session.run(f"CREATE LOGIN h WITH PASSWORD = 0x{stored.hex()} HASHED, SID = 0x{'ab' * 16}, CHECK_POLICY = OFF")
    login = session.access.authenticate("h", "Pässword 1")
    assert login.sid == b"\xab" * 16
    assert session.refused(f"CREATE LOGIN h2 WITH PASSWORD = 0x{stored.hex()} HASHED, SID = 0x{'ab' * 16}") == 15433


def test_a_disabled_login_is_refused_only_to_one_who_knows_its_password(session: Session) -> None:
    session.run("CREATE LOGIN d WITH PASSWORD = 'Abc-1234'")
    session.run("ALTER LOGIN d DISABLE")
    assert failure(session, "d", "Abc-1234") == 18470
    assert failure(session, "d", "wrong") == 18456
    session.run("ALTER LOGIN d ENABLE")
    assert session.access.authenticate("d", "Abc-1234")


def test_deny_connect_sql_keeps_a_login_out(session: Session) -> None:
    session.run("CREATE LOGIN d WITH PASSWORD = 'Abc-1234'")
    session.use("master")
    session.run("DENY CONNECT SQL TO d")
    assert failure(session, "d", "Abc-1234") == 18456


@pytest.mark.parametrize("password", ["short1!", "alllowercase", "nodigitsHERE"])
def test_check_policy_refuses_simple_passwords(session: Session, password: str) -> None:
    assert session.refused(f"CREATE LOGIN p WITH PASSWORD = '{password}', CHECK_POLICY = ON") == 15118
    session.run(f"CREATE LOGIN p WITH PASSWORD = '{password}', CHECK_POLICY = OFF")


def test_create_login_leaves_nothing_after_a_rollback(session: Session) -> None:
    before = session.catalog.version
    session.connection.execute("savepoint here")
    session.run("CREATE LOGIN gone WITH PASSWORD = 'Abc-1234'")
    assert session.catalog.version != before
    session.connection.execute("rollback to here")
    assert session.catalog.version == before
    assert failure(session, "gone", "Abc-1234") == 18456


def test_a_login_enters_only_where_it_has_a_user(session: Session) -> None:
    session.run("CREATE LOGIN w WITH PASSWORD = 'Abc-1234'")
    login = session.access.authenticate("w", "Abc-1234")
    assert session.access.open(login, "").database == "master"
    with pytest.raises(SqlError) as at_login:
        session.access.open(login, "Control")
    assert at_login.value.number == 4060
    with pytest.raises(SqlError) as at_use:
        session.access.enter(login.login_id, "Control")
    assert at_use.value.number == 916
    with pytest.raises(SqlError) as absent:
        session.access.enter(login.login_id, "Nowhere")
    assert absent.value.number == 911
    session.run("CREATE USER w FOR LOGIN w WITH DEFAULT_SCHEMA = [s]")
    entered = session.access.open(login, "control")
    assert (entered.database, entered.user, entered.default_schema) == ("Control", "w", "s")


def test_a_missing_default_database_is_4064(session: Session) -> None:
    session.run("CREATE LOGIN w WITH PASSWORD = 'Abc-1234', DEFAULT_DATABASE = [Control]")
    with pytest.raises(SqlError) as caught:
        session.access.open(session.access.authenticate("w", "Abc-1234"), "")
    assert caught.value.number == 4064


def test_contained_users_are_refused(session: Session) -> None:
    assert session.refused("CREATE USER c WITH PASSWORD = 'Abc-1234'") == 33233


def test_impersonating_needs_the_right(writer: Session) -> None:
    writer.run("CREATE LOGIN other WITH PASSWORD = 'Abc-1234'")
    writer.run("CREATE USER other FOR LOGIN other")
    sa = writer.principal
    assert writer.access.as_login(sa, "writer").user == "writer"
    writer.login("writer")
    with pytest.raises(SqlError) as login:
        writer.access.as_login(writer.principal, "other")
    assert login.value.number == 15406
    with pytest.raises(SqlError) as user:
        writer.access.as_user(writer.principal, "other")
    assert user.value.number == 15517
    writer.become(sa)
    writer.run("GRANT IMPERSONATE ON USER::other TO writer")
    writer.login("writer")
    acting = writer.access.as_user(writer.principal, "other")
    assert (acting.user, acting.server_scope) == ("other", False)
    assert not writer.access.holds(acting, "SERVER", 0, "CONNECT SQL")


def test_a_user_without_login_belongs_to_no_login(session: Session) -> None:
    session.run("CREATE USER fence WITHOUT LOGIN")
    acting = session.access.as_user(session.principal, "fence")
    assert (acting.login_id, acting.user) == (0, "fence")
    assert session.refused("CREATE USER fence WITHOUT LOGIN") == 15023


def test_only_alter_any_login_creates_and_disables_logins(writer: Session) -> None:
    writer.run("CREATE LOGIN victim WITH PASSWORD = 'Abc-1234'")
    writer.login("writer")
    assert writer.refused("CREATE LOGIN new WITH PASSWORD = 'Abc-1234'") == 15247
    assert writer.refused("ALTER LOGIN victim DISABLE") == 15151
    writer.login("sa")
    writer.use("master")
    writer.run("GRANT ALTER ANY LOGIN TO writer")
    writer.use("Control")
    writer.login("writer")
    writer.run("CREATE LOGIN new WITH PASSWORD = 'Abc-1234'")
    writer.run("ALTER LOGIN victim DISABLE")
    assert writer.refused("ALTER LOGIN sa DISABLE") == 15151


def test_alter_any_login_stops_at_who_controls_the_server_and_at_a_denial_on_one_login(writer: Session) -> None:
    for name in ("strong", "denied", "plain"):
        writer.run(f"CREATE LOGIN {name} WITH PASSWORD = 'Abc-1234'")
    writer.use("master")
    writer.run("GRANT ALTER ANY LOGIN TO writer")
    writer.run("GRANT CONTROL SERVER TO strong")
    writer.run("DENY ALTER ON LOGIN::denied TO writer")
    writer.use("Control")
    writer.login("writer")
    for statement in ("DISABLE", "WITH PASSWORD = 'Other-1234'", "WITH NAME = other"):
        assert writer.refused(f"ALTER LOGIN strong {statement}") == 15151
        assert writer.refused(f"ALTER LOGIN denied {statement}") == 15151
    writer.run("ALTER LOGIN plain DISABLE")
    assert writer.access.authenticate("denied", "Abc-1234")


def test_roles_do_not_contain_each_other(session: Session) -> None:
    session.run("CREATE ROLE a")
    session.run("CREATE ROLE b")
    session.run("ALTER ROLE a ADD MEMBER b")
    assert session.refused("ALTER ROLE b ADD MEMBER a") == 15413
    assert session.refused("DROP ROLE a") == 15144


def test_the_owner_of_a_database_is_its_dbo(session: Session) -> None:
    session.run("CREATE LOGIN owner WITH PASSWORD = 'Abc-1234'")
    session.run("ALTER AUTHORIZATION ON DATABASE::Control TO owner")
    session.login("owner")
    assert session.principal.user == "dbo"
    assert session.access.authenticate("sa", SA_PASSWORD).login_id == 1
    session.login("sa")
    assert session.refused("DROP LOGIN owner") == 15174


def test_new_principals_appear_in_the_catalog_views(writer: Session) -> None:
    assert ("writer", "S", "SQL_LOGIN", 0) in writer.view("sys.server_principals", "name, type, type_desc, is_disabled")
    assert ("writer", "dbo") in writer.view("sys.database_principals", "name, default_schema_name")
    (writers,) = [
        row for row in writer.view("sys.database_principals", "name, principal_id, type") if row[0] == "writers"
    ]
    (user,) = [row for row in writer.view("sys.database_principals", "name, principal_id, type") if row[0] == "writer"]
    assert (writers[1], user[1]) in writer.view("sys.database_role_members", "role_principal_id, member_principal_id")
