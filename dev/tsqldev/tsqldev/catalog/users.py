"""Users and roles of a database: CREATE, ALTER, DROP, membership."""

from __future__ import annotations

import secrets

from tsqldev.catalog.bootstrap import role_sid
from tsqldev.catalog.databases import may_give_to
from tsqldev.catalog.statement import Statement, no_permission
from tsqldev.errors import SqlError, unsupported

_REFUSED = "User does not have permission to perform this action."


def create_user(st: Statement) -> None:
    read = st.read
    read.expect("CREATE", "USER")
    name = read.name()
    login_name: str | None = name
    without = False
    default_schema = "dbo"
    if read.take("FOR", "LOGIN") or read.take("FROM", "LOGIN"):
        login_name = read.name()
    elif read.take("WITHOUT", "LOGIN"):
        login_name, without = None, True
    elif read.peek("FROM") or read.peek("FOR"):
        raise unsupported(f"CREATE USER ... {read.token.text} {read.ahead().text}")
    if read.take("WITH"):
        while True:
            option = read.name().upper()
            read.expect("=")
            if option == "DEFAULT_SCHEMA":
                default_schema = read.name()
            elif option == "PASSWORD":
                raise SqlError(33233, "You can only create a user with a password in a contained database.")
            else:
                raise unsupported(f"the user option {option}")
            if not read.take(","):
                break
    read.end()
    if not st.holds("DATABASE", 0, "ALTER ANY USER") and not st.holds("DATABASE", 0, "CREATE USER"):
        raise SqlError(15247, _REFUSED)
    sid = role_sid(f"{st.database_id}/{name}/{secrets.token_hex(8)}")
    if not without:
        login = st.one("select sid, principal_id from meta.logins where key = meta.fold(%s) and type = 'S'", login_name)
        if login is None or st.value("select %s not in (select meta.visible_logins())", login[1]):
            raise SqlError(15007, f"'{login_name}' is not a valid login or you do not have permission.")
        sid = bytes(login[0])
        other = st.value(
            "select name from meta.principals where database_id = %s and sid = %s and type = 'S'", st.database_id, sid
        )
        if other is not None:
            raise SqlError(15063, "The login already has an account under a different user name.")
        if st.one("select 1 from meta.databases where database_id = %s and owner_sid = %s", st.database_id, sid):
            raise SqlError(15063, "The login already has an account under a different user name.")
    user_id = _new_principal(st, name)
    st.run(
        "insert into meta.principals (database_id, principal_id, name, type, default_schema, sid, authentication_type)"
        " values (%s, %s, %s, 'S', %s, %s, %s)",
        *(st.database_id, user_id, name, default_schema, sid, 0 if without else 1),
    )
    if not without:
        st.run("insert into meta.permissions values (%s, 0, 0, 0, %s, 1, 'CONNECT', 'G')", st.database_id, user_id)
    st.changed(names=False)


def _new_principal(st: Statement, name: str) -> int:
    if st.one("select 1 from meta.principals where database_id = %s and key = meta.fold(%s)", st.database_id, name):
        raise SqlError(15023, f"User, group, or role '{name}' already exists in the current database.")
    return int(st.value(f"select nextval('meta.principal_ids_{st.database_id}')"))


def find_principal(st: Statement, verb: str, name: str, kind: str) -> tuple[int, str]:
    """The user or role of the current database, where the caller may alter it. Raises 15151."""
    row = st.one(
        "select principal_id, name from meta.principals where database_id = %s and key = meta.fold(%s) and type = %s",
        *(st.database_id, name, kind),
    )
    if row is None or not st.holds("USER" if kind == "S" else "ROLE", row[0], "ALTER"):
        raise no_permission(f"{verb} {'user' if kind == 'S' else 'role'}", name)
    return row[0], row[1]


def alter_user(st: Statement) -> None:
    read = st.read
    read.expect("ALTER", "USER")
    name = read.name()
    read.expect("WITH")
    user_id, _ = find_principal(st, "alter", name, "S")
    while True:
        option = read.name().upper()
        read.expect("=")
        if option == "NAME":
            new = read.name()
            if st.one(
                "select 1 from meta.principals where database_id = %s and key = meta.fold(%s) and principal_id <> %s",
                st.database_id,
                new,
                user_id,
            ):
                raise SqlError(15023, f"User, group, or role '{new}' already exists in the current database.")
            set_principal(st, user_id, "name", new)
        elif option == "DEFAULT_SCHEMA":
            set_principal(st, user_id, "default_schema", read.name())
        elif option == "LOGIN":
            sid = st.value("select sid from meta.logins where key = meta.fold(%s) and type = 'S'", read.name())
            if sid is None:
                raise SqlError(15007, f"'{name}' is not a valid login or you do not have permission.")
            set_principal(st, user_id, "sid", bytes(sid))
        else:
            raise unsupported(f"the user option {option}")
        if not read.take(","):
            break
    read.end()
    st.changed()


def set_principal(st: Statement, principal_id: int, column: str, value: object) -> None:
    st.run(
        f"update meta.principals set {column} = %s, modify_date = meta.now() where database_id = %s and"
        " principal_id = %s",
        *(value, st.database_id, principal_id),
    )


def drop_user(st: Statement) -> None:
    _drop_principal(st, "USER", "S")


def drop_role(st: Statement) -> None:
    _drop_principal(st, "ROLE", "R")


