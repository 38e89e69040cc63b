"""Recording a target database in the ledger by the identity that its server shows now."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_dpone.composition.physical import PhysicalDomain, observe_clickhouse, observe_mssql
from airflow_provider_dpone.composition.services import GuardServices
from airflow_provider_dpone.drivers.clickhouse import connect as connect_clickhouse
from airflow_provider_dpone.ledger import enroll


def enroll_mssql(
    services: GuardServices, database: str, *, writer_role: str, managed_schemas: Sequence[str]
) -> PhysicalDomain:
    """Enrol a SQL Server database with its bounded writer role."""
    identity = enroll.observe_mssql(services.control, database)
    domain = observe_mssql(services.control, service_id=services.ledger.service_id, database=database)
    _record(
        services,
        domain,
        enroll.MsSqlEnrollment(identity=identity, writer_role=writer_role, managed_schemas=tuple(managed_schemas)),
    )
    return domain


def enroll_clickhouse(services: GuardServices, database: str) -> PhysicalDomain:
    """Enrol a ClickHouse database."""
    _, observer = services.require_clickhouse()
    domain = observe_clickhouse(connect_clickhouse(observer), database=database)
    _record(services, domain, None)
    return domain


def _record(services: GuardServices, domain: PhysicalDomain, mssql: enroll.MsSqlEnrollment | None) -> None:
    entry = enroll.EnrolledDomain(
        connector=domain.connector,
        service_id=domain.service_id,
        physical_subject_sha256=domain.physical_subject_sha256,
        mssql=mssql,
    )
    enroll.enroll(services.control, services.ledger, [entry])
