"""Catalog views: read from sysviews.sql, given to the compiler as parenthesised queries with declared T-SQL types."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from tsqldev.compile.names import SystemView
from tsqldev.interfaces import Column
from tsqldev.types import BINARY, CHARACTER, DEFAULT_COLLATION, MAX, SqlType

# The collation of the type and description columns of the catalog, whatever the database's own is.
CATALOG_COLLATION = "Latin1_General_CI_AS_KS_WS"

_OBJECT_COLUMNS = (
    "o.name, o.object_id, o.principal_id, o.schema_id, o.parent_object_id, o.type, case o.type when"
    " 'U' then 'USER_TABLE'"
    " when 'V' then 'VIEW' when 'P' then 'SQL_STORED_PROCEDURE' when 'TR' then 'SQL_TRIGGER'"
    " when 'PK' then 'PRIMARY_KEY_CONSTRAINT' when 'UQ' then 'UNIQUE_CONSTRAINT' when 'F' then 'FOREIGN_KEY_CONSTRAINT'"
    " when 'C' then 'CHECK_CONSTRAINT' when 'D' then 'DEFAULT_CONSTRAINT' end, o.create_date, o.modify_date, 0, 0, 0"
)
_COLUMN_COLUMNS = (
    "c.object_id, c.name, c.column_id, meta.system_type_id(c.type_name),"
    " meta.user_type_id(c.type_name),"
    " meta.max_length(c.type_name, c.length, c.precision, c.scale),"
    " meta.column_precision(c.type_name, c.length, c.precision, c.scale), meta.type_scale(c.type_name, c.scale),"
    " case when c.type_name <> 'xml' then c.collation_name end, c.is_nullable,"
    " c.type_name not in ('text', 'ntext', 'image', 'xml') or true, c.is_rowguidcol,"
    " c.is_identity, c.computed is not null, 0, 0, 0, 0, 0, 0, 0, c.default_object_id, 0, c.is_sparse, 0, 0,"
    " 'NOT_APPLICABLE', null, null, null, null, null, 0, c.masking_function is not null, null, null,"
    " null, null, null, 0, 0"
)
_MACROS = {
    "{object}": "name sysname!, object_id int!, principal_id int, schema_id int!, parent_object_id int!, type char(2)!,"
    " type_desc nvarchar(60), create_date datetime!, modify_date datetime!, is_ms_shipped bit!, is_published bit!,"
    " is_schema_published bit!",
    "{column}": "object_id int!, name sysname, column_id int!, system_type_id tinyint!, user_type_id int!,"
    " max_length smallint!, precision tinyint!, scale tinyint!, collation_name sysname, is_nullable bit,"
    " is_ansi_padded bit!, is_rowguidcol bit!, is_identity bit!, is_computed bit!, is_filestream"
    " bit!, is_replicated bit,"
    " is_non_sql_subscribed bit, is_merge_published bit, is_dts_replicated bit, is_xml_document bit!,"
    " xml_collection_id int!, default_object_id int!, rule_object_id int!, is_sparse bit, is_column_set bit,"
    " generated_always_type tinyint, generated_always_type_desc nvarchar(60), encryption_type int,"
    " encryption_type_desc nvarchar(64), encryption_algorithm_name sysname, column_encryption_key_id int,"
    " column_encryption_key_database_name sysname, is_hidden bit, is_masked bit!, graph_type int,"
    " graph_type_desc nvarchar(60), is_data_deletion_filter_column bit, ledger_view_column_type tinyint,"
    " ledger_view_column_type_desc nvarchar(60), is_dropped_ledger_column bit!, is_external bit!",
    "{object_columns}": _OBJECT_COLUMNS,
    "{select_object}": f"select {_OBJECT_COLUMNS} from meta.objects o",
    "{column_columns}": _COLUMN_COLUMNS,
    "{select_column}": f"select {_COLUMN_COLUMNS} from meta.columns c join meta.objects o using (object_id)",
}
_DECLARED = re.compile(r"(\w+) (\w+)(?:\((\w+)(?:,(\d+))?\))?(!?)")


@dataclass(frozen=True, slots=True)
class Declared:
    """A catalog view as declared: `query` still has :db in it."""

    object_id: int
    schema: str
    name: str
    columns: tuple[Column, ...]
    query: str


@cache
def declared() -> Mapping[tuple[str, str], Declared]:
    """All catalog views, by lower-case (schema, name). Their ids are negative, as SQL Server's are."""
    text = (files("tsqldev.catalog") / "sysviews.sql").read_text(encoding="utf-8")
    for macro, expansion in _MACROS.items():
        text = text.replace(macro, expansion)
    views: dict[tuple[str, str], Declared] = {}
    for number, part in enumerate(text.split("--: ")[1:], 1):
        heading, *lines = part.splitlines()
        schema, name = heading.strip().split(".")
        declarations = ", ".join(line[4:] for line in lines if line.startswith("--| "))
        query = "\n".join(line for line in lines if not line.startswith("--"))
        columns = tuple(
            Column(match[1], _type(match), column_id=ordinal)
            for ordinal, match in enumerate(_DECLARED.finditer(declarations), 1)
        )
        views[schema.lower(), name.lower()] = Declared(-number, schema, name, columns, query.strip())
    return views


def _type(match: re.Match[str]) -> SqlType:
    name, length, scale, nullable = match[2], match[3], match[4], not match[5]
    if name == "sysname":
        return SqlType("sysname", 128, collation=DEFAULT_COLLATION, nullable=nullable)
    if name == "decimal":
        return SqlType(name, precision=int(length), scale=int(scale), nullable=nullable)
    size = None if length is None else MAX if length == "max" else int(length)
    collation = None
    if name in CHARACTER:
        described = name == "char" or match[1].endswith("_desc") or match[1] == "permission_name"
        collation = CATALOG_COLLATION if described else DEFAULT_COLLATION
    assert name in CHARACTER or name in BINARY or length is None
    return SqlType(name, size, collation=collation, nullable=nullable)


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _cast(column: Column) -> str:
    name = quote(column.name)
    via = "::int" if column.type.name == "bit" else ""
    return f"{name}{via}::{column.type.postgres} as {name}"


def system_view(
    schema: str, name: str, database: str, database_id: int, dmvs: Mapping[str, Sequence[Column]]
) -> SystemView | None:
    """The catalog view or DMV of that name, as it is in one database."""
    if schema.lower() == "sys":
        for dmv, columns in dmvs.items():
            if dmv.lower() == name.lower():
                return SystemView(
                    0,
                    database,
                    "sys",
                    dmv,
                    f"sys.{dmv}",
                    tuple(columns),
                    tuple(quote(column.name) for column in columns),
                    system=True,
                    schema_id=4,
                    owner_id=4,
                    database_id=database_id,
                    rows=f"sys.{dmv}",
                )
    view = declared().get((schema.lower(), name.lower()))
    if view is None:
        return None
    names = ", ".join(quote(column.name) for column in view.columns)
    columns_sql = ", ".join(_cast(column) for column in view.columns)
    query = view.query.replace(":db", str(database_id))
    return SystemView(
        view.object_id,
        database,
        view.schema,
        view.name,
        f"(select {columns_sql} from (\n{query}\n) q ({names}))",
        view.columns,
        tuple(quote(column.name) for column in view.columns),
        system=True,
        schema_id=4 if view.schema == "sys" else 3,
        owner_id=4 if view.schema == "sys" else 3,
        database_id=database_id,
    )
