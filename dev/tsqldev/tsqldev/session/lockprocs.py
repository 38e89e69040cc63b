"""sp_getapplock and sp_releaseapplock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tsqldev.errors import SqlError
from tsqldev.session import applocks
from tsqldev.session.arguments import by_name
from tsqldev.session.locktable import Owner
from tsqldev.types import nvarchar

if TYPE_CHECKING:
    from tsqldev.session.interp import Interpreter
    from tsqldev.session.procedures import Argument


def _owner(interp: Interpreter, argument: Argument | None) -> Owner | None:
    """The owner that @LockOwner names; None where it is not a valid one (or there is no transaction)."""
    session = interp.session
    name = str(argument.value).lower() if argument is not None and argument.value is not None else "transaction"
    if name == "session":
        return Owner(session.spid, 0)
    if name == "transaction" and session.transactions.count:
        return Owner(session.spid, session.transactions.id)
    return None


def _resource(interp: Interpreter, named: dict[str, Argument]) -> applocks.Resource:
    principal = named.get("dbprincipal")
    return applocks.Resource(
        interp.session.principal.database_id,
        (str(principal.value) if principal is not None and principal.value is not None else "public").lower(),
        str(named["resource"].value)[:255],
    )


def sp_getapplock(interp: Interpreter, arguments: list[Argument]) -> int:
    session = interp.session
    named = by_name(arguments, ("resource", "lockmode", "lockowner", "locktimeout", "dbprincipal"))
    if "resource" not in named or named["resource"].value is None:
        return applocks.INVALID
    mode_argument = named.get("lockmode")
    mode = applocks.MODES.get(str(mode_argument.value).upper() if mode_argument is not None else "")
    owner = _owner(interp, named.get("lockowner"))
    if mode is None or owner is None:
        return applocks.INVALID
    timeout = named.get("locktimeout")
    wait = session.settings.lock_timeout if timeout is None or timeout.value is None else int(str(timeout.value))
    if wait < -1:
        return applocks.INVALID
    _check_principal(interp, named.get("dbprincipal"))
    result = session.engine.registry.locks.acquire(
        _resource(interp, named), owner, mode, wait, lambda: session.interrupted
    )
    session.check_interrupted()
    return result


def _check_principal(interp: Interpreter, argument: Argument | None) -> None:
    """The caller must be the principal that the lock is named after, or a member of it."""
    if argument is None or argument.value is None or str(argument.value).lower() == "public":
        return
    rows, _ = interp.session.backend.run(
        "select sys.is_member($1) = 1 or meta.fold($1) = meta.fold($2)",
        [nvarchar(128), nvarchar(128)],
        [str(argument.value), interp.session.principal.user],
    )
    if not rows[0][0]:
        raise SqlError(
            1202,
            f"The database principal '{argument.value}' does not exist, or user is not a member.",
            state=1,
        )


def sp_releaseapplock(interp: Interpreter, arguments: list[Argument]) -> int:
    session = interp.session
    named = by_name(arguments, ("resource", "lockowner", "dbprincipal"))
    owner = _owner(interp, named.get("lockowner"))
    if "resource" not in named or named["resource"].value is None or owner is None:
        return applocks.INVALID
    resource = _resource(interp, named)
    if not session.engine.registry.locks.release(resource, owner):
        raise SqlError(
            1223,
            f"Cannot release the application lock (Database Principal: '{resource.principal}', Resource: "
            f"'{resource.name}') because it is not currently held.",
        )
    return 0
