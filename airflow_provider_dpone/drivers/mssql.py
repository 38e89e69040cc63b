"""SQL Server connections: mssql-python with pooling and MARS off, XACT_ABORT on.

``connect`` is for whoever works in transactions that the driver begins and ends: manual commit. ``connect_autocommit`` is
for whoever writes transactions in SQL, or asks single questions: each batch is one round trip, and nothing is sent
beside the login and the batches.

``drain`` with positional parameters (``?``) is the way to run a batch. A commit whose acknowledgement is lost leaves
a connection in an unknown state: close it, never use it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from airflow_provider_dpone.contracts.errors import ControlUnavailable
from airflow_provider_dpone.drivers.connection_text import require_text
from airflow_provider_dpone.drivers.secret import Secret

if TYPE_CHECKING:
    import mssql_python

    from airflow_provider_dpone.drivers.dbapi import Connection

_OPTIONS = "SET XACT_ABORT ON; SET LOCK_TIMEOUT 30000;"

#: SQL_ATTR_LOGIN_TIMEOUT of ODBC; mssql-python hands it to the driver before it connects.
_ODBC_LOGIN_TIMEOUT = 103


@dataclass(frozen=True, slots=True, kw_only=True)
class MsSqlDsn:
    """Where and as whom. mssql-python fixes the program name; what carries the attempt is the login's own name."""

    host: str
    port: int = 1433
    database: str
    user: str
    password: Secret
    encrypt: str = "yes"
    trust_server_certificate: bool = False
    login_timeout_seconds: int = 15
    query_timeout_seconds: int = 0

    def for_login(self, user: str, password: Secret, *, database: str | None = None) -> MsSqlDsn:
        """The same server as another login."""
        return replace(self, user=user, password=password, database=database or self.database)

    def connection_string(self) -> str:
        """The driver's text. It holds the clear password: never log it."""
        require_text("SQL Server", self.password, host=self.host, database=self.database, user=self.user)
        members = {
            "Server": f"{self.host},{self.port}",
            "Database": self.database,
            "UID": self.user,
            "PWD": self.password.reveal(),
            "Encrypt": self.encrypt,
            "TrustServerCertificate": "yes" if self.trust_server_certificate else "no",
            # A driver that reconnects on its own would continue on a session nobody observed.
            "ConnectRetryCount": "0",
        }
        return "".join(f"{key}={_braced(value)};" for key, value in members.items())


def _braced(value: str) -> str:
    return "{" + value.replace("}", "}}") + "}"


def connect(dsn: MsSqlDsn) -> Connection:
    """Open one connection. Raises ControlUnavailable when no session came to be; nothing was sent then."""
    import mssql_python

    connection = _login(dsn, autocommit=False)
    try:
        cursor = connection.cursor()
        cursor.execute(_OPTIONS)
        cursor.close()
        connection.commit()
    except mssql_python.Error as err:
        connection.close()
        raise ControlUnavailable(
            "mssql_session", happened=f"the session on {dsn.host},{dsn.port} could not be set up: {_cause(err)}"
        ) from err
    return cast("Connection", connection)


def connect_autocommit(dsn: MsSqlDsn) -> Connection:
    """The same in autocommit. The options travel at the head of each batch, so a batch cannot be one that must be alone.

    Cursors of one connection are used one after the other, never two at a time.
    """
    return _OneStatement(_login(dsn, autocommit=True))


def _login(dsn: MsSqlDsn, *, autocommit: bool) -> mssql_python.Connection:
    import mssql_python

    # Before the first connect of the process: a pool can park a session together with its open transaction.
    mssql_python.pooling(enabled=False)
    try:
        return mssql_python.connect(
            dsn.connection_string(),
            autocommit=autocommit,
            attrs_before={_ODBC_LOGIN_TIMEOUT: dsn.login_timeout_seconds},
            timeout=dsn.query_timeout_seconds,
        )
    except mssql_python.Error as err:
        raise ControlUnavailable(
            "mssql_connect", happened=f"no session on {dsn.host},{dsn.port} as {dsn.user}: {_cause(err)}"
        ) from err


class _OneStatement:
    """A session with one statement handle for all its batches.

    The driver prepares every batch with parameters and, when its handle ends, sends a request to forget it. A handle
    that is used again forgets with the next batch, and one that ends with the session needs to forget nothing.
    """

    def __init__(self, connection: mssql_python.Connection) -> None:
        self._connection = connection
        self._statement = connection.cursor()

    def setautocommit(self, value: bool) -> None:
        self._connection.setautocommit(value)

    def cursor(self) -> _Turn:
        return _Turn(self._statement)

    def commit(self) -> None:
        self._connection.commit()

    def rollback(self) -> None:
        self._connection.rollback()

    def close(self) -> None:
        # The driver ends each cursor that does not say that it is closed, by a round trip.
        self._statement.closed = True
        self._connection.close()


class _Turn:
    """The statement of a session while one caller uses it."""

    def __init__(self, statement: mssql_python.Cursor) -> None:
        self._statement = statement

    @property
    def description(self) -> Any:
        return self._statement.description

    @property
    def rowcount(self) -> int:
        return int(self._statement.rowcount)

    def execute(self, operation: str, /, *parameters: Any) -> Any:
        self._statement.execute(f"{_OPTIONS}\n{operation}", *parameters)

    def fetchone(self) -> Any:
        return self._statement.fetchone()

    def fetchall(self) -> Sequence[Any]:
        return self._statement.fetchall()

    def nextset(self) -> bool | None:
        return self._statement.nextset()

    def close(self) -> None:
        """The next batch resets the statement."""


def _cause(err: Exception) -> str:
    return " ".join(str(err).split())[:500]
