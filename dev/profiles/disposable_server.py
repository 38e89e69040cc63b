"""A SQL Server that somebody declared disposable: looked at before a profile runs there, and emptied after it.

Empty means: no database besides the system's, no login besides those that a server is installed with and the one that
runs the profile, and no server trigger. Anything else is somebody's, and then nothing is run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: What a new server has besides `sa`: certificate logins, the operating system's accounts, and fixed server roles.
_INSTALLED = ("##", "NT AUTHORITY\\", "NT SERVICE\\", "BUILTIN\\")

#: SQL_ATTR_LOGIN_TIMEOUT of ODBC.
_LOGIN_TIMEOUT = 103

_DATABASES = "SELECT d.name FROM sys.databases AS d WHERE d.database_id > 4 ORDER BY d.name"
_LOGINS = (
    "SELECT p.name FROM sys.server_principals AS p "
    "WHERE p.type <> 'R' AND p.principal_id <> 1 AND p.sid <> SUSER_SID() ORDER BY p.name"
)
_SESSIONS = "SELECT s.session_id FROM sys.dm_exec_sessions AS s WHERE s.is_user_process = 1 AND s.session_id <> @@SPID"
_TRIGGERS = "SELECT t.name FROM sys.server_triggers AS t ORDER BY t.name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What is on a server besides what it was installed with."""

    databases: tuple[str, ...]
    logins: tuple[str, ...]
    triggers: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.databases or self.logins or self.triggers)

    def __str__(self) -> str:
        return f"{len(self.databases)} databases, {len(self.logins)} logins, {len(self.triggers)} server triggers"


@dataclass(frozen=True, slots=True, kw_only=True)
class DisposableServer:
    """Where it is. The password stays in its file, which the tests read as well."""

    dsn: str
    password_file: Path
    login_timeout: int = 15

    def connect(self) -> Any:
        import mssql_python

        mssql_python.pooling(enabled=False)
        password = self.password_file.read_text(encoding="utf-8").split("\n", 1)[0]
        quoted = password.replace("}", "}}")
        text = f"{self.dsn.rstrip(';')};PWD={{{quoted}}};DATABASE=master;Encrypt=yes;TrustServerCertificate=yes;"
        return mssql_python.connect(text, autocommit=True, attrs_before={_LOGIN_TIMEOUT: self.login_timeout})

    def environment(self) -> dict[str, str]:
        """What the tests are given: where the server is, and which file holds the password."""
        return {"MSSQL_TEST_DSN": self.dsn, "MSSQL_TEST_PASSWORD_FILE": str(self.password_file)}


def contents(connect: Callable[[], Any]) -> Contents:
    """Look. Installed logins are left out by their names, which nobody else may use on a server."""
    connection = connect()
    try:
        databases, logins, triggers = (
            tuple(str(row[0]) for row in connection.execute(query).fetchall())
            for query in (_DATABASES, _LOGINS, _TRIGGERS)
        )
    finally:
        connection.close()
    return Contents(
        databases=databases,
        logins=tuple(name for name in logins if not name.startswith(_INSTALLED)),
        triggers=triggers,
    )


def clear(connect: Callable[[], Any], *, patience: float = 30.0) -> None:
    """Remove everything that ``contents`` shows: LOGON triggers first, which could keep out who comes after them."""
    found = contents(connect)
    connection = connect()
    try:
        for name in found.triggers:
            connection.execute(f"DROP TRIGGER {_quoted(name)} ON ALL SERVER")
        _end_sessions(connection, patience)
        for name in found.databases:
            connection.execute(f"DROP DATABASE {_quoted(name)}")
        for name in found.logins:
            connection.execute(f"DROP LOGIN {_quoted(name)}")
    finally:
        connection.close()


def _end_sessions(connection: Any, patience: float) -> None:
    """A database with sessions is not dropped, nor is a login. A killed session goes when it has rolled back."""
    deadline = time.monotonic() + patience
    while sessions := [row[0] for row in connection.execute(_SESSIONS).fetchall()]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(sessions)} sessions do not end")
        for number in sessions:
            gone = f"IF EXISTS (SELECT 1 FROM sys.dm_exec_sessions AS s WHERE s.session_id = {int(number)}) "
            connection.execute(f"{gone}KILL {int(number)}")
        time.sleep(0.2)


def _quoted(name: str) -> str:
    return "[" + name.replace("]", "]]") + "]"
