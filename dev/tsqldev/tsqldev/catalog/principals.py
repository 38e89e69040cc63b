"""Logins, users and roles: CREATE, ALTER, DROP, membership, ALTER AUTHORIZATION."""

from __future__ import annotations

import secrets

from tsqldev.catalog.bootstrap import role_sid
from tsqldev.catalog.databases import may_give_to
from tsqldev.catalog.passwords import hash_password, is_hash, meets_policy
from tsqldev.catalog.statement import Statement, no_permission
from tsqldev.catalog.tokens import BINARY
from tsqldev.errors import SqlError, unsupported

_REFUSED = "User does not have permission to perform this action."


def _binary(st: Statement) -> bytes:
    token = st.read.next()
    if token.kind != BINARY:
        raise st.read.error()
    digits = token.value[2:]
    return bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits)


def _password(st: Statement) -> tuple[bytes, str | None]:
    """(hash, the clear text where it was given): PASSWORD = '...' or 0x... HASHED, with MUST_CHANGE refused."""
    read = st.read
    if read.token.kind == BINARY:
        value = _binary(st)
        read.expect("HASHED")
        if not is_hash(value):
            raise SqlError(15021, "Invalid value given for parameter PASSWORD. Specify a valid parameter value.")
        return value, None
    clear = read.string()
    if read.take("MUST_CHANGE"):
        raise unsupported("MUST_CHANGE")
    return hash_password(clear), clear


def _language_or_name(st: Statement) -> str:
    return st.read.name_or_string()


def _on(st: Statement) -> bool:
    value = st.read.take_any("ON", "OFF")
    if value is None:
        raise st.read.error()
    return value == "ON"


def create_login(st: Statement) -> None:
    read = st.read
    read.expect("CREATE", "LOGIN")
    name = read.name()
    if read.take("FROM"):
        raise unsupported(f"CREATE LOGIN ... FROM {read.token.text}")
    read.expect("WITH", "PASSWORD", "=")
    stored, clear = _password(st)
    sid = b""
    policy, expiration, database, language = True, False, "master", "us_english"
    while read.take(","):
        option = read.name().upper()
        read.expect("=")
        if option == "SID":
            sid = _binary(st)
        elif option == "CHECK_POLICY":
            policy = _on(st)
        elif option == "CHECK_EXPIRATION":
            expiration = _on(st)
        elif option == "DEFAULT_DATABASE":
            database = read.name()
        elif option == "DEFAULT_LANGUAGE":
            language = _language_or_name(st)
        else:
            raise unsupported(f"the login option {option}")
    read.end()
    if not st.holds("SERVER", 0, "ALTER ANY LOGIN") and not st.holds("SERVER", 0, "CREATE LOGIN"):
        raise SqlError(15247, _REFUSED)
    if "\\" in name:
        raise SqlError(15006, f"'{name}' is not a valid name because it contains invalid characters.")
    if st.one("select 1 from meta.logins where key = meta.fold(%s)", name):
        raise SqlError(15025, f"The server principal '{name}' already exists.")
    if clear is not None and policy and not meets_policy(clear, name):
        raise SqlError(
            15118,
            "Password validation failed. The password does not meet the operating system policy requirements"
            " because it is not complex enough.",
        )
    if expiration and not policy:
        raise SqlError(15122, "The CHECK_EXPIRATION option cannot be used when CHECK_POLICY is OFF.")
    if sid and len(sid) != 16:
        raise SqlError(15419, "Supplied parameter sid should be binary(16).")
    sid = sid or secrets.token_bytes(16)
    if st.one("select 1 from meta.logins where sid = %s", sid):
        raise SqlError(15433, "Supplied parameter sid is in use.")
    login_id = st.value("select nextval('meta.login_ids')::int")
    st.run(
        "insert into meta.logins (principal_id, name, type, sid, password_hash, default_database, default_language,"
        " check_policy, check_expiration) values (%s, %s, 'S', %s, %s, %s, %s, %s, %s)",
        *(login_id, name, sid, stored, database, language, policy, expiration),
    )
    st.run(
        "insert into meta.permissions values (0, 100, 0, 0, %s, %s, 'CONNECT SQL', 'G')",
        login_id,
        st.principal.login_id,
    )
    st.changed()


def _login(st: Statement, verb: str, name: str, kind: str = "S") -> tuple[int, str]:
    """The login or server role, where the caller may alter it. Raises 15151."""
    row = st.one("select principal_id, name from meta.logins where key = meta.fold(%s) and type = %s", name, kind)
    word, securable = ("login", "LOGIN") if kind == "S" else ("server role", "SERVER ROLE")
    if row is None or not st.holds(securable, row[0], "ALTER"):
        raise no_permission(f"{verb} {word}", name)
    privileged = st.value("select meta.is_sysadmin(%s)", row[0]) and not st.value(
        "select meta.is_sysadmin(%s)", st.principal.login_id
    )
    if kind == "S" and privileged and row[0] != st.principal.login_id:
        raise no_permission(f"{verb} {word}", name)
    return row[0], row[1]


