"""GRANT, DENY and REVOKE."""

from __future__ import annotations

from dataclasses import dataclass

from tsqldev.catalog.permissions import BY_CLASS, CLASS_ID
from tsqldev.catalog.statement import Statement, no_permission
from tsqldev.catalog.tokens import WORD
from tsqldev.errors import SqlError, unsupported


@dataclass(frozen=True, slots=True)
class _Securable:
    """`class_desc` as in permissions.py; `shown` for messages."""

    class_desc: str
    major_id: int
    shown: str

    @property
    def server(self) -> bool:
        return self.class_desc in ("SERVER", "LOGIN", "SERVER ROLE", "ENDPOINT")


def change_permissions(st: Statement) -> None:
    read = st.read
    verb = read.next().value
    option_only = verb == "REVOKE" and read.take("GRANT", "OPTION", "FOR")
    names, columns = _permissions(st)
    if columns:
        raise unsupported("permissions on columns")
    securable = _securable(st, names)
    if verb == "REVOKE":
        if not read.take("TO"):
            read.expect("FROM")
    else:
        read.expect("TO")
    grantees = [read.name()]
    while read.take(","):
        grantees.append(read.name())
    with_grant = read.take("WITH", "GRANT", "OPTION")
    cascade = read.take("CASCADE")
    as_role = read.name() if read.take("AS") else None
    read.end()
    if as_role is not None and as_role.casefold() not in ("dbo", st.principal.user.casefold()):
        raise unsupported("GRANT ... AS")
    for name in names:
        _require_grantable(st, securable, name)
        for grantee in grantees:
            principal_id = _grantee(st, securable, grantee)
            _apply(
                st, verb, securable, name, principal_id, with_grant=with_grant, cascade=cascade, option_only=option_only
            )
    st.changed(names=False)


def _permissions(st: Statement) -> tuple[list[str], bool]:
    """The permission names, and whether a column list was among them."""
    read = st.read
    names: list[str] = []
    columns = False
    while True:
        words = []
        while read.token.kind == WORD and not (read.peek("ON") or read.peek("TO") or read.peek("FROM")):
            words.append(read.next().value)
        if not words:
            raise read.error()
        names.append(" ".join(words))
        if read.peek("("):
            read.parenthesised()
            columns = True
        if not read.take(","):
            break
    if names in (["ALL"], ["ALL PRIVILEGES"]):
        raise unsupported("GRANT ALL")
    return ["EXECUTE" if name == "EXEC" else name for name in names], columns


def _securable(st: Statement, names: list[str]) -> _Securable:
    read = st.read
    if not read.take("ON"):
        if all(name in BY_CLASS["DATABASE"] for name in names):
            return _Securable("DATABASE", 0, st.principal.database)
        if all(name in BY_CLASS["SERVER"] for name in names):
            if st.database_id != 1:
                raise SqlError(
                    4621, "Permissions at the server scope can only be granted when the current database is master."
                )
            return _Securable("SERVER", 0, "server")
        raise SqlError(102, f"Incorrect syntax near '{names[0]}'.", severity=15)
    kind = "OBJECT"
    if read.peek("SERVER", "ROLE"):
        read.next()
        read.next()
        kind = "SERVER ROLE"
        read.expect("::")
    elif read.token.kind == WORD and read.ahead().value == "::":
        kind = read.next().value
        read.expect("::")
    parts = read.qualified()
    if read.peek("("):
        raise unsupported("permissions on columns")
    name = parts[-1]
    if kind not in BY_CLASS:
        raise unsupported(f"permissions on {kind}")
    for permission in names:
        if permission not in BY_CLASS[kind]:
            raise SqlError(102, f"Incorrect syntax near '{permission}'.", severity=15)
    if kind == "DATABASE":
        database_id, stored = st.database(name)
        if database_id != st.database_id:
            raise SqlError(
                15151, f"Cannot find the database '{name}', because it does not exist or you do not have permission."
            )
        return _Securable(kind, 0, stored)
    if kind == "SCHEMA":
        row = st.one(
            "select schema_id, name from meta.schemas where database_id = %s and key = meta.fold(%s)",
            st.database_id,
            name,
        )
    elif kind == "OBJECT":
        found = st.find(parts, "U", "V", "P")
        row = None if found is None else (found.object_id, found.name)
        if found is not None and found.database_id != st.database_id:
            raise SqlError(4610, "You can only grant or revoke permissions on objects in the current database.")
    elif kind in ("USER", "ROLE"):
        row = st.one(
            "select principal_id, name from meta.principals where database_id = %s and key = meta.fold(%s)"
            " and type = %s",
            *(st.database_id, name, "S" if kind == "USER" else "R"),
        )
    elif kind == "ENDPOINT":
        endpoints = {"tsql local machine": 2, "tsql named pipes": 3, "tsql default tcp": 4, "tsql default via": 5}
        row = (endpoints[name.lower()], name) if name.lower() in endpoints else None
    else:
        row = st.one(
            "select principal_id, name from meta.logins where key = meta.fold(%s) and (type = 'R') = %s",
            name,
            kind == "SERVER ROLE",
        )
    if row is None:
        raise no_permission(f"find {kind.lower()}", name)
    if kind in ("LOGIN", "SERVER ROLE", "ENDPOINT") and st.database_id != 1:
        raise SqlError(4621, "Permissions at the server scope can only be granted when the current database is master.")
    return _Securable(kind, row[0], row[1])


