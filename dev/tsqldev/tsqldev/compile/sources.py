"""FROM: tables, views, derived tables, joins and APPLY, and the row locks that hints ask for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tsqldev.compile import tree as t
from tsqldev.compile.convert import Value, convert, quote
from tsqldev.compile.expressions import Expressions
from tsqldev.compile.locking import WHOLE, Reading, held_mode, lock_strength, read_lock
from tsqldev.compile.rules import common, family
from tsqldev.compile.scope import Bound, Scope
from tsqldev.compile.typenames import type_from_name
from tsqldev.compile.unit import Unit, is_base, require_unordered
from tsqldev.compile.withs import named_columns
from tsqldev.errors import SqlError, unsupported
from tsqldev.interfaces import Column, TableInfo, ViewInfo
from tsqldev.types import (
    BIGINT,
    BIN2_COLLATION,
    BIT,
    INT,
    MAX,
    SMALLINT,
    TINYINT,
    SqlType,
    nvarchar,
    varbinary,
    varchar,
)

if TYPE_CHECKING:
    from tsqldev.compile.queries import Queries

# The columns of sys.dm_exec_describe_first_result_set that matter to clients, in its order.
DESCRIBED = tuple(
    Column(name, type)
    for name, type in (
        ("is_hidden", BIT),
        ("column_ordinal", INT),
        ("name", nvarchar(128)),
        ("is_nullable", BIT),
        ("system_type_id", INT),
        ("system_type_name", nvarchar(256)),
        ("max_length", SMALLINT),
        ("precision", TINYINT),
        ("scale", TINYINT),
        ("collation_name", nvarchar(128)),
        ("user_type_id", INT),
        ("is_identity_column", BIT),
        ("is_updateable", BIT),
        ("is_computed_column", BIT),
        ("error_number", INT),
        ("error_severity", INT),
        ("error_state", INT),
        ("error_message", nvarchar(4000)),
        ("error_type", INT),
        ("error_type_desc", nvarchar(60)),
    )
)


class Sources:
    """Compiles the FROM of one SELECT into `scope`.

    `plain`: the SELECT may carry row locks itself; where it may not (grouping, set operations, the outer side of a
    join), the locked table stands in a subquery of its own. `skip` is the target of an UPDATE or DELETE, which is
    bound but not listed.
    """

    def __init__(self, unit: Unit, queries: Queries, scope: Scope, plain: bool) -> None:
        self.unit = unit
        self.queries = queries
        self.scope = scope
        self.plain = plain
        self.locks: list[str] = []
        self.readings: list[Reading] = []
        # By alias, the two halves of a subquery that locks its table; a WHERE may stand between them.
        self.inner_locks: dict[str, tuple[str, str]] = {}

    def compile(self, source: t.Source, *, outer: bool = False) -> str:
        if isinstance(source, t.TableRef):
            return self._table(source, outer)
        if isinstance(source, t.Derived):
            return self._derived(source, None)
        if isinstance(source, t.Rows):
            return self._rows(source)
        if isinstance(source, t.TableCall):
            return self._call(source)
        if isinstance(source, t.BulkFile):
            return self._bulk_file(source)
        if isinstance(source, t.Join):
            return self._join(source, outer)
        raise unsupported(type(source).__name__)

    def bind(self, bound: Bound, line: int) -> None:
        for other in self.scope.sources:
            if other.name.casefold() == bound.name.casefold() and (
                not other.schema or not bound.schema or other.schema.casefold() == bound.schema.casefold()
            ):
                raise SqlError(
                    1011 if not bound.schema else 1013,
                    f"The correlation name '{bound.name}' is specified multiple times in a FROM clause."
                    if not bound.schema
                    else f'The objects "{bound.name}" and "{other.name}" in the FROM clause have the same exposed names. '
                    "Use correlation names to distinguish them.",
                    severity=15 if not bound.schema else 16,
                    line=line,
                )
        self.scope.sources.append(bound)

    def _table(self, source: t.TableRef, outer: bool) -> str:
        unit = self.unit
        line = unit.line(source.pos)
        if len(source.parts) == 1:
            cte = unit.ctes.get(source.parts[0].casefold())
            if cte is not None:
                alias = unit.alias()
                name, columns = cte
                sql = [f"{alias}.c{i + 1}" for i in range(len(columns))]
                self.bind(Bound(source.alias or source.parts[0], "", "", columns, sql, cte=name), line)
                return f"{name} AS {alias}"
        info = unit.resolve(source.parts, line)
        unit.use("SELECT", info)
        alias = unit.alias()
        schema = "" if source.alias else info.schema
        database = "" if source.alias else info.database
        if isinstance(info, ViewInfo):
            relation = unit.view(info, line, source.hints)
            columns = relation.columns
            sql = [f"{alias}.c{i + 1}" for i in range(len(columns))]
            self.bind(Bound(source.alias or info.name, schema, database, columns, sql, info.object_id), line)
            return f"({relation.sql}) AS {alias}"
        name = source.alias or (source.parts[-1] if source.parts[-1][0] in "@#" else info.name)
        sql = [f"{alias}.{physical}" for physical in info.physical]
        bound = Bound(name, schema, database, info.columns, sql, info.object_id)
        self.bind(bound, line)
        return self._locked(info, bound, source.hints | unit.hints, alias, outer)

    def reading(self, info: TableInfo, bound: Bound, hints: frozenset[str], *, change: bool = False) -> Reading | None:
        """Note that a table is read, or looked through for rows to change."""
        lock = read_lock(info, hints, self.unit.context.isolation, change=change) if is_base(info) else None
        if lock is None:
            return None
        reading = Reading(info, bound, len(self.unit.shared.reads), self.locks, holds=held_mode(hints))
        if not hints & WHOLE:
            self.readings.append(reading)
        self.unit.shared.reads.append(lock)
        return reading

    def _locked(self, info: TableInfo, bound: Bound, hints: frozenset[str], alias: str, outer: bool) -> str:
        relation = self.unit.relation_of(info)
        if not is_base(info):
            return f"{relation} AS {alias}"
        reading = self.reading(info, bound, hints)
        if "TABLOCKX" in hints:
            self.unit.shared.before.append(
                f"LOCK TABLE {relation} IN EXCLUSIVE MODE{' NOWAIT' if 'NOWAIT' in hints else ''}"
            )
            return f"{relation} AS {alias}"
        lock = lock_strength(hints, self.unit.context.isolation)
        if not lock:
            return f"{relation} AS {alias}"
        if self.plain and not outer:
            strength, nowait, _ = lock.partition(" NOWAIT")
            if reading is not None:
                reading.text = len(self.locks)
            self.locks.append(f"{strength} OF {alias}{nowait}")
            return f"{relation} AS {alias}"
        columns = ", ".join(f"{alias}.{physical}" for physical in info.physical)
        strength, nowait, _ = lock.partition(" NOWAIT")
        self.inner_locks[alias] = (f"SELECT {columns} FROM {relation} AS {alias}", f" {strength} OF {alias}{nowait}")
        return f"({' '.join(self.inner_locks[alias])}) AS {alias}"

    def _derived(self, source: t.Derived, lateral: Scope | None) -> str:
        require_unordered(source.query, self.unit.line(source.query.pos))
        relation = self.queries.query(source.query, lateral if lateral is not None else self.scope.parent)
        columns = named_columns(relation.columns, source.columns, source.alias)
        alias = self.unit.alias()
        sql = [f"{alias}.c{i + 1}" for i in range(len(columns))]
        self.bind(Bound(source.alias, "", "", columns, sql), self.unit.line(source.pos))
        return f"({relation.sql}) AS {alias}"

    def _rows(self, source: t.Rows) -> str:
        expressions = Expressions(self.unit, self.scope)
        rows, types = typed_rows(expressions, source.rows, self.unit.line(source.pos))
        columns = named_columns([Column("", type) for type in types], source.columns, source.alias)
        alias = self.unit.alias()
        self.bind(
            Bound(source.alias, "", "", columns, [f"{alias}.c{i + 1}" for i in range(len(columns))]),
            self.unit.line(source.pos),
        )
        listed = ", ".join(f"({', '.join(row)})" for row in rows)
        names = ", ".join(f"c{i + 1}" for i in range(len(columns)))
        return f"(VALUES {listed}) AS {alias}({names})"

    def _call(self, source: t.TableCall) -> str:
        expressions = Expressions(self.unit, self.scope)
        name = source.name.upper()
        arguments = [expressions.value(node) for node in source.arguments]
        alias = self.unit.alias()
        line = self.unit.line(source.pos)
        columns: list[Column]
        if name == "OPENJSON" and 1 <= len(arguments) <= 2:
            text = convert(arguments[0], nvarchar(MAX)).sql
            path = convert(arguments[1], nvarchar(4000)).sql if len(arguments) > 1 else "'$'"
            if source.schema is None:
                columns = [
                    Column("key", nvarchar(4000, BIN2_COLLATION).with_nullable(False)),
                    Column("value", nvarchar(MAX)),
                    Column("type", SqlType("tinyint", nullable=False)),
                ]
                relation = f"sys.openjson({text}, {path}) AS {alias}(c1, c2, c3)"
                sql = [f"{alias}.c{i}" for i in (1, 2, 3)]
            else:
                columns, sql = [], []
                for column, type_name, json_path, json in source.schema:
                    type = type_from_name(type_name, default_length=1)
                    where = json_path if json_path is not None else f'$."{column}"'
                    function = "json_query" if json else "json_value"
                    found = Value(f"sys.{function}({alias}.c1, {quote(where)})", nvarchar(MAX))
                    columns.append(Column(column, type))
                    sql.append(convert(found, type, explicit=True).sql)
                relation = f"sys.openjson_rows({text}, {path}) AS {alias}(c1)"
        elif name == "STRING_SPLIT" and 2 <= len(arguments) <= 3:
            like = arguments[0]
            columns = [
                Column(
                    "value",
                    replace(common(like.type, nvarchar(1)), length=like.type.length)
                    if family(like.type) == "char"
                    else nvarchar(4000),
                )
            ]
            if len(arguments) > 2 and arguments[2].constant == "1":
                columns.append(Column("ordinal", BIGINT.with_nullable(False)))
            text, separator = (convert(v, nvarchar(MAX)).sql for v in arguments[:2])
            relation = f"sys.string_split({text}, {separator}) AS {alias}(c1, c2)"
            sql = [f"{alias}.c{i + 1}" for i in range(len(columns))]
        elif name == "GENERATE_SERIES" and 2 <= len(arguments) <= 3:
            type = arguments[0].type if family(arguments[0].type) == "int" else INT
            columns = [Column("value", type)]
            listed = ", ".join(convert(v, BIGINT).sql for v in arguments)
            relation = f"(SELECT g::{type.postgres} AS c1 FROM generate_series({listed}) g) AS {alias}"
            sql = [f"{alias}.c1"]
        elif name == "SYS.DM_EXEC_DESCRIBE_FIRST_RESULT_SET" and len(arguments) == 3:
            columns = list(DESCRIBED)
            relation, sql = self._described(source.arguments, alias)
        else:
            raise SqlError(208, f"Invalid object name '{source.name}'.", line=line)
        if source.columns:
            columns = [replace(c, name=source.columns[i]) for i, c in enumerate(columns)]
        self.bind(Bound(source.alias or source.name, "", "", columns, sql), line)
        lateral = "" if relation.startswith("(") else "LATERAL "
        return lateral + relation

    def _bulk_file(self, source: t.BulkFile) -> str:
        """The session reads the file, for those who may, when the statement runs."""
        type = {"SINGLE_BLOB": varbinary(MAX), "SINGLE_CLOB": varchar(MAX), "SINGLE_NCLOB": nvarchar(MAX)}[source.kind]
        value = self.unit.parameter(f"bulk:{source.kind}:{source.path}", type)
        alias = self.unit.alias()
        name = source.columns[0] if source.columns else "BulkColumn"
        self.bind(Bound(source.alias, "", "", [Column(name, type)], [f"{alias}.c1"]), self.unit.line(source.pos))
        return f"(SELECT {value} AS c1) AS {alias}"

    def _described(self, arguments: list[t.Node], alias: str) -> tuple[str, list[str]]:
        """The session describes the text of a variable or a literal, and gives the rows as JSON."""
        text = arguments[0]
        if isinstance(text, t.Variable):
            what = text.name
        elif isinstance(text, t.Literal) and text.kind in ("string", "nstring"):
            what = "=" + text.text
        else:
            raise unsupported("sys.dm_exec_describe_first_result_set of an expression")
        if not (isinstance(arguments[1], t.Literal) and arguments[1].kind == "null"):
            raise unsupported("parameters of sys.dm_exec_describe_first_result_set")
        rows = self.unit.parameter(f"rows:describe:{what}", nvarchar(MAX))
        listed = ", ".join(f'"{column.name}" {column.type.postgres}' for column in DESCRIBED)
        relation = f"(SELECT * FROM jsonb_to_recordset(({rows})::jsonb) AS r({listed})) AS {alias}"
        return relation, [f'{alias}."{column.name}"' for column in DESCRIBED]

    def _join(self, join: t.Join, outer: bool) -> str:
        if join.kind in ("CROSS APPLY", "OUTER APPLY"):
            return self._apply(join, outer)
        nullable_left = outer or join.kind in ("RIGHT", "FULL")
        nullable_right = outer or join.kind in ("LEFT", "FULL")
        before = len(self.scope.sources)
        left = self.compile(join.left, outer=nullable_left)
        middle = len(self.scope.sources)
        right = self.compile(join.right, outer=nullable_right)
        if join.kind in ("RIGHT", "FULL"):
            self._weaken(before, middle)
        on = ""
        if join.on is not None:
            on = f" ON {Expressions(self.unit, self.scope).condition(join.on)}"
        locked = self.inner_locks.get(right.rpartition(" AS ")[2]) if isinstance(join.right, t.TableRef) else None
        if locked is not None and join.kind in ("LEFT", "INNER"):
            # Only the rows that are joined are locked, and an index finds them.
            alias = right.rpartition(" AS ")[2]
            right, on = f"LATERAL ({locked[0]} WHERE {on[len(' ON ') :]}{locked[1]}) AS {alias}", " ON true"
        if join.kind in ("LEFT", "FULL"):
            self._weaken(middle, len(self.scope.sources))
        if isinstance(join.right, t.Join):
            right = f"({right})"
        return f"{left} {join.kind} JOIN {right}{on}"

    def _weaken(self, start: int, end: int) -> None:
        """The columns of the outer side may be NULL."""
        for i in range(start, end):
            bound = self.scope.sources[i]
            bound.columns = [replace(c, type=c.type.with_nullable(True)) for c in bound.columns]

    def _apply(self, join: t.Join, outer: bool) -> str:
        left = self.compile(join.left, outer=outer)
        right_source = join.right
        kept = join.kind == "OUTER APPLY"
        start = len(self.scope.sources)
        if isinstance(right_source, t.Derived):
            # The left side is visible inside, as an outer query's columns are.
            inner = Scope(self.scope)
            right = "LATERAL " + self._derived(right_source, inner)
        elif isinstance(right_source, t.TableCall | t.Rows):
            right = self.compile(right_source, outer=outer or kept)
            if not right.startswith("LATERAL "):
                right = "LATERAL " + right
        else:
            right = self.compile(right_source, outer=outer or kept)
        if kept:
            self._weaken(start, len(self.scope.sources))
            return f"{left} LEFT JOIN {right} ON true"
        return f"{left} CROSS JOIN {right}"


def typed_rows(expressions: Expressions, rows: list[list[t.Node]], line: int) -> tuple[list[list[str]], list[SqlType]]:
    """The rows of VALUES with every column of one type."""
    width = len(rows[0])
    if any(len(row) != width for row in rows):
        raise SqlError(
            10709, "The number of columns for each row in a table value constructor must be the same.", line=line
        )
    values = [[expressions.value(node) for node in row] for row in rows]
    types: list[SqlType] = []
    for i in range(width):
        column = [row[i] for row in values]
        if all(v.type.name == "null" for v in column):
            types.append(INT)
            for row in values:
                row[i] = Value("NULL::int4", INT)
            continue
        merged = expressions.merge_values(column, line)
        types.append(merged[0].type)
        for row, value in zip(values, merged, strict=True):
            row[i] = replace(value, sql=f"{value.sql}::{value.type.postgres}" if "::" not in value.sql else value.sql)
    return [[v.sql for v in row] for row in values], types
