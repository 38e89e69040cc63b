"""System procedures: dynamic and prepared statements, application locks, session context."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from tsqldev.errors import SqlError, unsupported
from tsqldev.session import applocks, metaprocs, procedures, variables
from tsqldev.session.frames import Frame, Scope
from tsqldev.session.lexer import VARIABLE, near, split_commas, tokens
from tsqldev.types import INT, SqlType, nvarchar

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


@dataclass(frozen=True, slots=True)
class Declaration:
    name: str
    type: SqlType
    output: bool
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    text: str
    parameters: tuple[Declaration, ...]


@lru_cache(512)
def declarations(text: str) -> tuple[Declaration, ...]:
    """The parameter list of sp_executesql and sp_prepare: `@a int, @b nvarchar(10) OUTPUT`."""
    items = tokens(text)[:-1]
    if not items:
        return ()
    result = []
    for part in split_commas(items):
        if not part or part[0].kind != VARIABLE or len(part) < 2:
            raise near(part[0] if part else items[-1])
        at = 2 if part[1].word == "AS" else 1
        type, after = variables.read_type(part, at)
        rest = part[after:]
        output = any(token.word in ("OUTPUT", "OUT") for token in rest)
        if any(token.word == "READONLY" for token in rest):
            raise unsupported("table-valued parameters")
        result.append(Declaration(part[0].text, type, output))
    return tuple(result)


def parts(name: str) -> list[str]:
    """The parts of a procedure's name in a remote procedure call."""
    result = [""]
    for token in tokens(name)[:-1]:
        if token.text == ".":
            result.append("")
        else:
            result[-1] = token.name
    return result


def _by_name(arguments: list[Argument], names: tuple[str, ...]) -> dict[str, Argument]:
    """The arguments of a system procedure, by name (without @, lower case) or by position."""
    result: dict[str, Argument] = {}
    for position, argument in enumerate(arguments):
        key = argument.name.lstrip("@").lower()
        if not key:
            if position >= len(names):
                raise SqlError(8144, "Procedure or function has too many arguments specified.", state=2)
            key = names[position]
        if key not in names:
            raise SqlError(8145, f"{argument.name} is not a parameter for this procedure.")
        result[key] = argument
    return result


# -- dynamic and prepared statements


def _run(interp: Interpreter, text: str, declared: tuple[Declaration, ...], given: list[Argument]) -> None:
    """Run a parameterised text; output values go back into `given`."""
    session = interp.session
    frame = Frame(Scope.DYNAMIC, session.principal.database, default_schema=session.principal.default_schema)
    by_name = {argument.name.lower(): argument for argument in given if argument.name}
    for position, declaration in enumerate(declared):
        name = declaration.name.lower()
        argument = by_name.get(name)
        if argument is None and position < len(given) and not given[position].name:
            argument = given[position]
        if argument is None:
            raise SqlError(
                8178,
                f"The parameterized query '({', '.join(f'{d.name} {d.type}' for d in declared)}){text[:60]}' expects "
                f"the parameter '{declaration.name}', which was not supplied.",
            )
        frame.variables[name] = declaration.type
        frame.values[name] = variables.converted(interp, argument.value, argument.type, declaration.type)
    if len(given) > len(declared):
        raise SqlError(8144, "Procedure or function sp_executesql has too many arguments specified.", state=2)
    for argument in given:
        if argument.name and argument.name.lower() not in frame.variables:
            raise SqlError(8145, f"{argument.name} is not a parameter for procedure sp_executesql.")
    procedures.run_dynamic(interp, text, frame)
    for position, declaration in enumerate(declared):
        argument = by_name.get(declaration.name.lower())
        if argument is None:
            argument = given[position]
        if argument.output:
            argument.value = frame.values[declaration.name.lower()]
            argument.type = declaration.type


def _text(argument: Argument | None) -> str:
    if argument is None or argument.value is None:
        return ""
    if not isinstance(argument.value, str):
        raise SqlError(214, "Procedure expects parameter '@statement' of type 'ntext/nchar/nvarchar'.", state=2)
    return argument.value


