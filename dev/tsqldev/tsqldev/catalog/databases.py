"""CREATE, ALTER and DROP of databases and schemas."""

from __future__ import annotations

from tsqldev.catalog.bootstrap import create_database as insert_database
from tsqldev.catalog.definitions import collation_name
from tsqldev.catalog.statement import Statement, no_permission, permission_denied
from tsqldev.catalog.tokens import Reader
from tsqldev.errors import SqlError, unsupported
from tsqldev.types import DEFAULT_COLLATION


def create_database(st: Statement) -> None:
    read = st.read
    read.expect("CREATE", "DATABASE")
    name = read.name()
    collation = DEFAULT_COLLATION
    if read.take("COLLATE"):
        collation = collation_name(read)
    if read.token.kind != "end" and not read.peek(";"):
        raise unsupported(f"CREATE DATABASE ... {read.token.text}")
    read.end()
    if st.context.transaction_count:
        raise SqlError(226, "CREATE DATABASE statement not allowed within multi-statement transaction.")
    if not st.holds("SERVER", 0, "CREATE ANY DATABASE"):
        raise permission_denied("CREATE DATABASE", "master")
    if st.one("select 1 from meta.databases where key = meta.fold(%s)", name):
        raise SqlError(1801, f"Database '{name}' already exists. Choose a different database name.", state=3)
    number = st.value("select nextval('meta.database_ids')::int")
    sid = st.value("select sid from meta.logins where principal_id = %s", st.principal.login_id)
    insert_database(st.connection, number, name, collation, bytes(sid))
    st.changed()


def drop_database(st: Statement) -> None:
    read = st.read
    read.expect("DROP", "DATABASE")
    quietly = read.take("IF", "EXISTS")
    names = [read.name()]
    while read.take(","):
        names.append(read.name())
    read.end()
    if st.context.transaction_count:
        raise SqlError(226, "DROP DATABASE statement not allowed within multi-statement transaction.")
    for name in names:
        row = st.one("select database_id, owner_sid from meta.databases where key = meta.fold(%s)", name)
        if row is None and quietly:
            continue
        may = row is not None and (
            st.holds("SERVER", 0, "ALTER ANY DATABASE")
            or st.value(
                "select meta.has_permission(%s, %s, meta.user_of(%s, %s), 'DATABASE', 0, 'CONTROL')",
                st.principal.login_id,
                row[0],
                row[0],
                st.principal.login_id,
            )
        )
        if row is None or not may:
            raise SqlError(
                3701,
                f"Cannot drop the database '{name}', because it does not exist or you do not have permission.",
                severity=11,
                state=1,
            )
        if row[0] <= 4:
            raise SqlError(3708, f"Cannot drop the database '{name}' because it is a system database.")
        if row[0] == st.database_id:
            raise SqlError(3702, f'Cannot drop database "{name}" because it is currently in use.', state=3)
        for (object_id,) in st.run("select object_id from meta.objects where database_id = %s and type = 'U'", row[0]):
            st.run(f"drop table if exists data.t{object_id} cascade")
        st.run("delete from meta.permissions where database_id = %s", row[0])
        st.run("delete from meta.role_members where database_id = %s", row[0])
        st.run("delete from meta.objects where database_id = %s", row[0])
        st.run("delete from meta.databases where database_id = %s", row[0])
        st.run(f"drop sequence meta.schema_ids_{row[0]}, meta.principal_ids_{row[0]}")
    st.changed()


# Options that are kept and shown, by how they are stored: (key, value of ON).
_SWITCHES = {
    "ALLOW_SNAPSHOT_ISOLATION": "allow_snapshot_isolation",
    "READ_COMMITTED_SNAPSHOT": "read_committed_snapshot",
    "TRUSTWORTHY": "trustworthy",
    "DB_CHAINING": "db_chaining",
    "ANSI_NULL_DEFAULT": "is_ansi_null_default_on",
    "ANSI_NULLS": "is_ansi_nulls_on",
    "ANSI_PADDING": "is_ansi_padding_on",
    "ANSI_WARNINGS": "is_ansi_warnings_on",
    "ARITHABORT": "is_arithabort_on",
    "CONCAT_NULL_YIELDS_NULL": "is_concat_null_yields_null_on",
    "NUMERIC_ROUNDABORT": "is_numeric_roundabort_on",
    "QUOTED_IDENTIFIER": "is_quoted_identifier_on",
    "QUERY_STORE": "is_query_store_on",
    "ACCELERATED_DATABASE_RECOVERY": "accelerated_database_recovery",
}
# Shown only: every commit of this endpoint is on disk when it is acknowledged.
_DURABILITY = ("DISABLED", "ALLOWED", "FORCED")
# Options whose only effect would be on statistics, files or the log.
_WITHOUT_EFFECT = frozenset(
    ["AUTO_CREATE_STATISTICS", "AUTO_UPDATE_STATISTICS", "AUTO_UPDATE_STATISTICS_ASYNC", "AUTO_SHRINK", "AUTO_CLOSE"]
)