def alter_login(st: Statement) -> None:
    read = st.read
    read.expect("ALTER", "LOGIN")
    name = read.name()
    own = name.casefold() == st.principal.login.casefold()
    if read.peek("ENABLE") or read.peek("DISABLE"):
        disabled = read.next().value == "DISABLE"
        read.end()
        login_id, _ = _login(st, "alter", name)
        st.run(
            "update meta.logins set is_disabled = %s, modify_date = meta.now() where principal_id = %s",
            disabled,
            login_id,
        )
        st.changed()
        return
    read.expect("WITH")
    changes: list[tuple[str, object]] = []
    clear: str | None = None
    old: str | None = None
    policy: bool | None = None
    while True:
        option = read.name().upper()
        read.expect("=")
        if option == "PASSWORD":
            stored, clear = _password(st)
            changes.append(("password_hash", stored))
            if read.take("OLD_PASSWORD", "="):
                old = read.string()
            elif read.take("UNLOCK"):
                pass
        elif option == "NAME":
            changes.append(("name", read.name()))
        elif option == "DEFAULT_DATABASE":
            changes.append(("default_database", read.name()))
        elif option == "DEFAULT_LANGUAGE":
            changes.append(("default_language", _language_or_name(st)))
        elif option == "CHECK_POLICY":
            policy = _on(st)
            changes.append(("check_policy", policy))
        elif option == "CHECK_EXPIRATION":
            changes.append(("check_expiration", _on(st)))
        else:
            raise unsupported(f"the login option {option}")
        if not read.take(","):
            break
    read.end()
    if own and old is not None and [change[0] for change in changes] == ["password_hash"]:
        login_id = st.access.authenticate(name, old).login_id
    else:
        login_id, _ = _login(st, "alter", name)
    row = st.one("select check_policy, name from meta.logins where principal_id = %s", login_id)
    if clear is not None and (policy if policy is not None else row[0]) and not meets_policy(clear, row[1]):
        raise SqlError(
            15118,
            "Password validation failed. The password does not meet the operating system policy requirements"
            " because it is not complex enough.",
        )
    for column, value in changes:
        if column == "name" and st.one(
            "select 1 from meta.logins where key = meta.fold(%s) and principal_id <> %s", value, login_id
        ):
            raise SqlError(15025, f"The server principal '{value}' already exists.")
        st.run(
            f"update meta.logins set {column} = %s, modify_date = meta.now() where principal_id = %s", value, login_id
        )
    st.changed()


def drop_login(st: Statement) -> None:
    read = st.read
    read.expect("DROP", "LOGIN")
    name = read.name()
    read.end()
    login_id, stored = _login(st, "drop", name)
    sid = st.value("select sid from meta.logins where principal_id = %s", login_id)
    if login_id == 1:
        raise no_permission("drop login", stored)
    if login_id == st.principal.login_id or bytes(sid) in st.context.connected():
        raise SqlError(15434, f"Could not drop login '{stored}' as the user is currently logged in.")
    owned = st.value("select name from meta.databases where owner_sid = %s", sid)
    if owned is not None:
        raise SqlError(
            15174,
            f"Login '{stored}' owns one or more database(s). Change the owner of the database(s) before"
            " dropping the login.",
        )
    if st.one(
        "select 1 from meta.permissions where database_id = 0 and grantor = %s and grantee <> %s", login_id, login_id
    ):
        raise SqlError(
            15173,
            f"Server principal '{stored}' has granted one or more permission(s). Revoke the permission(s)"
            " before dropping the server principal.",
        )
    if st.one("select 1 from meta.logins where owning_principal_id = %s", login_id):
        raise SqlError(15141, "The server principal owns a server role and cannot be dropped.")
    st.run(
        "delete from meta.permissions where database_id = 0 and (grantee = %s or (class = 101 and major_id = %s))",
        login_id,
        login_id,
    )
    st.run("delete from meta.role_members where database_id = 0 and member_id = %s", login_id)
    st.run("delete from meta.logins where principal_id = %s", login_id)
    st.changed()


# ---- users


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
    st.changed()


def _new_principal(st: Statement, name: str) -> int:
    if st.one("select 1 from meta.principals where database_id = %s and key = meta.fold(%s)", st.database_id, name):
        raise SqlError(15023, f"User, group, or role '{name}' already exists in the current database.")
    return int(st.value(f"select nextval('meta.principal_ids_{st.database_id}')"))


def _principal(st: Statement, verb: str, name: str, kind: str) -> tuple[int, str]:
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
    user_id, _ = _principal(st, "alter", name, "S")
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
            _set(st, user_id, "name", new)
        elif option == "DEFAULT_SCHEMA":
            _set(st, user_id, "default_schema", read.name())
        elif option == "LOGIN":
            sid = st.value("select sid from meta.logins where key = meta.fold(%s) and type = 'S'", read.name())
            if sid is None:
                raise SqlError(15007, f"'{name}' is not a valid login or you do not have permission.")
            _set(st, user_id, "sid", bytes(sid))
        else:
            raise unsupported(f"the user option {option}")
        if not read.take(","):
            break
    read.end()
    st.changed()


