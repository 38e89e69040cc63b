"""Physical identity of the databases behind bindings, read from the servers. Aliases, hosts and accounts are none.

A domain's subject names the incarnation that data lives in: SQL Server's database guid and create token, ClickHouse's
server and database uuid. Restored, re-created or moved databases are other domains.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.contracts.ownership import guard_id
from airflow_provider_dpone.drivers import Connect, drain, load_sql
from airflow_provider_dpone.drivers.clickhouse import ClickHouseDsn
from airflow_provider_dpone.drivers.clickhouse import connect as connect_clickhouse
from airflow_provider_dpone.ledger import enroll

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

_SQL = load_sql("airflow_provider_dpone.composition", "sql/physical.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalDomain:
    """One collision domain. `observation` is what of its catalog rules matter to name comparison."""

    connector: str
    service_id: str
    database: str
    physical_subject_sha256: str
    observation: Mapping[str, object]

    @property
    def guard_id(self) -> str:
        return guard_id(
            connector=self.connector,
            service_id=self.service_id,
            physical_subject_sha256=self.physical_subject_sha256,
        )

    @property
    def observation_sha256(self) -> str:
        return canonical.exact_sha256(self.observation)

    def coordinate(self, schema: str, name: str) -> tuple[str, str, str]:
        """A relation's place as the server compares it: two equal coordinates are one relation."""
        if self.connector == "clickhouse":
            return (self.guard_id, schema, name)
        # The accepted collation compares without case and without trailing blanks.
        return (self.guard_id, schema.casefold().rstrip(" "), name.casefold().rstrip(" "))


def observe_mssql(connect: Connect, *, service_id: str, database: str) -> PhysicalDomain:
    """The domain of a SQL Server database on the ledger's own instance."""
    identity = enroll.observe_mssql(connect, database)
    connection = connect()
    try:
        (rows,) = drain(connection, _SQL.text("mssql_collation"), database)
        connection.rollback()
    finally:
        connection.close()
    collation = str(rows[0][0])
    if "_CI_" not in collation:
        raise ConfigurationError(
            "database_collation",
            happened=f"{database} has the collation {collation}; names are only compared under _CI_ collations.",
        )
    return PhysicalDomain(
        connector="mssql",
        service_id=service_id,
        database=database,
        physical_subject_sha256=enroll.mssql_physical_subject_sha256(identity.database_guid, identity.create_token),
        observation={"schema": "dpone.physical-observation.v1", "connector": "mssql", "collation": collation},
    )


def clickhouse_service_id(observer: ClickHouseDsn) -> str:
    """The UUID of the ClickHouse server itself, which is its service id."""
    return str(connect_clickhouse(observer).query(_SQL.text("clickhouse_server")).result_rows[0][0])


def observe_clickhouse(client: Client, *, database: str) -> PhysicalDomain:
    """The domain of a ClickHouse database with UUIDs (engine Atomic, Replicated or Shared)."""
    rows = client.query(_SQL.text("clickhouse_identity"), parameters={"database": database}).result_rows
    if not rows:
        raise ConfigurationError("clickhouse_database", happened=f"the ClickHouse database {database} does not exist.")
    server_uuid, database_uuid, engine = (str(value) for value in rows[0])
    if engine not in ("Atomic", "Replicated", "Shared") or database_uuid == "00000000-0000-0000-0000-000000000000":
        raise ConfigurationError(
            "clickhouse_database",
            happened=f"{database} has the engine {engine}: its tables have no UUID to publish by.",
        )
    subject = {"schema": "dpone.clickhouse-database.v1", "server_uuid": server_uuid, "database_uuid": database_uuid}
    return PhysicalDomain(
        connector="clickhouse",
        service_id=server_uuid,
        database=database,
        physical_subject_sha256=canonical.exact_sha256(subject),
        observation={"schema": "dpone.physical-observation.v1", "connector": "clickhouse", "engine": engine},
    )
