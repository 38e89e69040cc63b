"""What a statement reads and how it locks that: the mode of each table, and the keys that its conditions fix.

A condition that gives the leading columns of an index values known before the statement runs (`id = @id`, also by way
of other columns) names a range of that index; the longest such range of a table is what the session locks or waits for.
Without one it is the whole table, as for a scan.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tsqldev.compile import tree as t
from tsqldev.compile.collation import key_sql
from tsqldev.compile.convert import EXPLICIT, Value, convert
from tsqldev.compile.rules import common, family
from tsqldev.compile.scope import Bound, Scope
from tsqldev.errors import SqlError
from tsqldev.interfaces import Column, IndexInfo, ReadLock, TableInfo

if TYPE_CHECKING:
    from tsqldev.compile.expressions import Expressions
    from tsqldev.compile.unit import Unit

UNLOCKED = frozenset({"NOLOCK", "READUNCOMMITTED", "READCOMMITTED", "READCOMMITTEDLOCK"})
KEEPS = frozenset({"HOLDLOCK", "SERIALIZABLE", "REPEATABLEREAD"})
WHOLE = frozenset({"TABLOCK", "TABLOCKX"})
_HOLDING = frozenset({"UPDLOCK", "XLOCK"})
_RANGES = frozenset({"HOLDLOCK", "SERIALIZABLE"})
# More keys than this are looked for as a scan does.
_MOST_KEYS = 64
_CHANGING = frozenset(
    {"NEWID", "NEWSEQUENTIALID", "RAND", "CRYPT_GEN_RANDOM", "GETDATE", "GETUTCDATE", "SYSDATETIME", "SYSUTCDATETIME"}
    | {"SYSDATETIMEOFFSET", "CURRENT_TIMESTAMP"}
)


def lock_strength(hints: frozenset[str], isolation: str) -> str:
    """The PostgreSQL row lock that stands for table hints under an isolation level; empty for none.

    An update lock on rows that are found without a unique key keeps shared locks out, which it does not on SQL Server.
    """
    if hints & {"XLOCK", "TABLOCKX"}:
        strength = "FOR UPDATE"
    elif "UPDLOCK" in hints:
        strength = "FOR NO KEY UPDATE"
    elif hints & KEEPS or (isolation in ("SERIALIZABLE", "REPEATABLE READ") and not hints & UNLOCKED):
        strength = "FOR SHARE"
    else:
        return ""
    return f"{strength} NOWAIT" if "NOWAIT" in hints else strength


def held_mode(hints: frozenset[str]) -> str:
    """The mode in which a hint holds the rows that are found, until the transaction ends; empty for none."""
    return "X" if "XLOCK" in hints else "U" if "UPDLOCK" in hints else ""


def read_lock(info: TableInfo, hints: frozenset[str], isolation: str, *, change: bool = False) -> ReadLock | None:
    """The lock on a whole table that is read, or looked through for rows to `change`; None where nothing is waited for."""
    table = bool(hints & WHOLE)
    dirty = bool(hints & {"NOLOCK", "READUNCOMMITTED"}) or (
        isolation == "READ UNCOMMITTED" and not hints & (UNLOCKED | KEEPS | {"UPDLOCK", "XLOCK", "TABLOCKX"})
    )
    absent = bool(hints & _RANGES) or (isolation == "SERIALIZABLE" and not hints & (UNLOCKED | {"REPEATABLEREAD"}))
    if table and (change or hints & {"XLOCK", "TABLOCKX"}):
        mode, keep = "X", True
    elif hints & _HOLDING:
        # PostgreSQL locks the rows that are found; `narrow` keeps the key where there is just one.
        mode, keep = "X" if absent and "XLOCK" in hints else "U", absent or table
    elif change:
        mode, keep = "U", absent
    elif dirty:
        return None
    else:
        mode, keep = "S", absent
    if isolation == "SNAPSHOT" and not keep and "READCOMMITTEDLOCK" not in hints:
        return None
    versioned = mode == "S" and not keep and isolation == "READ COMMITTED" and "READCOMMITTEDLOCK" not in hints
    versioned = versioned and not hints & KEEPS
    return ReadLock(info.object_id, info.database, mode, keep, absent, "NOWAIT" in hints, versioned)


@dataclass(slots=True)
class Reading:
    """One table of a FROM whose lock stands at `place` in the unit's list, for `narrow` to make smaller.

    `text` is where in `texts` its PostgreSQL row lock is written, if the SELECT carries it. `holds` is the mode that a
    hint asks for until the transaction ends, if one does. `one_row`: the conditions name one key of a unique index.
    """

    info: TableInfo
    bound: Bound
    place: int
    texts: list[str]
    text: int = -1
    holds: str = ""
    one_row: bool = False


def narrow(
    expressions: Expressions,
    scope: Scope,
    readings: Sequence[Reading],
    where: t.Node | None,
    source: t.Source | None,
) -> None:
    """Find what the conditions fix, remember it for the queries inside, and lock only that."""
    facts = list(_conjuncts(where, None))
    if source is not None:
        facts += _joined(source)
    scope.fixed = _rows_of_one(expressions, scope, source)
    _spread(expressions, scope, facts)
    listed = dict(_listed(expressions, scope, where))
    reads = expressions.unit.shared.reads
    for reading in readings:
        chosen = _longest(reading, scope.fixed, listed)
        if chosen is None:
            continue
        index, keys = chosen
        whole = index.unique and len(keys[0]) == len(index.columns)
        reading.one_row = whole and len(keys) == 1
        lock = replace(reads[reading.place], index=index.index_id)
        if reading.holds and whole:
            lock = replace(lock, mode=reading.holds, keep=True)
        reads[reading.place] = replace(lock, key=keys[0])
        reads += [replace(lock, key=key) for key in keys[1:]]
        lead = next((other for other in reading.info.indexes if other.unique), None)
        if reading.holds == "U" and whole and index is lead and reading.text >= 0:
            # Others that look for this key meet the lock in the session's table; writers meet the row lock.
            text = reading.texts[reading.text]
            reading.texts[reading.text] = text.replace("FOR NO KEY UPDATE", "FOR SHARE", 1)


def computed(unit: Unit, node: t.Node) -> bool:
    """Whether an assigned value depends on the row."""
    return not (_known(unit, node) or (isinstance(node, t.Literal) and node.kind in ("null", "default")))


def written_keys(info: TableInfo, sides: Sequence[str]) -> tuple[list[str], list[tuple[int, int]]]:
    """The keys of a changed row (`old`, `new` or both) in every index, as PostgreSQL expressions and their layout."""
    texts: list[str] = []
    layout: list[tuple[int, int]] = []
    for side in sides:
        for index in info.indexes:
            texts += [key_sql(info.columns[i].type, f"{side}.{info.physical[i]}") for i in index.columns]
            layout.append((index.index_id, len(index.columns)))
    return texts, layout


# ---- behind -----------------------------------------------------------------------------------------------------

# An equality, and the names of the sources that it may narrow (None: all).
_Fact = tuple[t.Compare, frozenset[str] | None]


def _conjuncts(node: t.Node | None, names: frozenset[str] | None) -> Iterable[_Fact]:
    if isinstance(node, t.Parenthesis):
        yield from _conjuncts(node.operand, names)
    elif isinstance(node, t.Logic) and node.op == "AND":
        yield from _conjuncts(node.left, names)
        yield from _conjuncts(node.right, names)
    elif isinstance(node, t.Compare) and node.op == "=":
        yield node, names


def _listed(expressions: Expressions, scope: Scope, node: t.Node | None) -> Iterable[tuple[str, list[Value]]]:
    """The columns that the WHERE gives one of several known values."""
    if isinstance(node, t.Parenthesis):
        yield from _listed(expressions, scope, node.operand)
    elif isinstance(node, t.Logic) and node.op == "AND":
        yield from _listed(expressions, scope, node.left)
        yield from _listed(expressions, scope, node.right)
    elif isinstance(node, t.InList) and not node.negated and len(node.items) <= _MOST_KEYS:
        column = _side(expressions, scope, node.operand)
        values = [_side(expressions, scope, item) for item in node.items]
        if column is not None and column.source is not None:
            known = [value.value for value in values if value is not None and value.known]
            if len(known) == len(values):
                yield column.value.sql, known


def _joined(source: t.Source) -> list[_Fact]:
    """The equalities of the joins: those of an outer join say nothing about the side that is kept whole."""
    if not isinstance(source, t.Join):
        return []
    facts = _joined(source.left) + _joined(source.right)
    if source.kind == "INNER":
        facts += _conjuncts(source.on, None)
    elif source.kind == "LEFT":
        facts += _conjuncts(source.on, _names(source.right))
    elif source.kind == "RIGHT":
        facts += _conjuncts(source.on, _names(source.left))
    return facts


def _names(source: t.Source) -> frozenset[str]:
    if isinstance(source, t.Join):
        return _names(source.left) | _names(source.right)
    if isinstance(source, t.TableRef):
        return frozenset({(source.alias or source.parts[-1]).casefold()})
    return frozenset({(getattr(source, "alias", None) or "").casefold()})


def _rows_of_one(expressions: Expressions, scope: Scope, source: t.Source | None) -> dict[str, Value]:
    """The columns of derived tables that are one row of known values: USING (SELECT @id AS id) s."""
    if isinstance(source, t.Join):
        return _rows_of_one(expressions, scope, source.left) | _rows_of_one(expressions, scope, source.right)
    nodes: Sequence[t.Node] = ()
    if isinstance(source, t.Rows) and len(source.rows) == 1:
        nodes = source.rows[0]
    elif isinstance(source, t.Derived) and isinstance(source.query.body, t.Select):
        select = source.query.body
        if select.source is None and not source.query.ctes:
            nodes = [item.expression for item in select.items]
    if not nodes:
        return {}
    alias = (getattr(source, "alias", None) or "").casefold()
    bound = next((other for other in scope.sources if other.name.casefold() == alias), None)
    if bound is None or len(bound.sql) != len(nodes):
        return {}
    return {bound.sql[i]: expressions.value(node) for i, node in enumerate(nodes) if _known(expressions.unit, node)}


def _spread(expressions: Expressions, scope: Scope, facts: Sequence[_Fact]) -> None:
    """From values to columns, and from columns to those that equal them, until nothing is new."""
    fixed = scope.fixed
    sides: list[tuple[_Side, _Side, frozenset[str] | None]] = []
    for node, names in facts:
        left, right = _side(expressions, scope, node.left), _side(expressions, scope, node.right)
        if left is not None and right is not None:
            sides += [(left, right, names), (right, left, names)]
    grown = True
    while grown:
        grown = False
        for column, other, names in sides:
            if column.source is None or column.value.sql in fixed:
                continue
            if names is not None and column.source.name.casefold() not in names:
                continue
            value = other.value if other.known else _found(scope, other.value.sql)
            if value is not None:
                fixed[column.value.sql] = value
                grown = True


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of an equality: a column of `source`, one of a query around, or a value that is `known` before."""

    value: Value
    source: Bound | None
    known: bool


