"""The table that an UPDATE or DELETE changes, found among the sources of its FROM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tsqldev.compile import tree as t
from tsqldev.compile.scope import Bound, Scope
from tsqldev.compile.sources import Sources
from tsqldev.errors import SqlError, unsupported
from tsqldev.interfaces import TableInfo

if TYPE_CHECKING:
    from tsqldev.compile.dml import Changes


@dataclass(slots=True)
class Target:
    """`simple`: the other sources can stand in PostgreSQL's own FROM or USING, with the join conditions in WHERE.

    Otherwise the whole FROM is compiled as it is written and the rows to change are found by their ctid.
    `inner` is the SELECT of a common table expression or derived table that is changed through.
    """

    info: TableInfo
    name: str
    qualified: bool
    simple: bool
    others: Sequence[t.Source] = ()
    conditions: Sequence[t.Node] = ()
    source: t.Source | None = None
    leaf: t.Source | None = None
    inner: t.Select | None = None
    alias: str = "d"
    key: str = ""
    lockable: bool = True
    hints: frozenset[str] = frozenset()
    one_row: bool = False
    bound: Bound | None = None
    changes: Changes | None = None
    outer: list[t.Source] = field(default_factory=list)

    def bind(self, alias: str) -> Bound:
        info = self.info
        self.alias = alias
        self.bound = Bound(
            self.name,
            info.schema if self.qualified else "",
            info.database if self.qualified else "",
            info.columns,
            [f"{alias}.{physical}" for physical in info.physical],
            info.object_id,
        )
        return self.bound

    def column(self, find: Callable[[TableInfo, str, int], int], parts: tuple[str, ...], line: int) -> int:
        """The column that SET names; through a derived table, the one behind its select item."""
        if self.inner is None:
            return find(self.info, parts[-1], line)
        for item in self.inner.items:
            name = item.alias or (item.expression.parts[-1] if isinstance(item.expression, t.Name) else "")
            if name.casefold() == parts[-1].casefold():
                if not isinstance(item.expression, t.Name):
                    raise SqlError(
                        4406,
                        f"Update or insert of view or function '{self.name}' failed because it contains a derived or constant "
                        "field.",
                        line=line,
                    )
                return find(self.info, item.expression.parts[-1], line)
            if isinstance(item.expression, t.Star):
                return find(self.info, parts[-1], line)
        raise SqlError(207, f"Invalid column name '{parts[-1]}'.", line=line)

    def compile_from(self, sources: Sources, scope: Scope) -> str:
        assert self.changes is not None
        if self.source is None:
            bound = self.bind("d0")
            scope.sources.append(bound)
            return f"{self.info.relation} AS d0"
        if self.inner is not None:
            return self._through(sources, scope)
        text = sources.compile(self.source)
        bound = next(b for b in scope.sources if b.name.casefold() == self.name.casefold())
        self.bound = bound
        self.alias = bound.sql[0].split(".", 1)[0]
        return text

    def _through(self, sources: Sources, scope: Scope) -> str:
        """The SELECT that is changed through, with the ctid of its table as one more column."""
        assert self.changes is not None and self.inner is not None
        unit = sources.unit
        relation = self.changes.queries.keyed(self.inner)
        alias = unit.alias()
        columns = relation.columns[:-1]
        bound = Bound(self.name, "", "", columns, [f"{alias}.c{i + 1}" for i in range(len(columns))])
        sources.bind(bound, 1)
        self.bound = bound
        self.alias = alias
        self.key = f"{alias}.c{len(columns) + 1}"
        self.lockable = False
        return f"({relation.sql}) AS {alias}"


def find_target(changes: Changes, ref: t.TableRef, source: t.Source | None, ctes: Sequence[t.Cte]) -> Target:
    if source is None:
        cte = next((c for c in ctes if len(ref.parts) == 1 and c.name.casefold() == ref.parts[0].casefold()), None)
        if cte is not None:
            if cte.columns or not isinstance(cte.query.body, t.Select):
                raise unsupported("changing data through this common table expression")
            return _through(changes, cte.name, cte.query.body, t.Derived(cte.query, cte.name, []))
        info = changes.table(ref)
        return Target(info, _plain_name(ref, info), ref.parts[0][0] not in "@#", True, changes=changes)
    leaf = _leaf(changes, ref, source)
    if isinstance(leaf, t.Derived):
        if leaf is not source or leaf.columns or not isinstance(leaf.query.body, t.Select):
            raise unsupported("changing data through this derived table")
        return _through(changes, leaf.alias, leaf.query.body, leaf)
    if leaf is None:
        info = changes.table(ref)
        others = _flatten(source, None)
        if others is None:
            raise unsupported("a target that is not in the FROM of its statement, beside an outer join")
        return Target(info, _plain_name(ref, info), True, True, others[0], others[1], changes=changes)
    assert isinstance(leaf, t.TableRef)
    cte = next((c for c in ctes if len(leaf.parts) == 1 and c.name.casefold() == leaf.parts[0].casefold()), None)
    if cte is not None:
        if leaf is not source or cte.columns or not isinstance(cte.query.body, t.Select):
            raise unsupported("changing data through this common table expression")
        name = leaf.alias or cte.name
        return _through(changes, name, cte.query.body, t.Derived(cte.query, name, []))
    info = changes.table(leaf)
    name = leaf.alias or _plain_name(leaf, info)
    flat = _flatten(source, leaf)
    if flat is None:
        lockable = not _outer_side(source, leaf, False)
        return Target(
            info, name, leaf.alias is None, False, source=source, leaf=leaf, lockable=lockable, changes=changes
        )
    return Target(info, name, leaf.alias is None, True, flat[0], flat[1], source=source, leaf=leaf, changes=changes)


def _through(changes: Changes, name: str, select: t.Select, derived: t.Derived) -> Target:
    if select.group or select.distinct or select.having or not isinstance(select.source, t.TableRef):
        raise unsupported(f"changing data through {name}")
    info = changes.table(select.source)
    if derived.query.order and select.top is None and derived.query.offset is None:
        raise SqlError(
            1033,
            "The ORDER BY clause is invalid in views, inline functions, derived tables, subqueries, and common "
            "table expressions, unless TOP, OFFSET or FOR XML is also specified.",
            severity=15,
        )
    if select.top is not None:
        raise unsupported(f"changing data through {name} with TOP")
    return Target(info, name, False, False, source=derived, inner=select, lockable=False, changes=changes)


def _plain_name(ref: t.TableRef, info: TableInfo) -> str:
    return ref.parts[-1] if ref.parts[-1][0] in "@#" else info.name


def _leaves(source: t.Source) -> list[t.Source]:
    if isinstance(source, t.Join):
        return _leaves(source.left) + _leaves(source.right)
    return [source]


def _leaf(changes: Changes, ref: t.TableRef, source: t.Source) -> t.TableRef | t.Derived | None:
    """The source that the target names: by its alias, else by the table's name."""
    leaves = _leaves(source)
    if len(ref.parts) == 1:
        wanted = ref.parts[0].casefold()
        for leaf in leaves:
            if isinstance(leaf, t.TableRef | t.Derived) and (leaf.alias or "").casefold() == wanted:
                return leaf
    found = [
        leaf
        for leaf in leaves
        if isinstance(leaf, t.TableRef)
        and leaf.parts[-1].casefold() == ref.parts[-1].casefold()
        and _same(changes, leaf, ref)
    ]
    if len(found) > 1:
        raise SqlError(8154, f"The table '{ref.parts[-1]}' is ambiguous.", line=changes.unit.line(ref.pos))
    return found[0] if found else None


