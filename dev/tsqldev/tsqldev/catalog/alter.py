"""ALTER TABLE."""

from __future__ import annotations

import psycopg

from tsqldev.catalog.build import TableBuilder, open_table
from tsqldev.catalog.constraints import add_constraint, enforce_foreign, forget_foreign
from tsqldev.catalog.definitions import (
    ColumnSpec,
    KeySpec,
    TableSpec,
    collation_name,
    mask_function,
    read_elements,
    read_options,
    read_type,
)
from tsqldev.catalog.indexes import remove_index
from tsqldev.catalog.lookup import physical_column
from tsqldev.catalog.statement import Found, Statement
from tsqldev.catalog.tables import touch_rowversion
from tsqldev.errors import SqlError, unsupported
from tsqldev.interfaces import Column
from tsqldev.types import SqlType


def alter_table(st: Statement) -> None:
    read = st.read
    read.expect("ALTER", "TABLE")
    parts = read.qualified()
    found = st.find(parts, "U")
    if found is None or not st.holds("OBJECT", found.object_id, "ALTER"):
        raise SqlError(
            4902,
            f'Cannot find the object "{".".join(parts)}" because it does not exist or you do not have permissions.',
        )
    checked: bool | None = None
    if read.peek("WITH", "CHECK") or read.peek("WITH", "NOCHECK"):
        read.next()
        checked = read.next().value == "CHECK"
    build = open_table(st, found)
    if read.take("ADD"):
        _add(st, build, checked=checked is not False)
    elif read.take("DROP"):
        _drop(st, build, found)
    elif read.take("ALTER"):
        read.expect("COLUMN")
        _alter_column(st, build)
    elif read.peek("CHECK") or read.peek("NOCHECK"):
        _check(st, build, trusted=checked is True)
    elif read.peek("ENABLE", "TRIGGER") or read.peek("DISABLE", "TRIGGER"):
        _triggers(st, found)
    elif read.take("REBUILD"):
        _rebuild(st, found)
    elif read.take("SET", "(", "LOCK_ESCALATION", "="):
        read.next()
        read.expect(")")
        read.end()
    else:
        raise unsupported(f"ALTER TABLE ... {read.token.text}")
    st.run("update meta.objects set modify_date = meta.now() where object_id = %s", found.object_id)
    st.changed()


def _add(st: Statement, build: TableBuilder, *, checked: bool) -> None:
    spec: TableSpec = read_elements(st.read)
    st.read.end()
    for column in spec.columns:
        _add_column(st, build, column, spec)
    for column_name, default in spec.defaults:
        build.add_default(column_name, default)
    for constraint in spec.constraints:
        if isinstance(constraint, KeySpec):
            _require_not_null(build, constraint)
        add_constraint(build, constraint, checked=checked)


def _require_not_null(build: TableBuilder, key: KeySpec) -> None:
    for name, _ in key.columns:
        if key.primary and build.column(name).type.nullable and not build.column(name).computed:
            raise SqlError(8111, f"Cannot define PRIMARY KEY constraint on nullable column in table '{build.name}'.")


def _add_column(st: Statement, build: TableBuilder, spec: ColumnSpec, table: TableSpec) -> None:
    keyed = any(
        isinstance(key, KeySpec)
        and key.primary
        and spec.name.casefold() in (name.casefold() for name, _ in key.columns)
        for key in table.constraints
    )
    definition = build.add_column(spec, keyed=keyed)
    column = build.columns[-1]
    filled = spec.default is not None and (not column.type.nullable or "WITH VALUES" in st.text.upper())
    late_not_null = filled and not column.type.nullable
    if late_not_null:
        definition = definition.replace(" not null", "", 1)
    try:
        st.run(f"alter table {build.relation} add column {definition}")
    except psycopg.errors.NotNullViolation as error:
        raise SqlError(
            4901,
            "ALTER TABLE only allows columns to be added that can contain nulls, or have a DEFAULT definition"
            " specified,"
            " or the column being added is an identity or timestamp column, or alternatively if none of the previous"
            f" conditions are satisfied the table must be empty to allow addition of this column. Column '{spec.name}'"
            f" cannot be added to non-empty table '{build.name}' because it does not satisfy these conditions.",
        ) from error
    # A clustered columnstore index holds every column of its table.
    st.run(
        "insert into meta.index_columns select i.object_id, i.index_id, (select max(index_column_id) + 1"
        " from meta.index_columns k where k.object_id = i.object_id and k.index_id = i.index_id), %s, 0, false, true"
        " from meta.indexes i where i.object_id = %s and i.type = 5",
        column.column_id,
        build.object_id,
    )
    if column.type.name == "rowversion":
        touch_rowversion(st, build, column)
    if column.identity:
        st.run(f"alter sequence data.s{build.object_id} owned by {build.relation}.{physical_column(column.column_id)}")
    if spec.default is not None:
        build.add_default(spec.name, spec.default, fill=filled)
    if late_not_null:
        st.run(f"alter table {build.relation} alter column {physical_column(column.column_id)} set not null")


