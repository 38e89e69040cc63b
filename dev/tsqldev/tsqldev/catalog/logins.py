"""Logins and server roles: CREATE, ALTER, DROP, membership."""

from __future__ import annotations

import secrets

from tsqldev.catalog.bootstrap import role_sid
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
    st.changed(names=False)


def _login(st: Statement, verb: str, name: str, kind: str = "S") -> tuple[int, str]:
    """The login or server role, where the caller may alter it. Raises 15151."""
    row = st.one("select principal_id, name from meta.logins where key = meta.fold(%s) and type = %s", name, kind)
    word, securable = ("login", "LOGIN") if kind == "S" else ("server role", "SERVER ROLE")
    if row is None or not st.holds(securable, row[0], "ALTER"):
        raise no_permission(f"{verb} {word}", name)
    # The documented rule for members of sysadmin and for who is granted CONTROL SERVER.
    privileged = st.value("select meta.server_permission(%s, 'CONTROL SERVER')", row[0])
    if kind == "S" and privileged and row[0] != st.principal.login_id and not st.holds("SERVER", 0, "CONTROL SERVER"):
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
        st.changed(names=False)
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
    st.changed(names=False)


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
    st.changed(names=False)


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
    st.changed(names=False)


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
    st.changed(names=False)


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
    st.changed(names=False)
