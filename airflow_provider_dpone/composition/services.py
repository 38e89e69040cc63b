"""Where the engines are and as whom each role works: what turns an active workload into a route and an attempt.

Operators build `GuardServices` from Airflow connections, the command line from its configuration file. One account may
serve several roles, but only where the configuration says so by name (docs/roles.md).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from airflow_provider_dpone.attempts import Gates, GuardedAttempt, Settlement
from airflow_provider_dpone.composition.coordinator import require_environment
from airflow_provider_dpone.composition.deployment import opened
from airflow_provider_dpone.composition.manifest import MssqlToClickHouse, NativeDbt, PostgresToMssql
from airflow_provider_dpone.composition.physical import clickhouse_service_id, observe_mssql, observe_postgres
from airflow_provider_dpone.composition.projection import ActiveWorkload, workload_of
from airflow_provider_dpone.contracts.attempt import Attempt
from airflow_provider_dpone.contracts.errors import AdmissionRefused, ConfigurationError
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.principal import Coordinates
from airflow_provider_dpone.drivers import Connect, Connection
from airflow_provider_dpone.drivers.clickhouse import ClickHouseDsn
from airflow_provider_dpone.drivers.mssql import MsSqlDsn, connect_autocommit
from airflow_provider_dpone.drivers.postgres import PostgresDsn
from airflow_provider_dpone.gates.clickhouse import ClickHouseGate
from airflow_provider_dpone.gates.control_lock import SilentHolder, end_silent_holder
from airflow_provider_dpone.gates.interface import WriterGate
from airflow_provider_dpone.gates.mssql import MsSqlLoginGate
from airflow_provider_dpone.gates.postgres import PostgresGate
from airflow_provider_dpone.gates.postgres_source import SOURCE_ROLE
from airflow_provider_dpone.ledger import AttemptStore, ChargeStore, LedgerSettings, SnapshotStore
from airflow_provider_dpone.routes.dbt import DbtPlan, DbtRoute
from airflow_provider_dpone.routes.interface import Observation, Outcome, Route
from airflow_provider_dpone.routes.mssql_to_clickhouse import MsSqlToClickHousePlan, MsSqlToClickHouseRoute
from airflow_provider_dpone.routes.postgres_to_mssql import PostgresToMsSqlPlan, PostgresToMsSqlRoute


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardServices:
    """The accounts of the roles. The SQL Server ones name the control database; all are on one instance.

    Without an issuer everything works but creating a SQL Server login: for an operator who only settles. `dbt_user` is
    the OS user of the dbt child (`routes.os_user`); without one dbt runs as the user of this process. `environment` is
    what this installation is; None when it does not say, and then takes releases of any.
    """

    ledger: LedgerSettings
    controller: MsSqlDsn
    issuer: MsSqlDsn | None
    closer: MsSqlDsn
    outcome_reader: MsSqlDsn
    source_reader: MsSqlDsn
    work_root: Path
    clickhouse_access: ClickHouseDsn | None = None
    clickhouse_observer: ClickHouseDsn | None = None
    postgres_issuer: PostgresDsn | None = None
    postgres_observer: PostgresDsn | None = None
    postgres_source_role: str = SOURCE_ROLE
    dbt_user: str | None = None
    environment: str | None = None

    def control(self) -> Connection:
        """A fresh connection of the controller to the control database."""
        return connect_autocommit(self.controller)

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

    def require_postgres(self) -> tuple[PostgresDsn, PostgresDsn]:
        if self.postgres_issuer is None or self.postgres_observer is None:
            raise ConfigurationError(
                "postgres_roles", happened="this workload needs the PostgreSQL issuer and observer accounts."
            )
        return self.postgres_issuer, self.postgres_observer


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
            content_check=manifest.dbt.content_check,
            run_as=services.dbt_user,
        )
        return DbtRoute(plan, services.observer(database))
    if isinstance(manifest, PostgresToMssql):
        database = active.database(manifest.sink.binding)
        source, _ = services.require_postgres()
        transfer = PostgresToMsSqlPlan(
            source=replace(source, database=active.database(manifest.source.binding)),
            source_schema=manifest.source.schema_,
            source_table=manifest.source.table,
            target=_at(services.controller, database),
            target_schema=manifest.sink.schema_,
            target_table=manifest.sink.table,
        )
        return PostgresToMsSqlRoute(transfer, services.observer(database))
    if isinstance(manifest, MssqlToClickHouse):
        return _publication(services, active, manifest)
    raise AdmissionRefused(
        "execution_cell", happened=f"{active.workload_id} is an archived transfer, which no activation executes."
    )


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
    return lambda: connect_autocommit(target)


def free_ledger(services: GuardServices) -> SilentHolder | None:
    """End a session that holds the ledger's lock and stands still; answers which. See `gates.control_lock`."""
    return end_silent_holder(_connector(services.closer, services.controller.database), services.ledger)


