"""Who a session acts as, and the settings through which PostgreSQL functions of schema meta know it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import psycopg

from tsqldev.catalog.passwords import verify_password
from tsqldev.errors import SqlError
from tsqldev.interfaces import ObjectUse

Connection = psycopg.Connection[Any]
T = TypeVar("T")


class Fact(Protocol):
    """Answers what `ask` answers, which follows from the definitions and `key`; it need not ask each time."""

    def __call__(self, key: Hashable, ask: Callable[[], T]) -> T: ...


def _asked(key: Hashable, ask: Callable[[], T]) -> T:
    return ask()


@dataclass(frozen=True, slots=True)
class Login:
    """A server principal. `login_id` 0 is the nobody behind a user without login."""

    login_id: int
    name: str
    sid: bytes
    default_database: str = "master"
    default_language: str = "us_english"


@dataclass(frozen=True, slots=True)
class Principal:
    """The effective identity of a session in one database.

    `server_scope` is false inside EXECUTE AS USER (and in a module with EXECUTE AS): then no right at the server's
    level, and no other database, follows from the login.
    """

    login_id: int
    login: str
    database_id: int
    database: str
    user_id: int
    user: str
    default_schema: str = "dbo"
    server_scope: bool = True

    def settings(self) -> dict[str, str]:
        """Give these to `set_config(name, value, false)` whenever the principal or the database changes."""
        return {
            "tsql.db": str(self.database_id),
            "tsql.login": str(self.login_id),
            "tsql.user": str(self.user_id),
            "tsql.server_scope": "1" if self.server_scope else "0",
        }


class Access:
    """Authentication, entering databases, impersonation, and checks of rights, over the session's own connection."""

    def __init__(self, connection: Connection, fact: Fact = _asked) -> None:
        self.connection = connection
        self._fact = fact

    def authenticate(self, user: str, password: str) -> Login:
        """Raises 18456 for a wrong name or password, or a login that may not connect; 18470 for a disabled one."""
        row = self._fact(
            ("login", user),
            lambda: self._row(
                "select principal_id, name, sid, password_hash, is_disabled, default_database, default_language,"
                " meta.server_permission(principal_id, 'CONNECT SQL')"
                " from meta.logins where key = meta.fold(%s) and type = 'S'",
                user,
            ),
        )
        failed = SqlError(18456, f"Login failed for user '{user}'.", severity=14)
        if row is None or row[3] is None or not verify_password(password, bytes(row[3])):
            raise failed
        if row[4]:
            raise SqlError(18470, f"Login failed for user '{user}'. Reason: The account is disabled.", severity=14)
        if not row[7]:
            raise failed
        return Login(row[0], row[1], bytes(row[2]), row[5] or "master", row[6] or "us_english")

    def enter(self, login_id: int, database: str) -> Principal:
        """The login's identity in a database. Raises 911 (no such database) or 916 (no user there)."""
        return self._fact(("enter", login_id, database), lambda: self._enter(login_id, database))

    def _enter(self, login_id: int, database: str) -> Principal:
        row = self._row(
            "select d.database_id, d.name, l.name, meta.user_of(d.database_id, l.principal_id)"
            " from meta.databases d, meta.logins l where d.key = meta.fold(%s) and l.principal_id = %s",
            database,
            login_id,
        )
        if row is None:
            raise SqlError(911, f"Database '{database}' does not exist. Make sure that the name is entered correctly.")
        refused = SqlError(
            916,
            f'The server principal "{row[2]}" is not able to access the database "{row[1]}" under the current security'
            " context.",
            severity=14,
        )
        if row[3] is None:
            raise refused
        if row[3] != 1 and not self._value(
            "select meta.has_permission(%s, %s, %s, 'DATABASE', 0, 'CONNECT')", login_id, row[0], row[3]
        ):
            raise refused
        return self._principal(login_id, row[2], row[0], row[1], row[3])

    def open(self, login: Login, database: str) -> Principal:
        """At login: 4060 for a database asked for, 4064 for the default one, and 18456 follows from either."""
        try:
            return self.enter(login.login_id, database or login.default_database)
        except SqlError as error:
            if error.number not in (911, 916):
                raise
            if not database:
                raise SqlError(4064, "Cannot open user default database. Login failed.", severity=11) from error
            raise SqlError(
                4060, f'Cannot open database "{database}" requested by the login. The login failed.', severity=11
            ) from error

    def as_login(self, caller: Principal, name: str) -> Principal:
        """EXECUTE AS LOGIN. Raises 15406 where the login does not exist or may not be impersonated."""
        refused = SqlError(
            15406,
            f'Cannot execute as the server principal because the principal "{name}" does not exist, this type of'
            " principal cannot be impersonated, or you do not have permission.",
        )
        row = self._row(
            "select principal_id, meta.has_permission(%s, 0, 0, 'LOGIN', principal_id, 'IMPERSONATE')"
            " from meta.logins where key = meta.fold(%s) and type = 'S'",
            caller.login_id if caller.server_scope else 0,
            name,
        )
        if row is None or not row[1]:
            raise refused
        return self.enter(row[0], caller.database)

    def as_user(self, caller: Principal, name: str, *, checked: bool = True) -> Principal:
        """EXECUTE AS USER, or, unchecked, the identity of a module. Raises 15517 where it may not be impersonated."""
        row = self._row(
            "select p.principal_id, p.name, coalesce(l.principal_id, 0), coalesce(l.name, p.name),"
            " meta.has_permission(%s, %s, %s, 'USER', p.principal_id, 'IMPERSONATE')"
            " from meta.principals p left join meta.logins l on l.sid = p.sid"
            " where p.database_id = %s and p.key = meta.fold(%s) and p.type = 'S' and p.principal_id not in (3, 4)",
            caller.login_id if caller.server_scope else 0,
            caller.database_id,
            caller.user_id,
            caller.database_id,
            name,
        )
        if row is None or (checked and not row[4]):
            raise SqlError(
                15517,
                f'Cannot execute as the database principal because the principal "{name}" does not exist, this type of'
                " principal cannot be impersonated, or you do not have permission.",
            )
        found = self._principal(row[2], row[3], caller.database_id, caller.database, row[0])
        return Principal(
            found.login_id,
            found.login,
            found.database_id,
            found.database,
            found.user_id,
            found.user,
            found.default_schema,
            server_scope=False,
        )

    def user_name(self, database_id: int, principal_id: int) -> str:
        name = self._value(
            "select name from meta.principals where database_id = %s and principal_id = %s", database_id, principal_id
        )
        return str(name)

    def holds(self, principal: Principal, class_desc: str, major_id: int, permission: str) -> bool:
        """Whether the principal has a right in its own database (or, class SERVER, at the server)."""
        right = (
            principal.login_id if principal.server_scope else 0,
            principal.database_id,
            principal.user_id,
            class_desc,
            major_id,
            permission,
        )
        asked = "select meta.has_permission(%s, %s, %s, %s, %s, %s)"
        return self._fact(("right", right), lambda: bool(self._value(asked, *right)))

    def require_server(self, principal: Principal, permission: str) -> None:
        """Raises 300 where a right at the server's level is missing."""
        if not self.holds(principal, "SERVER", 0, permission):
            raise SqlError(
                300,
                f"{permission} permission was denied on object 'server', database 'master'.",
                severity=14,
            )

    def check(self, uses: list[ObjectUse], principal: Principal, chain_owner: int | None = None) -> None:
        """Raises 229 for the first use that is not allowed.

        `chain_owner` is the owner of the module that runs (None at the top): ownership chaining skips the check of
        an object of the same owner in the same database.
        """
        for use in uses:
            here = use.database.casefold() == principal.database.casefold()
            if chain_owner is not None and here and use.through is None and use.owner_id == chain_owner:
                continue
            user = principal if here else self._other(principal, use.database)
            if use.permission != "CONNECT" and not self.holds(user, "OBJECT", use.object_id, use.permission):
                raise self._denied(use)

    def _other(self, principal: Principal, database: str) -> Principal:
        if not principal.server_scope:
            raise SqlError(
                916,
                f'The server principal "{principal.login}" is not able to access the database "{database}" under the'
                " current security context.",
                severity=14,
            )
        return self.enter(principal.login_id, database)

    def _denied(self, use: ObjectUse) -> SqlError:
        row = self._row(
            "select o.name, s.name from meta.objects o join meta.schemas s using (database_id, schema_id)"
            " where o.object_id = %s",
            use.object_id,
        )
        name, schema = row if row is not None else (str(use.object_id), "dbo")
        return SqlError(
            229,
            f"The {use.permission} permission was denied on the object '{name}', database '{use.database}',"
            f" schema '{schema}'.",
            severity=14,
            state=5,
        )

    def _principal(self, login_id: int, login: str, database_id: int, database: str, user_id: int) -> Principal:
        row = self._row(
            "select name, coalesce(default_schema, 'dbo') from meta.principals"
            " where database_id = %s and principal_id = %s",
            database_id,
            user_id,
        )
        if row is None:
            raise SqlError(15151, "Cannot find the user, because it does not exist or you do not have permission.")
        return Principal(login_id, login, database_id, database, user_id, row[0], row[1])

    def _row(self, query: str, *values: object) -> Any:
        return self.connection.cursor(row_factory=psycopg.rows.tuple_row).execute(query, values).fetchone()

    def _value(self, query: str, *values: object) -> Any:
        row = self._row(query, *values)
        return None if row is None else row[0]
