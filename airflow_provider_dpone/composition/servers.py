"""The servers of an installation, as the physical admission asks them."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_dpone.composition.execution_plan import CompositionExecutionPlan
from airflow_provider_dpone.composition.manifest import Binding
from airflow_provider_dpone.composition.physical import (
    Compared,
    PhysicalDomain,
    compare_clickhouse,
    compare_mssql,
    observe_clickhouse,
    observe_mssql,
    observe_postgres,
)
from airflow_provider_dpone.composition.services import GuardServices
from airflow_provider_dpone.contracts.errors import AdmissionRefused, ConfigurationError
from airflow_provider_dpone.drivers.clickhouse import connect as connect_clickhouse
from airflow_provider_dpone.drivers.mssql import connect_autocommit
from airflow_provider_dpone.ledger import GateReceiptStore


class GuardedServers:
    """A `PhysicalBackend` over the configured accounts. What is not configured cannot be executed."""

    def __init__(self, services: GuardServices) -> None:
        self._services = services

    @property
    def execution_cells(self) -> frozenset[str]:
        services = self._services
        cells = {"sqlserver_dbt_v1"}
        if services.clickhouse_access is not None and services.clickhouse_observer is not None:
            cells.add("mssql_clickhouse_full_refresh_v1")
        if services.postgres_issuer is not None and services.postgres_observer is not None:
            cells.add("postgres_mssql_full_refresh_v1")
        return frozenset() if services.issuer is None else frozenset(cells)

    def require_capabilities(self, plan: CompositionExecutionPlan) -> None:
        """The account that issues credentials, and a recorded gate profile that unlocks this ledger's authority."""
        if self._services.issuer is None:
            raise AdmissionRefused(
                "protected_capabilities",
                happened="no issuer is configured, so no attempt of this parent could ever get a credential.",
                not_done="nothing was reserved, and no activation in force was touched.",
                check="the role issuer in docs/roles.md.",
            )
        GateReceiptStore(self._services.control, self._services.ledger).standing().require_unlocked()

    def resolve(self, alias: str, binding: Binding) -> PhysicalDomain:
        services = self._services
        if binding.connector == "mssql":
            return observe_mssql(services.control, service_id=services.ledger.service_id, database=binding.database)
        if binding.connector == "clickhouse":
            _, clickhouse = services.require_clickhouse()
            return observe_clickhouse(connect_clickhouse(clickhouse), database=binding.database)
        _, postgres = services.require_postgres()
        return observe_postgres(replace(postgres, database=binding.database))

    def compare(self, domain: PhysicalDomain, names: tuple[tuple[str, str], ...]) -> tuple[Compared, ...]:
        if domain.connector == "clickhouse":
            return compare_clickhouse(names)
        if domain.connector != "mssql":
            raise ConfigurationError("write_connector", happened=f"{domain.database}: PostgreSQL is never a target.")
        target = replace(self._services.controller, database=domain.database)
        return compare_mssql(lambda: connect_autocommit(target), names)
