"""The statements that the session runs by itself: transactions, messages, settings, waiting, principals, KILL."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tsqldev.errors import SqlError, unsupported
from tsqldev.session import bulkfile, messages, options, presence, queries, scratch, variables
from tsqldev.session.frames import Break, Continue, Return
from tsqldev.session.lexer import NUMBER, PUNCT, STRING, VARIABLE, Token, near, split_commas
from tsqldev.session.split import Simple
from tsqldev.types import INT, nvarchar

if TYPE_CHECKING:
    from tsqldev.session.interp import Interpreter

_DELAY = re.compile(r"^\s*(?:(\d{1,2}):)?(\d{1,2}):(\d{1,2})(?:[.:](\d{1,3}))?\s*$")


# -- transactions


def _name(interp: Interpreter, items: list[Token]) -> str:
    if not items:
        return ""
    if items[0].kind == VARIABLE:
        variables.declared(interp, items[0].text)
        return str(interp.frame.values[items[0].text.lower()] or "")[:32]
    return items[0].name


def _ended(interp: Interpreter) -> None:
    interp.session.rowcount = 0
    interp.session.sink.done(None)


def begin(interp: Interpreter, node: Simple) -> None:
    items = node.tokens[1:]
    if items[0].word == "DISTRIBUTED":
        raise unsupported("distributed transactions")
    rest = items[1:]
    if any(token.word == "MARK" for token in rest):
        raise unsupported("BEGIN TRANSACTION ... WITH MARK")
    transactions = interp.session.transactions
    queries.begin_if_implicit(interp)
    transactions.begin(_name(interp, rest))
    _ended(interp)


def commit(interp: Interpreter, node: Simple) -> None:
    interp.session.transactions.commit()
    _ended(interp)


def rollback(interp: Interpreter, node: Simple) -> None:
    items = node.tokens[1:]
    if items and items[0].word in ("TRAN", "TRANSACTION", "WORK"):
        items = items[1:]
    name = _name(interp, items)
    if name:
        interp.session.transactions.rollback_to(name)
    else:
        interp.session.transactions.rollback()
    _ended(interp)


def save(interp: Interpreter, node: Simple) -> None:
    items = node.tokens[1:]
    if len(items) < 2 or items[0].word not in ("TRAN", "TRANSACTION"):
        raise near(items[-1] if items else node.tokens[0])
    interp.session.transactions.save(_name(interp, items[1:]))
    _ended(interp)


# -- messages and errors


def print_(interp: Interpreter, node: Simple) -> None:
    text = queries.scalar(interp, node.part(node.tokens[1:]), nvarchar(4000))
    line = interp.frame.line_offset + node.line
    interp.session.sink.info(0, messages.print_text(None if text is None else str(text)), line=line)
    interp.session.rowcount = 0


def raiserror(interp: Interpreter, node: Simple) -> None:
    items = node.tokens[1:]
    if not items or items[0].text != "(":
        raise near(items[0] if items else node.tokens[0])
    close = max(index for index, token in enumerate(items) if token.kind == PUNCT and token.text == ")")
    options_ = {token.word for token in items[close + 1 :]} - {"WITH", ""}
    if options_ - {"NOWAIT", "LOG", "SETERROR"}:
        raise near(items[close + 1])
    parts = split_commas(items[1:close])
    if len(parts) < 3:
        raise near(items[close])
    values = [_evaluate(interp, node, part) for part in parts]
    message, severity, state, *arguments = values
    if isinstance(message, int):
        raise SqlError(
            18054,
            f"Error {message}, severity {severity}, state {state} was raised, but no message with that error number "
            "was found in sys.messages. If error is larger than 50000, make sure the user-defined message is added "
            "using sp_addmessage.",
        )
    level = int(str(severity))
    if level > 18:
        interp.session.access.require_server(interp.session.principal, "ALTER TRACE")
        if "LOG" not in options_:
            raise SqlError(
                2754,
                "Error severity levels greater than 18 can only be specified by members of the sysadmin role, using "
                "the WITH LOG option.",
            )
    text = messages.format_message("" if message is None else str(message), arguments)
    number = 50000
    interp.session.rowcount = 0
    mark = max(0, min(int(str(state)), 255))
    if level <= 10:
        line = interp.frame.line_offset + node.line
        interp.session.sink.info(number, text, severity=0 if level < 10 else 10, state=mark, line=line)
        if "SETERROR" in options_:
            interp.session.last_error = number
        return
    error = SqlError(number, text, severity=min(level, 25), state=mark)
    error.raised = "raiserror"
    raise error


def throw(interp: Interpreter, node: Simple) -> None:
    items = [token for token in node.tokens[1:] if token.text != ";"]
    if not items:
        caught = interp.frame.caught
        if not caught:
            raise SqlError(
                10704,
                "To rethrow an error, a THROW statement must be used inside a CATCH block. Insert the THROW statement "
                "inside a CATCH block, or add error parameters to the THROW statement.",
                severity=15,
            )
        original = caught[-1]
        again = SqlError(
            original.number,
            original.message,
            severity=original.severity,
            state=original.state,
            line=original.line,
            procedure=original.procedure,
        )
        again.located = True
        again.raised = "throw"
        raise again
    parts = split_commas(items)
    if len(parts) != 3:
        raise near(items[-1])
    number, message, state = (_evaluate(interp, node, part) for part in parts)
    if not isinstance(number, int) or not 50000 <= number <= 2147483647:
        raise SqlError(
            35100,
            f"Error number {number} in the THROW statement is outside the valid range. Specify an error number in the "
            "valid range of 50000 to 2147483647.",
        )
    text = "" if message is None else str(message)
    error = SqlError(number, text.replace("%%", "%"), state=max(0, min(int(str(state)), 255)))
    error.raised = "throw"
    raise error


def _evaluate(interp: Interpreter, node: Simple, part: list[Token]) -> object:
    """An argument of RAISERROR or THROW: a literal or a variable."""
    if len(part) == 1:
        token = part[0]
        if token.kind == STRING:
            return token.value
        if token.kind == NUMBER and token.text.isdigit():
            return int(token.text)
        if token.kind == VARIABLE and not token.text.startswith("@@"):
            variables.declared(interp, token.text)
            return interp.frame.values[token.text.lower()]
        if token.word == "NULL":
            return None
    if not part:
        raise near(node.tokens[0])
    return queries.typed(interp, node.part(part))[1]


# -- flow


def return_(interp: Interpreter, node: Simple) -> None:
    if len(node.tokens) > 1:
        value = queries.scalar(interp, node.part(node.tokens[1:]), INT)
        interp.frame.status = 0 if value is None else int(str(value))
    raise Return


def break_(interp: Interpreter, node: Simple) -> None:
    raise Break


def continue_(interp: Interpreter, node: Simple) -> None:
    raise Continue


def waitfor(interp: Interpreter, node: Simple) -> None:
    items = node.tokens
    kind = items[1].word if len(items) > 1 else ""
    if kind not in ("DELAY", "TIME"):
        raise unsupported("WAITFOR of a service broker queue")
    text = _evaluate(interp, node, items[2:])
    seconds = _seconds(str(text))
    if kind == "TIME":
        now = datetime.now(UTC)
        passed = now.hour * 3600 + now.minute * 60 + now.second + now.microsecond / 1e6
        seconds = (seconds - passed) % 86400
    interp.session.pause(seconds)
    _ended(interp)


def _seconds(text: str) -> float:
    match = _DELAY.match(text)
    if match is None:
        raise SqlError(148, f"Incorrect time syntax in time string '{text}' used with WAITFOR.", severity=15)
    hours, minutes, seconds, fraction = match.groups()
    if hours is None:
        hours, minutes, seconds = minutes, seconds, "0"
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds) + float(f"0.{fraction or 0}")


# -- session


def set_(interp: Interpreter, node: Simple) -> None:
    if len(node.tokens) < 2:
        raise near(node.tokens[0])
    if node.tokens[1].kind == VARIABLE:
        variables.assign_statement(interp, node)
        return
    options.set_option(interp, node)
    _ended(interp)


def use(interp: Interpreter, node: Simple) -> None:
    if len(node.tokens) != 2:
        raise near(node.tokens[-1])
    interp.session.use(node.tokens[1].name)
    interp.frame.default_schema = interp.session.principal.default_schema
    _ended(interp)


def revert(interp: Interpreter, node: Simple) -> None:
    if len(node.tokens) > 1:
        raise unsupported("REVERT WITH COOKIE")
    interp.session.revert(interp)
    _ended(interp)


def kill(interp: Interpreter, node: Simple) -> None:
    items = node.tokens
    if len(items) != 2 or items[1].kind != NUMBER:
        raise unsupported("KILL of anything but a session id")
    presence.kill(interp.session, int(items[1].text))
    _ended(interp)


def ddl(interp: Interpreter, node: Simple) -> None:
    """Definitions and rights: the catalog's statements, and the session's own #temp tables."""
    session = interp.session
    if session.settings.fmtonly or session.settings.noexec:
        return
    queries.begin_if_implicit(interp)
    words = node.words(3)
    if words[:2] == ("CREATE", "TABLE") and _is_temp(node.tokens, 2):
        at = _after_name(node.tokens, 2)
        with session.transactions.statement(compound=False):
            scratch.create_temp(interp, node.tokens[at - 1].name, node.part(node.tokens[at:]))
        _ended(interp)
        return
    if words[:2] == ("DROP", "TABLE") and any(token.text.startswith(("#", "[#")) for token in node.tokens):
        _drop_temp(interp, node)
        _ended(interp)
        return
    if words[:2] == ("TRUNCATE", "TABLE") and _is_temp(node.tokens, 2):
        queries.run(interp, interp.compile(f"DELETE FROM {node.part(node.tokens[2:])}"))
        return
    session.define(interp, node)


