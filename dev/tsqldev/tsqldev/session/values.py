"""Session values: what a compiled statement asks of the session by name (`@x`, `@@SPID`, `XACT_STATE()`, DMV rows)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from tsqldev.errors import SqlError, unsupported
from tsqldev.session import dmvs
from tsqldev.session.applocks import MODE_NAMES, Resource
from tsqldev.session.frames import Scope
from tsqldev.session.transactions import next_transaction_id

if TYPE_CHECKING:
    from tsqldev.session.interp import Interpreter

Value = Callable[["Interpreter"], object]


def of(interp: Interpreter, name: str) -> object:
    """The value of a parameter of that name. Raises 137 for a variable that is not declared."""
    if name.startswith("@") and not name.startswith("@@"):
        key = name.lower()
        if key not in interp.frame.values:
            raise SqlError(137, f'Must declare the scalar variable "{name}".', severity=15, state=2)
        return interp.frame.values[key]
    if name.startswith("bulk:"):
        _, kind, path = name.split(":", 2)
        return interp.file_value(interp, kind, path)
    if name == "rows:applocks":
        return _applocks(interp)
    if name == "rows:session_context":
        return json.dumps({key: value for key, (value, _) in interp.session.session_context.items()})
    if name.startswith("rows:describe:"):
        what = name[len("rows:describe:") :]
        text = what[1:] if what.startswith("=") else of(interp, what)
        return json.dumps(interp.described_rows(interp, str(text or "")))
    if name.startswith("rows:"):
        return json.dumps(dmvs.rows(interp, name[5:].rpartition(".")[2].lower()))
    key = name.upper().replace(" ", "")
    if key.endswith("()"):
        key = key[:-2]
    if key.startswith("UPDATE("):
        return _updated(interp, name[name.index("(") + 1 : -1])
    known = _VALUES.get(key)
    if known is None:
        raise unsupported(f"session value {name}")
    return known(interp)


def _updated(interp: Interpreter, column: str) -> int:
    """UPDATE(column) in a trigger."""
    fire = interp.frame.fire
    if fire is None:
        raise SqlError(157, "An aggregate may not appear in the set list of an UPDATE statement.", severity=15)
    if fire.action == "INSERT":
        return 1
    return 1 if column.strip('[]"').lower() in interp.frame.updated else 0


def _error(read: Callable[[SqlError], object]) -> Value:
    """ERROR_...(): of the innermost CATCH block that runs, in this frame or in a caller's."""

    def value(interp: Interpreter) -> object:
        for frame in reversed(interp.frames):
            if frame.caught:
                return read(frame.caught[-1])
        return None

    return value


def _options(interp: Interpreter) -> object:
    return interp.session.settings.options


def _nest_level(interp: Interpreter) -> object:
    return len(interp.frames) - 1


def _trigger_nest_level(interp: Interpreter) -> object:
    return sum(1 for frame in interp.frames if frame.scope is Scope.TRIGGER)


def _transaction_id(interp: Interpreter) -> object:
    return interp.session.transactions.id or next_transaction_id()


def _procid(interp: Interpreter) -> object:
    for frame in reversed(interp.frames):
        if frame.module is not None:
            return frame.module.object_id
    return 0


def _last_rowversion(interp: Interpreter) -> object:
    last = interp.session.backend.run("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM meta.rowversion")[0]
    return int(last[0][0]).to_bytes(8, "big")


def _applocks(interp: Interpreter) -> str:
    session = interp.session
    return json.dumps(
        [
            {
                "database_id": lock.resource.database_id,
                "principal": lock.resource.principal,
                "resource": lock.resource.name,
                "owner": "Session" if lock.owner.transaction == 0 else "Transaction",
                "mode": MODE_NAMES[lock.mode],
                "spid": lock.owner.spid,
                "mine": lock.owner.spid == session.spid,
            }
            for lock in session.engine.registry.locks.locks()
            if lock.status == "GRANT"
            and isinstance(lock.resource, Resource)
            and lock.resource.database_id == session.principal.database_id
        ]
    )


_VALUES: dict[str, Value] = {
    "@@SPID": lambda i: i.session.spid,
    "@@TRANCOUNT": lambda i: i.session.transactions.count,
    "@@ROWCOUNT": lambda i: i.session.rowcount,
    "ROWCOUNT_BIG": lambda i: i.session.rowcount,
    "@@ERROR": lambda i: i.session.last_error,
    "@@IDENTITY": lambda i: i.session.last_identity,
    "SCOPE_IDENTITY": lambda i: i.frame.scope_identity,
    "@@NESTLEVEL": _nest_level,
    "TRIGGER_NESTLEVEL": _trigger_nest_level,
    "@@OPTIONS": _options,
    "@@PROCID": _procid,
    "@@LOCK_TIMEOUT": lambda i: i.session.settings.lock_timeout,
    "@@DATEFIRST": lambda i: i.session.settings.datefirst,
    "@@TEXTSIZE": lambda i: i.session.settings.textsize,
    "@@LANGUAGE": lambda i: i.session.settings.language,
    "@@LANGID": lambda i: 0,
    "@@VERSION": lambda i: i.session.engine.version_text,
    "@@SERVERNAME": lambda i: i.session.engine.server_name,
    "@@SERVICENAME": lambda i: "MSSQLSERVER",
    "@@MAX_PRECISION": lambda i: 38,
    "@@MICROSOFTVERSION": lambda i: i.session.engine.microsoft_version,
    "@@CONNECTIONS": lambda i: i.session.engine.connections,
    "@@MAX_CONNECTIONS": lambda i: 32767,
    "@@FETCH_STATUS": lambda i: 0,
    "@@CURSOR_ROWS": lambda i: 0,
    "@@REMSERVER": lambda i: None,
    "XACT_STATE": lambda i: i.session.transactions.state,
    "CURRENT_TRANSACTION_ID": _transaction_id,
    "ERROR_NUMBER": _error(lambda e: e.number),
    "ERROR_MESSAGE": _error(lambda e: e.message),
    "ERROR_SEVERITY": _error(lambda e: e.severity),
    "ERROR_STATE": _error(lambda e: e.state),
    "ERROR_LINE": _error(lambda e: e.line),
    "ERROR_PROCEDURE": _error(lambda e: e.procedure or None),
    "ORIGINAL_LOGIN": lambda i: i.session.login.name,
    "SUSER_SNAME": lambda i: i.session.principal.login,
    "SUSER_NAME": lambda i: i.session.principal.login,
    "SYSTEM_USER": lambda i: i.session.principal.login,
    "USER_NAME": lambda i: i.session.principal.user,
    "USER": lambda i: i.session.principal.user,
    "CURRENT_USER": lambda i: i.session.principal.user,
    "SESSION_USER": lambda i: i.session.principal.user,
    "HOST_NAME": lambda i: i.session.record.host_name,
    "HOST_ID": lambda i: str(i.session.record.client_pid),
    "PROGRAM_NAME": lambda i: i.session.record.program_name,
    "GETANSINULL": lambda i: 1,
    "@@DBTS": _last_rowversion,
    "APP_NAME": lambda i: i.session.record.program_name,
    "DB_NAME": lambda i: i.session.principal.database,
    "DB_ID": lambda i: i.session.principal.database_id,
    "CONTEXT_INFO": lambda i: i.session.context_info,
    "SESSION_ID": lambda i: i.session.spid,
    "EVENTDATA": lambda i: i.frame.event or None,
}
