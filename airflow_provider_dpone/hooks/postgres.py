"""PostgreSQL: connection type ``dpone_postgres``."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

from airflow_provider_dpone.hooks import connections

if TYPE_CHECKING:
    import psycopg

    from airflow_provider_dpone.drivers.postgres import PostgresDsn


class DponePostgresHook(BaseHook):
    """One PostgreSQL role. Keeps its connection id only: the password is read when a DSN is asked for."""

    conn_name_attr = "conn_id"
    default_conn_name = "dpone_postgres_issuer"
    conn_type = "dpone_postgres"
    hook_name = "dpone: PostgreSQL"

    def __init__(self, conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.conn_id = conn_id

    def dsn(self) -> PostgresDsn:
        """Where and as whom."""
        from airflow_provider_dpone.drivers.postgres import PostgresDsn

        connection = connections.read(self.conn_id, self.conn_type)
        extra = connection.extra_dejson
        return PostgresDsn(
            host=str(connection.host),
            port=connection.port or 5432,
            database=connection.schema or str(connection.login),
            user=str(connection.login),
            password=connections.password(connection),
            sslmode=str(extra.get("sslmode") or "prefer"),
            connect_timeout_seconds=connections.seconds(extra, "connect_timeout", 15),
        )

    def extra(self, name: str) -> str | None:
        """One extra field, None when it is not set."""
        value = connections.read(self.conn_id, self.conn_type).extra_dejson.get(name)
        return str(value) if value else None

    def get_conn(self) -> psycopg.Connection[tuple[Any, ...]]:
        """A new connection with manual commit. The caller closes it."""
        from airflow_provider_dpone.drivers import postgres

        return postgres.connect(self.dsn())

    def test_connection(self) -> tuple[bool, str]:
        """For the button of the connection form."""
        from airflow_provider_dpone.contracts.errors import GuardError

        try:
            with closing(self.get_conn()) as connection:
                row = connection.execute("SELECT version()").fetchone()
        except GuardError as err:
            return False, str(err)
        return True, str(row[0]) if row else "connected"