def _drop(st: Statement, build: TableBuilder, found: Found) -> None:
    read = st.read
    kind = "CONSTRAINT"
    first = True
    while first or read.take(","):
        if read.take("COLUMN"):
            kind = "COLUMN"
        elif read.take("CONSTRAINT") or first:
            kind = "CONSTRAINT"
        first = False
        quietly = read.take("IF", "EXISTS")
        name = read.name()
        if kind == "COLUMN":
            _drop_column(st, build, name, quietly=quietly)
        else:
            drop_constraint(st, build, found, name, quietly=quietly)
            if read.peek("WITH"):
                read_options(read)
    read.end()


def drop_constraint(st: Statement, build: TableBuilder, found: Found, name: str, *, quietly: bool = False) -> None:
    row = st.one(
        "select object_id, type, name from meta.objects where parent_object_id = %s and key = meta.fold(%s)"
        " and type in ('PK', 'UQ', 'C', 'D', 'F')",
        found.object_id,
        name,
    )
    if row is None:
        if quietly:
            return
        raise SqlError(3728, f"'{name}' is not a constraint.")
    object_id, kind, stored = row
    if kind in ("PK", "UQ"):
        index_id = st.value("select index_id from meta.key_constraints where object_id = %s", object_id)
        user = st.value(
            "select o.name from meta.foreign_keys f join meta.objects o using (object_id)"
            " where f.referenced_object_id = %s and f.key_index_id = %s limit 1",
            found.object_id,
            index_id,
        )
        if user is not None:
            raise SqlError(
                3725,
                f"The constraint '{stored}' is being referenced by table '{found.name}', foreign key constraint"
                f" '{user}'.",
            )
        remove_index(st, found.object_id, index_id)
    elif kind == "C":
        st.run(f"alter table {build.relation} drop constraint if exists k{object_id}")
    elif kind == "F":
        st.run(f"alter table {build.relation} drop constraint if exists f{object_id}")
        forget_foreign(st, object_id)
    else:
        column_id = st.value("select parent_column_id from meta.default_constraints where object_id = %s", object_id)
        st.run("update meta.columns set default_object_id = 0 where default_object_id = %s", object_id)
        st.run(f"alter table {build.relation} alter column {physical_column(column_id)} drop default")
    st.run("delete from meta.extended_properties where class = 1 and major_id = %s", object_id)
    st.run("delete from meta.objects where object_id = %s", object_id)


def _dependents(st: Statement, object_id: int, column_id: int, physical: str) -> list[str]:
    """Constraints and indexes that stand on a column; a clustered columnstore index holds all, and stops no change."""
    return [
        row[0]
        for row in st.run(
            "select i.name from meta.index_columns k join meta.indexes i using (object_id, index_id)"
            " where k.object_id = %s and k.column_id = %s and i.type <> 5"
            " union all select o.name from meta.default_constraints d join meta.objects o using (object_id)"
            " where d.parent_object_id = %s and d.parent_column_id = %s"
            " union all select o.name from meta.check_constraints c join meta.objects o using (object_id)"
            " where c.parent_object_id = %s and c.physical ~ ('\\m' || %s || '\\M')"
            " union all select o.name from meta.foreign_key_columns c join meta.foreign_keys f using (object_id)"
            " join meta.objects o using (object_id) where (f.parent_object_id = %s and c.parent_column_id = %s)"
            " or (f.referenced_object_id = %s and c.referenced_column_id = %s)",
            *(object_id, column_id, object_id, column_id, object_id, physical),
            *(object_id, column_id, object_id, column_id),
        )
    ]


