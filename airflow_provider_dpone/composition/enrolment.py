"""Recording a target database in the ledger by the identity that its server shows now.

An installer's work: the accounts of the run time have no right to create authority.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_dpone.composition.physical import PhysicalDomain, observe_clickhouse, observe_mssql
from airflow_provider_dpone.drivers import Connect
from airflow_provider_dpone.drivers.clickhouse import ClickHouseDsn
from airflow_provider_dpone.drivers.clickhouse import connect as connect_clickhouse
from airflow_provider_dpone.gates import target_fence
from airflow_provider_dpone.ledger import LedgerSettings, enroll


def enroll_mssql(
    installer: Connect,
    settings: LedgerSettings,
    database: str,
    *,
    writer_role: str,
    managed_schemas: Sequence[str],
) -> PhysicalDomain:
    """Enrol a SQL Server database of the ledger's instance with its bounded writer role."""
    target_fence.require_outside(managed_schemas)
    identity = enroll.observe_mssql(installer, database)
    domain = observe_mssql(installer, service_id=settings.service_id, database=database)
    role = enroll.MsSqlEnrollment(identity=identity, writer_role=writer_role, managed_schemas=tuple(managed_schemas))
    _record(installer, settings, domain, role)
    return domain


def enroll_clickhouse(
    installer: Connect, settings: LedgerSettings, observer: ClickHouseDsn, database: str
) -> PhysicalDomain:
    """Enrol a ClickHouse database."""
    domain = observe_clickhouse(connect_clickhouse(observer), database=database)
    _record(installer, settings, domain, None)
    return domain


def _record(
    installer: Connect, settings: LedgerSettings, domain: PhysicalDomain, mssql: enroll.MsSqlEnrollment | None
) -> None:
    entry = enroll.EnrolledDomain(
        connector=domain.connector,
        service_id=domain.service_id,
        physical_subject_sha256=domain.physical_subject_sha256,
        mssql=mssql,
    )
    enroll.enroll(installer, settings, [entry])
