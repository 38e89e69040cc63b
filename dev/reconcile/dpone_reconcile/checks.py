"""Each target against its source: typed row multisets, column types, and rows that had to vanish."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from dpone_reconcile import schemas
from dpone_reconcile.check import Check, unless
from dpone_reconcile.engines import ClickHouse, Postgres, SqlServer, backticked, bracketed
from dpone_reconcile.marts import FLIGHT_COLUMNS, expected_delays, expected_flights, expected_strangers
from dpone_reconcile.multiset import Comparison, Multiset, compare, multiset

REFERENCE = {
    "planes": ("tailnum", "year", "type", "manufacturer", "model", "engines", "seats", "speed", "engine"),
    "airports": ("faa", "name", "lat", "lon", "alt", "tz", "dst", "tzone"),
    "airlines": ("carrier", "name"),
    "retirements": ("tailnum", "retired_on", "book_value", "reason"),
}
FLIGHTS = (
    *("flight_key", "flight_date", "time_hour", "carrier", "flight", "tailnum", "origin", "dest", "dep_delay"),
    *("arr_delay", "air_time", "distance", "cancelled", "plane_built", "wind_speed", "visib"),
)
DELAYS = (
    *("delay_key", "flight_date", "carrier", "airline", "origin", "dest", "flights", "cancelled", "mean_dep_delay"),
    *("mean_arr_delay", "late_share", "worst_arr_delay", "first_departure_hour"),
)
STRANGERS = ("flight_key", "flight_date", "carrier", "wind_speed")
#: Each published mart with its columns, and its name in ClickHouse.
PUBLISHED = (
    ("fct_flights", FLIGHTS, "flights"),
    ("daily_delays", DELAYS, "daily_delays"),
    ("flights_without_airline", STRANGERS, "flights_without_airline"),
)
#: The tables of which a snapshot is whole without a row.
EMPTY = frozenset({"retirements", "flights_without_airline"})


def reference_tables(postgres: Postgres, warehouse: SqlServer) -> Iterator[Check]:
    """PostgreSQL to SQL Server: the same rows under the same types."""
    for table, columns in REFERENCE.items():
        source = postgres.rows(f'SELECT {_double(columns)} FROM public."{table}"')
        target = warehouse.rows(f"SELECT {_brackets(columns)} FROM raw.[{table}]")
        yield _rows(f"postgres {table} = raw.{table}", table, compare(multiset(source), multiset(target)))
        declared = schemas.postgres_columns(postgres, f'public."{table}"')
        found = schemas.sql_server_columns(warehouse, "raw", table)
        yield schemas.loaded(f"column types of raw.{table}", declared, found)


def marts(warehouse: SqlServer) -> Iterator[Check]:
    """What dbt built against what the raw rows say, computed here."""
    planes: dict[str, int | None] = dict(warehouse.rows("SELECT tailnum, year FROM raw.planes"))
    airlines: dict[str, str] = dict(warehouse.rows("SELECT carrier, name FROM raw.airlines"))
    weather = {
        (origin, hour): (wind, visib)
        for origin, hour, wind, visib in warehouse.rows("SELECT origin, time_hour, wind_speed, visib FROM raw.weather")
    }
    raw = warehouse.rows(f"SELECT {_brackets(FLIGHT_COLUMNS)} FROM raw.flights")
    expected = list(expected_flights(raw, planes, weather))
    built = _mart(warehouse, "fct_flights", FLIGHTS)
    yield _rows("raw rows = marts.fct_flights", "fct_flights", compare(multiset(expected), built))
    for table, columns, rows in (
        ("daily_delays", DELAYS, expected_delays(expected, airlines)),
        ("flights_without_airline", STRANGERS, expected_strangers(expected, airlines)),
    ):
        yield _rows(f"raw rows = marts.{table}", table, compare(multiset(rows), _mart(warehouse, table, columns)))
    current = warehouse.rows("SELECT carrier, airline FROM snapshots.airlines_history WHERE dbt_valid_to IS NULL")
    history = compare(multiset(airlines.items()), multiset(current))
    yield _rows("raw.airlines = current rows of snapshots.airlines_history", "airlines_history", history)


def published(warehouse: SqlServer, clickhouse: ClickHouse, database: str) -> Iterator[Check]:
    """SQL Server to ClickHouse: the same rows under the same types."""
    for table, columns, target in PUBLISHED:
        rows = clickhouse.rows(f"SELECT {_double(columns)} FROM `{database}`.`{target}`")
        comparison = compare(_mart(warehouse, table, columns), multiset(rows))
        yield _rows(f"marts.{table} = ClickHouse {database}.{target}", table, comparison)
        declared = schemas.sql_server_columns(warehouse, "marts", table)
        found = schemas.clickhouse_columns(clickhouse, database, target)
        yield schemas.published(f"column types of {target}", declared, found)


def vanished(planted: Sequence[dict[str, Any]], warehouse: SqlServer, clickhouse: ClickHouse) -> Check:
    """Rows that stood in the targets and in no source before the run: a full refresh leaves none of them.

    Each says where it was put: `engine`, `schema`, `table`, and the `column` and `value` that tell it.
    """
    left = []
    for row in planted:
        where = f"{row['schema']}.{row['table']}"
        names = [row[name] for name in ("schema", "table", "column")]
        if not isinstance(row["value"], str):
            # NULL equals nothing, so it would always have vanished.
            raise ValueError(f"{row['value']!r} of {where} is no text that tells a planted row")
        if row["engine"] == "sqlserver":
            schema, table, column = map(bracketed, names)
            query = f"SELECT 1 FROM {schema}.{table} WHERE {column} = %s"
            found = list(warehouse.rows(query, (row["value"],)))
        elif row["engine"] == "clickhouse":
            schema, table, column = map(backticked, names)
            query = f"SELECT toInt32(1) FROM {schema}.{table} WHERE {column} = {{value:String}}"
            found = list(clickhouse.rows(query, {"value": row["value"]}))
        else:
            raise ValueError(f"{row['engine']!r} is no engine in which a row was planted")
        left += [f"{row['value']} is still in {where} of {row['engine']}"] * len(found)
    if not planted:
        left.append("none was planted")
    return unless(left, name="planted rows that no source has have vanished", good=f"{len(planted)} rows")


@cache
def _mart(warehouse: SqlServer, table: str, columns: tuple[str, ...]) -> Multiset:
    """A mart's rows, read once for both comparisons. The campaign is over: nothing writes it meanwhile."""
    return multiset(warehouse.rows(f"SELECT {_brackets(columns)} FROM marts.[{table}]"))


def _rows(name: str, table: str, comparison: Comparison) -> Check:
    detail = f"{comparison.target_rows} rows"
    if not comparison.equal:
        detail = (
            f"{comparison.source_rows} against {comparison.target_rows} rows; {comparison.missing} missing, "
            f"{comparison.extra} extra, for example: {comparison.sample}"
        )
    whole = (comparison.source_rows == 0) == (table in EMPTY)
    return Check(name, comparison.equal and whole, detail if whole else f"{comparison.source_rows} rows in the source")


def _brackets(columns: tuple[str, ...]) -> str:
    return ", ".join(f"[{column}]" for column in columns)


def _double(columns: tuple[str, ...]) -> str:
    return ", ".join(f'"{column}"' for column in columns)
