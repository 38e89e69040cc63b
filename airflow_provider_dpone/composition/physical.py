"""Physical identity of the databases behind bindings, read from the servers. Aliases, hosts and accounts are none.

A domain's subject names the incarnation that data lives in: SQL Server's database guid and create token, ClickHouse's
server and database uuid, PostgreSQL's system identifier and database oid. Restored, re-created or moved databases are
other domains. Which names are one relation is the server's own word, too: `compare_mssql` asks it once for all of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.contracts.ownership import guard_id
from airflow_provider_dpone.drivers import Connect, drain, load_sql
from airflow_provider_dpone.drivers.clickhouse import ClickHouseDsn
from airflow_provider_dpone.drivers.clickhouse import connect as connect_clickhouse
from airflow_provider_dpone.drivers.postgres import PostgresDsn
from airflow_provider_dpone.gates.postgres_roles import server_of, session_as
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What one server said of one (schema, name): two with one `equivalence` are one relation.

    `object_type` is the type of an object that is there under this name, as the server writes it; None when there is none.
    An equivalence means nothing beside that of another comparison.
    """

    equivalence: int
    object_type: str | None


def compare_mssql(connect: Connect, names: Sequence[tuple[str, str]]) -> tuple[Compared, ...]:
    """Compare names as the database of the connection does, in one statement, in their order."""
    numbered = json.dumps([[number, *name] for number, name in enumerate(names)], ensure_ascii=False)
    connection = connect()
    try:
        (rows,) = drain(connection, _SQL.text("mssql_compare"), numbered)
        connection.rollback()
    finally:
        connection.close()
    found = {int(number): Compared(equivalence=int(equal), object_type=_type(kind)) for number, equal, kind in rows}
    if len(rows) != len(names) or set(found) != set(range(len(names))):
        raise ConfigurationError(
            "name_comparison", happened=f"{len(names)} names were compared and {len(rows)} answers came back."
        )
    return tuple(found[number] for number in range(len(names)))


def _type(kind: object) -> str | None:
    return None if kind is None else str(kind).strip()


def compare_clickhouse(names: Sequence[tuple[str, str]]) -> tuple[Compared, ...]:
    """ClickHouse compares names byte by byte, whatever is in them."""
    numbers: dict[tuple[str, str], int] = {}
    return tuple(Compared(equivalence=numbers.setdefault(name, len(numbers)), object_type=None) for name in names)


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
    if not folds_names(collation):
        raise ConfigurationError(
            "database_collation",
            happened=f"{database} has the collation {collation}, under which names of other case can be two relations;"
            " what a build of dbt did is judged by names without case.",
            not_done="the database was not taken for a target or a source.",
            check="the collations of docs/composition.md; a database of one of them beside this one can be a target.",
        )
    return PhysicalDomain(
        connector="mssql",
        service_id=service_id,
        database=database,
        physical_subject_sha256=enroll.mssql_physical_subject_sha256(identity.database_guid, identity.create_token),
        observation={"schema": "dpone.physical-observation.v1", "connector": "mssql", "collation": collation},
    )


def folds_names(collation: str) -> bool:
    """Whether names that differ by case are one relation under a collation: _CI_ ones, but for those of the dotless i."""
    return "_CI_" in collation and not collation.startswith(("Turkish_", "Azeri_"))


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


def observe_postgres(dsn: PostgresDsn) -> PhysicalDomain:
    """The domain of the PostgreSQL database that the connection names."""
    with session_as(dsn, "reading the identity of the database") as session:
        server = server_of(session)
        row = session.execute(_SQL.text("postgres_database").encode()).fetchone()
    assert row is not None
    subject = {"schema": "dpone.postgres-database.v1", "service_id": server.service_id, "database_oid": int(row[0])}
    return PhysicalDomain(
        connector="postgres",
        service_id=server.service_id,
        database=dsn.database,
        physical_subject_sha256=canonical.exact_sha256(subject),
        observation={"schema": "dpone.physical-observation.v1", "connector": "postgres"},
    )
