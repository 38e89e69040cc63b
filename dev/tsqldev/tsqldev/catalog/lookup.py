"""`Catalog`: names to tables, views, system views and modules, as this session's transaction sees them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from tsqldev.catalog.functions import FUNCTIONS
from tsqldev.catalog.sysviews import system_view
from tsqldev.compile.names import MetadataFunction
from tsqldev.errors import SqlError
from tsqldev.interfaces import Column, IndexInfo, ModuleInfo, TableInfo, TriggerInfo, ViewInfo
from tsqldev.types import SqlType

Connection = psycopg.Connection[Any]
Found = TableInfo | ViewInfo | ModuleInfo

_OBJECT = """
select o.object_id, o.type, o.name, s.name, s.schema_id, coalesce(o.principal_id, s.principal_id), d.name, d.database_id
from meta.objects o
join meta.schemas s using (database_id, schema_id)
join meta.databases d using (database_id)
"""

_COLUMNS = """
select name, type_name, length, precision, scale, collation_name, is_nullable, is_identity, computed is not null, column_id,
    default_object_id <> 0
from meta.columns where object_id = %s order by column_id
"""

_TRIGGERS = """
select t.object_id, o.name, t.is_instead_of, t.actions, t.is_disabled
from meta.triggers t join meta.objects o using (object_id) where t.parent_id = %s order by o.create_date, t.object_id
"""

_INDEXES = """
select i.index_id, i.is_unique, array_agg(k.column_id order by k.key_ordinal)
from meta.indexes i join meta.index_columns k using (object_id, index_id)
where i.object_id = %s and k.key_ordinal > 0 and i.type in (1, 2) and not i.is_disabled and i.physical_filter is null
group by i.index_id, i.is_unique order by i.index_id
"""

_MODULE = """
select m.definition, m.body, m.body_line, m.execute_as_principal_id, p.name
from meta.modules m
left join meta.principals p on p.database_id = %s and p.principal_id = m.execute_as_principal_id
where m.object_id = %s
"""

_PARAMETERS = """
select name, type_name, length, precision, scale, collation_name, true, false, false, parameter_id, default_text is not null,
    default_text, is_output
