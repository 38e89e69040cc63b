"""PostgreSQL connections: psycopg 3, manual commit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_dpone.contracts.errors import ControlUnavailable
from airflow_provider_dpone.drivers.connection_text import require_text
from airflow_provider_dpone.drivers.secret import Secret

if TYPE_CHECKING:
    import psycopg


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresDsn:
    """Where and as whom. ``app`` is shown as application_name; it carries the attempt."""

    host: str
    port: int = 5432
    database: str
    user: str
    password: Secret
    app: str = "dpone"
    sslmode: str = "prefer"
    connect_timeout_seconds: int = 15
    #: Server parameters of the session by name; a pooler may refuse them.
    settings: tuple[tuple[str, str], ...] = ()

    def for_role(self, user: str, password: Secret, *, app: str, database: str | None = None) -> PostgresDsn:
        """The same server as another role."""
        return replace(self, user=user, password=password, app=app, database=database or self.database)


def scram_verifier(user: str, password: Secret) -> str:
    """What the server keeps instead of the password, made here: the clear text stands in no statement and in no log."""
    from psycopg import pq

    connection = pq.PGconn.connect_start(b"")  # an unconnected one: the computation needs no server
    try:
        return connection.encrypt_password(password.reveal().encode(), user.encode(), b"scram-sha-256").decode()
    finally:
        connection.finish()


def connect(dsn: PostgresDsn) -> psycopg.Connection[tuple[Any, ...]]:
    """Open one connection. Raises ControlUnavailable when no session came to be."""
    import psycopg

    require_text("PostgreSQL", dsn.password, host=dsn.host, database=dsn.database, user=dsn.user, app=dsn.app)
    try:
        return psycopg.connect(
            host=dsn.host,
            port=dsn.port,
            dbname=dsn.database,
            user=dsn.user,
            password=dsn.password.reveal(),
            application_name=dsn.app,
            sslmode=dsn.sslmode,
            connect_timeout=dsn.connect_timeout_seconds,
            options=" ".join(f"-c {name}={_escaped(value)}" for name, value in dsn.settings) or None,
        )
    except psycopg.OperationalError as err:
        raise ControlUnavailable(
            "postgres_connect", happened=f"no session on {dsn.host}:{dsn.port} as {dsn.user}: {err}"
        ) from err


def _escaped(value: str) -> str:
    """A value among the options of a connection: a blank ends one, and a backslash takes away what it means."""
    return value.replace("\\", "\\\\").replace(" ", "\\ ")