def alter_database(st: Statement) -> None:
    read = st.read
    read.expect("ALTER", "DATABASE")
    database_id, name = (st.database_id, st.principal.database) if read.take("CURRENT") else st.database(read.name())
    login = st.principal.login_id
    if not st.value(
        "select meta.has_permission(%s, %s, meta.user_of(%s, %s), 'DATABASE', 0, 'ALTER')",
        login,
        database_id,
        database_id,
        login,
    ):
        raise SqlError(
            5011,
            f"User does not have permission to alter database '{name}', the database does not exist, or the"
            " database is not in a state that allows access checks.",
            severity=14,
        )
    if read.take("MODIFY", "NAME", "="):
        new = read.name()
        read.end()
        if st.one("select 1 from meta.databases where key = meta.fold(%s) and database_id <> %s", new, database_id):
            raise SqlError(1801, f"Database '{new}' already exists. Choose a different database name.", state=3)
        st.run("update meta.databases set name = %s where database_id = %s", new, database_id)
    elif read.take("COLLATE"):
        collation = collation_name(read)
        read.end()
        st.run("update meta.databases set collation_name = %s where database_id = %s", collation, database_id)
    elif read.take("SET"):
        if read.peek("ANSI_NULLS", "OFF") or read.peek("PARAMETERIZATION", "FORCED"):
            pass
        while True:
            _set_option(st, read, database_id)
            if not read.take(","):
                break
        if read.take("WITH", "NO_WAIT") or read.take("WITH", "ROLLBACK", "IMMEDIATE"):
            pass
        elif read.take("WITH", "ROLLBACK", "AFTER"):
            read.integer()
            read.take("SECONDS")
        read.end()
    else:
        raise unsupported(f"ALTER DATABASE ... {read.token.text}")
    st.changed()


def _set_option(st: Statement, read: Reader, database_id: int) -> None:
    option = read.name().upper()
    stored: dict[str, str] = {}
    if option in _SWITCHES:
        read.take("=")
        on = read.take_any("ON", "OFF")
        if on is None:
            raise read.error()
        if read.peek("("):
            read.parenthesised()
        if option in ("TRUSTWORTHY", "DB_CHAINING") and not st.holds("SERVER", 0, "CONTROL SERVER"):
            raise SqlError(15247, "User does not have permission to perform this action.")
        stored = {_SWITCHES[option]: "1" if on == "ON" else "0"}
    elif option in _WITHOUT_EFFECT:
        if read.take_any("ON", "OFF") is None:
            raise read.error()
        if read.peek("("):
            read.parenthesised()
    elif option == "RECOVERY":
        model = read.take_any("FULL", "SIMPLE", "BULK_LOGGED")
        if model is None:
            raise read.error()
        stored = {"recovery_model": model}
    elif option in ("SINGLE_USER", "MULTI_USER", "RESTRICTED_USER"):
        if option != "MULTI_USER":
            raise unsupported(f"ALTER DATABASE SET {option}")
    elif option in ("READ_ONLY", "OFFLINE", "EMERGENCY"):
        raise unsupported(f"ALTER DATABASE SET {option}")
    elif option == "COMPATIBILITY_LEVEL":
        read.expect("=")
        level = read.integer()
        if level not in (100, 110, 120, 130, 140, 150, 160):
            raise SqlError(
                15048, "Valid values of the database compatibility level are 100, 110, 120, 130, 140, 150, or 160."
            )
        st.run("update meta.databases set compatibility_level = %s where database_id = %s", level, database_id)
    elif option == "DELAYED_DURABILITY":
        read.expect("=")
        durability = read.take_any(*_DURABILITY)
        if durability is None:
            raise read.error()
        stored = {"delayed_durability": durability}
    elif option in ("READ_WRITE", "ONLINE") or (option == "PARAMETERIZATION" and read.take("SIMPLE")):
        pass
    else:
        raise unsupported(f"ALTER DATABASE SET {option}")
    for key, value in stored.items():
        st.run(
            "update meta.databases set options = options || jsonb_build_object(%s::text, %s::text) where"
            " database_id = %s",
            key,
            value,
            database_id,
        )


