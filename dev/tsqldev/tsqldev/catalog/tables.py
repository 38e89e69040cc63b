"""CREATE, DROP and TRUNCATE TABLE; tables from SELECT INTO; the shape of #temp tables and table variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tsqldev.catalog.build import TableBuilder, index_sql
from tsqldev.catalog.constraints import add_constraint
from tsqldev.catalog.definitions import (
    CheckSpec,
    ColumnSpec,
    KeySpec,
    TableSpec,
    read_elements,
    read_filegroup,
    read_options,
)
from tsqldev.catalog.lookup import physical_column, relation
from tsqldev.catalog.statement import Found, Statement, permission_denied
from tsqldev.catalog.tokens import Reader
from tsqldev.compile.compiler import Compiler
from tsqldev.errors import SqlError, unsupported
from tsqldev.interfaces import Column
from tsqldev.types import CHARACTER, DEFAULT_COLLATION


def create_table(st: Statement) -> None:
    read = st.read
    read.expect("CREATE", "TABLE")
    parts = read.qualified()
    read.expect("(")
    spec = read_elements(read)
    read.expect(")")
    compression = _storage(read)
    read.end()
    if parts[-1].startswith("#"):
        raise unsupported("a #temp table in this place")
    build = new_table(st, parts, spec)
    if compression:
        st.run("insert into meta.heaps values (%s, %s)", build.object_id, compression)
    st.changed()


def _storage(read: Reader) -> int:
    """Trailing clauses that only say how rows are stored. Answers the compression of the heap."""
    compression = 0
    while read.peek("ON") or read.peek("TEXTIMAGE_ON") or read.peek("WITH"):
        if read.peek("WITH"):
            compression = read_options(read).compression
        else:
            read_filegroup(read)
    return compression


def new_table(st: Statement, parts: tuple[str, ...], spec: TableSpec) -> TableBuilder:
    """The table with its constraints, in metadata and in PostgreSQL. Raises 262, 2714, 2760."""
    database_id, schema_name, name = st.place(parts)
    schema_id, schema, _ = may_create_in(st, database_id, schema_name, "CREATE TABLE")
    database, collation = st.one("select name, collation_name from meta.databases where database_id = %s", database_id)
    object_id = int(st.value("select nextval('meta.object_ids')"))
    build = TableBuilder(st, object_id, database_id, database, schema_id, schema, name, collation, [])
    build.taken(name)
    st.run(
        "insert into meta.objects (object_id, database_id, schema_id, name, type) values (%s, %s, %s, %s, 'U')",
        object_id,
        database_id,
        schema_id,
        name,
    )
    if sum(isinstance(constraint, KeySpec) and constraint.primary for constraint in spec.constraints) > 1:
        raise SqlError(8110, f"Cannot add multiple PRIMARY KEY constraints to table '{name}'.")
    keyed = {
        column.casefold()
        for constraint in spec.constraints
        if isinstance(constraint, KeySpec) and constraint.primary
        for column, _ in constraint.columns
    }
    # A computed column may use what stands behind it.
    placed = sorted(enumerate(spec.columns, 1), key=lambda item: item[1].computed is not None)
    definitions = [build.add_column(c, keyed=c.name.casefold() in keyed, place=place) for place, c in placed]
    build.columns.sort(key=lambda column: column.column_id)
    st.run(f"create table {build.relation} ({', '.join(definitions)})")
    for column in build.columns:
        if column.identity:
            st.run(f"alter sequence data.s{object_id} owned by {build.relation}.{physical_column(column.column_id)}")
        if column.type.name == "rowversion":
            touch_rowversion(st, build, column)
    for column_spec in spec.columns:
        if column_spec.default is not None:
            build.add_default(column_spec.name, column_spec.default)
    # Keys first: a foreign key may refer to this table's own. A clustered key takes index id 1 before others count on.
    for constraint in sorted(spec.constraints, key=_order):
        add_constraint(build, constraint)
    return build


def touch_rowversion(st: Statement, build: TableBuilder, column: Column) -> None:
    st.run(
        f"create trigger rowversion before insert or update on {build.relation} for each row"
        f" execute function meta.next_rowversion('{physical_column(column.column_id)}')"
    )


def _order(constraint: object) -> int:
    if isinstance(constraint, KeySpec):
        return 0 if (constraint.primary and constraint.clustered is not False) or constraint.clustered else 1
    return 2


def may_create_in(st: Statement, database_id: int, schema_name: str, permission: str) -> tuple[int, str, int]:
    """The schema, where the caller may create such an object in it. Raises 262 or 2760."""
    name = st.value("select name from meta.databases where database_id = %s", database_id)
    if database_id == st.database_id:
        if not st.holds("DATABASE", 0, permission):
            raise permission_denied(permission, name)
        schema = st.schema(schema_name)
        if not st.holds("SCHEMA", schema[0], "ALTER"):
            raise SqlError(
                2760,
                f'The specified schema name "{schema_name}" either does not exist or you do not have permission to use it.',
            )
        return schema
    other = st.access.enter(st.principal.login_id, name)
    if not st.access.holds(other, "DATABASE", 0, permission):
        raise permission_denied(permission, name)
    schema = st.schema(schema_name, database_id)
    if not st.access.holds(other, "SCHEMA", schema[0], "ALTER"):
        raise SqlError(
            2760,
            f'The specified schema name "{schema_name}" either does not exist or you do not have permission to use it.',
        )
    return schema


def table_from_columns(st: Statement, parts: tuple[str, ...], columns: Sequence[Column]) -> int:
    """The table of SELECT ... INTO: types, nullability and identity of the result, no constraints. Its object id."""
    spec = TableSpec()
    for number, column in enumerate(columns, 1):
        if not column.name:
            raise SqlError(
                1038,
                "An object or column name is missing or empty. For SELECT INTO statements, verify each column has"
                " a name."
                f" Column {number} has none.",
                severity=15,
            )
        spec.columns.append(
            ColumnSpec(
                column.name,
                column.type,
                column.type.nullable,
                column.type.collation if column.type.name in CHARACTER else None,
                (1, 1) if column.identity else None,
            )
        )
    build = new_table(st, parts, spec)
    st.changed()
    return build.object_id


def drop_table(st: Statement) -> None:
    read = st.read
    read.expect("DROP", "TABLE")
    quietly = read.take("IF", "EXISTS")
    names = [read.qualified()]
    while read.take(","):
        names.append(read.qualified())
    read.end()
    for parts in names:
        found = st.find(parts, "U")
        shown = ".".join(parts)
        if found is None:
            require_no_other_kind(st, parts, "TABLE")
            if quietly:
                continue
            raise SqlError(
                3701,
                f"Cannot drop the table '{shown}', because it does not exist or you do not have permission.",
                severity=11,
                state=5,
            )
        if not may_drop(st, found):
            raise SqlError(
                3701,
                f"Cannot drop the table '{shown}', because it does not exist or you do not have permission.",
                severity=14,
                state=20,
            )
        if st.one(
            "select 1 from meta.foreign_keys where referenced_object_id = %s and parent_object_id <> %s",
            found.object_id,
            found.object_id,
        ):
            raise SqlError(
                3726, f"Could not drop object '{shown}' because it is referenced by a FOREIGN KEY constraint."
            )
        st.run(f"drop table {found.relation} cascade")
        forget(st, found)
    st.changed()


def require_no_other_kind(st: Statement, parts: tuple[str, ...], word: str) -> None:
    """Raises 3705 where the name is of something that another DROP is for."""
    other = st.find(parts, "V", "P", "TR", "U")
    if other is not None:
        noun = {"V": "view", "P": "procedure", "TR": "trigger", "U": "table"}[other.type]
        shown = ".".join(parts)
        raise SqlError(
            3705, f"Cannot use DROP {word} with '{shown}' because '{shown}' is a {noun}. Use DROP {noun.upper()}."
        )


def may_drop(st: Statement, found: Found) -> bool:
    """CONTROL on the object, or ALTER on its schema."""
    who = st.principal
    if found.database_id != who.database_id:
        name = st.value("select name from meta.databases where database_id = %s", found.database_id)
        who = st.access.enter(who.login_id, name)
    holds = st.access.holds
    return holds(who, "OBJECT", found.object_id, "CONTROL") or holds(who, "SCHEMA", found.schema_id, "ALTER")


def forget(st: Statement, found: Found) -> None:
    """Remove an object, what belongs to it, and all that was granted on it."""
    ids = [
        row[0]
        for row in st.run(
            "select object_id from meta.objects where object_id = %s or parent_object_id = %s",
            found.object_id,
            found.object_id,
        )
    ]
    st.run(
        "delete from meta.permissions where database_id = %s and class = 1 and major_id = any (%s)",
        found.database_id,
        ids,
    )
    st.run(
        "delete from meta.extended_properties where database_id = %s and class in (1, 7) and major_id = any (%s)",
        found.database_id,
        ids,
    )
    st.run("delete from meta.objects where object_id = any (%s)", ids)


def truncate_table(st: Statement) -> None:
    read = st.read
    read.expect("TRUNCATE", "TABLE")
    parts = read.qualified()
    if read.peek("WITH"):
        raise unsupported("TRUNCATE TABLE of partitions")
    read.end()
    found = st.find(parts, "U")
    if found is None or not st.holds("OBJECT", found.object_id, "ALTER"):
        raise SqlError(
            4701 if found is None else 1088,
            f'Cannot find the object "{parts[-1]}" because it does not exist or you do not have permissions.',
        )
    if st.one(
        "select 1 from meta.foreign_keys where referenced_object_id = %s and parent_object_id <> %s",
        found.object_id,
        found.object_id,
    ):
        raise SqlError(
            4712,
            f"Cannot truncate table '{'.'.join(parts)}' because it is being referenced by a FOREIGN KEY constraint.",
        )
    st.run(f"truncate table {found.relation} restart identity cascade")


# ---- #temp tables and table variables


@dataclass(frozen=True, slots=True)
class LocalTable:
    """A table that only its session knows: columns, their PostgreSQL names, and the statements that create it."""

    columns: tuple[Column, ...]
    physical: tuple[str, ...]
    statements: tuple[str, ...]


def local_table(
    text: str,
    relation_name: str,
    compiler: Compiler,
    *,
    collation: str = DEFAULT_COLLATION,
    quoted_identifier: bool = True,
) -> LocalTable:
    """`text`: what stands between the parentheses of DECLARE @t TABLE (...) or CREATE TABLE #t (...).

    Constraints are enforced and have no names; a foreign key is ignored, as SQL Server does for #temp tables.
    """
    read = Reader(text, quoted_identifier=quoted_identifier)
    spec = read_elements(read)
    read.end()
    columns: list[Column] = []
    definitions: list[str] = []
    primary = {
        name.casefold()
        for key in spec.constraints
        if isinstance(key, KeySpec) and key.primary
        for name, _ in key.columns
    }
    for column_id, column in enumerate(spec.columns, 1):
        physical = physical_column(column_id)
        names = [physical_column(n) for n in range(1, column_id)]
        if column.type is None:
            assert column.computed is not None
            sql, kind = compiler.column_expression(column.computed, columns, names)
            suffix = f"generated always as ({sql}) {'stored' if column.persisted or 'sys.' in sql else 'virtual'}"
        else:
            own = column.collation if column.collation and column.collation.upper() != "DATABASE_DEFAULT" else collation
            kind = column.type
            if kind.name in CHARACTER:
                kind = type(kind)(kind.name, kind.length, collation=own)
            nullable = column.nullable if column.nullable is not None else column.identity is None
            kind = kind.with_nullable(nullable and column.name.casefold() not in primary)
            suffix = "" if kind.nullable else "not null"
            if column.identity is not None:
                seed, increment = column.identity
                suffix += (
                    f" generated by default as identity (start {seed} increment {increment} minvalue {min(seed, 1)})"
                )
            elif kind.name == "rowversion":
                suffix += " default nextval('meta.rowversion')"
            elif column.default is not None:
                sql, _ = compiler.column_expression(column.default.text, (), (), kind)
                suffix += f" default {sql}"
        definitions.append(f"{physical} {kind.postgres} {suffix}")
        columns.append(
            Column(
                column.name,
                kind,
                column.identity is not None,
                column.type is None,
                column_id,
                column.default is not None,
            )
        )
    physical_names = tuple(physical_column(column.column_id) for column in columns)
    by_name = {column.name.casefold(): column for column in columns}
    statements: list[str] = []
    for constraint in spec.constraints:
        if isinstance(constraint, CheckSpec):
            definitions.append(f"check ({compiler.column_condition(constraint.text, columns, physical_names)})")
        elif isinstance(constraint, KeySpec) and not constraint.columnstore:
            keys = [(by_name[name.casefold()], descending) for name, descending in constraint.columns]
            where = constraint.filter and compiler.column_condition(constraint.filter, columns, physical_names)
            statements.append(index_sql(compiler, "", relation_name, keys, constraint.unique, where))
    create = f"create temporary table {relation_name} ({', '.join(definitions)})"
    return LocalTable(tuple(columns), physical_names, (create, *statements))


def temporary_name(relation_name: str, name: str) -> str:
    """The statement that leaves a #temp table's name where OBJECT_ID('tempdb..#name') finds it."""
    return f"comment on table {relation_name} is '{name.replace(chr(39), chr(39) * 2)}'"


__all__ = [
    "create_table",
    "drop_table",
    "local_table",
    "new_table",
    "relation",
    "table_from_columns",
    "temporary_name",
    "truncate_table",
]
