"""Specs of columns and constraints to metadata rows and PostgreSQL statements, for one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import psycopg

from tsqldev.catalog.definitions import (
    ColumnSpec,
    DefaultSpec,
    KeySpec,
    unwrapped,
)
from tsqldev.catalog.lookup import physical_column, relation
from tsqldev.catalog.statement import Found, Statement
from tsqldev.compile.collation import key_sql
from tsqldev.compile.compiler import Compiler, rewrite_check
from tsqldev.errors import SqlError, unsupported
from tsqldev.interfaces import Column
from tsqldev.types import BIN2_COLLATION, CHARACTER, MAX, SqlType

_IDENTITY_TYPES = frozenset({"tinyint", "smallint", "int", "bigint", "decimal", "numeric"})


@dataclass(slots=True)
class TableBuilder:
    """A table being created or altered. `columns` are those that exist so far, in order."""

    statement: Statement
    object_id: int
    database_id: int
    database: str
    schema_id: int
    schema: str
    name: str
    collation: str
    columns: list[Column]

    # ---- columns

    def typed(self, spec: ColumnSpec) -> SqlType:
        """The column's full type: with collation and nullability."""
        assert spec.type is not None
        collation = None
        if spec.type.name in CHARACTER:
            collation = spec.collation or self.collation
            if collation.upper() == "DATABASE_DEFAULT":
                collation = self.collation
            if collation.upper() == BIN2_COLLATION.upper():
                collation = BIN2_COLLATION
        nullable = spec.nullable
        if nullable is None:
            nullable = spec.type.name not in ("rowversion", "sysname") and spec.identity is None
        if spec.identity is not None and spec.nullable:
            raise SqlError(
                8147, f"Could not create IDENTITY attribute on nullable column '{spec.name}', table '{self.name}'."
            )
        return replace(spec.type, collation=collation, nullable=nullable)

    def add_column(self, spec: ColumnSpec, *, keyed: bool = False, place: int | None = None) -> str:
        """Write the column's metadata; answer its PostgreSQL definition. `keyed`: part of the primary key; `place`: its
        id, where columns are not added in their order."""
        st = self.statement
        if spec.masked is not None:
            raise unsupported("data masking")
        if any(column.name.casefold() == spec.name.casefold() for column in self.columns):
            raise SqlError(
                2705,
                f"Column names in each table must be unique. Column name '{spec.name}' in table '{self.name}' is"
                " specified more than once.",
            )
        last = st.value("select coalesce(max(column_id), 0) from meta.columns where object_id = %s", self.object_id)
        column_id = place or max(int(last), len(self.columns)) + 1
        physical = physical_column(column_id)
        if spec.computed is not None:
            sql, kind = self.compiler.column_expression(spec.computed, self.columns, self.physical)
            kind = kind.with_nullable(kind.nullable and spec.nullable is not False)
            # PostgreSQL computes no function of a user when a row is read.
            stored = spec.persisted or keyed or "sys." in sql
            suffix = f"generated always as ({sql}) {'stored' if stored else 'virtual'}"
        else:
            kind = self.typed(spec)
            suffix = ""
            if keyed and spec.nullable:
                raise SqlError(8111, f"Cannot define PRIMARY KEY constraint on nullable column in table '{self.name}'.")
            if keyed:
                kind = kind.with_nullable(False)
            if not kind.nullable:
                suffix = "not null"
            if kind.name == "rowversion":
                suffix += " default nextval('meta.rowversion')"
        if spec.identity is not None:
            if kind.name not in _IDENTITY_TYPES or kind.scale:
                raise SqlError(
                    2749,
                    f"Identity column '{spec.name}' must be of data type int, bigint, smallint, tinyint, or decimal or"
                    " numeric with a scale of 0, unencrypted, and constrained to be nonnullable.",
                )
            if any(column.identity for column in self.columns):
                raise SqlError(
                    2744,
                    f"Multiple identity columns specified for table '{self.name}'. Only one identity column per table"
                    " is allowed.",
                )
            seed, increment = spec.identity
            if increment == 0:
                raise SqlError(1753, "Identity increment must not be zero.")
            bound = f"minvalue {min(seed, 1)} " if increment > 0 else f"maxvalue {max(seed, -1)} "
            sequence = f"data.s{self.object_id}"
            st.run(f"create sequence {sequence} as int8 start {seed} increment {increment} {bound}")
            suffix += f" default nextval('{sequence}')"
        st.run(
            "insert into meta.columns (object_id, column_id, name, type_name, length, precision, scale, collation_name,"
            " is_nullable, is_identity, seed_value, increment_value, computed, is_persisted, is_rowguidcol, is_sparse,"
            " masking_function) values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            self.object_id,
            column_id,
            spec.name,
            kind.name,
            kind.length,
            kind.precision,
            kind.scale,
            kind.collation,
            kind.nullable,
            spec.identity is not None,
            *(spec.identity or (None, None)),
            rewrite_check(unwrapped(spec.computed)) if spec.computed is not None else None,
            spec.persisted,
            spec.rowguidcol,
            spec.sparse,
            spec.masked,
        )
        column = Column(spec.name, kind, spec.identity is not None, spec.computed is not None, column_id)
        self.columns.append(column)
        return f"{physical} {kind.postgres} {suffix}"

    @property
    def physical(self) -> list[str]:
        return [physical_column(column.column_id) for column in self.columns]

    @property
    def compiler(self) -> Compiler:
        return self.statement.compiler(self.database)

    def column(self, name: str, message: str = "table") -> Column:
        for column in self.columns:
            if column.name.casefold() == name.casefold():
                return column
        raise SqlError(1911, f"Column name '{name}' does not exist in the target {message} or view.")

    # ---- constraints

    def constraint_object(self, kind: str, name: str | None, generated: str) -> int:
        st = self.statement
        object_id = int(st.value("select nextval('meta.object_ids')"))
        system_named = name is None
        name = name or f"{generated}__{object_id:08X}"
        self.taken(name)
        st.run(
            "insert into meta.objects (object_id, database_id, schema_id, name, type, parent_object_id,"
            " is_system_named)"
            " values (%s, %s, %s, %s, %s, %s, %s)",
            object_id,
            self.database_id,
            self.schema_id,
            name,
            kind,
            self.object_id,
            system_named,
        )
        return object_id

    def taken(self, name: str) -> None:
        """Raises 2714 where the schema has an object of that name."""
        if self.statement.one(
            "select 1 from meta.objects where database_id = %s and schema_id = %s and key = meta.fold(%s)",
            self.database_id,
            self.schema_id,
            name,
        ):
            raise SqlError(2714, f"There is already an object named '{name}' in the database.", state=5)

    def add_default(self, column_name: str, spec: DefaultSpec, *, fill: bool = False) -> None:
        st = self.statement
        column = self.column(column_name)
        if st.value(
            "select default_object_id from meta.columns where object_id = %s and column_id = %s",
            self.object_id,
            column.column_id,
        ):
            raise SqlError(1781, "Column already has a DEFAULT bound to it.")
        if column.identity:
            raise SqlError(
                1754,
                f"Defaults cannot be created on columns with an IDENTITY attribute. Table '{self.name}', column"
                f" '{column.name}'.",
            )
        sql, _ = self.compiler.column_expression(spec.text, (), (), column.type)
        object_id = self.constraint_object("D", spec.name, f"DF__{self.name[:9]}__{column.name[:5]}")
        st.run(
            "insert into meta.default_constraints values (%s, %s, %s, %s, %s)",
            object_id,
            self.object_id,
            column.column_id,
            rewrite_check(unwrapped(spec.text)),
            spec.text,
        )
        st.run(
            "update meta.columns set default_object_id = %s where object_id = %s and column_id = %s",
            object_id,
            self.object_id,
            column.column_id,
        )
        physical = physical_column(column.column_id)
        st.run(f"alter table {self.relation} alter column {physical} set default {sql}")
        if fill:
            st.run(f"update {self.relation} set {physical} = {sql}")

    @property
    def relation(self) -> str:
        return relation(self.object_id)

    def add_key(self, spec: KeySpec) -> int:
        """A PRIMARY KEY, a UNIQUE constraint or an index. Answers its index id."""
        st = self.statement
        has_clustered = bool(st.one("select 1 from meta.indexes where object_id = %s and index_id = 1", self.object_id))
        clustered = spec.clustered if spec.clustered is not None else spec.primary and not has_clustered
        if spec.primary and st.one(
            "select 1 from meta.indexes where object_id = %s and is_primary_key", self.object_id
        ):
            raise SqlError(1779, f"Table '{self.name}' already has a primary key defined on it.")
        if clustered and has_clustered:
            other = st.value("select name from meta.indexes where object_id = %s and index_id = 1", self.object_id)
            raise SqlError(
                1902 if spec.constraint is False else 8112,
                f"Cannot create more than one clustered index on table '{self.schema}.{self.name}'. Drop the existing"
                f" clustered index '{other}' before creating another.",
            )
        if len({name.casefold() for name, _ in spec.columns}) < len(spec.columns):
            raise SqlError(1909, "Cannot use duplicate column names in index.")
        keys = [(self.column(name), descending) for name, descending in spec.columns]
        included = [self.column(name) for name in spec.included]
        if spec.columnstore:
            included = [column for column, _ in keys] if keys else list(self.columns)
            keys = []
        for column, _ in keys:
            if column.type.length == MAX or column.type.name in ("text", "ntext", "image", "xml"):
                raise SqlError(
                    1919,
                    f"Column '{column.name}' in table '{self.schema}.{self.name}' is of a type that is invalid for use"
                    " as a key column in an index.",
                )
            if spec.primary and column.type.nullable and not column.computed:
                raise SqlError(8111, f"Cannot define PRIMARY KEY constraint on nullable column in table '{self.name}'.")
        name = spec.name
        if spec.constraint:
            prefix = ("PK__" if spec.primary else "UQ__") + f"{self.name[:8]:_<8}"
            object_id = self.constraint_object("PK" if spec.primary else "UQ", spec.name, prefix)
            name = st.value("select name from meta.objects where object_id = %s", object_id)
        assert name is not None
        if st.one("select 1 from meta.indexes where object_id = %s and key = meta.fold(%s)", self.object_id, name):
            raise SqlError(
                1913,
                f"The operation failed because an index or statistics with name '{name}' already exists on table"
                f" '{self.schema}.{self.name}'.",
            )
        index_id = 1
        if not clustered:
            index_id = int(
                st.value(
                    "select greatest(coalesce(max(index_id), 1), 1) + 1 from meta.indexes where object_id = %s",
                    self.object_id,
                )
            )
        condition = None
        if spec.filter is not None:
            condition = self.compiler.column_condition(spec.filter, self.columns, self.physical)
        options = spec.options
        kind = (5 if clustered else 6) if spec.columnstore else (1 if clustered else 2)
        st.run(
            "insert into meta.indexes (object_id, index_id, name, type, is_unique, is_primary_key,"
            " is_unique_constraint,"
            " is_padded, allow_row_locks, allow_page_locks, optimize_for_sequential_key, fill_factor, compression,"
            " filter_definition, physical_filter) values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            self.object_id,
            index_id,
            name,
            kind,
            spec.unique and not spec.columnstore,
            spec.primary,
            spec.constraint and not spec.primary,
            options.pad_index,
            options.allow_row_locks,
            options.allow_page_locks,
            options.optimize_for_sequential_key,
            options.fill_factor,
            3 if spec.columnstore and not options.compression else options.compression,
            None if spec.filter is None else rewrite_check(spec.filter),
            condition,
        )
        for ordinal, (column, descending, key_ordinal) in enumerate(
            [(c, d, n) for n, (c, d) in enumerate(keys, 1)] + [(c, False, 0) for c in included], 1
        ):
            st.run(
                "insert into meta.index_columns values (%s, %s, %s, %s, %s, %s, %s)",
                self.object_id,
                index_id,
                ordinal,
                column.column_id,
                key_ordinal,
                descending,
                key_ordinal == 0,
            )
        if spec.constraint:
            st.run("insert into meta.key_constraints values (%s, %s, %s)", object_id, self.object_id, index_id)
        if not spec.columnstore:
            self._create_index(index_id, name, keys, spec.unique, condition)
        return index_id

    def _create_index(
        self, index_id: int, name: str, keys: Sequence[tuple[Column, bool]], unique: bool, condition: str | None
    ) -> None:
        sql = index_sql(self.compiler, f"i{self.object_id}_{index_id}", self.relation, keys, unique, condition)
        try:
            self.statement.run(sql)
        except psycopg.errors.UniqueViolation as error:
            raise SqlError(
                1505,
                "The CREATE UNIQUE INDEX statement terminated because a duplicate key was found for the object name"
                f" '{self.schema}.{self.name}' and the index name '{name}'. The duplicate key value is"
                f" {duplicate_key(error)}.",
            ) from error


