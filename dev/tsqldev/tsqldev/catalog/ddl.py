"""`Ddl`: the one way in for DDL and security statements, and for the procedures that change metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import psycopg

from tsqldev.catalog import (
    alter,
    databases,
    grants,
    indexes,
    logins,
    modules,
    owners,
    properties,
    tables,
    triggers,
    users,
    views,
)
from tsqldev.catalog.access import Access
from tsqldev.catalog.lookup import Catalog, Connection
from tsqldev.catalog.statement import DdlContext, DdlResult, Statement
from tsqldev.catalog.tokens import END, WORD, Reader, Token
from tsqldev.compile.compiler import Compiler
from tsqldev.compile.names import CompileContext
from tsqldev.errors import SqlError, unsupported
from tsqldev.interfaces import Column, TableInfo

Handler = Callable[[Statement], None]

# The words with which these statements begin; the session takes CREATE / ALTER / DROP TABLE of #names itself.
FIRST_WORDS = frozenset({"CREATE", "ALTER", "DROP", "GRANT", "DENY", "REVOKE", "TRUNCATE", "ENABLE", "DISABLE"})

_CREATE_INDEX = (
    "INDEX",
    "UNIQUE INDEX",
    "CLUSTERED INDEX",
    "NONCLUSTERED INDEX",
    "UNIQUE CLUSTERED INDEX",
    "UNIQUE NONCLUSTERED INDEX",
    "COLUMNSTORE INDEX",
    "CLUSTERED COLUMNSTORE INDEX",
    "NONCLUSTERED COLUMNSTORE INDEX",
)

HANDLERS: Mapping[str, Handler] = {
    "CREATE TABLE": tables.create_table,
    "ALTER TABLE": alter.alter_table,
    "DROP TABLE": tables.drop_table,
    "TRUNCATE TABLE": tables.truncate_table,
    **{f"CREATE {words}": indexes.create_index for words in _CREATE_INDEX},
    "ALTER INDEX": indexes.alter_index,
    "DROP INDEX": indexes.drop_index,
    "CREATE VIEW": views.create_view,
    "CREATE OR ALTER VIEW": views.create_view,
    "ALTER VIEW": views.create_view,
    "CREATE PROCEDURE": modules.create_procedure,
    "CREATE OR ALTER PROCEDURE": modules.create_procedure,
    "ALTER PROCEDURE": modules.create_procedure,
    "CREATE PROC": modules.create_procedure,
    "CREATE OR ALTER PROC": modules.create_procedure,
    "ALTER PROC": modules.create_procedure,
    "CREATE TRIGGER": triggers.create_trigger,
    "CREATE OR ALTER TRIGGER": triggers.create_trigger,
    "ALTER TRIGGER": triggers.create_trigger,
    "DROP VIEW": modules.drop_module,
    "DROP PROCEDURE": modules.drop_module,
    "DROP PROC": modules.drop_module,
    "DROP TRIGGER": modules.drop_module,
    "ENABLE TRIGGER": triggers.switch_trigger,
    "DISABLE TRIGGER": triggers.switch_trigger,
    "CREATE SCHEMA": databases.create_schema,
    "ALTER SCHEMA": databases.alter_schema,
    "DROP SCHEMA": databases.drop_schema,
    "CREATE DATABASE": databases.create_database,
    "ALTER DATABASE": databases.alter_database,
    "DROP DATABASE": databases.drop_database,
    "CREATE LOGIN": logins.create_login,
    "ALTER LOGIN": logins.alter_login,
    "DROP LOGIN": logins.drop_login,
    "CREATE USER": users.create_user,
    "ALTER USER": users.alter_user,
    "DROP USER": users.drop_user,
    "CREATE ROLE": users.create_role,
    "ALTER ROLE": users.alter_role,
    "DROP ROLE": users.drop_role,
    "CREATE SERVER ROLE": logins.create_server_role,
    "ALTER SERVER ROLE": logins.alter_server_role,
    "DROP SERVER ROLE": logins.drop_server_role,
    "ALTER AUTHORIZATION": owners.alter_authorization,
    "GRANT": grants.change_permissions,
    "DENY": grants.change_permissions,
    "REVOKE": grants.change_permissions,
}


class Ddl:
    """Runs statements over the session's connection, in its transaction; it neither begins nor ends one."""

    def __init__(self, connection: Connection, catalog: Catalog, access: Access) -> None:
        self.connection = connection
        self.catalog = catalog
        self.access = access

    @staticmethod
    def handles(first_word: str) -> bool:
        return first_word.upper() in FIRST_WORDS

    def execute(self, text: str, context: DdlContext) -> DdlResult:
        """Run one statement; a module's text is the whole batch. Raises SqlError."""
        statement = self._statement(text, context)
        handler = _handler(statement.read.tokens)
        try:
            handler(statement)
        except psycopg.errors.UniqueViolation as error:
            raise _taken_meanwhile(error) from error
        return statement.result

    def create_table_as(self, parts: Sequence[str], columns: Sequence[Column], context: DdlContext) -> TableInfo:
        """The empty table of SELECT ... INTO."""
        statement = self._statement("", context)
        object_id = tables.table_from_columns(statement, tuple(parts), columns)
        found = self.catalog.object(object_id)
        assert isinstance(found, TableInfo)
        return found

    def describe_table(
        self, name: str, body: str, relation: str, context: DdlContext | None = None
    ) -> tuple[TableInfo, str]:
        """The shape of a table variable or #temp table, and the statements that make it as pg_temp.<relation>.

        `body` is the text from its opening to its closing parenthesis.
        """
        read = Reader(body)
        inner = read.parenthesised()
        compiler = Compiler(
            self.catalog,
            CompileContext(
                context.principal.database if context else "tempdb", context.principal.database_id if context else 2
            ),
        )
        local = tables.local_table(inner, f"pg_temp.{relation}", compiler)
        info = TableInfo(0, "tempdb", "dbo", name, f"pg_temp.{relation}", local.columns, local.physical)
        named = (tables.temporary_name(info.relation, name),) if name.startswith("#") else ()
        return info, ";\n".join((*local.statements, *named))

    def rename(self, old: str, new: str, kind: str | None, context: DdlContext) -> DdlResult:
        """sp_rename."""
        statement = self._statement("", context)
        properties.rename(statement, old, new, kind)
        return statement.result

    def extended_property(
        self,
        verb: str,
        name: str,
        value: str | None,
        levels: tuple[tuple[str | None, str | None], tuple[str | None, str | None], tuple[str | None, str | None]],
        context: DdlContext,
    ) -> DdlResult:
        """sp_addextendedproperty (verb ADD), sp_updateextendedproperty (UPDATE), sp_dropextendedproperty (DROP)."""
        statement = self._statement("", context)
        properties.extended_property(statement, verb, name, value, levels)
        return statement.result

    def refresh_view(self, name: str, context: DdlContext) -> DdlResult:
        """sp_refreshview and sp_refreshsqlmodule."""
        statement = self._statement("", context)
        views.refresh_view(statement, Reader(name).qualified())
        return statement.result

    def change_membership(self, role: str, member: str, *, add: bool, server: bool, context: DdlContext) -> DdlResult:
        """sp_addrolemember, sp_droprolemember, sp_addsrvrolemember, sp_dropsrvrolemember."""
        statement = self._statement("", context)
        change = logins.change_server_membership if server else users.change_membership
        change(statement, role, member, add=add)
        return statement.result

    def _statement(self, text: str, context: DdlContext) -> Statement:
        return Statement(self.connection, self.catalog, self.access, text, context)