def _side(expressions: Expressions, scope: Scope, node: t.Node) -> _Side | None:
    while isinstance(node, t.Parenthesis):
        node = node.operand
    if isinstance(node, t.Name):
        try:
            value = scope.find(node.parts, 1)
        except SqlError:
            # The statement's own compilation says what is wrong.
            return None
        return _Side(value, next((bound for bound in scope.sources if value.sql in bound.sql), None), False)
    if _known(expressions.unit, node):
        return _Side(expressions.value(node), None, True)
    return None


def _found(scope: Scope, sql: str) -> Value | None:
    around: Scope | None = scope
    while around is not None:
        if sql in around.fixed:
            return around.fixed[sql]
        around = around.parent
    return None


def _known(unit: Unit, node: t.Node) -> bool:
    if isinstance(node, t.Literal):
        return node.kind not in ("null", "default")
    if isinstance(node, t.Variable):
        return node.name not in unit.replaced
    if isinstance(node, t.Unary | t.Parenthesis | t.Cast):
        return _known(unit, node.operand)
    if isinstance(node, t.Binary):
        return _known(unit, node.left) and _known(unit, node.right)
    if isinstance(node, t.Call):
        plain = not (node.schema or node.over or node.within or node.star) and node.name.upper() not in _CHANGING
        return plain and all(_known(unit, argument) for argument in node.arguments)
    return False


