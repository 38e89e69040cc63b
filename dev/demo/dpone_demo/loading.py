"""Puts the data set where the composition expects it: flights and weather in SQL Server, the rest in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import psycopg

from airflow_provider_dpone.drivers import Connection, drain, quote_mssql, quote_postgres
from dpone_demo.dataset import TABLES, Field, rows

IN_SQL_SERVER = ("flights", "weather")
IN_POSTGRES = ("planes", "airports", "airlines", "retirements")
RAW = "raw"

_FLIGHTS = (
    ("flight_key", "Nullable(UUID)"),
    ("flight_date", "Nullable(Date32)"),
    ("time_hour", "Nullable(DateTime64(0, 'UTC'))"),
    ("carrier", "Nullable(String)"),
    ("flight", "Nullable(Int32)"),
    ("tailnum", "Nullable(String)"),
    ("origin", "Nullable(String)"),
    ("dest", "Nullable(String)"),
    ("dep_delay", "Nullable(Int32)"),
    ("arr_delay", "Nullable(Int32)"),
    ("air_time", "Nullable(Int32)"),
    ("distance", "Nullable(Int32)"),
    ("cancelled", "Nullable(Int32)"),
    ("plane_built", "Nullable(Int16)"),
    ("wind_speed", "Nullable(Decimal(9, 5))"),
    ("visib", "Nullable(Decimal(5, 2))"),
)
_DELAYS = (
    ("delay_key", "Nullable(UUID)"),
    ("flight_date", "Nullable(Date32)"),
    ("carrier", "Nullable(String)"),
    ("airline", "Nullable(String)"),
    ("origin", "Nullable(String)"),
    ("dest", "Nullable(String)"),
    ("flights", "Nullable(Int32)"),
    ("cancelled", "Nullable(Int32)"),
    ("mean_dep_delay", "Nullable(Decimal(9, 2))"),
    ("mean_arr_delay", "Nullable(Decimal(9, 2))"),
    ("late_share", "Nullable(Decimal(23, 14))"),
    ("worst_arr_delay", "Nullable(Int32)"),
    ("first_departure_hour", "Nullable(DateTime64(0, 'UTC'))"),
)
_STRANGERS = (
    ("flight_key", "Nullable(UUID)"),
    ("flight_date", "Nullable(Date32)"),
    ("carrier", "Nullable(String)"),
    ("wind_speed", "Nullable(Decimal(9, 5))"),
)
#: The targets of the publications with their sorting keys: a transfer never creates its target.
CLICKHOUSE_TABLES = (
    ("flights", _FLIGHTS, "(flight_date, carrier)"),
    ("daily_delays", _DELAYS, "(flight_date, carrier)"),
    ("flights_without_airline", _STRANGERS, "(flight_date, carrier)"),
)


def create_raw_tables(connection: Connection) -> None:
    """All raw tables, as their owner: a transfer never creates its target."""
    for table, fields in TABLES.items():
        drain(connection, f"CREATE TABLE {quote_mssql(RAW, table)} ({_columns(fields, 'mssql')})")
    connection.commit()


def load_sql_server(connection: Any) -> dict[str, int]:
    """Bulk insert of the two tables that start in SQL Server; returns rows by table."""
    loaded = {}
    for table in IN_SQL_SERVER:
        read = _ToTheEnd(rows(table))
        cursor = connection.cursor()
        result = cursor.bulkcopy(quote_mssql(RAW, table), iter(read), timeout=0, keep_nulls=True)
        cursor.close()
        read.require_finished()
        loaded[table] = int(result["rows_copied"])
    return loaded


class _ToTheEnd:
    """Rows, and whether all were taken: mssql-python takes a Ctrl-C between two rows for the end of the rows."""

    def __init__(self, rows: Iterable[tuple[Any, ...]]) -> None:
        self._rows = rows
        self._finished = False

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        yield from self._rows
        self._finished = True

    def require_finished(self) -> None:
        if not self._finished:
            raise KeyboardInterrupt


def load_postgres(conninfo: str) -> dict[str, int]:
    """Create and fill the source tables."""
    loaded = {}
    with psycopg.connect(conninfo) as connection:
        for table in IN_POSTGRES:
            name = quote_postgres("public", table)
            _execute(connection, f"DROP TABLE IF EXISTS {name}")
            _execute(connection, f"CREATE TABLE {name} ({_columns(TABLES[table], 'postgres')})")
            with connection.cursor().copy(f"COPY {name} FROM STDIN".encode()) as copy:
                count = 0
                for row in rows(table):
                    copy.write_row(row)
                    count += 1
            loaded[table] = count
    return loaded


def _columns(fields: Sequence[Field], engine: str) -> str:
    quote = quote_mssql if engine == "mssql" else quote_postgres
    return ", ".join(
        f"{quote(field.name)} {getattr(field, engine)} {'NULL' if field.nullable else 'NOT NULL'}" for field in fields
    )


def _execute(connection: psycopg.Connection[Any], statement: str) -> None:
    connection.execute(statement.encode())
