"""SELECT: sources, grouping, set operations, ordering and row limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tsqldev.compile import tree as t
from tsqldev.compile.collation import key_sql
from tsqldev.compile.convert import IMPLICIT, Value, convert
from tsqldev.compile.expressions import Expressions
from tsqldev.compile.folding import Folds, accumulates
from tsqldev.compile.literals import contains_aggregate
from tsqldev.compile.locking import narrow
from tsqldev.compile.rules import common, family
from tsqldev.compile.scope import Bound, Scope
from tsqldev.compile.sources import Sources
from tsqldev.compile.unit import Relation, Unit
from tsqldev.compile.walking import has_subquery, has_window
from tsqldev.compile.withs import WithClauses, named_columns
from tsqldev.errors import SqlError, unsupported
from tsqldev.interfaces import Column
from tsqldev.types import CHARACTER, INT, MAX, SqlType, nvarchar

_IN_WHERE = (
    "An aggregate may not appear in the WHERE clause unless it is in a subquery contained in a HAVING clause or a select "
    "list, and the column being aggregated is an outer reference."
)


class Queries(WithClauses, Folds):
    """Compiles queries of a unit. `assigns` and `into` are left behind by the outermost SELECT."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.assigns: list[str] = []
        self.into: tuple[str, ...] | None = None

    # ---- whole queries -------------------------------------------------------------------------------------------

    def query(
        self, query: t.Query, parent: Scope | None, *, top: bool = False, in_set: bool = False, keep_null: bool = False
    ) -> Relation:
        """`in_set`: a side of a set operation. `keep_null`: bare NULLs take their type from what surrounds the query."""
        saved = self.unit.ctes
        try:
            prefix = self.with_clause(query.ctes, parent)
            relation = self._body(query, parent, top, in_set, keep_null or in_set)
        finally:
            self.unit.ctes = saved
        if query.json:
            raise unsupported("FOR JSON")
        if query.xml:
            if top:
                raise unsupported("FOR XML but in a subquery")
            relation = _joined(relation)
        if prefix:
            relation.sql = f"{prefix} {relation.sql}"
        return relation

    def keyed(self, select: t.Select) -> Relation:
        """The rows of a SELECT over one table with the place of each as a last column (to change through it)."""
        relation = self._select(select, t.Query(select), None, False, True, False, extra=_place)
        relation.columns = [*named_columns(relation.columns, [], "the derived table"), Column("ctid", INT)]
        return relation

    def _body(self, query: t.Query, parent: Scope | None, top: bool, in_set: bool, keep_null: bool) -> Relation:
        body = query.body
        if isinstance(body, t.Select):
            return self._select(body, query, parent, top, in_set, keep_null)
        if isinstance(body, t.Query):
            relation = self.query(body, parent, top=top, in_set=in_set, keep_null=keep_null)
        else:
            if top:
                self.into = _take_into(body)
            relation = self._set_operation(body, parent, keep_null)
        if not (query.order or query.offset):
            return relation
        order = [self._result_order(item, relation) for item in query.order]
        sql = f"SELECT * FROM ({relation.sql}) s ORDER BY {', '.join(order)}"
        return Relation(sql + self._limits(None, query, parent), relation.columns)

    def _result_order(self, item: t.OrderItem, relation: Relation) -> str:
        node = item.expression
        index = None
        if isinstance(node, t.Literal) and node.kind == "int":
            index = int(node.text) - 1
            if not 0 <= index < len(relation.columns):
                raise SqlError(
                    108,
                    f"The ORDER BY position number {node.text} is out of range of the number of items in the "
                    "select list.",
                    severity=15,
                )
        elif isinstance(node, t.Name) and len(node.parts) == 1:
            index = _index(relation.columns, node.parts[0])
        if index is None:
            raise SqlError(
                104,
                "ORDER BY items must appear in the select list if the statement contains a UNION, INTERSECT or EXCEPT operator.",
                severity=15,
                line=self.unit.line(node.pos),
            )
        type = relation.columns[index].type
        return Expressions(self.unit, Scope()).order_key(Value(f"s.c{index + 1}", type), item.descending)

    # ---- set operations ------------------------------------------------------------------------------------------

    def _set_operation(self, node: t.SetOperation, parent: Scope | None, keep_null: bool) -> Relation:
        left = self.query(node.left, parent, in_set=True)
        right = self.query(node.right, parent, in_set=True)
        if len(left.columns) != len(right.columns):
            raise SqlError(
                205,
                "All queries combined using a UNION, INTERSECT or EXCEPT operator must have an equal number of expressions "
                "in their target lists.",
                line=self.unit.line(node.pos),
            )
        columns: list[Column] = []
        expressions = Expressions(self.unit, Scope())
        for a, b in zip(left.columns, right.columns, strict=True):
            type = common(a.type, b.type)
            if type.name == "null" and not keep_null:
                type = INT
            if family(type) == "char" and family(a.type) == "char" and family(b.type) == "char":
                pair = (Value("", a.type, IMPLICIT), Value("", b.type, IMPLICIT))
                if a.type.collation != b.type.collation and node.op == "UNION" and node.all:
                    pass  # UNION ALL keeps an unresolved collation until it is used
                else:
                    expressions.collation_of(pair[0], pair[1], self.unit.line(node.pos), f"{node.op}")
            columns.append(Column(a.name, type))
        sides = [self._as(relation, columns) for relation in (left, right)]
        if node.op == "UNION" and node.all:
            return Relation(f"({sides[0]}) UNION ALL ({sides[1]})", columns)
        if not any(key_sql(column.type, "") for column in columns):
            return Relation(f"({sides[0]}) {node.op} ({sides[1]})", columns)
        values = ", ".join(
            f"any_value(u.c{i}) AS c{i}" if key_sql(column.type, "") else f"u.c{i} AS c{i}"
            for i, column in enumerate(columns, 1)
        )
        keys = ", ".join(key_sql(column.type, f"u.c{i}") for i, column in enumerate(columns, 1))
        both = f"SELECT 0 AS side, l.* FROM ({sides[0]}) l UNION ALL SELECT 1, r.* FROM ({sides[1]}) r"
        having = {"UNION": "", "EXCEPT": " HAVING max(u.side) = 0", "INTERSECT": " HAVING min(u.side) < max(u.side)"}
        return Relation(f"SELECT {values} FROM ({both}) u GROUP BY {keys}{having[node.op]}", columns)

    def _as(self, relation: Relation, columns: Sequence[Column]) -> str:
        """The query with its columns converted to those types."""
        parts: list[str] = []
        changed = False
        for i, (have, want) in enumerate(zip(relation.columns, columns, strict=True), 1):
            value = convert(Value(f"x.c{i}", have.type), want.type)
            sql = value.sql if have.type.name != "null" else f"NULL::{want.type.postgres}"
            changed = changed or sql != f"x.c{i}"
            parts.append(f"{sql} AS c{i}")
        return f"SELECT {', '.join(parts)} FROM ({relation.sql}) x" if changed else relation.sql

    # ---- SELECT --------------------------------------------------------------------------------------------------

    def _select(
        self,
        select: t.Select,
        query: t.Query,
        parent: Scope | None,
        top: bool,
        in_set: bool,
        keep_null: bool,
        *,
        extra: Callable[[Scope], str] | None = None,
    ) -> Relation:
        unit = self.unit
        scope = Scope(parent)
        aggregated = (
            select.group is not None
            or select.having is not None
            or any(contains_aggregate(item) for item in select.items)
            or any(contains_aggregate(item) for item in query.order)
        )
        plain = not (select.distinct or aggregated or in_set or has_window(select.items) or has_window(query.order))
        sources = Sources(unit, self, scope, plain)
        source = sources.compile(select.source) if select.source is not None else ""
        expressions = Expressions(unit, scope)
        narrow(expressions, scope, sources.readings, select.where, select.source)
        expressions.no_aggregate = _IN_WHERE
        where = expressions.condition(select.where) if select.where is not None else ""
        expressions.no_aggregate = ""
        group = ""
        if aggregated:
            group = self._group(select, scope, expressions)
        having = expressions.condition(select.having) if select.having is not None else ""
        if select.into is not None:
            if not top:
                raise SqlError(
                    156, "Incorrect syntax near the keyword 'INTO'.", severity=15, line=unit.line(select.pos)
                )
            self.into = select.into
        if source and not aggregated and accumulates(select):
            return self._accumulate(select, query, scope, source, where)
        values, columns = self._items(select, scope, expressions, top, keep_null)
        keyed_order = self._order(query.order, values, columns, expressions, select)
        listed = ", ".join(f"{value.sql} AS c{i}" for i, value in enumerate(values, 1))
        sql = f"SELECT {listed}"
        if extra is not None:
            sql += f", {extra(scope)} AS c{len(values) + 1}"
        if source:
            sql += f" FROM {source}"
        if where:
            sql += f" WHERE {where}"
        sql += group
        if having:
            sql += f" HAVING {having}"
        if select.distinct:
            sql = self._distinct(sql, columns, bool(query.order))
            order = self._distinct_order(keyed_order, values)
        else:
            order = [text for text, _ in keyed_order]
        if order:
            sql += f" ORDER BY {', '.join(order)}"
        elif query.order == [] and (query.offset is not None):
            raise SqlError(102, "Incorrect syntax near 'OFFSET'.", severity=15)
        if top and unit.context.rowcount and select.top is None:
            sql += f" LIMIT {unit.context.rowcount}"
        sql += self._limits(select.top, query, parent)
        if sources.locks:
            sql += "".join(f" {lock}" for lock in sources.locks)
        return Relation(sql, columns)

    def _group(self, select: t.Select, scope: Scope, expressions: Expressions) -> str:
        grouped: dict[str, str] = {}
        keys: list[str] = []
        for node in select.group[0] if select.group else []:
            if isinstance(node, t.Literal):
                raise SqlError(
                    164,
                    "Each GROUP BY expression must contain at least one column that is not an outer reference.",
                    severity=15,
                    line=self.unit.line(node.pos),
                )
            if contains_aggregate(node) or has_subquery(node):
                raise SqlError(
                    144,
                    "Cannot use an aggregate or a subquery in an expression used for the group by list of a GROUP BY clause.",
                    severity=15,
                    line=self.unit.line(node.pos),
                )
            value = expressions.value(node)
            key = key_sql(value.type, value.sql)
            keys.append(key)
            grouped[value.sql] = value.sql if key == value.sql else f"any_value({value.sql})"
        scope.grouped = grouped
        return f" GROUP BY {', '.join(keys)}" if keys else (" GROUP BY ()" if select.having is not None else "")

    def _items(
        self, select: t.Select, scope: Scope, expressions: Expressions, top: bool, keep_null: bool
    ) -> tuple[list[Value], list[Column]]:
        values: list[Value] = []
        columns: list[Column] = []
        assigned = [item for item in select.items if item.variable is not None]
        if assigned and (len(assigned) != len(select.items) or not top):
            raise SqlError(
                141,
                "A SELECT statement that assigns a value to a variable must not be combined with data-retrieval operations.",
                severity=15,
                line=self.unit.line(select.pos),
            )
        for item in select.items:
            if isinstance(item.expression, t.Star):
                self._star(item.expression, scope, values, columns)
                continue
            value = expressions.value(item.expression)
            if item.variable is not None:
                target = self.unit.context.variables.get(item.variable)
                if target is None:
                    raise SqlError(137, f'Must declare the scalar variable "{item.variable}".', severity=15)
                value = convert(value, target)
                self.assigns.append(item.variable)
            if value.type.name == "null":
                value = Value("NULL::text", value.type) if keep_null else Value("NULL::int4", INT)
            if value.sql.startswith("$") or value.constant is not None:
                value = replace(value, sql=value.sql if "::" in value.sql else f"{value.sql}::{value.type.postgres}")
            values.append(value)
            identity = isinstance(item.expression, t.Name) and _is_identity(scope, value.sql)
            columns.append(Column(_name(item), value.type, identity=identity))
        return values, columns

    def _star(self, star: t.Star, scope: Scope, values: list[Value], columns: list[Column]) -> None:
        sources: Sequence[Bound] = scope.sources
        if star.parts:
            sources = scope.matching(star.parts)
            if not sources:
                raise SqlError(
                    107,
                    f"The column prefix '{'.'.join(star.parts)}' does not match with a table name or alias name used in the query.",
                    severity=15,
                    line=self.unit.line(star.pos),
                )
        if not sources:
            raise SqlError(263, "Must specify table to select from.", line=self.unit.line(star.pos))
        for source in sources:
            for i, column in enumerate(source.columns):
                sql = source.sql[i]
                if scope.grouped is not None:
                    if sql not in scope.grouped:
                        scope.find((source.name, column.name), self.unit.line(star.pos))
                    sql = scope.grouped[sql]
                values.append(Value(sql, column.type, IMPLICIT if column.type.name in CHARACTER else 0))
                columns.append(Column(column.name, column.type, identity=_is_identity(scope, sql)))

    def _order(
        self,
        items: Sequence[t.OrderItem],
        values: Sequence[Value],
        columns: Sequence[Column],
        expressions: Expressions,
        select: t.Select,
    ) -> list[tuple[str, tuple[int | None, bool]]]:
        """Each key as text, with the select item that it is (if it is one) for DISTINCT."""
        result: list[tuple[str, tuple[int | None, bool]]] = []
        for item in items:
            node = item.expression
            index: int | None = None
            if isinstance(node, t.Literal) and node.kind == "int":
                index = int(node.text) - 1
                if not 0 <= index < len(values):
                    raise SqlError(
                        108,
                        f"The ORDER BY position number {node.text} is out of range of the number of items in the select list.",
                        severity=15,
                        line=self.unit.line(node.pos),
                    )
            elif isinstance(node, t.Literal):
                raise SqlError(
                    408, "A constant expression was encountered in the ORDER BY list, position 1.", severity=15
                )
            elif isinstance(node, t.Name) and len(node.parts) == 1:
                index = _index(columns, node.parts[0])
            value = values[index] if index is not None else expressions.value(node)
            if index is None:
                index = next((i for i, v in enumerate(values) if v.sql == value.sql), None)
            if select.distinct and index is None:
                raise SqlError(
                    145,
                    "ORDER BY items must appear in the select list if SELECT DISTINCT is specified.",
                    severity=15,
                    line=self.unit.line(node.pos),
                )
            result.append((expressions.order_key(value, item.descending), (index, item.descending)))
        return result

    def _distinct(self, sql: str, columns: Sequence[Column], ordered: bool) -> str:
        if any(key_sql(column.type, "") for column in columns):
            listed = ", ".join(
                f"any_value(d.c{i}) AS c{i}" if key_sql(column.type, "") else f"d.c{i} AS c{i}"
                for i, column in enumerate(columns, 1)
            )
            keys = ", ".join(key_sql(column.type, f"d.c{i}") for i, column in enumerate(columns, 1))
            sql = f"SELECT {listed} FROM ({sql}) d GROUP BY {keys}"
        else:
            sql = "SELECT DISTINCT" + sql[len("SELECT") :]
        return f"SELECT * FROM ({sql}) d" if ordered else sql

    def _distinct_order(
        self, order: Sequence[tuple[str, tuple[int | None, bool]]], values: Sequence[Value]
    ) -> list[str]:
        expressions = Expressions(self.unit, Scope())
        keys = []
        for _, (index, descending) in order:
            assert index is not None
            keys.append(expressions.order_key(replace(values[index], sql=f"d.c{index + 1}"), descending))
        return keys

    def _limits(self, top: t.Top | None, query: t.Query, parent: Scope | None) -> str:
        expressions = Expressions(self.unit, Scope(parent))
        if top is not None:
            if query.offset is not None:
                raise SqlError(10741, "A TOP can not be used in the same query or sub-query as a OFFSET.", severity=15)
            if top.percent:
                if isinstance(top.count, t.Literal) and top.count.text == "100":
                    return ""
                raise unsupported("TOP ... PERCENT")
            count = self._count(expressions, top.count)
            if top.ties:
                if not query.order:
                    raise SqlError(
                        1062,
                        "The TOP N WITH TIES clause is not allowed without a corresponding ORDER BY clause.",
                        severity=15,
                    )
                return f" FETCH FIRST ({count}) ROWS WITH TIES"
            return f" LIMIT {count}"
        text = ""
        if query.offset is not None:
            text = f" OFFSET {self._count(expressions, query.offset)}"
            if query.fetch is not None:
                text += f" LIMIT {self._count(expressions, query.fetch)}"
        return text

    def _count(self, expressions: Expressions, node: t.Node) -> str:
        value = expressions.value(node)
        if family(value.type) != "int":
            raise SqlError(
                1060,
                "The number of rows provided for a TOP or FETCH clauses row count parameter must be an integer.",
                severity=15,
            )
        return f"({convert(value, SqlType('bigint')).sql})"