from meta.parameters where object_id = %s order by parameter_id
"""


class Versions:
    """What lookups found, by the set of changes that they saw: never wrong after a rollback, shared by all sessions."""

    def __init__(self, versions: int = 16) -> None:
        self._versions = versions
        self._found: OrderedDict[int, dict[object, object]] = OrderedDict()
        self._lock = Lock()

    def at(self, version: int) -> dict[object, object]:
        with self._lock:
            found = self._found.setdefault(version, {})
            self._found.move_to_end(version)
            while len(self._found) > self._versions:
                self._found.popitem(last=False)
            return found


_SHARED = Versions()
_MISSING = object()


class Catalog:
    """The names of one server, over one session's connection."""

    def __init__(self, connection: Connection, dmvs: Mapping[str, Sequence[Column]] | None = None) -> None:
        """`dmvs`: the columns of each view (`dm_exec_sessions`) whose rows the session provides."""
        self.connection = connection
        self.dmvs = dmvs or {}

    @property
    def version(self) -> int:
        """Changes with every definition and every right."""
        return self._versions()[0]

    @property
    def names_version(self) -> int:
        """Changes when a text can come to mean something else; rights, members and logins do not change that."""
        return self._versions()[1]

    def _versions(self) -> tuple[int, int]:
        found = self._rows("select meta.visible_version(), meta.visible_names()")[0]
        return int(found[0]), int(found[1])

    @property
    def functions(self) -> Mapping[str, MetadataFunction]:
        return FUNCTIONS

    def resolve(self, parts: Sequence[str], database: str, default_schema: str) -> Found | None:
        """See `tsqldev.compile.names.CompileCatalog`. Raises 911 and 916."""
        if len(parts) > 3:
            return None
        name = parts[-1]
        schema = parts[-2] if len(parts) > 1 else ""
        if len(parts) > 2 and parts[-3] and parts[-3].casefold() != database.casefold():
            database = parts[-3]
            self._require_entry(database)
        cache = _SHARED.at(self.names_version)
        key = ("name", database.casefold(), schema.casefold(), default_schema.casefold(), name.casefold())
        found = cache.get(key, _MISSING)
        if found is _MISSING:
            found = self._find(name, schema, database, default_schema)
            cache[key] = found
        return found  # type: ignore[return-value]  # the cache holds what _find answered

    def object(self, object_id: int) -> Found | None:
        """The table, view or module of an id."""
        cache = _SHARED.at(self.names_version)
        found = cache.get(("id", object_id), _MISSING)
        if found is _MISSING:
            rows = self._rows(_OBJECT + " where o.object_id = %s", object_id)
            found = self._describe(rows[0]) if rows else None
            cache[("id", object_id)] = found
        return found  # type: ignore[return-value]  # the cache holds what _describe answered

    def database_id(self, name: str) -> int | None:
        rows = self._rows("select database_id from meta.databases where key = meta.fold(%s)", name)
        return int(rows[0][0]) if rows else None

    def _require_entry(self, database: str) -> None:
        """Raises 916 where the session's login has no user in another database, 911 where there is none."""
        rows = self._rows(
            "select d.name, meta.caller_in(d.database_id) is not null,"
            " (select name from meta.logins where principal_id = meta.setting('login'))"
            " from meta.databases d where d.key = meta.fold(%s)",
            database,
        )
        if not rows:
            raise SqlError(911, f"Database '{database}' does not exist. Make sure that the name is entered correctly.")
        if not rows[0][1]:
            raise SqlError(
                916,
                f'The server principal "{rows[0][2] or ""}" is not able to access the database "{rows[0][0]}" under the'
                " current security context.",
                severity=14,
            )

    def _find(self, name: str, schema: str, database: str, default_schema: str) -> Found | None:
        database_id = self.database_id(database)
        if database_id is None:
            raise SqlError(911, f"Database '{database}' does not exist. Make sure that the name is entered correctly.")
        if schema.casefold() in ("sys", "information_schema"):
            view = system_view(schema, name, database, database_id, self.dmvs)
            if view is not None:
                return view
        rows = self._rows(
            _OBJECT + " where o.database_id = %s and o.key = meta.fold(%s) and s.key in (meta.fold(%s), meta.fold(%s))"
            " and o.type in ('U', 'V', 'P', 'TR') order by s.key = meta.fold(%s) desc",
            database_id,
            name,
            schema or default_schema,
            schema or "dbo",
            schema or default_schema,
        )
        return self._describe(rows[0]) if rows else None

    def _describe(self, row: Sequence[Any]) -> Found | None:
        object_id, kind, name, schema, schema_id, owner, database, database_id = row
        if kind == "U":
            columns = self._columns(_COLUMNS, object_id)
            return TableInfo(
                object_id,
                database,
                schema,
                name,
                relation(object_id),
                columns,
                tuple(physical_column(column.column_id) for column in columns),
                self._triggers(object_id),
                schema_id=schema_id,
                owner_id=owner,
                indexes=self._indexes(object_id, columns),
            )
        module = self._rows(_MODULE, database_id, object_id)
        if not module:
            return None
        definition, body, body_line, execute_as, execute_as_name = module[0]
        if kind == "V":
            view_columns = self._columns(_COLUMNS, object_id)
            return ViewInfo(object_id, database, schema, name, body, view_columns, schema_id, owner)
        return ModuleInfo(
            object_id,
            database,
            schema,
            name,
            "PROCEDURE" if kind == "P" else "TRIGGER",
            definition,
            body,
            body_line,
            tuple(
                (_column(parameter[:11]), parameter[11], parameter[12])
                for parameter in self._rows(_PARAMETERS, object_id)
            ),
            "OWNER" if execute_as == -2 else execute_as_name,
            owner,
        )

    def module(self, object_id: int) -> ModuleInfo | None:
        """The procedure or DML trigger of an id."""
        found = self.object(object_id)
        return found if isinstance(found, ModuleInfo) else None

    def triggers(self, object_id: int) -> tuple[TriggerInfo, ...]:
        """The DML triggers of a table or view (INSTEAD OF triggers of views are not in ViewInfo)."""
        return self._triggers(object_id)

    def _triggers(self, object_id: int) -> tuple[TriggerInfo, ...]:
        return tuple(
            TriggerInfo(trigger, name, instead_of, frozenset(actions), disabled)
            for trigger, name, instead_of, actions, disabled in self._rows(_TRIGGERS, object_id)
        )

    def logon_triggers(self) -> tuple[ModuleInfo, ...]:
        """The enabled LOGON triggers of the server, in order of creation."""
        rows = self._rows(
            "select t.object_id, t.name, t.definition, t.body, t.body_line, l.name from meta.server_triggers t"
            " left join meta.logins l on l.principal_id = t.execute_as_principal_id"
            " where not t.is_disabled and 'LOGON' = any (t.events) order by t.create_date, t.object_id"
        )
        return tuple(
            ModuleInfo(object_id, "master", "", name, "LOGON TRIGGER", definition, body, line, (), execute_as, 1)
            for object_id, name, definition, body, line, execute_as in rows
        )

    def _indexes(self, object_id: int, columns: Sequence[Column]) -> tuple[IndexInfo, ...]:
        places = {column.column_id: place for place, column in enumerate(columns)}
        return tuple(
            IndexInfo(index_id, unique, tuple(places[column_id] for column_id in keys))
            for index_id, unique, keys in self._rows(_INDEXES, object_id)
        )

    def _columns(self, query: str, object_id: int) -> tuple[Column, ...]:
        return tuple(_column(row) for row in self._rows(query, object_id))

    def _rows(self, query: str, *values: Any) -> list[Any]:
        return self.connection.cursor(row_factory=tuple_row).execute(query.encode(), values).fetchall()


def relation(object_id: int) -> str:
    """The PostgreSQL table that holds a T-SQL table."""
    return f"data.t{object_id}"


def physical_column(column_id: int) -> str:
    return f"c{column_id}"


def _column(row: Sequence[Any]) -> Column:
    name, type_name, length, precision, scale, collation_name, nullable, identity, computed, column_id, has_default = (
        row
    )
    return Column(
        name,
        SqlType(type_name, length, precision, scale, collation_name, nullable),
        identity,
        computed,
        column_id,
        has_default,
    )
