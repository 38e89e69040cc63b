"""Each target against its source: typed row multisets and column types."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from dpone_reconcile.engines import ClickHouse, Postgres, Row, SqlServer
from dpone_reconcile.marts import FLIGHT_COLUMNS, expected_delays, expected_flights
from dpone_reconcile.multiset import Comparison, Multiset, compare, multiset

REFERENCE = {
    "planes": ("tailnum", "year", "type", "manufacturer", "model", "engines", "seats", "speed", "engine"),
    "airports": ("faa", "name", "lat", "lon", "alt", "tz", "dst", "tzone"),
    "airlines": ("carrier", "name"),
}
FLIGHTS = (
    *("flight_key", "flight_date", "time_hour", "carrier", "flight", "tailnum", "origin", "dest", "dep_delay"),
    *("arr_delay", "air_time", "distance", "cancelled", "plane_built", "wind_speed", "visib"),
)
DELAYS = (
    *("delay_key", "flight_date", "carrier", "airline", "origin", "dest", "flights", "cancelled", "mean_dep_delay"),
    *("mean_arr_delay", "late_share", "worst_arr_delay", "first_departure_hour"),
)
#: What the published columns must be: SQL Server's type, ClickHouse's type.
PUBLISHED_TYPES = {
    "flight_key": ("uniqueidentifier", "UUID"),
    "delay_key": ("uniqueidentifier", "UUID"),
    "flight_date": ("date", "Date32"),
    "late_share": ("decimal(23,14)", "Decimal(23, 14)"),
    "mean_dep_delay": ("decimal(9,2)", "Decimal(9, 2)"),
    "time_hour": ("datetime2(0)", "DateTime64(0, 'UTC')"),
    "wind_speed": ("decimal(9,5)", "Decimal(9, 5)"),
}


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison and its result, for the report."""

    name: str
    passed: bool
    detail: str


def reference_tables(postgres: Postgres, warehouse: SqlServer) -> Iterator[Check]:
    """PostgreSQL to SQL Server: the same rows."""
    for table, columns in REFERENCE.items():
        source = postgres.rows(f'SELECT {_double(columns)} FROM public."{table}"')
        target = warehouse.rows(f"SELECT {_brackets(columns)} FROM raw.[{table}]")
        yield _check(f"postgres {table} = raw.{table}", compare(multiset(source), multiset(target)))


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
    yield _check("raw rows = marts.fct_flights", compare(multiset(expected), built))
    built = _mart(warehouse, "daily_delays", DELAYS)
    yield _check("raw rows = marts.daily_delays", compare(multiset(expected_delays(expected, airlines)), built))
    current = warehouse.rows("SELECT carrier, airline FROM snapshots.airlines_history WHERE dbt_valid_to IS NULL")
    history = compare(multiset(airlines.items()), multiset(current))
    yield _check("raw.airlines = current rows of snapshots.airlines_history", history)


def published(warehouse: SqlServer, clickhouse: ClickHouse, database: str) -> Iterator[Check]:
    """SQL Server to ClickHouse: the same rows under the expected types."""
    for table, columns, target in (("fct_flights", FLIGHTS, "flights"), ("daily_delays", DELAYS, "daily_delays")):
        rows = clickhouse.rows(f"SELECT {_double(columns)} FROM `{database}`.`{target}`")
        comparison = compare(_mart(warehouse, table, columns), multiset(rows))
        yield _check(f"marts.{table} = ClickHouse {database}.{target}", comparison)
        yield _types(warehouse, clickhouse, table, database, target)


@cache
def _mart(warehouse: SqlServer, table: str, columns: tuple[str, ...]) -> Multiset:
    """A mart's rows, read once for both comparisons. The campaign is over: nothing writes it meanwhile."""
    return multiset(warehouse.rows(f"SELECT {_brackets(columns)} FROM marts.[{table}]"))


def _types(warehouse: SqlServer, clickhouse: ClickHouse, table: str, database: str, target: str) -> Check:
    declared = {name: _type(row) for name, *row in warehouse.rows(_COLUMNS, ("marts", table))}
    query = f"SELECT name, type FROM system.columns WHERE database = '{database}' AND table = '{target}'"
    found: dict[str, str] = dict(clickhouse.rows(query))
    wrong = [
        f"{name}: {declared.get(name)} / {found.get(name)}"
        for name, (mssql, other) in PUBLISHED_TYPES.items()
        if name in found and (declared.get(name) != mssql or other not in str(found[name]))
    ]
    return Check(f"column types of {target}", not wrong, "; ".join(wrong) or f"{len(found)} columns")


_COLUMNS = """
SELECT c.name, t.name, CAST(c.precision AS int), CAST(c.scale AS int)
FROM sys.columns AS c
INNER JOIN sys.types AS t ON t.user_type_id = c.user_type_id
INNER JOIN sys.objects AS o ON o.object_id = c.object_id
INNER JOIN sys.schemas AS s ON s.schema_id = o.schema_id
WHERE s.name = %s AND o.name = %s
"""


def _type(row: list[Any]) -> str:
    name, precision, scale = row
    if name in ("decimal", "numeric"):
        return f"decimal({precision},{scale})"
    return f"{name}({scale})" if name in ("datetime2", "time") else str(name)


def _check(name: str, comparison: Comparison) -> Check:
    detail = f"{comparison.target_rows} rows"
    if not comparison.equal:
        detail = (
            f"{comparison.source_rows} against {comparison.target_rows} rows; {comparison.missing} missing, "
            f"{comparison.extra} extra, for example: {comparison.sample}"
        )
    return Check(name, comparison.equal and comparison.source_rows > 0, detail)


def _brackets(columns: tuple[str, ...]) -> str:
    return ", ".join(f"[{column}]" for column in columns)


def _double(columns: tuple[str, ...]) -> str:
    return ", ".join(f'"{column}"' for column in columns)


__all__ = ["Check", "Row", "marts", "published", "reference_tables"]