def index_sql(
    compiler: Compiler,
    name: str,
    relation_name: str,
    keys: Sequence[tuple[Column, bool]],
    unique: bool,
    condition: str | None,
) -> str:
    """CREATE INDEX over the expressions by which T-SQL compares the columns; NULLs are equal, as in SQL Server."""
    parts = []
    for column, descending in keys:
        expression = key_sql(column.type, physical_column(column.column_id))
        if not expression.isidentifier():
            expression = f"({expression})"
        parts.append(expression + (" desc" if descending else ""))
    sql = f"create {'unique ' if unique else ''}index {name} on {relation_name} ({', '.join(parts)})"
    if unique:
        sql += " nulls not distinct"
    return sql + (f" where {condition}" if condition else "")


def duplicate_key(error: psycopg.errors.UniqueViolation) -> str:
    """The values in PostgreSQL's `Key (...)=(1, a) is duplicated.`, as SQL Server writes them: (1, a)."""
    detail = error.diag.message_detail or ""
    _, found, rest = detail.partition(")=(")
    return "(" + rest[: rest.rfind(")")] + ")" if found else "(unknown)"


def open_table(st: Statement, found: Found) -> TableBuilder:
    """A builder for a table that exists. Other definitions of the same table wait until this transaction ends."""
    st.run("select 1 from meta.objects where object_id = %s for no key update", found.object_id)
    table = st.catalog.object(found.object_id)
    if table is None or found.type != "U":
        raise unsupported(f"altering an object of type {found.type}")
    name, collation = st.one(
        "select name, collation_name from meta.databases where database_id = %s", found.database_id
    )
    return TableBuilder(
        st,
        found.object_id,
        found.database_id,
        name,
        found.schema_id,
        found.schema,
        found.name,
        collation,
        list(table.columns),  # type: ignore[union-attr]  # type U is a TableInfo
    )
