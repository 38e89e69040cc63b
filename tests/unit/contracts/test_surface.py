"""The names that other packages may rely on."""

from __future__ import annotations

import pytest

from airflow_provider_dpone import attempts, drivers, gates, routes

SURFACE = {
    attempts: "QUIESCENCE_SECONDS AttemptLedger AttemptResult Gates GuardedAttempt Settlement Swept"
    " require_succeeded sweep",
    drivers: "Connect Connection Cursor Secret SqlFile drain go_batches load_sql quote_clickhouse quote_mssql"
    " quote_postgres read_all",
    gates: "ClickHouseIngestGrant ClickHousePublishGrant Credential Grant MsSqlWriterGrant PostgresExtractGrant"
    " PostgresSeedGrant WriterGate",
    routes: "AttemptContext EvidenceJournal Observation Outcome Route RouteReport",
}


@pytest.mark.parametrize("package", SURFACE, ids=lambda package: package.__name__)
def test_the_public_names_are_these(package: object) -> None:
    exported = package.__all__  # type: ignore[attr-defined]  # a module
    assert exported == SURFACE[package].split()  # type: ignore[index]  # a module
    assert all(hasattr(package, name) for name in exported)
