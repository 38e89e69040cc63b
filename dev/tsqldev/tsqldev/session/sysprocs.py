"""System procedures: which there are, and the smaller ones about the session, names and roles."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tsqldev.errors import SqlError, unsupported
from tsqldev.session import lockprocs, metaprocs, prepared, procedures
from tsqldev.session.arguments import by_name
from tsqldev.session.frames import Frame, Scope
from tsqldev.session.lexer import tokens

if TYPE_CHECKING:
    from tsqldev.session.interp import Interpreter
    from tsqldev.session.procedures import Argument

Procedure = Callable[["Interpreter", list["Argument"]], int]

NUMBERS = {
    1: "sp_cursor",
    2: "sp_cursoropen",
    3: "sp_cursorprepare",
    4: "sp_cursorexecute",
    5: "sp_cursorprepexec",
    6: "sp_cursorunprepare",
    7: "sp_cursorfetch",
    8: "sp_cursoroption",
    9: "sp_cursorclose",
    10: "sp_executesql",
    11: "sp_prepare",
    12: "sp_execute",
    13: "sp_prepexec",
    14: "sp_prepexecrpc",
    15: "sp_unprepare",
}


def parts(name: str) -> list[str]:
    """The parts of a procedure's name in a remote procedure call."""
    result = [""]
    for token in tokens(name)[:-1]:
        if token.text == ".":
            result.append("")
        else:
            result[-1] = token.name
    return result


# -- the session


def sp_set_session_context(interp: Interpreter, arguments: list[Argument]) -> int:
    named = by_name(arguments, ("key", "value", "read_only"))
    key = named["key"].value
    if not isinstance(key, str) or not key:
        raise SqlError(15662, "The parameter '@key' must be a non-empty string.")
    context = interp.session.session_context
    if key in context and context[key][1]:
        raise SqlError(
            15664, f"Cannot set key '{key}' in the session context. The key has been set as read_only for this session."
        )
    read_only = named.get("read_only")
    value = named["value"].value if "value" in named else None
    if isinstance(value, (bytes, bytearray)):
        raise unsupported("binary values in the session context")
    context[key] = (None if value is None else str(value), bool(read_only is not None and read_only.value))
    return 0


def sp_reset_connection(interp: Interpreter, arguments: list[Argument]) -> int:
    interp.session.reset(False)
    return 0


def sp_rename(interp: Interpreter, arguments: list[Argument]) -> int:
    named = by_name(arguments, ("objname", "newname", "objtype"))
    kind = named.get("objtype")
    session = interp.session
    with session.transactions.statement(compound=True), session.catalog.changing():
        session.ddl.rename(
            str(named["objname"].value),
            str(named["newname"].value),
            str(kind.value) if kind is not None and kind.value is not None else "",
            session.ddl_context(interp),
        )
    session.definitions_changed()
    session.sink.info(
        15477, "Caution: Changing any part of an object name could break scripts and stored procedures.", state=1
    )
    return 0


def _refresh(parameter: str) -> Procedure:
    """sp_refreshview, sp_refreshsqlmodule: the columns of a view as its text answers them now."""

    def procedure(interp: Interpreter, arguments: list[Argument]) -> int:
        named = by_name(arguments, (parameter, "namespace"))
        session = interp.session
        with session.transactions.statement(compound=True), session.catalog.changing():
            session.ddl.refresh_view(str(named[parameter].value), session.ddl_context(interp))
        session.definitions_changed()
        return 0

    return procedure


def _property(verb: str) -> Procedure:
    """sp_addextendedproperty (ADD), sp_updateextendedproperty (UPDATE) and sp_dropextendedproperty (DROP)."""
    levels = tuple(f"level{number}{part}" for number in range(3) for part in ("type", "name"))
    names = ("name", *levels) if verb == "DROP" else ("name", "value", *levels)

    def procedure(interp: Interpreter, arguments: list[Argument]) -> int:
        named = by_name(arguments, names)

        def text(key: str) -> str | None:
            value = named[key].value if key in named else None
            return None if value is None else str(value)

        name = text("name")
        if not name:
            raise SqlError(15600, f"An invalid parameter or option was specified for procedure 'sp_{verb.lower()}'.")
        session = interp.session
        with session.transactions.statement(compound=True), session.catalog.changing():
            session.ddl.extended_property(
                verb,
                name,
                text("value"),
                (
                    (text("level0type"), text("level0name")),
                    (text("level1type"), text("level1name")),
                    (text("level2type"), text("level2name")),
                ),
                session.ddl_context(interp),
            )
        session.definitions_changed()
        return 0

    return procedure


def _role(verb: str) -> Procedure:
    """sp_addrolemember and sp_droprolemember, as the ALTER ROLE that they stand for."""

    def procedure(interp: Interpreter, arguments: list[Argument]) -> int:
        named = by_name(arguments, ("rolename", "membername"))
        role, member = (str(named[key].value).replace("]", "]]") for key in ("rolename", "membername"))
        _dynamic(interp, f"ALTER ROLE [{role}] {verb} MEMBER [{member}]")
        return 0

    return procedure


def _server_role(verb: str) -> Procedure:
    def procedure(interp: Interpreter, arguments: list[Argument]) -> int:
        named = by_name(arguments, ("loginame", "rolename"))
        role, member = (str(named[key].value).replace("]", "]]") for key in ("rolename", "loginame"))
        _dynamic(interp, f"ALTER SERVER ROLE [{role}] {verb} MEMBER [{member}]")
        return 0

    return procedure


def _dynamic(interp: Interpreter, text: str) -> None:
    principal = interp.session.principal
    frame = Frame(Scope.DYNAMIC, principal.database, default_schema=principal.default_schema)
    procedures.run_dynamic(interp, text, frame)


PROCEDURES: dict[str, Procedure] = {
    "sp_executesql": prepared.sp_executesql,
    "sp_prepare": prepared.sp_prepare,
    "sp_prepexec": prepared.sp_prepexec,
    "sp_execute": prepared.sp_execute,
    "sp_unprepare": prepared.sp_unprepare,
    "sp_getapplock": lockprocs.sp_getapplock,
    "sp_releaseapplock": lockprocs.sp_releaseapplock,
    "sp_set_session_context": sp_set_session_context,
    "sp_reset_connection": sp_reset_connection,
    "sp_rename": sp_rename,
    "sp_refreshview": _refresh("viewname"),
    "sp_refreshsqlmodule": _refresh("name"),
    "sp_addextendedproperty": _property("ADD"),
    "sp_updateextendedproperty": _property("UPDATE"),
    "sp_dropextendedproperty": _property("DROP"),
    "sp_addrolemember": _role("ADD"),
    "sp_droprolemember": _role("DROP"),
    "sp_addsrvrolemember": _server_role("ADD"),
    "sp_dropsrvrolemember": _server_role("DROP"),
    **metaprocs.PROCEDURES,
}
