"""Each target's columns against its source's: names, types with precision and scale, and where NULL may stand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dpone_reconcile.check import Check, unless
from dpone_reconcile.engines import ClickHouse, Postgres, SqlServer


@dataclass(frozen=True, slots=True)
class Column:
    """A type as its server writes it, without NULL."""

    type: str
    nullable: bool


Columns = Mapping[str, Column]

_POSTGRES = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), NOT a.attnotnull
FROM pg_attribute AS a
WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped
"""
_SQL_SERVER = """
SELECT c.name, t.name, CAST(c.max_length AS int), CAST(c.precision AS int), CAST(c.scale AS int),
       CAST(c.is_nullable AS int)
FROM sys.columns AS c
INNER JOIN sys.types AS t ON t.user_type_id = c.user_type_id
INNER JOIN sys.objects AS o ON o.object_id = c.object_id
INNER JOIN sys.schemas AS s ON s.schema_id = o.schema_id
WHERE s.name = %s AND o.name = %s
"""
_CLICKHOUSE = "SELECT name, type FROM system.columns WHERE database = {database:String} AND table = {table:String}"

#: A source's type, and the target's types that hold its every value unchanged.
_Held = tuple[tuple[str, tuple[str, ...]], ...]
_BY_SQL_SERVER: _Held = (
    (r"smallint", ("smallint",)),
    (r"integer", ("int",)),
    (r"numeric\((\d+),(\d+)\)", (r"decimal(\1,\2)",)),
    (r"character varying\((\d+)\)", (r"varchar(\1)", r"nvarchar(\1)")),
    (r"date", ("date",)),
)
_BY_CLICKHOUSE: _Held = (
    (r"uniqueidentifier", ("UUID",)),
    (r"smallint", ("Int16",)),
    (r"int", ("Int32",)),
    (r"decimal\((\d+),(\d+)\)", (r"Decimal(\1, \2)",)),
    (r"n?varchar\(\d+\)", ("String",)),
    (r"date", ("Date32",)),
    (r"datetime2\((\d)\)", (r"DateTime64(\1, 'UTC')",)),
)


def postgres_columns(server: Postgres, table: str) -> Columns:
    return {name: Column(kind, nullable) for name, kind, nullable in server.rows(_POSTGRES, (table,))}


def sql_server_columns(server: SqlServer, schema: str, table: str) -> Columns:
    return {
        name: Column(_with_sizes(kind, *sizes), bool(nullable))
        for name, kind, *sizes, nullable in server.rows(_SQL_SERVER, (schema, table))
    }


def clickhouse_columns(server: ClickHouse, database: str, table: str) -> Columns:
    found = {}
    for name, kind in server.rows(_CLICKHOUSE, {"database": database, "table": table}):
        inner = re.fullmatch(r"Nullable\((.*)\)", kind)
        found[name] = Column(inner[1] if inner else kind, inner is not None)
    return found


def loaded(name: str, source: Columns, target: Columns) -> Check:
    """A PostgreSQL table and the SQL Server table that it was loaded into."""
    return _compared(name, source, target, _BY_SQL_SERVER)


def published(name: str, source: Columns, target: Columns) -> Check:
    """A SQL Server table and the ClickHouse table that it was published as."""
    return _compared(name, source, target, _BY_CLICKHOUSE)


def _compared(name: str, source: Columns, target: Columns, held: _Held) -> Check:
    problems = [f"only one of them has {column}" for column in sorted(source.keys() ^ target.keys())]
    for column in sorted(source.keys() & target.keys()):
        one, other = source[column], target[column]
        if other.type not in _types(one.type, held):
            problems.append(f"{column}: {one.type} is held as {other.type}")
        if one.nullable and not other.nullable:
            problems.append(f"{column}: NULL has no place in the target")
    if not source:
        problems.append("the source has no columns")
    return unless(problems, name=name, good=f"{len(source)} columns")


def _types(kind: str, held: _Held) -> list[str]:
    for pattern, templates in held:
        if found := re.fullmatch(pattern, kind):
            return [found.expand(template) for template in templates]
    return []


def _with_sizes(kind: str, length: int, precision: int, scale: int) -> str:
    if kind in ("decimal", "numeric"):
        return f"decimal({precision},{scale})"
    if kind in ("char", "varchar", "binary", "varbinary"):
        return f"{kind}({length})"
    if kind in ("nchar", "nvarchar"):
        return f"{kind}({length // 2})"
    return f"{kind}({scale})" if kind in ("datetime2", "time", "datetimeoffset") else kind