def _drop_principal(st: Statement, word: str, kind: str) -> None:
    read = st.read
    read.expect("DROP", word)
    quietly = read.take("IF", "EXISTS")
    name = read.name()
    read.end()
    here = "select 1 from meta.principals where database_id = %s and key = meta.fold(%s) and type = %s"
    if quietly and not st.one(here, st.database_id, name, kind):
        return
    principal_id, stored = find_principal(st, "drop", name, kind)
    if principal_id <= 4 or principal_id >= 16384:
        raise SqlError(15150, f"Cannot drop the {word.lower()} '{stored}'.")
    if st.one("select 1 from meta.schemas where database_id = %s and principal_id = %s", st.database_id, principal_id):
        raise SqlError(15138, "The database principal owns a schema in the database, and cannot be dropped.")
    if st.one("select 1 from meta.objects where database_id = %s and principal_id = %s", st.database_id, principal_id):
        raise SqlError(15183, "The database principal owns objects in the database and cannot be dropped.")
    if st.one(
        "select 1 from meta.principals where database_id = %s and owning_principal_id = %s",
        st.database_id,
        principal_id,
    ):
        raise SqlError(15421, "The database principal owns a database role and cannot be dropped.")
    if kind == "R" and st.one(
        "select 1 from meta.role_members where database_id = %s and role_id = %s", st.database_id, principal_id
    ):
        raise SqlError(15144, "The role has members. It must be empty before it can be dropped.")
    if st.one(
        "select 1 from meta.permissions where database_id = %s and grantor = %s and grantee <> %s",
        st.database_id,
        principal_id,
        principal_id,
    ):
        raise SqlError(
            15284,
            "The database principal has granted or denied permissions to objects in the database and cannot"
            " be dropped.",
        )
    st.run(
        "delete from meta.permissions where database_id = %s and (grantee = %s or (class = 4 and major_id = %s))",
        st.database_id,
        principal_id,
        principal_id,
    )
    st.run(
        "delete from meta.role_members where database_id = %s and %s in (member_id, role_id)",
        st.database_id,
        principal_id,
    )
    runs_as = "select 1 from meta.modules m join meta.objects o using (object_id) where o.database_id = %s"
    in_modules = st.one(f"{runs_as} and m.execute_as_principal_id = %s", st.database_id, principal_id) is not None
    st.run("delete from meta.principals where database_id = %s and principal_id = %s", st.database_id, principal_id)
    st.changed(names=in_modules)


def create_role(st: Statement) -> None:
    read = st.read
    read.expect("CREATE", "ROLE")
    name = read.name()
    owner = st.principal.user_id
    owner_name = read.name() if read.take("AUTHORIZATION") else None
    read.end()
    if not st.holds("DATABASE", 0, "CREATE ROLE"):
        raise SqlError(15247, _REFUSED)
    if owner_name is not None:
        found = st.value(
            "select principal_id from meta.principals where database_id = %s and key = meta.fold(%s)",
            st.database_id,
            owner_name,
        )
        if found is None or not may_give_to(st, found):
            raise no_permission("find user", owner_name)
        owner = found
    role_id = _new_principal(st, name)
    st.run(
        "insert into meta.principals (database_id, principal_id, name, type, sid, owning_principal_id)"
        " values (%s, %s, %s, 'R', %s, %s)",
        *(st.database_id, role_id, name, role_sid(f"{st.database_id}/{name}"), owner),
    )
    st.changed(names=False)


def alter_role(st: Statement) -> None:
    read = st.read
    read.expect("ALTER", "ROLE")
    name = read.name()
    if read.take("WITH", "NAME", "="):
        role_id, _ = find_principal(st, "alter", name, "R")
        new = read.name()
        read.end()
        if st.one(
            "select 1 from meta.principals where database_id = %s and key = meta.fold(%s) and principal_id <> %s",
            st.database_id,
            new,
            role_id,
        ):
            raise SqlError(15023, f"User, group, or role '{new}' already exists in the current database.")
        set_principal(st, role_id, "name", new)
        st.changed()
    else:
        add = read.take("ADD")
        if not add:
            read.expect("DROP")
        read.expect("MEMBER")
        member = read.name()
        read.end()
        change_membership(st, name, member, add=add)


def change_membership(st: Statement, role: str, member: str, *, add: bool) -> None:
    """ALTER ROLE ... ADD | DROP MEMBER; sp_addrolemember and sp_droprolemember."""
    row = st.one(
        "select principal_id, is_fixed_role from meta.principals where database_id = %s and key ="
        " meta.fold(%s) and type = 'R'",
        *(st.database_id, role),
    )
    # Only db_owner changes who is in a fixed role.
    allowed = row is not None and (st.holds("DATABASE", 0, "CONTROL") if row[1] else st.holds("ROLE", row[0], "ALTER"))
    if row is None or not allowed or row[0] == 0:
        raise no_permission("alter role", role)
    found = st.one(
        "select principal_id, type from meta.principals where database_id = %s and key = meta.fold(%s)",
        st.database_id,
        member,
    )
    if found is None:
        raise no_permission(f"{'add' if add else 'drop'} principal", member)
    if found[0] in (0, 1, 3, 4) or (found[1] == "R" and found[0] >= 16384):
        raise SqlError(15405, f"Cannot use the special principal '{member}'.")
    if (
        add
        and found[1] == "R"
        and st.value("select %s in (select meta.user_tokens(%s, %s))", found[0], st.database_id, row[0])
    ):
        raise SqlError(15413, "Cannot make a role a member of itself.")
    if add:
        st.run(
            "insert into meta.role_members values (%s, %s, %s) on conflict do nothing", st.database_id, row[0], found[0]
        )
    else:
        st.run(
            "delete from meta.role_members where database_id = %s and role_id = %s and member_id = %s",
            st.database_id,
            row[0],
            found[0],
        )
    st.changed(names=False)