def _is_temp(items: list[Token], at: int) -> bool:
    return at < len(items) and items[_after_name(items, at) - 1].name.startswith("#")


def _after_name(items: list[Token], at: int) -> int:
    while at + 1 < len(items) and (items[at + 1].text == "." or items[at].text == "."):
        at += 1
    return at + 1


def _drop_temp(interp: Interpreter, node: Simple) -> None:
    items = node.tokens[2:]
    tolerant = items[0].word == "IF"
    if tolerant:
        items = items[2:]
    for part in split_commas(items):
        if not part:
            raise near(node.tokens[-1])
        name = part[-1].name
        with interp.session.transactions.statement(compound=False):
            dropped = scratch.drop_temp(interp.session, name)
        if not dropped and not tolerant:
            raise SqlError(
                3701,
                f"Cannot drop the table '{name}', because it does not exist or you do not have permission.",
                severity=11,
                state=5,
            )


Handler = Callable[["Interpreter", Simple], None]

HANDLERS: dict[str, Handler] = {
    "BEGIN": begin,
    "BULK": bulkfile.insert,
    "COMMIT": commit,
    "ROLLBACK": rollback,
    "SAVE": save,
    "PRINT": print_,
    "RAISERROR": raiserror,
    "THROW": throw,
    "RETURN": return_,
    "BREAK": break_,
    "CONTINUE": continue_,
    "WAITFOR": waitfor,
    "SET": set_,
    "DECLARE": variables.declare,
    "USE": use,
    "REVERT": revert,
    "KILL": kill,
}