def _drop_column(st: Statement, build: TableBuilder, name: str, *, quietly: bool) -> None:
    column = next((c for c in build.columns if c.name.casefold() == name.casefold()), None)
    if column is None:
        if quietly:
            return
        raise SqlError(
            4924, f"ALTER TABLE DROP COLUMN failed because column '{name}' does not exist in table '{build.name}'."
        )
    physical = physical_column(column.column_id)
    users = _dependents(st, build.object_id, column.column_id, physical)
    if users:
        raise SqlError(
            4922, f"ALTER TABLE DROP COLUMN {column.name} failed because one or more objects access this column."
        )
    if len(build.columns) == 1:
        raise SqlError(
            4923,
            f"ALTER TABLE DROP COLUMN failed because '{column.name}' is the only data column in table"
            f" '{build.name}'. A table must have at least one data column.",
        )
    if column.type.name == "rowversion":
        st.run(f"drop trigger rowversion on {build.relation}")
    st.run(f"alter table {build.relation} drop column {physical}")
    st.run("delete from meta.columns where object_id = %s and column_id = %s", build.object_id, column.column_id)
    st.run("delete from meta.index_columns where object_id = %s and column_id = %s", build.object_id, column.column_id)
    st.run(
        "delete from meta.extended_properties where class = 1 and major_id = %s and minor_id = %s",
        build.object_id,
        column.column_id,
    )
    build.columns.remove(column)


def _alter_column(st: Statement, build: TableBuilder) -> None:
    read = st.read
    name = read.name()
    column = next((c for c in build.columns if c.name.casefold() == name.casefold()), None)
    if column is None:
        raise SqlError(
            4924, f"ALTER TABLE ALTER COLUMN failed because column '{name}' does not exist in table '{build.name}'."
        )
    physical = physical_column(column.column_id)
    if read.peek("ADD", "MASKED") or read.peek("MASKED"):
        read.take("ADD")
        read.expect("MASKED")
        mask_function(read)
        raise unsupported("data masking")
    if read.peek("DROP", "MASKED") or read.peek("ADD") or read.peek("DROP"):
        raise unsupported(f"ALTER COLUMN ... {read.token.value}")
    spec = ColumnSpec(column.name, read_type(read))
    collation = collation_name(read) if read.take("COLLATE") else None
    nullable = True
    if read.take("NOT", "NULL"):
        nullable = False
    else:
        read.take("NULL")
    read.end()
    if column.computed or column.type.name == "rowversion":
        raise SqlError(
            4928,
            f"Cannot alter column '{column.name}' because it is '{'COMPUTED' if column.computed else 'timestamp'}'.",
        )
    kind = build.typed(ColumnSpec(spec.name, spec.type, nullable, collation))
    _require_free(st, build, column, kind)
    if kind.with_nullable(True) != column.type.with_nullable(True):
        _convert(st, build, column, kind.with_nullable(True))
    action = "drop" if kind.nullable else "set"
    try:
        st.run(f"alter table {build.relation} alter column {physical} {action} not null")
    except psycopg.errors.NotNullViolation as error:
        raise SqlError(
            515,
            f"Cannot insert the value NULL into column '{column.name}', table"
            f" '{build.database}.{build.schema}.{build.name}';"
            " column does not allow nulls. UPDATE fails.",
            state=2,
        ) from error
    st.run(
        "update meta.columns set type_name = %s, length = %s, precision = %s, scale = %s, collation_name = %s,"
        " is_nullable = %s where object_id = %s and column_id = %s",
        *(kind.name, kind.length, kind.precision, kind.scale, kind.collation, kind.nullable),
        build.object_id,
        column.column_id,
    )


def _require_free(st: Statement, build: TableBuilder, column: Column, kind: SqlType) -> None:
    """Raises 5074 where what stands on the column forbids the change: anything may, except that it grows."""
    defaults = st.value(
        "select count(*) from meta.default_constraints where parent_object_id = %s and parent_column_id = %s",
        build.object_id,
        column.column_id,
    )
    users = _dependents(st, build.object_id, column.column_id, physical_column(column.column_id))
    old = column.type
    grows = (
        (kind.name, kind.collation) == (old.name, old.collation)
        and kind.length is not None
        and old.length is not None
        and kind.name in ("varchar", "nvarchar", "varbinary")
        and kind.length >= old.length > 0
    )
    same = kind.with_nullable(True) == old.with_nullable(True)
    if not users or grows or (same and (len(users) == defaults or kind.nullable == old.nullable)):
        return
    raise SqlError(
        5074,
        f"The object '{users[0]}' is dependent on column '{column.name}'.\r\nALTER TABLE ALTER COLUMN {column.name} failed"
        " because one or more objects access this column.",
    )


