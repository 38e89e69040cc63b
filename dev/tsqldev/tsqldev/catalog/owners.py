"""ALTER AUTHORIZATION: who owns a database, a schema, an object, a role."""

from __future__ import annotations

from tsqldev.catalog.databases import may_give_to
from tsqldev.catalog.statement import Statement, no_permission
from tsqldev.catalog.users import find_principal, set_principal
from tsqldev.errors import SqlError, unsupported


def alter_authorization(st: Statement) -> None:
    read = st.read
    read.expect("ALTER", "AUTHORIZATION", "ON")
    kind = "OBJECT"
    if read.ahead().value == "::" or read.peek("SERVER", "ROLE"):
        kind = read.next().value
        if kind == "SERVER":
            kind = "SERVER " + read.next().value
        read.expect("::")
    parts = read.qualified()
    read.expect("TO")
    schema_owner = read.take("SCHEMA", "OWNER")
    new = None if schema_owner else read.name()
    read.end()
    if kind == "DATABASE":
        _database_owner(st, parts[-1], new)
    elif kind == "SCHEMA":
        schema_id, name, _ = st.schema(parts[-1])
        if not st.holds("SCHEMA", schema_id, "TAKE OWNERSHIP"):
            raise no_permission("find schema", name)
        st.run(
            "update meta.schemas set principal_id = %s where database_id = %s and schema_id = %s",
            *(_new_owner(st, new), st.database_id, schema_id),
        )
        st.run(
            "delete from meta.permissions where database_id = %s and class = 3 and major_id = %s",
            st.database_id,
            schema_id,
        )
    elif kind == "OBJECT":
        found = st.find(parts, "U", "V", "P")
        if found is None or not st.holds("OBJECT", found.object_id, "TAKE OWNERSHIP"):
            raise no_permission("find object", parts[-1])
        owner = None if schema_owner else _new_owner(st, new)
        st.run("update meta.objects set principal_id = %s where object_id = %s", owner, found.object_id)
        st.run(
            "delete from meta.permissions where database_id = %s and class = 1 and major_id = %s",
            st.database_id,
            found.object_id,
        )
    elif kind == "ROLE":
        role_id, _ = find_principal(st, "find", parts[-1], "R")
        set_principal(st, role_id, "owning_principal_id", _new_owner(st, new))
    else:
        raise unsupported(f"ALTER AUTHORIZATION ON {kind}")
    st.changed()


def _new_owner(st: Statement, name: str | None) -> int:
    found = st.value(
        "select principal_id from meta.principals where database_id = %s and key = meta.fold(%s)", st.database_id, name
    )
    if found is None or not may_give_to(st, found):
        raise no_permission("find principal", str(name))
    return int(found)


def _database_owner(st: Statement, database: str, login: str | None) -> None:
    database_id, _ = st.database(database)
    row = st.one("select principal_id, sid from meta.logins where key = meta.fold(%s) and type = 'S'", login)
    caller = st.principal.login_id
    may = st.value(
        "select meta.has_permission(%s, %s, meta.user_of(%s, %s), 'DATABASE', 0, 'TAKE OWNERSHIP')",
        caller,
        database_id,
        database_id,
        caller,
    )
    if not may or row is None:
        raise no_permission("find principal" if may else "find database", str(login) if may else database)
    if row[0] != caller and not st.holds("LOGIN", row[0], "IMPERSONATE"):
        raise no_permission("find principal", str(login))
    if st.one(
        "select 1 from meta.principals where database_id = %s and sid = %s and principal_id <> 1 and type = 'S'",
        database_id,
        row[1],
    ):
        raise SqlError(15110, "The proposed new database owner is already a user or aliased in the database.")
    st.run("update meta.databases set owner_sid = %s where database_id = %s", row[1], database_id)
    st.run("update meta.principals set sid = %s where database_id = %s and principal_id = 1", row[1], database_id)
