"""SELECT @x = f(@x): an assignment that folds over the rows."""

from __future__ import annotations

from dataclasses import replace

from tsqldev.compile import tree as t
from tsqldev.compile.convert import convert
from tsqldev.compile.expressions import Expressions
from tsqldev.compile.scope import Scope
from tsqldev.compile.unit import Relation, Unit
from tsqldev.compile.walking import walk
from tsqldev.errors import SqlError, unsupported
from tsqldev.interfaces import Column


class Folds:
    """The part of `Queries` that compiles such a SELECT; what it needs of the rest stands first."""

    unit: Unit
    assigns: list[str]

    def _limits(self, top: t.Top | None, query: t.Query, parent: Scope | None) -> str:
        raise NotImplementedError

    def _accumulate(self, select: t.Select, query: t.Query, scope: Scope, source: str, where: str) -> Relation:
        """SELECT @x = f(@x, ...) FROM ...: each row sees what the row before it assigned.

        The rows are numbered in their order and folded by a recursive query; the answer has one row a step.
        """
        unit = self.unit
        if select.distinct:
            raise unsupported("DISTINCT beside an assignment that uses its own variable")
        expressions = Expressions(unit, scope)
        order = [expressions.order_key(expressions.value(item.expression), item.descending) for item in query.order]
        texts = [sql for bound in scope.sources for sql in bound.sql]
        names = {sql: f"k{i}" for i, sql in enumerate(texts, 1)}
        carried = ", ".join(f"{sql} AS {name}" for sql, name in names.items())
        over = f" ORDER BY {', '.join(order)}" if order else ""
        inner = f"SELECT row_number() OVER ({over}) AS n, {carried} FROM {source}{f' WHERE {where}' if where else ''}"
        if select.top is not None:
            inner += f" ORDER BY n{self._limits(select.top, query, None)}"
        rows = Scope(scope.parent, [replace(b, sql=[f"r.{names[sql]}" for sql in b.sql]) for b in scope.sources])
        first: list[str] = []
        steps: list[str] = []
        columns: list[Column] = []
        replaced: dict[str, str] = {}
        for i, item in enumerate(select.items, 1):
            if item.variable is None:
                raise SqlError(
                    141,
                    "A SELECT statement that assigns a value to a variable must not be combined with data-retrieval operations.",
                    severity=15,
                )
            start = unit.variable(item.variable, unit.line(select.pos))
            type = start.type
            first.append(f"{start.sql} AS c{i}")
            replaced.setdefault(item.variable, f"f.c{i}")
            columns.append(Column("", type))
            self.assigns.append(item.variable)
        unit.replaced = replaced
        try:
            for i, item in enumerate(select.items, 1):
                type = columns[i - 1].type
                value = convert(Expressions(unit, rows).value(item.expression), type)
                steps.append(f"({value.sql})::{type.postgres} AS c{i}")
                assert item.variable is not None
                replaced[item.variable] = f"({value.sql})::{type.postgres}"
        finally:
            unit.replaced = {}
        listed = ", ".join(f"f.c{i}" for i in range(1, len(columns) + 1))
        sql = (
            f"WITH RECURSIVE r AS MATERIALIZED ({inner}), f AS (SELECT 0::int8 AS n, {', '.join(first)} "
            f"UNION ALL SELECT r.n, {', '.join(steps)} FROM f JOIN r ON r.n = f.n + 1) "
            f"SELECT {listed} FROM f WHERE f.n > 0 ORDER BY f.n"
        )
        return Relation(sql, columns)


def accumulates(select: t.Select) -> bool:
    assigned = {item.variable for item in select.items if item.variable is not None}
    return bool(assigned) and any(
        isinstance(part, t.Variable) and part.name in assigned
        for item in select.items
        for part in walk(item.expression)
    )
