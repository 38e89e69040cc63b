"""Every row of every table of a ledger, to see that nothing changed."""

from __future__ import annotations

from typing import Any

from airflow_provider_dpone.drivers import Connection, drain
from airflow_provider_dpone.ledger.definition import table_names
from airflow_provider_dpone.ledger.settings import LedgerSettings
from tests.support.ledger_records import SERVICE

TABLES = tuple(f"{schema}.{name}" for schema, name in sorted(table_names(LedgerSettings(service_id=SERVICE))))


def contents(connection: Connection) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of each table, in a fixed order."""
    results = drain(connection, "\n".join(f"SELECT * FROM {table};" for table in TABLES))
    return {table: sorted(rows, key=repr) for table, rows in zip(TABLES, results, strict=True)}
