"""sp_executesql and the prepared statements of drivers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from tsqldev.errors import SqlError, unsupported
from tsqldev.session import procedures, variables
from tsqldev.session.frames import Frame, Scope
from tsqldev.session.lexer import VARIABLE, near, split_commas, tokens
from tsqldev.types import INT, SqlType

if TYPE_CHECKING:
    from tsqldev.session.interp import Interpreter
    from tsqldev.session.procedures import Argument


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
        frame.values[name] = variables.passed(interp, argument.value, argument.type, declaration.type)
    if len(given) > len(declared):
        raise SqlError(8144, "Procedure or function sp_executesql has too many arguments specified.", state=2)
    for argument in given:
        if argument.name and argument.name.lower() not in frame.variables:
            raise SqlError(8145, f"{argument.name} is not a parameter for procedure sp_executesql.")
    before = interp.session.transactions.count
    procedures.run_dynamic(interp, text, frame)
    for position, declaration in enumerate(declared):
        argument = by_name.get(declaration.name.lower())
        if argument is None:
            argument = given[position]
        if argument.output:
            argument.value = frame.values[declaration.name.lower()]
            argument.type = declaration.type
    procedures.require_count(interp, before)


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
