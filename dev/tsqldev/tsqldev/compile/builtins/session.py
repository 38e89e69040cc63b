"""What only the session knows: values that become parameters of the compiled text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tsqldev.compile import tree as t
from tsqldev.compile.builtins.registry import (
    builtin,
)
from tsqldev.compile.convert import Value, convert
from tsqldev.errors import SqlError, unsupported
from tsqldev.types import (
    BIGINT,
    INT,
    MAX,
    SYSNAME,
    SqlType,
    nvarchar,
    varbinary,
)

if TYPE_CHECKING:
    from tsqldev.compile.expressions import Expressions


@builtin("$ACTION", 0)
def _action(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    if c.action is None:
        raise SqlError(207, "Invalid column name '$action'.")
    return Value(c.action, nvarchar(10))


@builtin("APPLOCK_MODE", 3)
def _applock_mode(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    locks = c.unit.parameter("rows:applocks", nvarchar(MAX))
    count = c.unit.session_value("@@TRANCOUNT", 1).sql
    principal, resource, owner = (convert(v, nvarchar(255)).sql for v in a)
    return Value(f"sys.applock_mode({locks}, {count}, {principal}, {resource}, {owner})", nvarchar(32))


@builtin("APPLOCK_TEST", 4)
def _applock_test(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    locks = c.unit.parameter("rows:applocks", nvarchar(MAX))
    count = c.unit.session_value("@@TRANCOUNT", 1).sql
    principal, resource, mode, owner = (convert(v, nvarchar(255)).sql for v in a)
    return Value(f"sys.applock_test({locks}, {count}, {principal}, {resource}, {mode}, {owner})", INT)


@builtin("SESSION_CONTEXT", 1)
def _session_context(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    values = c.unit.parameter("rows:session_context", nvarchar(MAX))
    return Value(f"(({values})::jsonb ->> {convert(a[0], nvarchar(128)).sql})", nvarchar(4000))


@builtin("CHECKSUM BINARY_CHECKSUM", 1, 254)
def _checksum(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    raise unsupported(f"function {n.name.upper()}")


_NUMERIC = SqlType("numeric", precision=38, scale=0)

# Values that only the session knows: parameters of the compiled text.
SESSION_VALUES: dict[str, SqlType] = {
    "@@SPID": SqlType("smallint", nullable=False),
    "@@TRANCOUNT": INT.with_nullable(False),
    "@@ROWCOUNT": INT.with_nullable(False),
    "@@ERROR": INT.with_nullable(False),
    "@@OPTIONS": INT.with_nullable(False),
    "@@IDENTITY": _NUMERIC,
    "@@VERSION": nvarchar(300).with_nullable(False),
    "@@SERVERNAME": nvarchar(128),
    "@@SERVICENAME": nvarchar(128).with_nullable(False),
    "@@LANGUAGE": nvarchar(128).with_nullable(False),
    "@@LANGID": SqlType("smallint", nullable=False),
    "@@DATEFIRST": SqlType("tinyint", nullable=False),
    "@@LOCK_TIMEOUT": INT.with_nullable(False),
    "@@NESTLEVEL": INT.with_nullable(False),
    "@@PROCID": INT.with_nullable(False),
    "@@MAX_PRECISION": SqlType("tinyint", nullable=False),
    "@@TEXTSIZE": INT.with_nullable(False),
    "@@DBTS": varbinary(8),
    "@@CURSOR_ROWS": INT.with_nullable(False),
    "@@FETCH_STATUS": INT.with_nullable(False),
    "@@MICROSOFTVERSION": INT.with_nullable(False),
    "@@MAX_CONNECTIONS": INT.with_nullable(False),
    "XACT_STATE()": SqlType("smallint", nullable=False),
    "CURRENT_TRANSACTION_ID()": BIGINT.with_nullable(False),
    "SCOPE_IDENTITY()": _NUMERIC,
    "ERROR_NUMBER()": INT,
    "ERROR_MESSAGE()": nvarchar(4000),
    "ERROR_SEVERITY()": INT,
    "ERROR_STATE()": INT,
    "ERROR_LINE()": INT,
    "ERROR_PROCEDURE()": nvarchar(128),
    "ROWCOUNT_BIG()": BIGINT.with_nullable(False),
    "ORIGINAL_LOGIN()": SYSNAME,
    "EVENTDATA()": nvarchar(MAX),
    "HOST_NAME()": nvarchar(128),
    "HOST_ID()": nvarchar(10),
    "APP_NAME()": nvarchar(128),
    "PROGRAM_NAME()": nvarchar(128),
    "TRIGGER_NESTLEVEL()": INT.with_nullable(False),
    "CONTEXT_INFO()": varbinary(128),
    "GETANSINULL()": SqlType("smallint"),
}