def _same(changes: Changes, one: t.TableRef, other: t.TableRef) -> bool:
    if one.parts == other.parts:
        return True
    a = changes.unit.resolve(one.parts, changes.unit.line(one.pos))
    b = changes.unit.resolve(other.parts, changes.unit.line(other.pos))
    return a.object_id == b.object_id


def _flatten(source: t.Source, leaf: t.Source | None) -> tuple[list[t.Source], list[t.Node]] | None:
    """The sources but the target and the join conditions, if all joins are inner and none depends on its left."""
    if source is leaf:
        return [], []
    if isinstance(source, t.Join):
        inside = leaf is not None and any(part is leaf for part in _leaves(source))
        if source.kind not in ("INNER", "CROSS"):
            return None if inside or leaf is None else ([source], [])
        left, right = _flatten(source.left, leaf), _flatten(source.right, leaf)
        if left is None or right is None:
            return None
        return left[0] + right[0], left[1] + right[1] + ([source.on] if source.on is not None else [])
    return [source], []


def _outer_side(source: t.Source, leaf: t.Source, outer: bool) -> bool:
    if source is leaf:
        return outer
    if isinstance(source, t.Join):
        return _outer_side(source.left, leaf, outer or source.kind in ("RIGHT", "FULL")) or _outer_side(
            source.right, leaf, outer or source.kind in ("LEFT", "FULL", "OUTER APPLY")
        )
    return False
