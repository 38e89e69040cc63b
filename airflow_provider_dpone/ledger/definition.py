"""What the catalog of an installed ledger must look like, read from the SQL that installs it.

Two digests are compared in every transaction, each computed by the server over its own catalog:

*The structure* covers every object, column, index column, foreign key column, CHECK (existence, enabled, trusted) and
trigger (text by its SHA-256, enabled, options) of both schemas. Its expected value is computed here, from the install
files alone: an extra column, a dropped constraint, a disabled or altered trigger cannot be pinned away by anyone who
can write to the database.

*The CHECK texts* are rewritten by the server when they are stored, so their digest is taken once, in the transaction
that installs them, and kept in the incarnation row, which only the installer can write.

The install files are written in one house format (one column or constraint a line); anything else is refused here, so
that a definition can never be half understood.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import cache

from airflow_provider_dpone.contracts.canonical import sha256_text
from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.ledger.settings import LedgerSettings
from airflow_provider_dpone.ledger.statements import INSTALL_FILES, LedgerSql, install_names

_TABLE = re.compile(r"CREATE TABLE \[(?P<schema>\w+)\]\.\[(?P<table>\w+)\] \(")
_COLUMN = re.compile(
    r"\[(?P<name>\w+)\] (?P<type>\w+)(?:\((?P<size>\d+|max)\))?"
    r"(?: COLLATE (?P<collation>\w+))? (?P<null>NOT NULL|NULL)"
)
_KEY = re.compile(r"CONSTRAINT \[(?P<name>\w+)\] (?P<kind>PRIMARY KEY|UNIQUE) (?P<cluster>\w+) \((?P<columns>[^)]*)\)")
_FOREIGN = re.compile(
    r"CONSTRAINT \[(?P<name>\w+)\] FOREIGN KEY \((?P<columns>[^)]*)\) "
    r"REFERENCES \[\w+\]\.\[(?P<table>\w+)\] \((?P<referenced>[^)]*)\)"
)
_CHECK = re.compile(r"CONSTRAINT \[(?P<name>\w+)\] CHECK \(.+\)")
_TRIGGER = re.compile(r"CREATE TRIGGER \[(?P<schema>\w+)\]\.\[(?P<name>\w+)\] ON \[\w+\]\.\[(?P<table>\w+)\]\n")

#: max_length, precision and scale as sys.columns has them.
_FIXED_TYPES = {"bigint": (8, 19, 0), "int": (4, 10, 0), "tinyint": (1, 3, 0)}
_DATETIME2_3 = (7, 23, 3)


def install_batches(settings: LedgerSettings, files: Sequence[str] = INSTALL_FILES) -> list[tuple[str, str]]:
    """Every table and then every trigger, as (block name, text), in an order in which they can be created."""
    sql = LedgerSql(settings)
    names = [name for path in files for name in install_names(path)]
    tables = [name for name in names if name.startswith("table_")]
    triggers = [name for name in names if name.startswith("trigger_")]
    return [(name, sql.text(name)) for name in (*tables, *triggers)]


def structure_lines(settings: LedgerSettings, files: Sequence[str] = INSTALL_FILES) -> list[str]:
    """The catalog lines of an intact ledger, in the order in which the server's digest takes them."""
    lines: list[str] = []
    for name, text in install_batches(settings, files):
        lines.extend(_table_lines(text) if name.startswith("table_") else _trigger_lines(text))
    return sorted(lines)


@cache
def structure_sha256(settings: LedgerSettings, files: tuple[str, ...] = INSTALL_FILES) -> str:
    """What the server must compute over its own catalog: SHA-256 of the lines as UTF-16, joined by line feeds."""
    return sha256_text("\n".join(structure_lines(settings, files)).encode("utf-16-le"))


def table_names(settings: LedgerSettings, files: Sequence[str] = INSTALL_FILES) -> frozenset[tuple[str, str]]:
    """(schema, table) of every table of the definition."""
    found = (_TABLE.match(text) for name, text in install_batches(settings, files) if name.startswith("table_"))
    return frozenset((match["schema"], match["table"]) for match in found if match)


def _table_lines(text: str) -> Iterator[str]:
    first, *body, last = text.splitlines()
    header = _TABLE.fullmatch(first)
    if header is None or last != ");":
        raise _unreadable(first)
    schema, table = header["schema"], header["table"]
    yield f"object|{schema}|{table}|U|"
    column_id = 0
    for line in body:
        item = line.strip().removesuffix(",")
        if match := _COLUMN.fullmatch(item):
            column_id += 1
            yield _column_line(schema, table, column_id, match)
        elif match := _KEY.fullmatch(item):
            yield from _key_lines(schema, table, match)
        elif match := _FOREIGN.fullmatch(item):
            yield f"object|{schema}|{match['name']}|F|{table}"
            pairs = zip(_names(match["columns"]), _names(match["referenced"]), strict=True)
            for ordinal, (column, referenced) in enumerate(pairs, 1):
                yield (
                    f"foreign|{schema}|{table}|{match['name']}|{match['table']}|0|0|0|0|{ordinal}|{column}|{referenced}"
                )
        elif match := _CHECK.fullmatch(item):
            yield f"object|{schema}|{match['name']}|C|{table}"
            yield f"check|{schema}|{table}|{match['name']}|0|0"
        else:
            raise _unreadable(item)


def _column_line(schema: str, table: str, column_id: int, match: re.Match[str]) -> str:
    kind, size = match["type"], match["size"]
    if kind in _FIXED_TYPES and size is None:
        length, precision, scale = _FIXED_TYPES[kind]
    elif kind == "datetime2" and size == "3":
        length, precision, scale = _DATETIME2_3
    elif kind in ("varchar", "nvarchar", "varbinary", "binary") and size is not None:
        units = 2 if kind == "nvarchar" else 1
        length, precision, scale = (-1 if size == "max" else int(size) * units), 0, 0
    else:
        raise _unreadable(match[0])
    nullable = "1" if match["null"] == "NULL" else "0"
    return (
        f"column|{schema}|{table}|{column_id}|{match['name']}|{kind}|{length}|{precision}|{scale}"
        f"|{nullable}|{match['collation'] or ''}|0|0"
    )


def _key_lines(schema: str, table: str, match: re.Match[str]) -> Iterator[str]:
    primary = match["kind"] == "PRIMARY KEY"
    yield f"object|{schema}|{match['name']}|{'PK' if primary else 'UQ'}|{table}"
    for ordinal, column in enumerate(_names(match["columns"]), 1):
        yield (
            f"index|{schema}|{table}|{match['name']}|{match['cluster']}|1|{'1' if primary else '0'}|0|0"
            f"|{ordinal}|{column}"
        )


def _trigger_lines(text: str) -> Iterator[str]:
    match = _TRIGGER.match(text)
    if match is None:
        raise _unreadable(text.splitlines()[0])
    schema, table, name = match["schema"], match["table"], match["name"]
    digest = hashlib.sha256(text.encode("utf-16-le")).hexdigest().upper()
    yield f"object|{schema}|{name}|TR|{table}"
    yield f"trigger|{schema}|{table}|{name}|0|0|1|1||{digest}"


def _names(columns: str) -> list[str]:
    return [column.strip().removeprefix("[").removesuffix("]") for column in columns.split(",")]


def _unreadable(line: str) -> ConfigurationError:
    return ConfigurationError("ledger_definition", happened=f"an install file has a line of another format: {line!r}.")
