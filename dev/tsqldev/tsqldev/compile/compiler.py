"""The one way in: `Compiler`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path

from tsqldev.compile import tree as t
from tsqldev.compile.collation import key_sql
from tsqldev.compile.convert import Destination, Value, convert
from tsqldev.compile.dml import Changes
from tsqldev.compile.expressions import Expressions
from tsqldev.compile.names import CompileCatalog, CompileContext
from tsqldev.compile.queries import Queries
from tsqldev.compile.scope import Bound, Scope
from tsqldev.compile.statements import StatementParser
from tsqldev.compile.stored import rewrite_check
from tsqldev.compile.unit import Unit
from tsqldev.errors import SqlError, nested_too_deeply, unsupported
from tsqldev.interfaces import Column, Compiled
from tsqldev.types import INT, SqlType

__all__ = ["Compiler", "functions_sql", "rewrite_check"]

_CACHE_SIZE = 2000
# Shared by all sessions: what a text means depends on its key alone. OrderedDict operations are atomic enough here.
_cache: OrderedDict[tuple[object, ...], Compiled] = OrderedDict()


def _require_plain(node: t.Node) -> None:
    """SET ROWCOUNT limits a SELECT of its own, and nothing else here."""
    body = node.body if isinstance(node, t.Query) else None
    if (
        not isinstance(body, t.Select)
        or body.top is not None
        or (isinstance(node, t.Query) and node.offset is not None)
    ):
        raise unsupported("SET ROWCOUNT with TOP, OFFSET, a set operation or a change of rows")


class Compiler:
    """Compiles texts for one session; cheap to make. A Compiled may be shared: treat it as read-only."""

    def __init__(self, catalog: CompileCatalog, context: CompileContext) -> None:
        self.catalog = catalog
        self.context = context

    def statement(self, text: str) -> Compiled:
        """A SELECT, INSERT, UPDATE, DELETE, MERGE or TRUNCATE TABLE statement, alone in `text`."""
        return self._cached(("statement", text), lambda: self._statement(text))

    def expression(self, text: str, target: SqlType | None = None) -> Compiled:
        """A scalar expression as `SELECT <expression>`, converted as an assignment to `target` would."""
        return self._cached(("expression", text, target), lambda: self._expression(text, target))

    def condition(self, text: str) -> Compiled:
        """A search condition (IF, WHILE) as `SELECT` of one PostgreSQL boolean that is never NULL."""
        return self._cached(("condition", text), lambda: self._condition(text))

    def column_condition(self, text: str, columns: Sequence[Column], physical: Sequence[str]) -> str:
        """A CHECK or filtered-index condition as PostgreSQL text over a table's own columns."""
        parser = self._parser(text)
        node = parser.condition()
        parser.end()
        unit = self._unit(text)
        sql = self._over(unit, columns, physical).condition(node)
        self._constant(unit)
        return sql

    def column_expression(
        self,
        text: str,
        columns: Sequence[Column],
        physical: Sequence[str],
        target: SqlType | None = None,
    ) -> tuple[str, SqlType]:
        """A DEFAULT (no columns) or computed-column expression as PostgreSQL text, with its T-SQL type.

        Session values (SUSER_SNAME() comes from the catalog and works; @@SPID does not) are refused by name.
        """
        parser = self._parser(text)
        node = parser.expression()
        parser.end()
        unit = self._unit(text)
        value = self._over(unit, columns, physical).value(node)
        if target is not None:
            value = convert(value, target, destination=Destination("", ""))
        elif value.type.name == "null":
            value = Value("NULL::int4", INT)
        self._constant(unit)
        return value.sql, value.type

    def key(self, column: Column, physical: str) -> str:
        """The PostgreSQL expression on which a unique index of this column must stand."""
        return key_sql(column.type, physical)

    # ---- behind ---------------------------------------------------------------------------------------------------

    def _cached(self, key: tuple[object, ...], compile: Callable[[], Compiled]) -> Compiled:
        whole = (*key, self.catalog.names_version, *self.context.signature())
        found = _cache.get(whole)
        if found is not None:
            return found
        try:
            compiled = compile()
        except RecursionError as error:
            raise nested_too_deeply() from error
        _cache[whole] = compiled
        if len(_cache) > _CACHE_SIZE:
            try:
                _cache.popitem(last=False)
            except KeyError:
                return compiled
        return compiled

    def _parser(self, text: str) -> StatementParser:
        return StatementParser(text, quoted_identifier=self.context.quoted_identifier)

    def _unit(self, text: str) -> Unit:
        return Unit(self.catalog, self.context, text, Queries)

    def _statement(self, text: str) -> Compiled:
        parser = self._parser(text)
        node = parser.statement()
        unit = self._unit(text)
        unit.shared.max_recursion = parser.max_recursion
        if self.context.rowcount:
            _require_plain(node)
        if not isinstance(node, t.Query):
            return Changes(unit).compile(node)
        queries = Queries(unit)
        relation = queries.query(node, None, top=True)
        return Compiled(
            "SELECT",
            relation.sql,
            parameters=unit.parameters(),
            columns=relation.columns,
            assigns=queries.assigns,
            before=unit.shared.before,
            uses=list(unit.shared.uses),
            reads=unit.shared.reads,
            into=None if queries.into is None else ".".join(f"[{p.replace(']', ']]')}]" for p in queries.into),
        )

    def _expression(self, text: str, target: SqlType | None) -> Compiled:
        parser = self._parser(text)
        node = parser.expression()
        parser.end()
        unit = self._unit(text)
        value = Expressions(unit, Scope()).value(node)
        if target is not None:
            value = convert(value, target)
        elif value.type.name == "null":
            value = Value("NULL::int4", INT)
        return Compiled(
            "EXPRESSION",
            f"SELECT {value.sql}",
            parameters=unit.parameters(),
            columns=[Column("", target or value.type)],
            before=unit.shared.before,
            uses=list(unit.shared.uses),
            reads=unit.shared.reads,
        )

    def _condition(self, text: str) -> Compiled:
        parser = self._parser(text)
        node = parser.condition()
        parser.end()
        unit = self._unit(text)
        sql = Expressions(unit, Scope()).condition(node)
        return Compiled(
            "EXPRESSION",
            f"SELECT coalesce({sql}, false)",
            parameters=unit.parameters(),
            columns=[Column("", SqlType("bit", nullable=False))],
            before=unit.shared.before,
            uses=list(unit.shared.uses),
            reads=unit.shared.reads,
        )

    def _over(self, unit: Unit, columns: Sequence[Column], physical: Sequence[str]) -> Expressions:
        bound = Bound("", "", "", columns, list(physical))
        return Expressions(unit, Scope(None, [bound] if columns else []))

    def _constant(self, unit: Unit) -> None:
        if unit.shared.parameters:
            name = next(iter(unit.shared.parameters))
            if name.startswith("@") and not name.startswith("@@"):
                raise SqlError(112, "Variables are not allowed in the CREATE TABLE statement.", severity=15)
            raise unsupported(f"{name} in a CHECK, DEFAULT or computed column")


def functions_sql() -> str:
    """The script that creates the scalar function library in schema sys; run once, at bootstrap, after CREATE SCHEMA."""
    return (Path(__file__).parent / "functions.sql").read_text(encoding="utf-8")
