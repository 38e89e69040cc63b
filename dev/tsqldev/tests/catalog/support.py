"""A session's use of the catalog, without a session."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg.rows import tuple_row
from tsqldev.catalog import Access, Catalog, Ddl, DdlContext, DdlResult, Principal
from tsqldev.catalog.lookup import Found
from tsqldev.errors import SqlError
from tsqldev.interfaces import TableInfo

SA_PASSWORD = "S3cret-of-sa"


class Session:
    """What a session does with the catalog, without one: a principal, statements, and reads of catalog views."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.catalog = Catalog(connection)
        self.access = Access(connection)
        self.ddl = Ddl(connection, self.catalog, self.access)
        self.principal = self.access.open(self.access.authenticate("sa", SA_PASSWORD), "master")
        self.become(self.principal)

    def become(self, principal: Principal) -> None:
        self.principal = principal
        for name, value in principal.settings().items():
            self.connection.execute("select set_config(%s, %s, false)", (name, value))

    def use(self, database: str) -> None:
        self.become(self.access.enter(self.principal.login_id, database))

    def login(self, name: str) -> None:
        """Act as a login, in the current database."""
        row = self.rows("select principal_id from meta.logins where name = %s", name)
        self.become(self.access.enter(row[0][0], self.principal.database))

    def context(self) -> DdlContext:
        return DdlContext(self.principal)

    def run(self, text: str) -> DdlResult:
        """Every change of metadata has a version of its own, whatever the statement: what is remembered rests on it."""
        versions, written = self._versions(), self._written()
        with self.connection.transaction():
            result = self.ddl.execute(text, self.context())
        now = self._written()
        assert self.catalog.version != versions[0] or now == written, text
        assert self.catalog.names_version != versions[1] or now[1] == written[1], text
        return result

    def _versions(self) -> tuple[int, int]:
        return self.catalog.version, self.catalog.names_version

    def _written(self) -> tuple[int, int]:
        """The rows of metadata that this transaction has written: all, and those that say what names mean."""
        rights = "relname in ('logins', 'permissions', 'role_members')"
        # A principal that is there or not changes no name; one that is called otherwise may run a module.
        names = f"case when {rights} then 0 when relname = 'principals' then n_tup_upd else n_tup_ins + n_tup_upd + n_tup_del end"
        written = self.rows(
            f"select sum(n_tup_ins + n_tup_upd + n_tup_del), sum({names}) from pg_stat_xact_user_tables"
            " where schemaname = 'meta' and relname <> 'version'"
        )
        return int(written[0][0]), int(written[0][1])

    def refused(self, text: str) -> int:
        """The number of the error that a statement ends with; it has changed nothing."""
        version = self.catalog.version
        with pytest.raises(SqlError) as caught:
            self.run(text)
        assert self.catalog.version == version
        return caught.value.number

    def rows(self, query: str, *values: object) -> list[Any]:
        return self.connection.cursor(row_factory=tuple_row).execute(query.encode(), values or None).fetchall()

    def value(self, query: str, *values: object) -> Any:
        return self.rows(query, *values)[0][0]

    def resolve(self, name: str) -> Found | None:
        return self.catalog.resolve(name.split("."), self.principal.database, self.principal.default_schema)

    def table(self, name: str) -> TableInfo:
        found = self.resolve(name)
        assert isinstance(found, TableInfo)
        return found

    def view(self, name: str, columns: str) -> list[Any]:
        """Rows of a catalog view as the caller sees it, in order."""
        view = self.table(name)
        chosen = ", ".join(f'"{column.strip()}"' for column in columns.split(","))
        return sorted(self.rows(f"select {chosen} from {view.relation} v"), key=repr)
