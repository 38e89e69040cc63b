"""SQL Server: connection type ``dpone_mssql``."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

from airflow_provider_dpone.hooks import connections

if TYPE_CHECKING:
    from airflow_provider_dpone.drivers.dbapi import Connection
    from airflow_provider_dpone.drivers.mssql import MsSqlDsn


class DponeMsSqlHook(BaseHook):
    """One SQL Server login. Keeps its connection id only: the password is read when a DSN is asked for.

    It has no ``run``: the common-sql one logs statements and their parameters.
    """

    conn_name_attr = "conn_id"
    default_conn_name = "dpone_controller"
    conn_type = "dpone_mssql"
    hook_name = "dpone: SQL Server"

    def __init__(self, conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.conn_id = conn_id

    def dsn(self, *, database: str | None = None) -> MsSqlDsn:
        """Where and as whom, for `database` or for the connection's own."""
        from airflow_provider_dpone.drivers.mssql import MsSqlDsn

        connection = connections.read(self.conn_id, self.conn_type)
        extra = connection.extra_dejson
        return MsSqlDsn(
            host=str(connection.host),
            port=connection.port or 1433,
            database=database or connection.schema or "master",
            user=str(connection.login),
            password=connections.password(connection),
            encrypt=str(extra.get("encrypt") or "yes"),
            trust_server_certificate=connections.flag(extra, "trust_server_certificate", False),
            login_timeout_seconds=connections.seconds(extra, "login_timeout", 15),
        )

    def extra(self, name: str) -> str | None:
        """One extra field, None when it is not set."""
        value = connections.read(self.conn_id, self.conn_type).extra_dejson.get(name)
        return str(value) if value else None

    def get_conn(self) -> Connection:
        """A new connection with manual commit. The caller closes it."""
        from airflow_provider_dpone.drivers import mssql

        return mssql.connect(self.dsn())

    def test_connection(self) -> tuple[bool, str]:
        """For the button of the connection form."""
        from airflow_provider_dpone.contracts.errors import GuardError
        from airflow_provider_dpone.drivers.dbapi import drain

        try:
            with closing(self.get_conn()) as connection:
                rows: list[Any] = [row for result in drain(connection, "SELECT @@VERSION") for row in result]
        except GuardError as err:
            return False, str(err)
        return True, str(rows[0][0]).splitlines()[0]
