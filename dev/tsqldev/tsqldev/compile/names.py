"""What the compiler asks of its surroundings: the session's context and the catalog's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tsqldev.interfaces import ModuleInfo, TableInfo, ViewInfo
from tsqldev.types import SqlType


@dataclass(frozen=True, slots=True)
class SystemView(TableInfo):
    """A catalog view or DMV (`system` is true).

    With `rows` empty, `relation` names a PostgreSQL view of schema sys; if `filtered`, it has a column `_db` and
    the compiler keeps the rows of `database_id` and those where `_db` is NULL.
    With `rows` set, the rows come from the session: the compiler adds a parameter of that name (nvarchar(max))
    whose value is a JSON array of objects keyed by the column names; values are held as in `tsqldev.types`
    (bytes as the text \\x...).
    """

    database_id: int = 0
    filtered: bool = False
    rows: str = ""


@dataclass(frozen=True, slots=True)
class MetadataFunction:
    """A builtin that the catalog implements, as PostgreSQL function `sys.<sql>`; absent arguments are passed as NULL.

    `arguments` are converted to the given types. `result_of`, where given, answers the type from the literal
    arguments (None for one that is no literal), for functions that return sql_variant.
    """

    name: str
    sql: str
    arguments: tuple[SqlType, ...]
    required: int
    result: SqlType
    result_of: Callable[[Sequence[str | None]], SqlType] | None = None


class CompileCatalog(Protocol):
    @property
    def names_version(self) -> int:
        """Changes whenever a text can come to mean something else; compiled texts are kept no longer."""

    @property
    def functions(self) -> Mapping[str, MetadataFunction]:
        """Metadata and security builtins by upper-case name (OBJECT_ID, SUSER_SID, ...)."""

    def resolve(
        self, parts: Sequence[str], database: str, default_schema: str
    ) -> TableInfo | ViewInfo | ModuleInfo | None:
        """The object of a one- to three-part name (an empty part is an omitted one), or None where there is none.

        Includes `sys.x`, `INFORMATION_SCHEMA.X` and `[db].sys.x` (as SystemView). Temporary tables and table
        variables are not asked for: they are in the context. Raises SqlError for databases one may not enter.
        """


@dataclass(frozen=True, slots=True)
class CompileContext:
    """Everything about the session that changes what a text means.

    `variables` are keyed by lower-case name with its @; `local_tables` (table variables, #temp tables, and
    inserted / deleted inside a trigger) by lower-case name. `depth` is the trigger nesting level; it names the
    temporary tables of inserted and deleted rows; `running_triggers` are the triggers that do not fire again
    (INSTEAD OF of the same table, and without RECURSIVE_TRIGGERS the AFTER trigger itself). `identity_insert` is the object id with IDENTITY_INSERT ON.
    `keyed`: a change answers the keys of its rows, for the session to lock.
    """

    database: str
    database_id: int
    default_schema: str = "dbo"
    variables: Mapping[str, SqlType] = field(default_factory=dict)
    local_tables: Mapping[str, TableInfo] = field(default_factory=dict)
    isolation: str = "READ COMMITTED"
    identity_insert: int = 0
    quoted_identifier: bool = True
    depth: int = 0
    running_triggers: frozenset[int] = frozenset()
    rowcount: int = 0
    keyed: bool = False

    def signature(self) -> tuple[object, ...]:
        """Equal for two contexts in which a text compiles to the same thing."""
        return (
            self.database_id,
            self.default_schema,
            tuple(self.variables.items()),
            tuple(self.local_tables.items()),
            self.isolation,
            self.identity_insert,
            self.quoted_identifier,
            self.depth,
            self.running_triggers,
            self.rowcount,
            self.keyed,
        )
