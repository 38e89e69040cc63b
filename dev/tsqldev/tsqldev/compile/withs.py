"""Common table expressions, recursive ones included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tsqldev.compile import tree as t
from tsqldev.compile.convert import Value, convert
from tsqldev.compile.rules import family
from tsqldev.compile.scope import Scope
from tsqldev.compile.unit import Relation, Unit, require_unordered
from tsqldev.compile.walking import mentions
from tsqldev.errors import SqlError, unsupported
from tsqldev.interfaces import Column


class WithClauses:
    """The part of `Queries` that compiles WITH; what it needs of the rest stands first."""

    unit: Unit

    def query(
        self, query: t.Query, parent: Scope | None, *, top: bool = False, in_set: bool = False, keep_null: bool = False
    ) -> Relation:
        raise NotImplementedError

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
        raise NotImplementedError

    def with_clause(self, ctes: Sequence[t.Cte], parent: Scope | None) -> str:
        """Registers the names, and answers the PostgreSQL WITH clause."""
        if not ctes:
            return ""
        self.unit.ctes = dict(self.unit.ctes)
        parts: list[str] = []
        recursive = False
        for cte in ctes:
            name = self.unit.alias().replace("t", "w")
            if isinstance(cte.query.body, t.SetOperation) and mentions(cte.query, cte.name):
                recursive = True
                parts.append(self._recursive(cte, name, parent))
                continue
            require_unordered(cte.query, self.unit.line(cte.query.pos))
            relation = self.query(cte.query, parent)
            columns = named_columns(relation.columns, cte.columns, cte.name)
            self.unit.ctes[cte.name.casefold()] = (name, columns)
            listed = ", ".join(f"c{i + 1}" for i in range(len(columns)))
            parts.append(f"{name}({listed}) AS ({relation.sql})")
        return f"WITH {'RECURSIVE ' if recursive else ''}{', '.join(parts)}"

    def _recursive(self, cte: t.Cte, name: str, parent: Scope | None) -> str:
        body = cte.query.body
        assert isinstance(body, t.SetOperation)
        anchors, steps = _members(body, cte.name)
        if not anchors or not steps:
            raise SqlError(
                252, f"Recursive common table expression '{cte.name}' does not contain a top-level UNION ALL operator."
            )
        if len(steps) > 1:
            raise unsupported("a recursive common table expression with several recursive members")
        anchor = self.query(_united(anchors), parent)
        columns = named_columns(anchor.columns, cte.columns, cte.name)
        columns = [replace(column, type=column.type.with_nullable(True)) for column in columns]
        self.unit.ctes[cte.name.casefold()] = (name, columns)
        step = self._step(steps[0], parent, name)
        for index, (a, b) in enumerate(zip(anchor.columns, step.columns, strict=True)):
            if family(a.type) != family(b.type):
                raise SqlError(
                    240,
                    "Types don't match between the anchor and the recursive part in column "
                    f'"{columns[index].name}" of recursive query "{cte.name}".',
                )
        listed = ", ".join(f"c{i + 1}" for i in range(len(columns)))
        casts = ", ".join(
            f"({convert(Value(f'x.c{i + 1}', column.type), columns[i].type).sql})::{columns[i].type.postgres} AS c{i + 1}"
            for i, column in enumerate(step.columns)
        )
        first = ", ".join(f"(x.c{i + 1})::{column.type.postgres} AS c{i + 1}" for i, column in enumerate(columns))
        level = f"sys.recursion(x.c{len(columns) + 1}, {self.unit.shared.max_recursion})"
        return (
            f"{name}({listed}, level) AS (SELECT {first}, 0 AS level FROM ({anchor.sql}) x "
            f"UNION ALL SELECT {casts}, {level} FROM ({step.sql}) x)"
        )

    def _step(self, query: t.Query, parent: Scope | None, name: str) -> Relation:
        """The recursive member, with the level of the row it starts from as a last column."""
        if not isinstance(query.body, t.Select) or query.ctes or query.order:
            raise unsupported("this form of recursive member in a common table expression")

        def level(scope: Scope) -> str:
            for source in scope.sources:
                if source.cte == name:
                    return f"{source.sql[0].split('.', 1)[0]}.level"
            raise unsupported("a recursive member that reads its own expression in a subquery")

        return self._select(query.body, query, parent, False, True, False, extra=level)


def _members(node: t.SetOperation, name: str) -> tuple[list[t.Query], list[t.Query]]:
    """The members of a UNION ALL chain without and with a mention of the name; a chain that is none has no steps."""
    if node.op != "UNION" or not node.all:
        return [], []
    anchors: list[t.Query] = []
    steps: list[t.Query] = []
    left = node.left
    if isinstance(left.body, t.SetOperation) and mentions(left, name):
        anchors, steps = _members(left.body, name)
    else:
        (steps if mentions(left, name) else anchors).append(left)
    (steps if mentions(node.right, name) else anchors).append(node.right)
    return anchors, steps


def _united(queries: Sequence[t.Query]) -> t.Query:
    united = queries[0]
    for query in queries[1:]:
        united = t.Query(t.SetOperation("UNION", True, united, query))
    return united


def named_columns(columns: Sequence[Column], names: Sequence[str], of: str) -> list[Column]:
    """The columns of a derived table or CTE: each must have a name, and none twice."""
    if names and len(names) != len(columns):
        number, few = (8158, "more") if len(columns) > len(names) else (8159, "fewer")
        raise SqlError(number, f"'{of}' has {few} columns than were specified in the column list.", severity=15)
    result = [replace(c, name=names[i] if names else c.name) for i, c in enumerate(columns)]
    seen: set[str] = set()
    for i, column in enumerate(result, 1):
        if not column.name:
            raise SqlError(8155, f"No column name was specified for column {i} of '{of}'.")
        if column.name.casefold() in seen:
            raise SqlError(8156, f"The column '{column.name}' was specified multiple times for '{of}'.")
        seen.add(column.name.casefold())
    return result
