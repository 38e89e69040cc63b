"""Where names are found: the sources of one SELECT, and those of the queries around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tsqldev.compile.convert import IMPLICIT, Value
from tsqldev.errors import SqlError
from tsqldev.interfaces import Column
from tsqldev.types import CHARACTER


@dataclass(slots=True)
class Bound:
    """One source in a FROM: how T-SQL may call it, and its columns as PostgreSQL text."""

    name: str  # alias, or the table's own name
    schema: str  # empty where an alias or a derived table hides it
    database: str
    columns: Sequence[Column]
    sql: Sequence[str]
    object_id: int = 0
    cte: str = ""  # the PostgreSQL name, if this is a common table expression
    by_name: dict[str, int] = field(default_factory=dict)
    read: bool = False  # whether a column was asked for

    def __post_init__(self) -> None:
        for i, column in enumerate(self.columns):
            self.by_name.setdefault(column.name.casefold(), i)


@dataclass(slots=True)
class Scope:
    """`grouped` is None outside GROUP BY; else it maps the text of each grouped expression to what stands for it."""

    parent: Scope | None = None
    sources: list[Bound] = field(default_factory=list)
    grouped: dict[str, str] | None = None
    aggregating: bool = False  # inside the argument of an aggregate
    # Columns (as PostgreSQL text) that the conditions give a value known before the statement runs.
    fixed: dict[str, Value] = field(default_factory=dict)

    def find(self, parts: tuple[str, ...], line: int) -> Value:
        scope: Scope | None = self
        known = False
        while scope is not None:
            value, seen = scope._here(parts, line)
            if value is not None:
                return value
            known = known or seen
            scope = scope.parent
        text = ".".join(parts)
        if len(parts) > 1 and not known:
            raise SqlError(4104, f'The multi-part identifier "{text}" could not be bound.', line=line)
        raise SqlError(207, f"Invalid column name '{parts[-1]}'.", line=line)

    def matching(self, parts: tuple[str, ...]) -> list[Bound]:
        """The sources that a qualifier of one to three parts names."""
        wanted = [part.casefold() for part in parts]
        found = []
        for source in self.sources:
            if source.name.casefold() != wanted[-1]:
                continue
            if len(wanted) > 1 and wanted[-2] and source.schema.casefold() != wanted[-2]:
                continue
            if len(wanted) > 2 and source.database.casefold() != wanted[-3]:
                continue
            found.append(source)
        return found

    def _here(self, parts: tuple[str, ...], line: int) -> tuple[Value | None, bool]:
        sources = self.matching(parts[:-1]) if len(parts) > 1 else self.sources
        name = parts[-1].casefold()
        found: tuple[Bound, int] | None = None
        for source in sources:
            index = source.by_name.get(name)
            if index is None:
                continue
            if found is not None:
                raise SqlError(209, f"Ambiguous column name '{parts[-1]}'.", line=line)
            found = (source, index)
        if found is None:
            return None, bool(sources)
        source, index = found
        source.read = True
        column = source.columns[index]
        sql = source.sql[index]
        if self.grouped is not None and not self.aggregating:
            replacement = self.grouped.get(sql)
            if replacement is None:
                raise SqlError(
                    8120,
                    f"Column '{source.name}.{column.name}' is invalid in the select list because it is not contained "
                    "in either an aggregate function or the GROUP BY clause.",
                    line=line,
                )
            sql = replacement
        label = IMPLICIT if column.type.name in CHARACTER else 0
        return Value(sql, column.type, label), True