def _joined(relation: Relation) -> Relation:
    """FOR XML PATH('') over columns without names: their texts, escaped, one after the other; NULL without rows."""
    parts = []
    for number, column in enumerate(relation.columns, 1):
        if column.name:
            raise unsupported(f"FOR XML PATH('') of a column with a name ({column.name})")
        if family(column.type) not in ("char", "int"):
            raise unsupported(f"FOR XML PATH('') of type {column.type}")
        text = convert(Value(f"x.c{number}", column.type), nvarchar(MAX)).sql
        parts.append(f"sys.xml_text({text})")
    sql = f"SELECT string_agg(concat({', '.join(parts)}), '') AS c1 FROM ({relation.sql}) x"
    return Relation(sql, [Column("", nvarchar(MAX))])


def _place(scope: Scope) -> str:
    """Where the row of the only table is."""
    return f"{scope.sources[0].sql[0].split('.', 1)[0]}.ctid"


def _is_identity(scope: Scope, sql: str) -> bool:
    """Whether SELECT INTO would make this column an identity: it is one, of the only table."""
    if len(scope.sources) != 1 or scope.grouped is not None:
        return False
    source = scope.sources[0]
    return any(column.identity and text == sql for column, text in zip(source.columns, source.sql, strict=True))


def _take_into(node: t.SetOperation | t.Select | t.Query) -> tuple[str, ...] | None:
    """SELECT ... INTO t ... UNION ...: the first SELECT names the table for all of them."""
    while not isinstance(node, t.Select):
        node = node.left if isinstance(node, t.SetOperation) else node.body
    into, node.into = node.into, None
    return into


def _name(item: t.Item) -> str:
    if item.alias is not None:
        return item.alias
    node = item.expression
    while isinstance(node, t.Parenthesis | t.Collate):
        if isinstance(node, t.Collate):
            return ""
        node = node.operand
    return (
        node.parts[-1]
        if isinstance(node, t.Name)
        else ("$action" if isinstance(node, t.Call) and node.name == "$action" else "")
    )


def _index(columns: Sequence[Column], name: str) -> int | None:
    wanted = name.casefold()
    found = [i for i, column in enumerate(columns) if column.name.casefold() == wanted]
    return found[0] if found else None