def _longest(
    reading: Reading, fixed: dict[str, Value], listed: dict[str, list[Value]]
) -> tuple[IndexInfo, list[tuple[str, ...]]] | None:
    """The index of which the most leading columns are fixed, a whole unique one before a longer one; and the keys."""
    best: tuple[tuple[bool, int], IndexInfo, list[tuple[str, ...]]] | None = None
    for index in reading.info.indexes:
        keys: list[tuple[str, ...]] = [()]
        for place in index.columns:
            sql = reading.bound.sql[place]
            values = [fixed[sql]] if sql in fixed else listed.get(sql, [])
            texts = [_key(reading.info.columns[place], value) for value in values]
            known = [text for text in texts if text is not None]
            if not known or len(known) < len(texts) or len(keys) * len(known) > _MOST_KEYS:
                break
            keys = [(*key, text) for key in keys for text in known]
        width = len(keys[0])
        worth = (index.unique and width == len(index.columns), width)
        if width and (best is None or worth > best[0]):
            best = (worth, index, keys)
    return None if best is None else (best[1], best[2])


def _key(column: Column, value: Value) -> str | None:
    """A value as it would stand in an index of the column; None where the comparison is not by the column's type."""
    kind, other = family(column.type), family(value.type)
    if kind == "char":
        return key_sql(column.type, value.sql) if other == "char" and value.label != EXPLICIT else None
    if (kind, other) in (
        ("int", "int"),
        ("decimal", "int"),
        ("decimal", "decimal"),
    ) or value.type.name == column.type.name:
        return value.sql
    if common(column.type, value.type).name != column.type.name:
        return None
    try:
        return convert(value, column.type).sql
    except SqlError:
        return None
