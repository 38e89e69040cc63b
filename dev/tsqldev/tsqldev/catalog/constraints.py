"""CHECK and FOREIGN KEY constraints of a table; `add_constraint` takes keys too."""

from __future__ import annotations

import psycopg

from tsqldev.catalog.build import TableBuilder, open_table
from tsqldev.catalog.definitions import (
    CASCADE,
    SET_DEFAULT,
    SET_NULL,
    CheckSpec,
    Constraint,
    ForeignSpec,
)
from tsqldev.catalog.lookup import physical_column, relation
from tsqldev.catalog.statement import Statement
from tsqldev.compile.collation import key_sql
from tsqldev.compile.compiler import rewrite_check
from tsqldev.errors import SqlError
from tsqldev.interfaces import Column, TableInfo
from tsqldev.types import BINARY, CHARACTER, SqlType

_ACTIONS = {CASCADE: "cascade", SET_NULL: "set null", SET_DEFAULT: "set default"}


def add_constraint(build: TableBuilder, constraint: Constraint, *, checked: bool = True) -> None:
    """`checked` false: WITH NOCHECK, existing rows are not looked at and the constraint is not trusted."""
    if isinstance(constraint, CheckSpec):
        add_check(build, constraint, checked=checked)
    elif isinstance(constraint, ForeignSpec):
        add_foreign(build, constraint, checked=checked)
    else:
        build.add_key(constraint)


def add_check(build: TableBuilder, spec: CheckSpec, *, checked: bool) -> None:
    st = build.statement
    sql = build.compiler.column_condition(spec.text, build.columns, build.physical)
    used = [c for c, p in zip(build.columns, build.physical, strict=True) if _mentions(sql, p)]
    if spec.column and any(c.column_id != build.column(spec.column).column_id for c in used):
        raise SqlError(
            8141,
            f"Column CHECK constraint for column '{spec.column}' references another column, table '{build.name}'.",
        )
    # A constraint on one column is that column's, wherever it was written.
    column_id = used[0].column_id if len(used) == 1 else 0
    object_id = build.constraint_object(
        "C", spec.name, f"CK__{build.name[:9]}" + (f"__{spec.column[:5]}" if spec.column else "")
    )
    shown = st.value("select name from meta.objects where object_id = %s", object_id)
    default_collation = any(c.type.collation == build.collation for c in used)
    st.run(
        "insert into meta.check_constraints (object_id, parent_object_id, parent_column_id, definition, physical,"
        " uses_database_collation, is_not_trusted) values (%s, %s, %s, %s, %s, %s, %s)",
        object_id,
        build.object_id,
        column_id,
        rewrite_check(spec.text),
        sql,
        default_collation,
        not checked,
    )
    try:
        st.run(
            f"alter table {build.relation} add constraint k{object_id} check ({sql})"
            + ("" if checked else " not valid")
        )
    except psycopg.errors.CheckViolation as error:
        raise SqlError(
            547,
            f'The ALTER TABLE statement conflicted with the CHECK constraint "{shown}". The conflict'
            f' occurred in database "{build.database}", table "{build.schema}.{build.name}"'
            + (f", column '{used[0].name}'." if len(used) == 1 else "."),
        ) from error


