"""ClickHouse over HTTP: connection type ``dpone_clickhouse``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseHook

from airflow_provider_dpone.hooks import connections

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

    from airflow_provider_dpone.drivers.clickhouse import ClickHouseDsn


class DponeClickHouseHook(BaseHook):
    """One ClickHouse user. Keeps its connection id only: the password is read when a DSN is asked for."""

    conn_name_attr = "conn_id"
    default_conn_name = "dpone_clickhouse_observer"
    conn_type = "dpone_clickhouse"
    hook_name = "dpone: ClickHouse"

    def __init__(self, conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.conn_id = conn_id

    def dsn(self) -> ClickHouseDsn:
        """Where and as whom."""
        from airflow_provider_dpone.drivers.clickhouse import ClickHouseDsn

        connection = connections.read(self.conn_id, self.conn_type)
        extra = connection.extra_dejson
        secure = connections.flag(extra, "secure", False)
        return ClickHouseDsn(
            host=str(connection.host),
            port=connection.port or (8443 if secure else 8123),
            database=connection.schema or "default",
            user=str(connection.login),
            password=connections.password(connection),
            secure=secure,
            verify=connections.flag(extra, "verify", True),
            connect_timeout_seconds=connections.seconds(extra, "connect_timeout", 15),
        )

    def extra(self, name: str) -> str | None:
        """One extra field, None when it is not set."""
        value = connections.read(self.conn_id, self.conn_type).extra_dejson.get(name)
        return str(value) if value else None

    def get_conn(self) -> Client:
        """A new client with its own pool. The caller closes it."""
        from airflow_provider_dpone.drivers import clickhouse

        return clickhouse.connect(self.dsn())

    def test_connection(self) -> tuple[bool, str]:
        """For the button of the connection form."""
        from airflow_provider_dpone.contracts.errors import GuardError

        try:
            client = self.get_conn()
        except GuardError as err:
            return False, str(err)
        try:
            return True, f"ClickHouse {client.server_version}"
        finally:
            client.close()