def _convert(st: Statement, build: TableBuilder, column: Column, kind: SqlType) -> None:
    """Rewrite the column's values as an assignment to the new type would, with its errors (8114, 8152, 220...)."""
    old = column.type
    varying = kind.name in ("varchar", "nvarchar", "varbinary")
    if (
        varying
        and (kind.name, kind.collation) == (old.name, old.collation)
        and (kind.length or 0) > (old.length or 0) > 0
    ):
        return  # what was allowed still is
    physical = physical_column(column.column_id)
    sql, _ = build.compiler.column_expression(
        f"[{column.name.replace(']', ']]')}]", build.columns, build.physical, kind
    )
    default = st.value(
        "select pg_get_expr(d.adbin, d.adrelid) from pg_attrdef d join pg_attribute a on a.attrelid = d.adrelid and"
        " a.attnum = d.adnum where d.adrelid = %s::regclass and a.attname = %s and a.attgenerated = ''",
        build.relation,
        physical,
    )
    if default is not None:
        st.run(f"alter table {build.relation} alter column {physical} drop default")
    st.run(f"alter table {build.relation} alter column {physical} type {kind.postgres} using {sql}")
    if default is not None:
        st.run(f"alter table {build.relation} alter column {physical} set default {default}")


def _check(st: Statement, build: TableBuilder, *, trusted: bool) -> None:
    """CHECK / NOCHECK CONSTRAINT: enforce again (looking at the rows only WITH CHECK), or stop enforcing."""
    read = st.read
    enable = read.next().value == "CHECK"
    read.expect("CONSTRAINT")
    names: list[str] | None = None
    if not read.take("ALL"):
        names = [read.name()]
        while read.take(","):
            names.append(read.name())
    read.end()
    rows = st.run(
        "select o.object_id, o.type, o.name from meta.objects o where o.parent_object_id = %s and o.type in ('C', 'F')",
        build.object_id,
    )
    wanted = None if names is None else {name.casefold() for name in names}
    chosen = [row for row in rows if wanted is None or row[2].casefold() in wanted]
    if wanted is not None and len(chosen) < len(wanted):
        missing = next(n for n in names or [] if n.casefold() not in {row[2].casefold() for row in chosen})
        raise SqlError(4917, f"Constraint '{missing}' does not exist.")
    for object_id, kind, name in chosen:
        table = "check_constraints" if kind == "C" else "foreign_keys"
        physical = ("k" if kind == "C" else "f") + str(object_id)
        st.run(f"alter table {build.relation} drop constraint if exists {physical}")
        if enable and kind == "C":
            sql = st.value("select physical from meta.check_constraints where object_id = %s", object_id)
            try:
                st.run(
                    f"alter table {build.relation} add constraint {physical} check ({sql})"
                    + ("" if trusted else " not valid")
                )
            except psycopg.errors.CheckViolation as error:
                raise SqlError(
                    547,
                    f'The ALTER TABLE statement conflicted with the CHECK constraint "{name}". The conflict occurred in'
                    f' database "{build.database}", table "{build.schema}.{build.name}".',
                ) from error
        elif enable:
            enforce_foreign(build, object_id, checked=trusted, name=name)
        st.run(
            f"update meta.{table} set is_disabled = %s, is_not_trusted = %s where object_id = %s",
            not enable,
            not (enable and trusted),
            object_id,
        )


def _triggers(st: Statement, found: Found) -> None:
    read = st.read
    disabled = read.next().value == "DISABLE"
    read.expect("TRIGGER")
    names: list[str] | None = None
    if not read.take("ALL"):
        names = [read.name()]
        while read.take(","):
            names.append(read.name())
    read.end()
    set_triggers(st, found, names, disabled=disabled)


def set_triggers(st: Statement, found: Found, names: list[str] | None, *, disabled: bool) -> None:
    rows = st.run(
        "select o.object_id, o.key from meta.triggers t join meta.objects o using (object_id) where t.parent_id = %s",
        found.object_id,
    )
    wanted = {row[1] for row in rows} if names is None else {name.lower() for name in names}
    chosen = [row[0] for row in rows if row[1] in wanted]
    if len(chosen) < len(wanted):
        raise SqlError(
            1088 if names is None else 4920,
            f"ALTER TABLE failed because trigger '{(names or [''])[0]}' on table '{found.name}' does not exist.",
        )
    st.run("update meta.triggers set is_disabled = %s where object_id = any (%s)", disabled, chosen)
    st.run("update meta.objects set modify_date = meta.now() where object_id = any (%s)", chosen)


def _rebuild(st: Statement, found: Found) -> None:
    options = read_options(st.read)
    st.read.end()
    st.run(
        "update meta.indexes set compression = %s where object_id = %s and index_id = 1",
        options.compression,
        found.object_id,
    )
    st.run(
        "insert into meta.heaps values (%s, %s) on conflict (object_id) do update set heap_compression ="
        " excluded.heap_compression",
        found.object_id,
        options.compression,
    )


__all__ = ["alter_table", "drop_constraint", "set_triggers"]