_TAKEN = {
    "objects": (2714, "There is already an object named '{}' in the database."),
    "schemas": (2714, "There is already an object named '{}' in the database."),
    "databases": (1801, "Database '{}' already exists. Choose a different database name."),
    "logins": (15025, "The server principal '{}' already exists."),
    "principals": (15023, "User, group, or role '{}' already exists in the current database."),
}


def _taken_meanwhile(error: psycopg.errors.UniqueViolation) -> Exception:
    """Another transaction has made something of that name since it was looked for, and has committed it."""
    if error.diag.schema_name != "meta" or error.diag.table_name not in _TAKEN:
        return error
    number, text = _TAKEN[error.diag.table_name]
    values = (error.diag.message_detail or "").partition(")=(")[2].partition(") already")[0]
    return SqlError(number, text.format(values.split(", ")[-1]))


def _handler(tokens: list[Token]) -> Handler:
    words: list[str] = []
    for token in tokens[:4]:
        if token.kind != WORD:
            break
        words.append(token.value)
    for count in range(len(words), 0, -1):
        handler = HANDLERS.get(" ".join(words[:count]))
        if handler is not None:
            return handler
    if tokens[0].kind == END:
        raise SqlError(102, "Incorrect syntax near ''.", severity=15)
    length = 4 if words[1:3] == ["OR", "ALTER"] else 3
    raise unsupported("the statement " + " ".join(words[:length] or [tokens[0].value]))
