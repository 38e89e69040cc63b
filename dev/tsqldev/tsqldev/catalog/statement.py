"""What a DDL or security statement knows of the session that runs it, and the tools that all of them share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from tsqldev.catalog.access import Access, Principal
from tsqldev.catalog.lookup import Catalog
from tsqldev.catalog.tokens import Reader
from tsqldev.compile.compiler import Compiler
from tsqldev.compile.names import CompileContext
from tsqldev.errors import SqlError

Connection = psycopg.Connection[Any]


@dataclass(slots=True)
class DdlContext:
    """The session's side of one statement. `chain_owner` is the owner of the module that runs it, if one does.

    `connected` answers the SIDs of the logins that have sessions now.
    """

    principal: Principal
    default_schema: str = ""
    transaction_count: int = 0
    quoted_identifier: bool = True
    ansi_nulls: bool = True
    chain_owner: int | None = None
    connected: Callable[[], Iterable[bytes]] = tuple


@dataclass(slots=True)
class DdlResult:
    """Messages of severity 0 for the client (number, text), and a row count where the statement has one."""

    infos: list[tuple[int, str]] = field(default_factory=list)
    count: int | None = None


class Statement:
    """One statement at work: its text, the session, and the metadata it changes."""

    def __init__(self, connection: Connection, catalog: Catalog, access: Access, text: str, context: DdlContext):
        self.connection = connection
        self.catalog = catalog
        self.access = access
        self.text = text
        self.context = context
        self.principal = context.principal
        self.result = DdlResult()
        self.read = Reader(text, quoted_identifier=context.quoted_identifier)

    @property
    def database_id(self) -> int:
        return self.principal.database_id

    def compiler(self, database: str = "") -> Compiler:
        """A compiler for texts that belong to a database, whatever the session's variables are."""
        return Compiler(
            self.catalog,
            CompileContext(
                database or self.principal.database,
                self.database_id if not database else self.database(database)[0],
                self.context.default_schema or self.principal.default_schema,
                quoted_identifier=self.context.quoted_identifier,
            ),
        )

    def run(self, query: str, *values: object) -> list[Any]:
        cursor = self.connection.cursor(row_factory=tuple_row).execute(query.encode(), values or None)
        return cursor.fetchall() if cursor.description is not None else []

    def one(self, query: str, *values: object) -> Any:
        """The first row, or None."""
        rows = self.run(query, *values)
        return rows[0] if rows else None

    def value(self, query: str, *values: object) -> Any:
        row = self.one(query, *values)
        return None if row is None else row[0]

    def changed(self, *, names: bool = True) -> None:
        """Metadata changed: caches of other versions are not for this one. `names`: a text may mean something else now."""
        self.run("select meta.bump(%s)", names)

    def holds(self, class_desc: str, major_id: int, permission: str) -> bool:
        return self.access.holds(self.principal, class_desc, major_id, permission)

    # ---- names

    def database(self, name: str) -> tuple[int, str]:
        row = self.one("select database_id, name from meta.databases where key = meta.fold(%s)", name)
        if row is None:
            raise SqlError(911, f"Database '{name}' does not exist. Make sure that the name is entered correctly.")
        return int(row[0]), str(row[1])

    def schema(self, name: str, database_id: int | None = None) -> tuple[int, str, int]:
        """(id, name as stored, owner) of a schema. Raises 2760."""
        row = self.one(
            "select schema_id, name, principal_id from meta.schemas where database_id = %s and key = meta.fold(%s)",
            self.database_id if database_id is None else database_id,
            name,
        )
        if row is None:
            raise SqlError(
                2760,
                f'The specified schema name "{name}" either does not exist or you do not have permission to use it.',
            )
        return row[0], row[1], row[2]

    def place(self, parts: tuple[str, ...]) -> tuple[int, str, str]:
        """(database id, schema, name) that a name of one to three parts stands for."""
        if len(parts) > 3:
            raise SqlError(
                117, f"The object name '{'.'.join(parts)}' contains more than the maximum number of prefixes."
            )
        database_id = self.database_id
        if len(parts) == 3 and parts[0]:
            database_id, _ = self.database(parts[0])
        schema = parts[-2] if len(parts) > 1 and parts[-2] else self.principal.default_schema
        return database_id, schema, parts[-1]

    def find(self, parts: tuple[str, ...], *kinds: str) -> Found | None:
        """The object of that name: in the schema named, else in the default schema, else in dbo."""
        database_id, schema, name = self.place(parts)
        row = self.one(
            "select o.object_id, o.type, o.name, s.name, o.schema_id, coalesce(o.principal_id, s.principal_id),"
            " o.database_id, o.parent_object_id from meta.objects o join meta.schemas s using (database_id, schema_id)"
            " where o.database_id = %s and o.key = meta.fold(%s) and s.key in (meta.fold(%s), %s)"
            " and (%s = '{}' or o.type = any (%s)) order by s.key = meta.fold(%s) desc",
            database_id,
            name,
            schema,
            "dbo" if len(parts) == 1 else schema.lower(),
            list(kinds),
            list(kinds),
            schema,
        )
        return None if row is None else Found(*row)


@dataclass(frozen=True, slots=True)
class Found:
    object_id: int
    type: str
    name: str
    schema: str
    schema_id: int
    owner_id: int
    database_id: int
    parent_object_id: int

    @property
    def relation(self) -> str:
        return f"data.t{self.object_id}"


def no_permission(what: str, name: str) -> SqlError:
    """15151: a securable that does not exist, or that the caller may not touch."""
    verb, _, kind = what.partition(" ")
    return SqlError(
        15151, f"Cannot {verb} the {kind} '{name}', because it does not exist or you do not have permission."
    )


def permission_denied(permission: str, database: str) -> SqlError:
    """262: a statement permission of a database is missing."""
    return SqlError(262, f"{permission} permission denied in database '{database}'.", severity=14)