def create_schema(st: Statement) -> None:
    read = st.read
    read.expect("CREATE", "SCHEMA")
    owner_name = None
    name = None
    if not read.peek("AUTHORIZATION"):
        name = read.name()
    if read.take("AUTHORIZATION"):
        owner_name = read.name()
    name = name or owner_name
    assert name is not None
    if read.token.kind != "end" and not read.peek(";"):
        raise unsupported("CREATE SCHEMA with schema elements")
    read.end()
    if not st.holds("DATABASE", 0, "CREATE SCHEMA"):
        raise permission_denied("CREATE SCHEMA", st.principal.database)
    owner = st.principal.user_id
    if owner_name is not None:
        owner = st.value(
            "select principal_id from meta.principals where database_id = %s and key = meta.fold(%s)",
            st.database_id,
            owner_name,
        )
        if owner is None or not may_give_to(st, owner):
            raise no_permission("find user", owner_name)
    if st.one("select 1 from meta.schemas where database_id = %s and key = meta.fold(%s)", st.database_id, name):
        raise SqlError(2714, f"There is already an object named '{name}' in the database.", state=3)
    st.run(
        "insert into meta.schemas (database_id, schema_id, name, principal_id)"
        f" values (%s, nextval('meta.schema_ids_{st.database_id}'), %s, %s)",
        *(st.database_id, name, owner),
    )
    st.changed()


def may_give_to(st: Statement, principal_id: int) -> bool:
    """Whether the caller may make a principal an owner: itself, one it may impersonate, or a role it is in."""
    if principal_id in (
        row[0] for row in st.run("select meta.user_tokens(%s, %s)", st.database_id, st.principal.user_id)
    ):
        return principal_id != 0
    kind = st.value(
        "select type from meta.principals where database_id = %s and principal_id = %s", st.database_id, principal_id
    )
    return (
        st.holds("USER", principal_id, "IMPERSONATE") if kind == "S" else st.holds("ROLE", principal_id, "ALTER")
    ) or st.holds("DATABASE", 0, "CONTROL")


def drop_schema(st: Statement) -> None:
    read = st.read
    read.expect("DROP", "SCHEMA")
    quietly = read.take("IF", "EXISTS")
    name = read.name()
    read.end()
    row = st.one(
        "select schema_id, name from meta.schemas where database_id = %s and key = meta.fold(%s)", st.database_id, name
    )
    if row is None and quietly:
        return
    if row is None or not st.holds("SCHEMA", row[0], "CONTROL"):
        raise no_permission("drop schema", name)
    if row[0] <= 4 or row[0] >= 16384:
        raise SqlError(15150, f"Cannot drop the schema '{name}'.")
    user = st.value(
        "select name from meta.objects where database_id = %s and schema_id = %s order by"
        " parent_object_id, object_id limit 1",
        st.database_id,
        row[0],
    )
    if user is not None:
        raise SqlError(3729, f"Cannot drop schema '{row[1]}' because it is being referenced by object '{user}'.")
    st.run(
        "delete from meta.permissions where database_id = %s and class = 3 and major_id = %s", st.database_id, row[0]
    )
    st.run(
        "delete from meta.extended_properties where database_id = %s and class = 3 and major_id = %s",
        st.database_id,
        row[0],
    )
    st.run("delete from meta.schemas where database_id = %s and schema_id = %s", st.database_id, row[0])
    st.changed()


def alter_schema(st: Statement) -> None:
    """ALTER SCHEMA ... TRANSFER: rights on the object itself are lost, as on a server."""
    read = st.read
    read.expect("ALTER", "SCHEMA")
    schema_id, _, _ = st.schema(read.name())
    read.expect("TRANSFER")
    if read.peek("OBJECT", "::"):
        read.next()
        read.next()
    parts = read.qualified()
    read.end()
    found = st.find(parts, "U", "V", "P")
    if found is None or not st.holds("OBJECT", found.object_id, "CONTROL"):
        raise no_permission("find object", parts[-1])
    if not st.holds("SCHEMA", schema_id, "ALTER"):
        raise no_permission("alter schema", parts[-1])
    if st.one(
        "select 1 from meta.objects where database_id = %s and schema_id = %s and key = meta.fold(%s)",
        st.database_id,
        schema_id,
        found.name,
    ):
        raise SqlError(15530, f'The object with name "{found.name}" already exists.')
    st.run(
        "update meta.objects set schema_id = %s, modify_date = meta.now() where object_id = %s or"
        " parent_object_id = %s",
        *(schema_id, found.object_id, found.object_id),
    )
    st.run(
        "delete from meta.permissions where database_id = %s and class = 1 and major_id = %s",
        st.database_id,
        found.object_id,
    )
    st.changed()
