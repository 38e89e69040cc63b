"""SET options. What would change the meaning of statements, and is not emulated, is refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tsqldev.errors import SqlError, unsupported
from tsqldev.session import queries, variables
from tsqldev.session.lexer import NUMBER, PUNCT, VARIABLE, Token, near
from tsqldev.session.split import Simple
from tsqldev.session.transactions import ISOLATION_LEVELS

if TYPE_CHECKING:
    from tsqldev.session.interp import Interpreter

# Option -> attribute of Settings.
_SWITCHES = {
    "NOCOUNT": "nocount",
    "XACT_ABORT": "xact_abort",
    "IMPLICIT_TRANSACTIONS": "implicit_transactions",
    "ANSI_NULLS": "ansi_nulls",
    "ANSI_PADDING": "ansi_padding",
    "ANSI_WARNINGS": "ansi_warnings",
    "ANSI_NULL_DFLT_ON": "ansi_null_dflt_on",
    "ARITHABORT": "arithabort",
    "CONCAT_NULL_YIELDS_NULL": "concat_null_yields_null",
    "QUOTED_IDENTIFIER": "quoted_identifier",
    "NUMERIC_ROUNDABORT": "numeric_roundabort",
    "CURSOR_CLOSE_ON_COMMIT": "cursor_close_on_commit",
    "FMTONLY": "fmtonly",
    "NOEXEC": "noexec",
}
# Statements mean what they mean only with these values.
_FIXED = {
    "ANSI_NULLS": True,
    "QUOTED_IDENTIFIER": True,
    "CONCAT_NULL_YIELDS_NULL": True,
    "ANSI_WARNINGS": True,
    "ANSI_PADDING": True,
    "ANSI_NULL_DFLT_ON": True,
    "NUMERIC_ROUNDABORT": False,
}
_ANSI_DEFAULTS = (
    "ANSI_NULLS",
    "ANSI_NULL_DFLT_ON",
    "ANSI_PADDING",
    "ANSI_WARNINGS",
    "CURSOR_CLOSE_ON_COMMIT",
    "IMPLICIT_TRANSACTIONS",
    "QUOTED_IDENTIFIER",
)


def set_option(interp: Interpreter, node: Simple) -> None:
    items = node.tokens[1:]
    first = items[0].word
    if first == "TRANSACTION":
        _isolation(interp, items)
    elif first == "IDENTITY_INSERT":
        _identity_insert(interp, node, items)
    elif first in _VALUES:
        if len(items) != 2 and not (len(items) == 3 and items[1].text == "-"):
            raise near(items[-1])
        _VALUES[first](interp, _value(interp, items[1:]))
    elif first in ("STATISTICS", "SHOWPLAN_ALL", "SHOWPLAN_TEXT", "SHOWPLAN_XML", "OFFSETS", "FORCEPLAN"):
        raise unsupported(f"SET {first}")
    else:
        _switches(interp, items)


def _switches(interp: Interpreter, items: list[Token]) -> None:
    """SET a, b, c ON | OFF."""
    state = items[-1].word
    if state not in ("ON", "OFF"):
        if items[0].word in _SWITCHES:
            raise near(items[-1])
        raise SqlError(195, f"'{items[0].text}' is not a recognized SET option.", severity=15, state=5)
    on = state == "ON"
    for token in items[:-1]:
        if token.kind == PUNCT and token.text == ",":
            continue
        name = token.word
        if name == "ANSI_DEFAULTS":
            for one in _ANSI_DEFAULTS:
                _switch(interp, one, on)
            continue
        if name not in _SWITCHES:
            raise SqlError(195, f"'{token.text}' is not a recognized SET option.", severity=15, state=5)
        _switch(interp, name, on)


def _switch(interp: Interpreter, name: str, on: bool) -> None:
    if name in _FIXED and _FIXED[name] is not on:
        raise unsupported(f"SET {name} {'ON' if on else 'OFF'}")
    setattr(interp.session.settings, _SWITCHES[name], on)


def _isolation(interp: Interpreter, items: list[Token]) -> None:
    words = [token.word for token in items]
    if words[:3] != ["TRANSACTION", "ISOLATION", "LEVEL"]:
        raise near(items[-1])
    level = " ".join(words[3:])
    if level not in ISOLATION_LEVELS:
        raise near(items[-1])
    transactions = interp.session.transactions
    if level == "SNAPSHOT" and transactions.count and not transactions.snapshot:
        raise SqlError(
            3951,
            f"Transaction failed in database '{interp.session.database}' because the statement was run under snapshot "
            "isolation but the transaction did not start in snapshot isolation. You cannot change the isolation level "
            "of the transaction after the transaction has started.",
        )
    transactions.isolation = level


def _identity_insert(interp: Interpreter, node: Simple, items: list[Token]) -> None:
    state = items[-1].word
    if state not in ("ON", "OFF") or len(items) < 3:
        raise near(items[-1])
    session = interp.session
    parts = queries.split_name(node.part(items[1:-1]))
    table = interp.local_table(parts) or session.catalog.resolve(
        parts, session.principal.database, interp.frame.default_schema
    )
    if table is None or not hasattr(table, "relation"):
        raise SqlError(
            1088,
            f'Cannot find the object "{".".join(parts)}" because it does not exist or you do not have permissions.',
            state=11,
        )
    identity = table.object_id
    if state == "OFF":
        if session.identity_insert == identity:
            session.identity_insert, session.identity_insert_name = 0, ""
        return
    if session.identity_insert and session.identity_insert != identity:
        raise SqlError(
            8107,
            f"IDENTITY_INSERT is already ON for table '{session.identity_insert_name}'. Cannot perform SET operation "
            f"for table '{'.'.join(parts)}'.",
        )
    session.identity_insert = identity
    session.identity_insert_name = f"{table.database}.{table.schema}.{table.name}"


def _value(interp: Interpreter, items: list[Token]) -> object:
    if items[0].kind == VARIABLE:
        variables.declared(interp, items[0].text)
        return interp.frame.values[items[0].text.lower()]
    if items[0].text == "-":
        return -int(items[1].text)
    if items[0].kind == NUMBER:
        return int(items[0].text)
    return items[0].value if items[0].text[0] in "'N" and items[0].text.endswith("'") else items[0].text


def _lock_timeout(interp: Interpreter, value: object) -> None:
    interp.session.settings.lock_timeout = int(str(value))


def _rowcount(interp: Interpreter, value: object) -> None:
    interp.session.settings.rowcount = int(str(value))


def _textsize(interp: Interpreter, value: object) -> None:
    size = int(str(value))
    # -1 and 0 stand for the largest and the default; what would cut values is refused.
    if 0 < size < 4096:
        raise unsupported(f"SET TEXTSIZE {size}")
    interp.session.settings.textsize = 2147483647 if size <= 0 else size


def _only(name: str, allowed: tuple[str, ...]) -> None:
    raise unsupported(f"SET {name} other than {', '.join(allowed)}")


def _datefirst(interp: Interpreter, value: object) -> None:
    number = int(str(value))
    if not 1 <= number <= 7:
        raise SqlError(2744, f"Invalid value {number} for SET DATEFIRST.")
    if number != 7:
        _only("DATEFIRST", ("7",))
    interp.session.settings.datefirst = number


def _dateformat(interp: Interpreter, value: object) -> None:
    if str(value).lower() != "mdy":
        _only("DATEFORMAT", ("mdy",))


def _language(interp: Interpreter, value: object) -> None:
    if str(value).lower() not in ("us_english", "english"):
        _only("LANGUAGE", ("us_english",))


def _deadlock_priority(interp: Interpreter, value: object) -> None:
    names = {"LOW": -5, "NORMAL": 0, "HIGH": 5}
    text = str(value).upper()
    interp.session.settings.deadlock_priority = names[text] if text in names else int(text)


def _context_info(interp: Interpreter, value: object) -> None:
    text = str(value)
    data = bytes.fromhex(text[2:]) if isinstance(value, str) and text.lower().startswith("0x") else value
    if not isinstance(data, bytes):
        raise SqlError(206, "Operand type clash: the value of SET CONTEXT_INFO must be varbinary.")
    interp.session.context_info = data[:128].ljust(128, b"\x00")


def _governor(interp: Interpreter, value: object) -> None:
    if int(str(value)) != 0:
        _only("QUERY_GOVERNOR_COST_LIMIT", ("0",))


_VALUES = {
    "LOCK_TIMEOUT": _lock_timeout,
    "ROWCOUNT": _rowcount,
    "TEXTSIZE": _textsize,
    "DATEFIRST": _datefirst,
    "DATEFORMAT": _dateformat,
    "LANGUAGE": _language,
    "DEADLOCK_PRIORITY": _deadlock_priority,
    "CONTEXT_INFO": _context_info,
    "QUERY_GOVERNOR_COST_LIMIT": _governor,
}