def sp_executesql(interp: Interpreter, arguments: list[Argument]) -> int:
    if not arguments:
        raise SqlError(
            201, "Procedure or function 'sp_executesql' expects parameter '@statement', which was not supplied."
        )
    for index, names in enumerate((("@statement", "@stmt"), ("@params", "@parameters"))):
        if index < len(arguments) and arguments[index].name.lower() in names:
            arguments[index].name = ""
    declared = declarations(_text(arguments[1])) if len(arguments) > 1 else ()
    _run(interp, _text(arguments[0]), declared, arguments[2:])
    return 0


def _prepare(interp: Interpreter, text: str, declared: str) -> int:
    handle = max(interp.session.prepared, default=0) + 1
    interp.session.prepared[handle] = Prepared(text, declarations(declared))
    return handle


def sp_prepare(interp: Interpreter, arguments: list[Argument]) -> int:
    handle, declared, text = arguments[:3]
    interp.session.engine.split(_text(text))
    handle.value, handle.type = _prepare(interp, _text(text), _text(declared)), INT
    return 0


def sp_prepexec(interp: Interpreter, arguments: list[Argument]) -> int:
    handle, declared, text = arguments[:3]
    interp.session.engine.split(_text(text))
    handle.value, handle.type = _prepare(interp, _text(text), _text(declared)), INT
    known = interp.session.prepared[int(str(handle.value))]
    _run(interp, known.text, known.parameters, arguments[3:])
    return 0


def _known(interp: Interpreter, argument: Argument) -> Prepared:
    number = int(str(argument.value)) if argument.value is not None else 0
    known = interp.session.prepared.get(number)
    if known is None:
        raise SqlError(8179, f"Could not find prepared statement with handle {number}.", state=4)
    return known


def sp_execute(interp: Interpreter, arguments: list[Argument]) -> int:
    known = _known(interp, arguments[0])
    _run(interp, known.text, known.parameters, arguments[1:])
    return 0


def sp_unprepare(interp: Interpreter, arguments: list[Argument]) -> int:
    _known(interp, arguments[0])
    del interp.session.prepared[int(str(arguments[0].value))]
    return 0


# -- application locks


def _owner(interp: Interpreter, argument: Argument | None) -> applocks.Owner | None:
    """The owner that @LockOwner names; None where it is not a valid one (or there is no transaction)."""
    session = interp.session
    name = str(argument.value).lower() if argument is not None and argument.value is not None else "transaction"
    if name == "session":
        return applocks.Owner(session.spid, 0)
    if name == "transaction" and session.transactions.count:
        return applocks.Owner(session.spid, session.transactions.id)
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
    named = _by_name(arguments, ("resource", "lockmode", "lockowner", "locktimeout", "dbprincipal"))
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
    named = _by_name(arguments, ("resource", "lockowner", "dbprincipal"))
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


# -- the session


def sp_set_session_context(interp: Interpreter, arguments: list[Argument]) -> int:
    named = _by_name(arguments, ("key", "value", "read_only"))
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
    named = _by_name(arguments, ("objname", "newname", "objtype"))
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
        named = _by_name(arguments, (parameter, "namespace"))
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
        named = _by_name(arguments, names)

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
        named = _by_name(arguments, ("rolename", "membername"))
        role, member = (str(named[key].value).replace("]", "]]") for key in ("rolename", "membername"))
        _dynamic(interp, f"ALTER ROLE [{role}] {verb} MEMBER [{member}]")
        return 0

    return procedure


def _server_role(verb: str) -> Procedure:
    def procedure(interp: Interpreter, arguments: list[Argument]) -> int:
        named = _by_name(arguments, ("loginame", "rolename"))
        role, member = (str(named[key].value).replace("]", "]]") for key in ("rolename", "loginame"))
        _dynamic(interp, f"ALTER SERVER ROLE [{role}] {verb} MEMBER [{member}]")
        return 0

    return procedure


def _dynamic(interp: Interpreter, text: str) -> None:
    principal = interp.session.principal
    frame = Frame(Scope.DYNAMIC, principal.database, default_schema=principal.default_schema)
    procedures.run_dynamic(interp, text, frame)


PROCEDURES: dict[str, Procedure] = {
    "sp_executesql": sp_executesql,
    "sp_prepare": sp_prepare,
    "sp_prepexec": sp_prepexec,
    "sp_execute": sp_execute,
    "sp_unprepare": sp_unprepare,
    "sp_getapplock": sp_getapplock,
    "sp_releaseapplock": sp_releaseapplock,
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
