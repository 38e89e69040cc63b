"""EXECUTE in its forms: a procedure, a character string, AS another principal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tsqldev.errors import SqlError, unsupported
from tsqldev.interfaces import ModuleInfo, ObjectUse
from tsqldev.session import queries, variables
from tsqldev.session.frames import Frame, Return, Scope, ScopeAbort
from tsqldev.session.lexer import BINARY, NUMBER, PUNCT, QUOTED, STRING, VARIABLE, WORD, Token, near, split_commas
from tsqldev.session.split import Simple
from tsqldev.types import INT, MAX, SqlType, nvarchar, varbinary, varchar

if TYPE_CHECKING:
    from tsqldev.session.interp import Interpreter


@dataclass(slots=True)
class Argument:
    """One argument of a call: `into` is the caller's variable that an OUTPUT argument fills."""

    name: str
    type: SqlType
    value: object
    into: str = ""
    output: bool = False
    default: bool = False


def execute(interp: Interpreter, node: Simple) -> None:
    items = [token for token in node.tokens if not (token.kind == PUNCT and token.text == ";")]
    at = 1 if items[0].word in ("EXEC", "EXECUTE") else 0
    if at >= len(items):
        raise near(items[-1])
    if at and items[at].word == "AS":
        interp.session.execute_as(interp, node, items[at + 1 :])
        return
    into = ""
    if items[at].kind == VARIABLE and at + 1 < len(items) and items[at + 1].text == "=":
        into = items[at].text
        at += 2
    if items[at].kind == PUNCT and items[at].text == "(":
        _execute_text(interp, node, items[at:])
        return
    name, at = _procedure_name(interp, items, at)
    rest = items[at:]
    if len(rest) >= 2 and rest[-1].word == "RECOMPILE" and rest[-2].word == "WITH":
        rest = rest[:-2]
    arguments = _arguments(interp, node, rest)
    status = call(interp, name, arguments)
    for argument in arguments:
        if argument.into and argument.output:
            variables.store(interp, argument.into, argument.value, argument.type)
    if into:
        variables.store(interp, into, status, INT)


def call(interp: Interpreter, parts: Sequence[str], arguments: list[Argument]) -> int:
    """Run a procedure of the system or of a database; output values come back in `arguments`. Answers its status."""
    session = interp.session
    session.sync()
    schema = parts[-2].lower() if len(parts) > 1 else ""
    system = interp.system_procedures.get(parts[-1].lower())
    if system is not None and schema in ("", "sys", "dbo"):
        session.sink.enter_module()
        status = 0
        try:
            status = system(interp, arguments)
        finally:
            session.sink.leave_module(status)
        return status
    found = session.catalog.resolve(parts, session.principal.database, interp.frame.default_schema)
    if not isinstance(found, ModuleInfo) or found.kind != "PROCEDURE":
        if parts[-1].lower().startswith(("sp_", "xp_")) and schema in ("", "sys"):
            raise unsupported(f"procedure {parts[-1]}")
        raise SqlError(2812, f"Could not find stored procedure '{'.'.join(parts)}'.", state=62)
    use = ObjectUse("EXECUTE", found.database, found.object_id, 0, found.owner_id)
    session.check([use], interp.frame.owner_id)
    return _call_module(interp, found, arguments)


def _call_module(interp: Interpreter, module: ModuleInfo, arguments: list[Argument]) -> int:
    session = interp.session
    frame = Frame(
        Scope.PROCEDURE,
        module.database,
        default_schema=module.schema,
        module=module,
        line_offset=module.body_line - 1,
    )
    bound = _bind(interp, module, arguments, frame)
    before = session.transactions.count
    principal = session.principal
    stack = len(session.impersonations)
    session.sink.enter_module()
    try:
        if session.principal.database.casefold() != module.database.casefold():
            session.enter_module_database(module.database)
        session.impersonate_module(module)
        try:
            interp.run_text(module.body, frame)
        except ScopeAbort:
            frame.status = -1
    finally:
        session.restore_principal(principal, stack)
        session.sink.leave_module(frame.status)
    for argument, name in bound:
        if argument.output:
            argument.value = frame.values[name]
            argument.type = frame.variables[name]
    require_count(interp, before, module.name)
    return frame.status


def require_count(interp: Interpreter, before: int, procedure: str = "") -> None:
    """266 where a procedure, or a text with parameters, ends with another number of open transactions than it began with.

    One that the session's setting opened for the first statement in it does not count.
    """
    after = interp.session.transactions.count
    implicit = interp.session.settings.implicit_transactions and (before, after) == (0, 1)
    if after != before and not implicit:
        raise SqlError(
            266,
            "Transaction count after EXECUTE indicates a mismatching number of BEGIN and COMMIT statements. "
            f"Previous count = {before}, current count = {after}.",
            state=2,
            procedure=procedure,
        )


def _bind(
    interp: Interpreter, module: ModuleInfo, arguments: list[Argument], frame: Frame
) -> list[tuple[Argument, str]]:
    """Give the parameters their values: by name, by position, by default."""
    names = [column.name.lower() for column, _, _ in module.parameters]
    if len(arguments) > len(names):
        raise SqlError(8144, f"Procedure or function {module.name} has too many arguments specified.", state=2)
    bound: list[tuple[Argument, str]] = []
    given: dict[str, Argument] = {}
    for position, argument in enumerate(arguments):
        name = argument.name.lower() or names[position]
        if name not in names:
            raise SqlError(8145, f"{argument.name} is not a parameter for procedure {module.name}.", state=1)
        if name in given:
            raise SqlError(8143, f"Parameter '{argument.name}' was supplied multiple times.")
        given[name] = argument
        bound.append((argument, name))
    for column, default, output in module.parameters:
        name = column.name.lower()
        frame.variables[name] = column.type
        argument_or_none = given.get(name)
        if argument_or_none is not None and not argument_or_none.default:
            if argument_or_none.output and not output:
                raise SqlError(
                    8162,
                    f'The formal parameter "{column.name}" was not declared as an OUTPUT parameter, but the actual '
                    "parameter passed in requested output.",
                    state=2,
                )
            frame.values[name] = variables.passed(interp, argument_or_none.value, argument_or_none.type, column.type)
        elif default is not None:
            frame.values[name] = queries.scalar(interp, default, column.type)
        else:
            raise SqlError(
                201,
                f"Procedure or function '{module.name}' expects parameter '{column.name}', which was not supplied.",
                state=4,
            )
    return bound