def add_foreign(build: TableBuilder, spec: ForeignSpec, *, checked: bool) -> None:
    st = build.statement
    target = st.find(spec.target, "U")
    if target is None:
        raise SqlError(1767, f"Foreign key '{spec.name or 'FK'}' references invalid table '{'.'.join(spec.target)}'.")
    if target.database_id != build.database_id:
        raise SqlError(
            1763, f"Cross-database foreign key references are not supported. Foreign key '{'.'.join(spec.target)}'."
        )
    other = open_table(st, target) if target.object_id != build.object_id else build
    columns = [_referencing(build, name, spec) for name in spec.columns]
    if spec.target_columns:
        referenced = [_referenced(other, name, spec) for name in spec.target_columns]
    else:
        referenced = [
            next(c for c in other.columns if c.column_id == row[0])
            for row in st.run(
                "select k.column_id from meta.index_columns k join meta.indexes i using (object_id, index_id)"
                " where i.object_id = %s and i.is_primary_key and k.key_ordinal > 0 order by k.key_ordinal",
                target.object_id,
            )
        ]
    if len(columns) != len(referenced):
        raise SqlError(8139, "Number of referencing columns in foreign key differs from number of referenced columns.")
    for mine, theirs in zip(columns, referenced, strict=True):
        if not _comparable(mine.type, theirs.type):
            raise SqlError(
                1778,
                f"Column '{other.schema}.{other.name}.{theirs.name}' is not the same data type as referencing"
                " column"
                f" '{build.name}.{mine.name}' in foreign key '{spec.name or 'FK'}'.",
            )
    index_id = st.value(
        "select i.index_id from meta.indexes i where i.object_id = %s and i.is_unique and"
        " i.filter_definition is null"
        " and (select array_agg(k.column_id order by k.column_id) from meta.index_columns k where"
        " k.object_id = i.object_id and k.index_id = i.index_id and k.key_ordinal > 0) = %s::int[]"
        " order by not i.is_primary_key, i.index_id limit 1",
        target.object_id,
        sorted(column.column_id for column in referenced),
    )
    if index_id is None:
        raise SqlError(
            1776,
            f"There are no primary or candidate keys in the referenced table '{other.schema}.{other.name}'"
            " that match"
            f" the referencing column list in the foreign key '{spec.name or 'FK'}'.",
        )
    object_id = build.constraint_object("F", spec.name, f"FK__{build.name[:9]}__{columns[0].name[:5]}")
    st.run(
        "insert into meta.foreign_keys (object_id, parent_object_id, referenced_object_id, key_index_id,"
        " delete_action, update_action, is_not_trusted) values (%s, %s, %s, %s, %s, %s, %s)",
        object_id,
        build.object_id,
        target.object_id,
        index_id,
        spec.on_delete,
        spec.on_update,
        not checked,
    )
    for ordinal, (mine, theirs) in enumerate(zip(columns, referenced, strict=True), 1):
        st.run(
            "insert into meta.foreign_key_columns values (%s, %s, %s, %s)",
            object_id,
            ordinal,
            mine.column_id,
            theirs.column_id,
        )
    enforce_foreign(build, object_id, checked=checked, name=spec.name)


def enforce_foreign(build: TableBuilder, object_id: int, *, checked: bool, name: str | None) -> None:
    st = build.statement
    target_id, index_id, on_delete, on_update = st.one(
        "select referenced_object_id, key_index_id, delete_action, update_action from meta.foreign_keys"
        " where object_id = %s",
        object_id,
    )
    pairs = st.run(
        "select parent_column_id, referenced_column_id from meta.foreign_key_columns where object_id = %s"
        " order by ordinal",
        object_id,
    )
    table = st.catalog.object(target_id)
    assert isinstance(table, TableInfo)
    mine = [next(c for c in build.columns if c.column_id == pair[0]) for pair in pairs]
    theirs = [next(c for c in table.columns if c.column_id == pair[1]) for pair in pairs]
    # PostgreSQL writes no generated columns: with such an action the stored values have to be the same to the letter.
    folded = on_delete in (0, CASCADE) and not on_update and not any(c.computed for c in (*mine, *theirs))
    left = ", ".join(_key_column(st, build.relation, column, folded=folded) for column in mine)
    right = ", ".join(_key_column(st, relation(target_id), column, folded=folded) for column in theirs)
    if any(key_sql(column.type, "") for column in theirs):
        name_of = f"{'q' if folded else 'p'}{target_id}_{index_id}"
        st.run(f"create unique index if not exists {name_of} on {relation(target_id)} ({right}) nulls not distinct")
    sql = f"alter table {build.relation} add constraint f{object_id} foreign key ({left}) references"
    sql += f" {relation(target_id)} ({right})"
    if on_delete:
        sql += f" on delete {_ACTIONS[on_delete]}"
    if on_update:
        sql += f" on update {_ACTIONS[on_update]}"
    try:
        st.run(sql + ("" if checked else " not valid"))
    except psycopg.errors.ForeignKeyViolation as error:
        raise SqlError(
            547,
            f'The ALTER TABLE statement conflicted with the FOREIGN KEY constraint "{name or object_id}". The'
            f' conflict occurred in database "{build.database}", table "{build.schema}.{build.name}".',
        ) from error