def gates_for(services: GuardServices) -> Gates:
    """The gates of every configured engine, by connector. No connection is made, except to ask ClickHouse its id."""
    control = services.controller.database
    gates: dict[str, WriterGate] = {
        "mssql": MsSqlLoginGate(
            issuer=None if services.issuer is None else _connector(services.issuer, control),
            closer=_connector(services.closer, control),
            controller=services.controller.user,
            settings=services.ledger,
        )
    }
    if services.clickhouse_access is not None and services.clickhouse_observer is not None:
        gates["clickhouse"] = ClickHouseGate(
            service_id=clickhouse_service_id(services.clickhouse_observer),
            access=services.clickhouse_access,
            observer=services.clickhouse_observer,
        )
    if services.postgres_issuer is not None and services.postgres_observer is not None:
        gates["postgres"] = PostgresGate(
            issuer=services.postgres_issuer,
            observer=services.postgres_observer,
            source_role=services.postgres_source_role,
        )
    return gates


def guarded_attempt(
    services: GuardServices, active: ActiveWorkload, coordinates: Coordinates, *, log: logging.Logger | None = None
) -> GuardedAttempt:
    """The attempt of one try of an active workload."""
    if active.released.manifest.dag_id != coordinates.dag_id:
        raise AdmissionRefused(
            "workload_dag",
            happened=f"{active.workload_id} belongs to the DAG {active.released.manifest.dag_id},"
            f" and this task is in {coordinates.dag_id}.",
            not_done="nothing was admitted.",
        )
    require_environment(active.request.context.environment, services.environment)
    attempt = Attempt(
        activation_request_sha256=active.activation_request_sha256,
        workload_id=active.workload_id,
        constituent_id=active.released.manifest.constituent_id,
        pack_sha256=active.released.pack_sha256,
        plan_sha256=active.released.plan_sha256,
        dag_run_id=coordinates.run_id,
        task_id=coordinates.task_id,
        try_number=coordinates.try_number,
        map_index=coordinates.map_index,
        guard_epochs=active.guard_epochs,
    )
    _require_sealed_source(services, active)
    route, gates = route_for(services, active), gates_for(services)
    if isinstance(route, DbtRoute):
        route.require_ready()
    # Before admission: an operation whose credential cannot be made would only have to be settled again.
    for connector, _ in route.principals():
        gate = gates.get(connector)
        if isinstance(gate, ClickHouseGate | PostgresGate):
            gate.require_ready()
        elif isinstance(gate, MsSqlLoginGate):
            gate.require_issuer()
    return GuardedAttempt(
        attempt,
        coordinates,
        route=route,
        gates=gates,
        ledger=AttemptStore(services.control, services.ledger),
        log=log,
    )


def _require_sealed_source(services: GuardServices, active: ActiveWorkload) -> None:
    """Refuse when the alias of a source leads to another database than at the activation. Targets have their guards."""
    manifest = active.released.manifest
    if isinstance(manifest, NativeDbt):
        return
    alias, sealed = manifest.source.binding, opened(active.release.root.parent, active.request.context.deployment_id)
    database = active.database(alias)
    if isinstance(manifest, PostgresToMssql):
        _, observer = services.require_postgres()
        found = observe_postgres(replace(observer, database=database))
    else:
        found = observe_mssql(services.control, service_id=services.ledger.service_id, database=database)
    sealed.require_domains({**sealed.domains, alias: (found.connector, found.guard_id)})


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReleasedOutcome:
    """The outcome of an operation as its route observes it, by the release that is recorded under `root`."""

    services: GuardServices
    root: Path
    operation: Operation

    def outcome(self, ctx: Observation) -> Outcome:
        attempt = self.operation.attempt
        active = workload_of(self.root, self.operation.activation_id, attempt.workload_id, attempt.guard_epochs)
        return route_for(self.services, active).outcome(ctx)


def resume_attempt(
    services: GuardServices, root: Path, operation: Operation, *, log: logging.Logger | None = None
) -> Settlement:
    """The closing steps of any operation of the ledger.

    Closing and proving need nothing else. The outcome is observed as the release of its activation says, which is read
    from `root` only then.
    """
    return Settlement(
        operation,
        route=_ReleasedOutcome(services=services, root=root, operation=operation),
        gates=gates_for(services),
        ledger=AttemptStore(services.control, services.ledger),
        log=log,
        quiescence_seconds=0.0,
    )