def run_dynamic(interp: Interpreter, text: str, frame: Frame) -> None:
    """A character string as a batch of its own, in the caller's database and with its #temp tables."""
    session = interp.session
    principal = session.principal
    database = principal.database
    stack = len(session.impersonations)
    try:
        interp.run_text(text, frame)
    except (ScopeAbort, Return):
        return
    finally:
        session.restore_principal(principal, stack)
        session.announce_database(database)


def _execute_text(interp: Interpreter, node: Simple, items: list[Token]) -> None:
    """EXEC (string) [AS LOGIN | USER = 'name']."""
    depth = 0
    end = 0
    for index, token in enumerate(items):
        if token.kind == PUNCT and token.text in "()":
            depth += 1 if token.text == "(" else -1
            if depth == 0:
                end = index
                break
    if not end:
        raise near(items[-1])
    text = queries.scalar(interp, node.part(items[1:end]), nvarchar(MAX))
    session = interp.session
    rest = items[end + 1 :]
    stack = len(session.impersonations)
    principal = session.principal
    try:
        if rest:
            if rest[0].word != "AS":
                raise unsupported("EXECUTE ... AT a linked server") if rest[0].word == "AT" else near(rest[0])
            session.execute_as(interp, node, rest[1:])
        if text is not None:
            frame = Frame(Scope.DYNAMIC, session.principal.database, default_schema=session.principal.default_schema)
            session.sink.enter_module()
            try:
                run_dynamic(interp, str(text), frame)
            finally:
                session.sink.leave_module(0)
    finally:
        session.restore_principal(principal, stack)


def _procedure_name(interp: Interpreter, items: list[Token], at: int) -> tuple[list[str], int]:
    if items[at].kind == VARIABLE:
        name = interp.frame.values.get(items[at].text.lower())
        variables.declared(interp, items[at].text)
        return queries.split_name(str(name)), at + 1
    parts: list[str] = [""]
    while at < len(items):
        token = items[at]
        if token.kind in (WORD, QUOTED) and not parts[-1]:
            parts[-1] = token.name
        elif token.kind == PUNCT and token.text == "." and len(parts) < 4:
            parts.append("")
        else:
            break
        at += 1
    if not parts[-1]:
        raise near(items[min(at, len(items) - 1)])
    if at < len(items) and items[at].text == ";":
        raise unsupported("numbered procedures")
    return parts, at


def _arguments(interp: Interpreter, node: Simple, items: list[Token]) -> list[Argument]:
    if not items:
        return []
    result: list[Argument] = []
    for part in split_commas(items):
        if not part:
            raise near(items[-1])
        name = ""
        if part[0].kind == VARIABLE and len(part) > 2 and part[1].text == "=":
            name = part[0].text
            part = part[2:]
        elif result and result[-1].name:
            raise SqlError(
                119,
                f"Must pass parameter number {len(result) + 1} and subsequent parameters as '@name = value'. After the "
                "form '@name = value' has been used, all subsequent parameters must be passed in the form '@name = "
                "value'.",
                severity=15,
            )
        output = part[-1].word in ("OUTPUT", "OUT") and len(part) > 1
        if output:
            part = part[:-1]
        result.append(_argument(interp, node, name, part, output))
    return result


def _argument(interp: Interpreter, node: Simple, name: str, part: list[Token], output: bool) -> Argument:
    first = part[0]
    if len(part) == 1:
        if first.kind == VARIABLE and not first.text.startswith("@@"):
            type = variables.declared(interp, first.text)
            return Argument(name, type, interp.frame.values[first.text.lower()], first.text if output else "", output)
        if first.word == "DEFAULT":
            return Argument(name, INT, None, default=True)
        if first.word == "NULL":
            return Argument(name, INT, None)
        literal = _literal(first)
        if literal is not None:
            return Argument(name, *literal)
        if first.kind in (WORD, QUOTED):
            return Argument(name, nvarchar(4000), first.name)
    signed = len(part) == 2 and first.text in ("-", "+") and part[1].kind == NUMBER
    if signed or (len(part) == 1 and first.kind in (VARIABLE, NUMBER)):
        type, value = queries.typed(interp, node.part(part))
        return Argument(name, type, value)
    raise near(part[min(1, len(part) - 1)])


def _literal(token: Token) -> tuple[SqlType, object] | None:
    if token.kind == STRING:
        text = token.value
        if token.text[0] in "nN":
            return nvarchar(max(len(text), 1) if len(text) <= 4000 else MAX), text
        return varchar(max(len(text), 1) if len(text) <= 8000 else MAX), text
    if token.kind == BINARY:
        digits = token.text[2:]
        data = bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits)
        return varbinary(max(len(data), 1) if len(data) <= 8000 else MAX), data
    if token.kind == NUMBER and token.text.isdigit() and int(token.text) < 1 << 31:
        return INT, int(token.text)
    return None