def _key_column(st: Statement, table: str, column: Column, *, folded: bool) -> str:
    """The column by which a foreign key compares: where equal values may differ, a generated one of what is equal."""
    physical = physical_column(column.column_id)
    expression = key_sql(column.type, physical)
    if not folded or expression == physical:
        return physical
    kind = "int8" if column.type.name == "datetimeoffset" else column.type.postgres
    name = f"f{column.column_id}"
    st.run(f"alter table {table} add column if not exists {name} {kind} generated always as ({expression}) stored")
    return name


def forget_foreign(st: Statement, object_id: int) -> None:
    """After DROP CONSTRAINT: generated columns that no other foreign key compares by."""
    pairs = st.run(
        "select f.parent_object_id, c.parent_column_id, f.referenced_object_id, c.referenced_column_id"
        " from meta.foreign_key_columns c join meta.foreign_keys f using (object_id) where object_id = %s",
        object_id,
    )
    st.run("delete from meta.objects where object_id = %s", object_id)
    for table, column in {(row[i], row[i + 1]) for row in pairs for i in (0, 2)}:
        used = st.value(
            "select count(*) from meta.foreign_key_columns c join meta.foreign_keys f using (object_id)"
            " where (f.parent_object_id, c.parent_column_id) = (%s, %s)"
            " or (f.referenced_object_id, c.referenced_column_id) = (%s, %s)",
            *(table, column, table, column),
        )
        if not used:
            st.run(f"alter table {relation(table)} drop column if exists f{column}")


def _referencing(build: TableBuilder, name: str, spec: ForeignSpec) -> Column:
    for column in build.columns:
        if column.name.casefold() == name.casefold():
            return column
    raise SqlError(
        1769,
        f"Foreign key '{spec.name or 'FK'}' references invalid column '{name}' in referencing table '{build.name}'.",
    )


def _referenced(build: TableBuilder, name: str, spec: ForeignSpec) -> Column:
    for column in build.columns:
        if column.name.casefold() == name.casefold():
            return column
    raise SqlError(
        1770,
        f"Foreign key '{spec.name or 'FK'}' references invalid column '{name}' in referenced table '{build.name}'.",
    )


def _mentions(sql: str, physical: str) -> bool:
    at = sql.find(physical)
    while at >= 0:
        before, after = sql[at - 1 : at], sql[at + len(physical) : at + len(physical) + 1]
        if not (before.isalnum() or before == "_") and not (after.isalnum() or after == "_"):
            return True
        at = sql.find(physical, at + 1)
    return False


def _comparable(one: SqlType, other: SqlType) -> bool:
    """Whether a foreign key may join the types: the same type; for decimal the same size; the same collation."""
    if one.name in CHARACTER and other.name in CHARACTER:
        same = one.name == other.name or {one.name, other.name} in (
            {"varchar", "char"},
            {"nvarchar", "nchar", "sysname"},
        )
        return same and one.collation == other.collation
    if one.name in BINARY:
        return other.name in BINARY
    names = {"numeric": "decimal"}
    return (names.get(one.name, one.name), one.precision, one.scale) == (
        names.get(other.name, other.name),
        other.precision,
        other.scale,
    )
