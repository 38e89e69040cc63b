"""CREATE and ALTER VIEW, and the refreshing of a view's columns."""

from __future__ import annotations

from dataclasses import replace

from tsqldev.catalog.definitions import read_names
from tsqldev.catalog.modules import (
    ModuleOptions,
    module_place,
    read_body,
    read_verb,
    record_dependencies,
    store_module,
)
from tsqldev.catalog.statement import Statement
from tsqldev.compile.unit import parse_query, require_unordered
from tsqldev.errors import SqlError, unsupported
from tsqldev.interfaces import Column
from tsqldev.types import SqlType


def create_view(st: Statement) -> None:
    read = st.read
    verb = read_verb(st)
    read.expect("VIEW")
    parts = read.qualified()
    names = read_names(read) if read.peek("(") else ()
    if read.take("WITH"):
        raise unsupported(f"the view option {read.token.text}")
    body, line = read_body(st, verb)
    stripped = body.rstrip().rstrip(";").rstrip()
    if stripped.upper().endswith("CHECK OPTION"):
        raise unsupported("WITH CHECK OPTION")
    found, place = module_place(st, verb, parts, "V", "CREATE VIEW")
    compiled = st.compiler().statement(stripped)
    if compiled.kind != "SELECT":
        raise SqlError(102, f"Incorrect syntax near '{stripped[:20]}'.", severity=15)
    require_unordered(parse_query(stripped), 1)
    columns = list(compiled.columns)
    if names:
        if len(names) != len(columns):
            number = 8158 if len(columns) > len(names) else 8159
            more = "more" if number == 8158 else "fewer"
            raise SqlError(number, f"'{parts[-1]}' has {more} columns than were specified in the column list.")
        columns = [replace(column, name=name) for column, name in zip(columns, names, strict=True)]
    _check_columns(parts[-1], columns)
    object_id = store_module(st, verb, found, place, "V", stripped, line, ModuleOptions())
    st.run("delete from meta.columns where object_id = %s", object_id)
    for column_id, column in enumerate(columns, 1):
        _view_column(st, object_id, column_id, column)
    record_dependencies(st, object_id, stripped)
    st.changed()


def _check_columns(view: str, columns: list[Column]) -> None:
    seen: set[str] = set()
    for number, column in enumerate(columns, 1):
        if not column.name:
            raise SqlError(
                4511, f"Create View or Function failed because no column name was specified for column {number}."
            )
        if column.name.casefold() in seen:
            raise SqlError(
                4506,
                f"Column names in each view or function must be unique. Column name '{column.name}' in view or function"
                f" '{view}' is specified more than once.",
            )
        seen.add(column.name.casefold())


def _view_column(st: Statement, object_id: int, column_id: int, column: Column) -> None:
    kind = column.type if column.type.name != "null" else SqlType("int")
    st.run(
        "insert into meta.columns (object_id, column_id, name, type_name, length, precision, scale, collation_name,"
        " is_nullable) values (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
        *(object_id, column_id, column.name, kind.name, kind.length, kind.precision, kind.scale),
        kind.collation,
        kind.nullable,
    )


def refresh_view(st: Statement, parts: tuple[str, ...]) -> None:
    """sp_refreshview, sp_refreshsqlmodule: the columns of a view as its text answers them now."""
    found = st.find(parts, "V", "P", "TR")
    if found is None or not st.holds("OBJECT", found.object_id, "ALTER"):
        raise SqlError(
            15009,
            f"The object '{'.'.join(parts)}' does not exist in database '{st.principal.database}' or is"
            " invalid for this operation.",
        )
    if found.type != "V":
        return
    body = st.value("select body from meta.modules where object_id = %s", found.object_id)
    columns = st.compiler().statement(body).columns
    names = [
        row[0]
        for row in st.run("select name from meta.columns where object_id = %s order by column_id", found.object_id)
    ]
    listed = "(" in st.value(
        "select split_part(definition, body, 1) from meta.modules where object_id = %s", found.object_id
    )
    st.run("delete from meta.columns where object_id = %s", found.object_id)
    for column_id, column in enumerate(columns, 1):
        renamed = replace(column, name=names[column_id - 1]) if listed and column_id <= len(names) else column
        _view_column(st, found.object_id, column_id, renamed)
    st.run("update meta.objects set modify_date = meta.now() where object_id = %s", found.object_id)
    st.changed()
