"""Where the engines are and as whom each role works: what turns an active workload into a route and an attempt.

Operators build `GuardServices` from Airflow connections, the command line from its configuration file. One account may
serve several roles, but only where the configuration says so by name (docs/roles.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from airflow_provider_dpone.composition.manifest import MssqlToClickHouse, NativeDbt, PostgresToMssql
from airflow_provider_dpone.composition.physical import PhysicalDomain, observe_clickhouse, observe_mssql
from airflow_provider_dpone.composition.projection import ActiveWorkload
from airflow_provider_dpone.composition.release import Release
from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.drivers import Connect, Connection
from airflow_provider_dpone.drivers.clickhouse import ClickHouseDsn
from airflow_provider_dpone.drivers.clickhouse import connect as connect_clickhouse
from airflow_provider_dpone.drivers.mssql import MsSqlDsn
from airflow_provider_dpone.drivers.mssql import connect as connect_mssql
from airflow_provider_dpone.drivers.postgres import PostgresDsn
from airflow_provider_dpone.ledger import ChargeStore, LedgerSettings, SnapshotStore
from airflow_provider_dpone.routes.dbt import DbtPlan, DbtRoute
from airflow_provider_dpone.routes.interface import Route
from airflow_provider_dpone.routes.mssql_to_clickhouse import MsSqlToClickHousePlan, MsSqlToClickHouseRoute
from airflow_provider_dpone.routes.postgres_to_mssql import PostgresToMsSqlPlan, PostgresToMsSqlRoute


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardServices:
    """The accounts of the roles. The SQL Server ones name the control database; all are on one instance."""

    ledger: LedgerSettings
    controller: MsSqlDsn
    outcome_reader: MsSqlDsn
    source_reader: MsSqlDsn
    work_root: Path
    clickhouse_access: ClickHouseDsn | None = None
    clickhouse_observer: ClickHouseDsn | None = None
    postgres_source: PostgresDsn | None = None

    def control(self) -> Connection:
        """A fresh connection of the controller to the control database."""
        return connect_mssql(self.controller)

    def observer(self, database: str) -> Connect:
        """Connections of the outcome reader to a target database."""
        return _connector(self.outcome_reader, database)

    def source(self, database: str) -> Connect:
        """Connections of the source reader to a database that is published."""
        return _connector(self.source_reader, database)

    def require_clickhouse(self) -> tuple[ClickHouseDsn, ClickHouseDsn]:
        if self.clickhouse_access is None or self.clickhouse_observer is None:
            raise ConfigurationError(
                "clickhouse_roles", happened="this workload needs the ClickHouse access and observer accounts."
            )
        return self.clickhouse_access, self.clickhouse_observer

    def require_postgres(self) -> PostgresDsn:
        if self.postgres_source is None:
            raise ConfigurationError("postgres_roles", happened="this workload needs the PostgreSQL source account.")
        return self.postgres_source


def observe_domains(services: GuardServices, release: Release) -> Mapping[str, PhysicalDomain]:
    """The physical domain of every binding that some workload of the release writes."""
    domains: dict[str, PhysicalDomain] = {}
    for alias in sorted({workload.sink_binding for workload in release.workloads}):
        binding = release.binding(alias)
        if binding.connector == "mssql":
            domains[alias] = observe_mssql(
                services.control, service_id=services.ledger.service_id, database=binding.database
            )
        elif binding.connector == "clickhouse":
            _, observer = services.require_clickhouse()
            domains[alias] = observe_clickhouse(connect_clickhouse(observer), database=binding.database)
        else:
            raise ConfigurationError("write_connector", happened=f"{alias}: PostgreSQL is a source, never a target.")
    return domains


def route_for(services: GuardServices, active: ActiveWorkload) -> Route:
    """The route of a workload, with the accounts it observes with. No connection is made."""
    manifest = active.released.manifest
    if isinstance(manifest, NativeDbt):
        database = active.database(manifest.dbt.binding)
        plan = DbtPlan(
            project=active.release.root / manifest.dbt.project,
            target=_at(services.controller, database),
            default_schema=manifest.dbt.default_schema,
            threads=manifest.dbt.threads,
            relations=active.released.relations,
            work_root=services.work_root,
        )
        return DbtRoute(plan, services.observer(database))
    if isinstance(manifest, PostgresToMssql):
        database = active.database(manifest.sink.binding)
        source = services.require_postgres()
        transfer = PostgresToMsSqlPlan(
            source=replace(source, database=active.database(manifest.source.binding)),
            source_schema=manifest.source.schema_,
            source_table=manifest.source.table,
            target=_at(services.controller, database),
            target_schema=manifest.sink.schema_,
            target_table=manifest.sink.table,
        )
        return PostgresToMsSqlRoute(transfer, services.observer(database))
    return _publication(services, active, manifest)


def _publication(services: GuardServices, active: ActiveWorkload, manifest: MssqlToClickHouse) -> Route:
    access, observer = services.require_clickhouse()
    resource = active.sink_resource
    (write_subject,) = active.request.workload(active.workload_id).write_subjects
    plan = MsSqlToClickHousePlan(
        source=_at(services.source_reader, active.database(manifest.source.binding)),
        source_schema=manifest.source.schema_,
        source_table=manifest.source.table,
        max_source_bytes=manifest.source.max_source_bytes,
        service_id=resource.service_id,
        physical_subject_sha256=resource.physical_subject_sha256,
        write_subject_sha256=write_subject,
        database=active.database(manifest.sink.binding),
        target_table=manifest.sink.table,
    )
    return MsSqlToClickHouseRoute(
        plan,
        access=access,
        observer=observer,
        snapshots=SnapshotStore(services.control, services.ledger),
        charges=ChargeStore(services.control, services.ledger),
    )


def _at(dsn: MsSqlDsn, database: str) -> MsSqlDsn:
    return replace(dsn, database=database)


def _connector(dsn: MsSqlDsn, database: str) -> Callable[[], Connection]:
    target = _at(dsn, database)
    return lambda: connect_mssql(target)