def _set(st: Statement, principal_id: int, column: str, value: object) -> None:
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
    principal_id, stored = _principal(st, "drop", name, kind)
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
    st.run("delete from meta.principals where database_id = %s and principal_id = %s", st.database_id, principal_id)
    st.changed()


# ---- roles


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
    st.changed()


def alter_role(st: Statement) -> None:
    read = st.read
    read.expect("ALTER", "ROLE")
    name = read.name()
    if read.take("WITH", "NAME", "="):
        role_id, _ = _principal(st, "alter", name, "R")
        new = read.name()
        read.end()
        if st.one(
            "select 1 from meta.principals where database_id = %s and key = meta.fold(%s) and principal_id <> %s",
            st.database_id,
            new,
            role_id,
        ):
            raise SqlError(15023, f"User, group, or role '{new}' already exists in the current database.")
        _set(st, role_id, "name", new)
    else:
        add = read.take("ADD")
        if not add:
            read.expect("DROP")
        read.expect("MEMBER")
        member = read.name()
        read.end()
        change_membership(st, name, member, add=add)
    st.changed()


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
    st.changed()


def create_server_role(st: Statement) -> None:
    read = st.read
    read.expect("CREATE", "SERVER", "ROLE")
    name = read.name()
    owner = st.principal.login_id
    if read.take("AUTHORIZATION"):
        owner_name = read.name()
        owner = st.value("select principal_id from meta.logins where key = meta.fold(%s)", owner_name)
        if owner is None:
            raise no_permission("find login", owner_name)
    read.end()
    if not st.holds("SERVER", 0, "CREATE SERVER ROLE"):
        raise SqlError(15247, _REFUSED)
    if st.one("select 1 from meta.logins where key = meta.fold(%s)", name):
        raise SqlError(15025, f"The server principal '{name}' already exists.")
    st.run(
        "insert into meta.logins (principal_id, name, type, sid, owning_principal_id)"
        " values (nextval('meta.login_ids'), %s, 'R', %s, %s)",
        *(name, role_sid(f"server/{name}")[-16:], owner),
    )
    st.changed()


def alter_server_role(st: Statement) -> None:
    read = st.read
    read.expect("ALTER", "SERVER", "ROLE")
    name = read.name()
    add = read.take("ADD")
    if not add:
        read.expect("DROP")
    read.expect("MEMBER")
    member = read.name()
    read.end()
    change_server_membership(st, name, member, add=add)


def change_server_membership(st: Statement, role: str, member: str, *, add: bool) -> None:
    row = st.one("select principal_id, is_fixed_role from meta.logins where key = meta.fold(%s) and type = 'R'", role)
    # A member of a fixed role may add to that role; sysadmin to any.
    inside = row is not None and st.value("select %s in (select meta.login_tokens(%s))", row[0], st.principal.login_id)
    allowed = row is not None and ((inside and row[1]) or st.holds("SERVER ROLE", row[0], "ALTER"))
    if row is not None and row[0] == 3 and not st.value("select meta.is_sysadmin(%s)", st.principal.login_id):
        allowed = False
    if row is None or not allowed or row[0] == 2:
        raise no_permission("alter server role", role)
    found = st.value("select principal_id from meta.logins where key = meta.fold(%s)", member)
    if found is None:
        raise no_permission(f"{'add' if add else 'drop'} principal", member)
    if found == 1 and not add and row[0] == 3:
        raise SqlError(15405, "Cannot use the special principal 'sa'.")
    if add:
        st.run("insert into meta.role_members values (0, %s, %s) on conflict do nothing", row[0], found)
    else:
        st.run("delete from meta.role_members where database_id = 0 and role_id = %s and member_id = %s", row[0], found)
    st.changed()


def drop_server_role(st: Statement) -> None:
    read = st.read
    read.expect("DROP", "SERVER", "ROLE")
    quietly = read.take("IF", "EXISTS")
    name = read.name()
    read.end()
    if quietly and not st.one("select 1 from meta.logins where key = meta.fold(%s) and type = 'R'", name):
        return
    role_id, stored = _login(st, "drop", name, "R")
    if role_id <= 10:
        raise SqlError(15150, f"Cannot drop the server role '{stored}'.")
    if st.one("select 1 from meta.role_members where database_id = 0 and role_id = %s", role_id):
        raise SqlError(15144, "The role has members. It must be empty before it can be dropped.")
    st.run("delete from meta.permissions where database_id = 0 and grantee = %s", role_id)
    st.run("delete from meta.role_members where database_id = 0 and member_id = %s", role_id)
    st.run("delete from meta.logins where principal_id = %s", role_id)
    st.changed()


# ---- owners


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
        role_id, _ = _principal(st, "find", parts[-1], "R")
        _set(st, role_id, "owning_principal_id", _new_owner(st, new))
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
