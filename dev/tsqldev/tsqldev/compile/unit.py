"""One text being compiled: its parameters, aliases and rights, and how its table names resolve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Protocol

from tsqldev.compile import tree as t
from tsqldev.compile.builtins import SESSION_VALUES
from tsqldev.compile.convert import Value
from tsqldev.compile.names import CompileCatalog, CompileContext, SystemView
from tsqldev.compile.parser import Parser
from tsqldev.compile.scope import Scope
from tsqldev.errors import SqlError
from tsqldev.interfaces import Column, ModuleInfo, ObjectUse, Parameter, ReadLock, TableInfo, ViewInfo
from tsqldev.types import SqlType


@dataclass(slots=True)
class Relation:
    """A compiled query: its PostgreSQL columns are c1, c2, ..."""

    sql: str
    columns: list[Column]


@dataclass(slots=True)
class Shared:
    """What a text and the views in it have in common."""

    parameters: dict[str, tuple[int, SqlType]]
    uses: dict[ObjectUse, None]
    before: list[str]
    reads: list[ReadLock] = field(default_factory=list)
    aliases: int = 0
    depth: int = 0
    max_recursion: int = 100


def is_base(info: TableInfo) -> bool:
    """Whether this is a table of a database: no system view, no temporary table, no table variable."""
    return not info.system and info.object_id > 0 and bool(info.database) and info.name[:1] not in ("#", "@")


@lru_cache(maxsize=512)
def parse_query(text: str) -> t.Query:
    parser = Parser(text)
    query = parser.query()
    parser.end()
    return query


def require_unordered(query: t.Query, line: int) -> None:
    """Raises 1033 for ORDER BY where the rows of a query have no order."""
    top = isinstance(query.body, t.Select) and query.body.top is not None
    if query.order and not top and query.offset is None and not query.json and not query.xml:
        raise SqlError(
            1033,
            "The ORDER BY clause is invalid in views, inline functions, derived tables, subqueries, and common table "
            "expressions, unless TOP, OFFSET or FOR XML is also specified.",
            severity=15,
            line=line,
        )


class QueryCompiler(Protocol):
    """What compiles the queries in a text (`tsqldev.compile.queries.Queries`)."""

    def query(self, query: t.Query, parent: Scope | None) -> Relation: ...


class Unit:
    def __init__(
        self,
        catalog: CompileCatalog,
        context: CompileContext,
        text: str,
        queries: Callable[[Unit], QueryCompiler],
        shared: Shared | None = None,
        owner: int | None = None,
        hints: frozenset[str] = frozenset(),
    ) -> None:
        self.catalog = catalog
        self.context = context
        self.text = text
        self._queries = queries
        self.shared = shared or Shared({}, {}, [])
        # Rights on what the owner of the view around has too are not asked for (ownership chaining).
        self.owner = owner
        # Table hints on the view around hold for the tables in it.
        self.hints = hints
        # Variables that stand for a value inside the statement, not for a parameter.
        self.replaced: dict[str, str] = {}
        self.ctes: dict[str, tuple[str, list[Column]]] = {}

    def line(self, pos: int) -> int:
        return self.text.count("\n", 0, pos) + 1

    def alias(self) -> str:
        self.shared.aliases += 1
        return f"t{self.shared.aliases}"

    # ---- parameters ----------------------------------------------------------------------------------------------

    def parameter(self, name: str, type: SqlType) -> str:
        known = self.shared.parameters
        if name not in known:
            known[name] = (len(known) + 1, type)
        return f"${known[name][0]}::{type.postgres}"

    def parameters(self) -> list[Parameter]:
        return [Parameter(name, type) for name, (_, type) in self.shared.parameters.items()]

    def variable(self, name: str, line: int) -> Value:
        type = self.context.variables.get(name)
        if type is None:
            raise SqlError(137, f'Must declare the scalar variable "{name}".', severity=15, line=line)
        if name in self.replaced:
            return Value(self.replaced[name], type)
        return Value(self.parameter(name, type), type)

    def session_value(self, name: str, line: int) -> Value:
        type = SESSION_VALUES.get(name.upper())
        if type is None:
            raise SqlError(137, f'Must declare the scalar variable "{name}".', severity=15, line=line)
        return Value(self.parameter(name.upper(), type), type)

    def session_function(self, name: str, arguments: Sequence[object] | None) -> Value | None:
        """XACT_STATE() and the like; None for what is none (or is called with arguments)."""
        key = f"{name}()"
        if key not in SESSION_VALUES or (arguments is not None and len(arguments)):
            return None
        if arguments is not None:
            return None
        return Value(self.parameter(key, SESSION_VALUES[key]), SESSION_VALUES[key])

    # ---- tables --------------------------------------------------------------------------------------------------

    def resolve(self, parts: tuple[str, ...], line: int) -> TableInfo | ViewInfo:
        if len(parts) == 1:
            local = self.context.local_tables.get(parts[0].lower())
            if local is not None:
                return local
            if parts[0].startswith("@"):
                raise SqlError(1087, f'Must declare the table variable "{parts[0]}".', severity=15, line=line)
        if parts[-1].startswith("#"):
            local = self.context.local_tables.get(parts[-1].lower())
            if local is not None:
                return local
        elif len(parts) == 4:
            if parts[0]:
                raise SqlError(
                    7202,
                    f"Could not find server '{parts[0]}' in sys.servers. Verify that the correct server name "
                    "was specified.",
                    severity=11,
                    state=2,
                    line=line,
                )
            parts = parts[1:]
        found = None
        if not parts[-1].startswith("#"):
            try:
                found = self.catalog.resolve(parts, self.context.database, self.context.default_schema)
            except SqlError as error:
                error.line = line
                raise
        if found is None or isinstance(found, ModuleInfo):
            raise SqlError(208, f"Invalid object name '{'.'.join(parts)}'.", line=line)
        return found

    def use(self, permission: str, info: TableInfo | ViewInfo) -> None:
        here = info.database.casefold() == self.context.database.casefold()
        if isinstance(info, TableInfo) and not is_base(info):
            if info.system and info.database and not here:
                self.shared.uses[ObjectUse("CONNECT", info.database, 0, 0, 0)] = None
            return
        if self.owner is not None and here and info.owner_id == self.owner:
            return
        use = ObjectUse(permission, info.database, info.object_id, info.schema_id, info.owner_id, self.owner)
        self.shared.uses[use] = None

    def relation_of(self, info: TableInfo) -> str:
        """The PostgreSQL text of a table to read from."""
        if not isinstance(info, SystemView):
            return info.relation
        if info.rows:
            name = info.rows if info.rows.startswith("rows:") else f"rows:{info.rows}"
            rows = self.parameter(name, SqlType("nvarchar", length=-1))
            columns = ", ".join(
                f"{physical} {column.type.postgres}"
                for physical, column in zip(info.physical, info.columns, strict=True)
            )
            return f"(SELECT * FROM jsonb_to_recordset(({rows})::jsonb) AS r({columns}))"
        if info.filtered:
            return f"(SELECT * FROM {info.relation} WHERE _db = {info.database_id} OR _db IS NULL)"
        return info.relation

    def view(self, info: ViewInfo, line: int, hints: frozenset[str] = frozenset()) -> Relation:
        """The query of a view, compiled as its own text in its own database."""
        if self.shared.depth > 31:
            raise SqlError(
                217,
                "Maximum stored procedure, function, trigger, or view nesting level exceeded (limit 32).",
                line=line,
            )
        context = replace(
            self.context, database=info.database, default_schema=info.schema, variables={}, local_tables={}, rowcount=0
        )
        inner = Unit(self.catalog, context, info.select, self._queries, self.shared, info.owner_id, self.hints | hints)
        self.shared.depth += 1
        try:
            query = parse_query(info.select)
            require_unordered(query, line)
            relation = self._queries(inner).query(query, None)
        except SqlError as error:
            if error.number in (207, 208, 209, 4104):
                raise SqlError(
                    4413,
                    f"Could not use view or function '{info.schema}.{info.name}' because of binding errors.",
                    line=line,
                ) from error
            raise
        finally:
            self.shared.depth -= 1
        names = info.columns
        if names and len(names) != len(relation.columns):
            relation.columns = relation.columns[: len(names)]
            if len(names) > len(relation.columns):
                raise SqlError(
                    4502,
                    f"View or function '{info.schema}.{info.name}' has more column names specified than columns defined.",
                    line=line,
                )
        relation.columns = [
            Column(names[i].name if names else column.name, column.type, column_id=i + 1)
            for i, column in enumerate(relation.columns)
        ]
        return relation

    def subquery(self, query: t.Query, scope: Scope) -> Relation:
        require_unordered(query, self.line(query.pos))
        return self._queries(self).query(query, scope)
