"""SQL Server connections: mssql-python with pooling and MARS off.

``connect`` is for whoever works in transactions: manual commit, XACT_ABORT on. ``connect_bare`` is for the ledger and
the gates, whose every batch begins with the options it needs: nothing but the login crosses the network for it.

``drain`` with positional parameters (``?``) is the way to run a batch. A commit whose acknowledgement is lost leaves
a connection in an unknown state: close it, never use it again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from airflow_provider_dpone.contracts.errors import ConfigurationError, ControlUnavailable
from airflow_provider_dpone.drivers.secret import Secret

if TYPE_CHECKING:
    import mssql_python

    from airflow_provider_dpone.drivers.dbapi import Connection

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
    if "\x00" in value:
        raise ConfigurationError("connection_text", happened="a connection setting contains NUL.")
    return "{" + value.replace("}", "}}") + "}"


def connect(dsn: MsSqlDsn) -> Connection:
    """Open one connection. Raises ControlUnavailable when no session came to be; nothing was sent then."""
    import mssql_python

    connection = _login(dsn, autocommit=False)
    try:
        cursor = connection.cursor()
        cursor.execute("SET XACT_ABORT ON; SET LOCK_TIMEOUT 30000;")
        cursor.close()
        connection.commit()
    except mssql_python.Error as err:
        connection.close()
        raise ControlUnavailable(
            "mssql_session", happened=f"the session on {dsn.host},{dsn.port} could not be set up: {_cause(err)}"
        ) from err
    return cast("Connection", connection)


def connect_bare(dsn: MsSqlDsn) -> Connection:
    """The same in autocommit and with the server's own options: batches set what they need. One login, nothing else."""
    return cast("Connection", _login(dsn, autocommit=True))


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


def _cause(err: Exception) -> str:
    return " ".join(str(err).split())[:500]
