"""A row in each target that no source has, put there before a run: the full refresh must make it vanish."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

from airflow_provider_dpone.drivers import Connection, drain, quote_clickhouse, quote_mssql
from dpone_demo import loading

#: The values that tell a planted row; the first column of its table, or the carrier, holds them.
_IN_SQL_SERVER: dict[str, dict[str, Any]] = {
    "planes": {
        "tailnum": "N00000",
        "type": "none",
        "manufacturer": "none",
        "model": "none",
        "engines": 0,
        "seats": 0,
        "engine": "none",
    },
    "airports": {"faa": "0!0", "name": "nowhere", "lat": 0, "lon": 0, "alt": 0, "tz": 0, "dst": "N"},
    "airlines": {"carrier": "0!", "name": "nobody"},
    "retirements": {"tailnum": "N00000", "retired_on": datetime.date(2013, 1, 1), "book_value": 1},
}
_CARRIER = "0!"


def plant_in_sql_server(connection: Connection) -> None:
    """One row in each table that PostgreSQL loads."""
    for table, row in _IN_SQL_SERVER.items():
        columns, marks = ", ".join(map(quote_mssql, row)), ", ".join("?" * len(row))
        drain(connection, f"INSERT INTO {quote_mssql(loading.RAW, table)} ({columns}) VALUES ({marks})", *row.values())
    connection.commit()


def plant_in_clickhouse(client: Any, database: str) -> None:
    """One row in each published table."""
    for table, _, _ in loading.CLICKHOUSE_TABLES:
        client.command(
            f"INSERT INTO {quote_clickhouse(database, table)} (carrier) VALUES ({{carrier:String}})",
            parameters={"carrier": _CARRIER},
        )


def planted(database: str) -> Iterator[dict[str, str]]:
    """Where each row was put and what tells it, for the reconciler."""
    for table, row in _IN_SQL_SERVER.items():
        column, value = next(iter(row.items()))
        yield {"engine": "sqlserver", "schema": loading.RAW, "table": table, "column": column, "value": value}
    for table, _, _ in loading.CLICKHOUSE_TABLES:
        yield {
            "engine": "clickhouse",
            "schema": database,
            "table": table,
            "column": "carrier",
            "value": _CARRIER,
        }