def _require_grantable(st: Statement, on: _Securable, permission: str) -> None:
    """CONTROL of the securable, or the permission itself WITH GRANT OPTION."""
    if on.class_desc == "SERVER":
        allowed = st.holds("SERVER", 0, "CONTROL SERVER")
        # securityadmin grants any permission of the server.
        allowed = allowed or bool(st.value("select 4 in (select meta.login_tokens(%s))", st.principal.login_id))
        if not allowed and not _may_pass_on(st, on, permission):
            raise SqlError(15247, "User does not have permission to perform this action.")
        return
    if st.holds(on.class_desc, on.major_id, "CONTROL") or _may_pass_on(st, on, permission):
        return
    if not on.server and st.value(
        "select 16386 in (select meta.user_tokens(%s, %s))", st.database_id, st.principal.user_id
    ):
        return  # db_securityadmin grants any permission in the database.
    if on.class_desc == "DATABASE":
        raise SqlError(15247, "User does not have permission to perform this action.")
    raise no_permission(f"find {on.class_desc.lower()}", on.shown)


def _may_pass_on(st: Statement, on: _Securable, permission: str) -> bool:
    tokens = (
        st.run("select meta.login_tokens(%s)", st.principal.login_id)
        if on.server
        else st.run("select meta.user_tokens(%s, %s)", st.database_id, st.principal.user_id)
    )
    return bool(
        st.one(
            "select 1 from meta.permissions where database_id = %s and class = %s and major_id = %s and permission = %s"
            " and state = 'W' and grantee = any (%s)",
            *(0 if on.server else st.database_id, CLASS_ID[on.class_desc], on.major_id, permission),
            [row[0] for row in tokens],
        )
    )


def _grantee(st: Statement, on: _Securable, name: str) -> int:
    if on.server:
        row = st.one("select principal_id from meta.logins where key = meta.fold(%s)", name)
        if row is None:
            raise no_permission("find login", name)
        if row[0] == 1 or row[0] == st.principal.login_id:
            raise SqlError(
                4624,
                "Cannot grant, deny, or revoke permissions to sa, dbo, entity owner, information_schema, sys, or"
                " yourself.",
            )
        return int(row[0])
    row = st.one(
        "select principal_id, is_fixed_role from meta.principals where database_id = %s and key = meta.fold(%s)",
        st.database_id,
        name,
    )
    if row is None:
        raise no_permission("find user", name)
    owner = None
    if on.class_desc == "OBJECT":
        owner = st.value(
            "select coalesce(o.principal_id, s.principal_id) from meta.objects o join meta.schemas s using"
            " (database_id, schema_id) where o.object_id = %s",
            on.major_id,
        )
    elif on.class_desc == "SCHEMA":
        owner = st.value(
            "select principal_id from meta.schemas where database_id = %s and schema_id = %s",
            st.database_id,
            on.major_id,
        )
    if row[0] in (1, 3, 4, st.principal.user_id, owner):
        raise SqlError(
            4624,
            "Cannot grant, deny, or revoke permissions to sa, dbo, entity owner, information_schema, sys, or yourself.",
        )
    if row[1]:
        raise SqlError(4617, "Cannot grant, deny or revoke permissions to or from special roles.")
    return int(row[0])


def _apply(
    st: Statement,
    verb: str,
    on: _Securable,
    permission: str,
    grantee: int,
    *,
    with_grant: bool,
    cascade: bool,
    option_only: bool,
) -> None:
    database_id = 0 if on.server else st.database_id
    key = (database_id, CLASS_ID[on.class_desc], on.major_id, grantee, permission)
    where = "database_id = %s and class = %s and major_id = %s and minor_id = 0 and grantee = %s and permission = %s"
    passed_on = st.one(f"select 1 from meta.permissions where {where} and state = 'W'", *key)
    if (verb == "DENY" or (verb == "REVOKE" and passed_on)) and passed_on and not cascade:
        raise SqlError(4611, "To revoke or deny grantable privileges, specify the CASCADE option.")
    if cascade and passed_on:
        # What the grantee passed on goes with it.
        st.run(
            "delete from meta.permissions where database_id = %s and class = %s and major_id = %s and"
            " permission = %s and grantor = %s",
            *(key[0], key[1], key[2], permission, grantee),
        )
    if option_only:
        st.run(f"update meta.permissions set state = 'G' where {where} and state = 'W'", *key)
        return
    st.run(f"delete from meta.permissions where {where}", *key)
    if verb == "REVOKE":
        return
    grantor = st.principal.login_id if on.server else st.principal.user_id
    if on.class_desc in ("OBJECT", "SCHEMA"):
        grantor = _owner_or_self(st, on)
    elif (not on.server and st.holds("DATABASE", 0, "CONTROL")) or (
        on.server and st.value("select meta.is_sysadmin(%s)", st.principal.login_id)
    ):
        grantor = 1
    state = "D" if verb == "DENY" else "W" if with_grant else "G"
    st.run(
        "insert into meta.permissions (database_id, class, major_id, grantee, grantor, permission, state)"
        " values (%s, %s, %s, %s, %s, %s, %s)",
        *(key[0], key[1], key[2], grantee, grantor, permission, state),
    )


def _owner_or_self(st: Statement, on: _Securable) -> int:
    """The grantor that is recorded: the owner of the securable where the caller acts with its rights."""
    if on.class_desc == "OBJECT":
        owner = st.value(
            "select coalesce(o.principal_id, s.principal_id) from meta.objects o join meta.schemas s using"
            " (database_id, schema_id) where o.object_id = %s",
            on.major_id,
        )
    else:
        owner = st.value(
            "select principal_id from meta.schemas where database_id = %s and schema_id = %s",
            st.database_id,
            on.major_id,
        )
    return int(owner) if st.holds(on.class_desc, on.major_id, "CONTROL") else st.principal.user_id
