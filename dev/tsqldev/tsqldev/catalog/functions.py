"""Metadata builtins: their argument and result types. Their bodies are in functions.sql, as sys.<name>."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tsqldev.compile.names import MetadataFunction
from tsqldev.types import BIGINT, INT, MAX, SMALLINT, SqlType, decimal, nvarchar, varbinary

_NAME = nvarchar(128)
_TEXT = nvarchar(4000)
_SID = varbinary(85)


def _f(name: str, arguments: Sequence[SqlType], required: int, result: SqlType, sql: str = "") -> MetadataFunction:
    return MetadataFunction(name, sql or name.lower(), tuple(arguments), required, result)


_INTEGER_SERVER_PROPERTIES = frozenset(
    [
        "BUILDCLRVERSION",
        "EDITIONID",
        "ENGINEEDITION",
        "COLLATIONID",
        "COMPARISONSTYLE",
        "LCID",
        "ISCLUSTERED",
        "ISHADRENABLED",
        "ISLOCALDB",
        "ISINTEGRATEDSECURITYONLY",
        "ISSINGLEUSER",
        "ISFULLTEXTINSTALLED",
        "ISXTPSUPPORTED",
        "ISPOLYBASEINSTALLED",
        "PROCESSID",
        "ISADVANCEDANALYTICSINSTALLED",
        "ISBIGDATACLUSTER",
        "ISTEMPDBMETADATAMEMORYOPTIMIZED",
        "ISEXTERNALAUTHENTICATIONONLY",
        "SUSPENDEDDATABASECOUNT",
        "SQLCHARSET",
        "SQLSORTORDER",
        "FILESTREAMCONFIGUREDLEVEL",
        "FILESTREAMEFFECTIVELEVEL",
        "NUMLICENSES",
    ]
)
_INTEGER_DATABASE_PROPERTIES = frozenset(
    [
        "VERSION",
        "ISANSINULLSENABLED",
        "ISANSINULLDEFAULT",
        "ISQUOTEDIDENTIFIERSENABLED",
        "ISAUTOCLOSE",
        "ISAUTOSHRINK",
        "ISINSTANDBY",
        "ISMEMORYOPTIMIZEDELEVATETOSNAPSHOTENABLED",
        "LCID",
        "SQLSORTORDER",
    ]
)


def _server_property(arguments: Sequence[str | None]) -> SqlType:
    """The base type of the sql_variant that SERVERPROPERTY answers; text also for a property that is no literal."""
    name = (arguments[0] or "").upper()
    if name == "EDITIONID":
        return BIGINT
    return INT if name in _INTEGER_SERVER_PROPERTIES else _NAME


def _database_property(arguments: Sequence[str | None]) -> SqlType:
    name = (arguments[1] or "").upper() if len(arguments) > 1 else ""
    return INT if name in _INTEGER_DATABASE_PROPERTIES else _NAME


_ALL = (
    _f("OBJECT_ID", (_TEXT, _NAME), 1, INT),
    _f("OBJECT_NAME", (INT, INT), 1, _NAME),
    _f("OBJECT_SCHEMA_NAME", (INT, INT), 1, _NAME),
    _f("OBJECT_DEFINITION", (INT,), 1, nvarchar(MAX)),
    _f("SCHEMA_ID", (_NAME,), 0, INT),
    _f("SCHEMA_NAME", (INT,), 0, _NAME),
    _f("DB_ID", (_NAME,), 0, SMALLINT),
    _f("DB_NAME", (INT,), 0, _NAME),
    _f("TYPE_ID", (_NAME,), 1, INT),
    _f("TYPE_NAME", (INT,), 1, _NAME),
    _f("COL_NAME", (INT, INT), 2, _NAME),
    _f("COL_LENGTH", (_TEXT, _NAME), 2, SMALLINT),
    _f("COLUMNPROPERTY", (INT, _NAME, _NAME), 3, INT),
    _f("OBJECTPROPERTY", (INT, _NAME), 2, INT),
    _f("OBJECTPROPERTYEX", (INT, _NAME), 2, INT, "objectproperty"),
    _f("INDEXPROPERTY", (INT, _NAME, _NAME), 3, INT),
    _f("INDEX_COL", (_TEXT, INT, INT), 3, _NAME),
    _f("COLLATIONPROPERTY", (_NAME, _NAME), 2, INT),
    _f("SUSER_ID", (_NAME,), 0, INT),
    _f("SUSER_SID", (_NAME, INT), 0, _SID),
    _f("SUSER_SNAME", (_SID,), 0, _NAME),
    _f("SUSER_NAME", (INT,), 0, _NAME),
    _f("USER_NAME", (INT,), 0, _NAME),
    _f("USER", (INT,), 0, _NAME, "user_name"),
    _f("CURRENT_USER", (INT,), 0, _NAME, "user_name"),
    _f("SESSION_USER", (INT,), 0, _NAME, "user_name"),
    _f("SYSTEM_USER", (_SID,), 0, _NAME, "suser_sname"),
    _f("ORIGINAL_LOGIN", (), 0, _NAME.with_nullable(False)),
    _f("USER_ID", (_NAME,), 0, INT, "database_principal_id"),
    _f("DATABASE_PRINCIPAL_ID", (_NAME,), 0, INT),
    _f("IS_MEMBER", (_NAME,), 1, INT),
    _f("IS_ROLEMEMBER", (_NAME, _NAME), 1, INT),
    _f("IS_SRVROLEMEMBER", (_NAME, _NAME), 1, INT),
    _f("HAS_DBACCESS", (_NAME,), 1, INT),
    _f("HAS_PERMS_BY_NAME", (_TEXT, _NAME, _NAME, _NAME, _NAME), 3, INT),
    _f("IDENT_SEED", (_TEXT,), 1, decimal(38, 0)),
    _f("IDENT_INCR", (_TEXT,), 1, decimal(38, 0)),
    _f("IDENT_CURRENT", (_TEXT,), 1, decimal(38, 0)),
    MetadataFunction("SERVERPROPERTY", "serverproperty", (_NAME,), 1, _NAME, _server_property),
    MetadataFunction("DATABASEPROPERTYEX", "databasepropertyex", (_NAME, _NAME), 2, _NAME, _database_property),
)

FUNCTIONS: Mapping[str, MetadataFunction] = {function.name: function for function in _ALL}
