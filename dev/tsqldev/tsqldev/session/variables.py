"""DECLARE, SET @x, and how a value comes into a variable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tsqldev.compile.tree import TypeName
from tsqldev.compile.typenames import type_from_name
from tsqldev.errors import SqlError, unsupported
from tsqldev.session import convert, queries, scratch
from tsqldev.session.lexer import NUMBER, PUNCT, QUOTED, VARIABLE, WORD, Token, near, split_commas
from tsqldev.session.split import Block, If, Node, Simple, Try, While
from tsqldev.types import SqlType

if TYPE_CHECKING:
    from tsqldev.session.interp import Interpreter

_COMPOUND = {"+=": "+", "-=": "-", "*=": "*", "/=": "/", "%=": "%", "&=": "&", "|=": "|", "^=": "^"}


def read_type(items: Sequence[Token], at: int) -> tuple[SqlType, int]:
    """A type as a declaration writes it, and the index of the token after it."""
    start = at
    parts = [items[at].name]
    if items[at].kind not in (WORD, QUOTED):
        raise near(items[at])
    at += 1
    while at + 1 < len(items) and items[at].text == "." and items[at + 1].kind in (WORD, QUOTED):
        parts.append(items[at + 1].name)
        at += 2
    if items[start].word == "DOUBLE" and at < len(items) and items[at].word == "PRECISION":
        parts, at = ["float"], at + 1
    if items[start].word == "NATIONAL" and at < len(items):
        raise unsupported("NATIONAL CHARACTER types")
    arguments: list[str] = []
    if at < len(items) and items[at].kind == PUNCT and items[at].text == "(":
        at += 1
        while at < len(items) and items[at].text != ")":
            if items[at].kind == NUMBER or items[at].word == "MAX":
                arguments.append(items[at].text)
            elif items[at].text != ",":
                raise near(items[at])
            at += 1
        at += 1
    return type_from_name(TypeName(tuple(parts), tuple(arguments)), default_length=1), at


def declare_all(interp: Interpreter, nodes: Sequence[Node]) -> None:
    """A declaration holds for the whole scope, taken branch or not: declare before anything runs."""
    for node in nodes:
        if isinstance(node, Simple):
            if node.first == "DECLARE":
                _declare(interp, node)
        elif isinstance(node, Block):
            declare_all(interp, node.body)
        elif isinstance(node, If):
            declare_all(interp, [node.then] + ([node.otherwise] if node.otherwise else []))
        elif isinstance(node, While):
            declare_all(interp, [node.body])
        elif isinstance(node, Try):
            declare_all(interp, node.body)
            declare_all(interp, node.handler)


def _declare(interp: Interpreter, node: Simple) -> None:
    frame = interp.frame
    for part in split_commas(node.tokens[1:]):
        if not part or part[0].kind != VARIABLE:
            if any(token.word == "CURSOR" for token in part):
                raise unsupported("cursors")
            raise near(part[0] if part else node.tokens[0])
        name = part[0].text.lower()
        at = 2 if len(part) > 1 and part[1].word == "AS" else 1
        if name in frame.variables or name in frame.tables:
            raise SqlError(
                134,
                f"The variable name '{part[0].text}' has already been declared. Variable names must be unique within a "
                "query batch or stored procedure.",
                severity=15,
                line=node.line,
            )
        if at >= len(part):
            raise near(part[0])
        if part[at].word == "TABLE":
            scratch.declare_table(interp, name, node.part(part[at + 1 :]))
            continue
        if part[at].word == "CURSOR":
            raise unsupported("cursors")
        type, _ = read_type(part, at)
        frame.variables[name] = type
        frame.values[name] = None


def declare(interp: Interpreter, node: Simple) -> None:
    """What a DECLARE does when it is reached: its assignments (a loop that comes again keeps other values)."""
    for part in split_commas(node.tokens[1:]):
        for index, token in enumerate(part):
            if token.kind == PUNCT and token.text == "=":
                name = part[0].text.lower()
                set_expression(interp, name, node.part(part[index + 1 :]))
                interp.session.rowcount = 1
                break


def assign_statement(interp: Interpreter, node: Simple) -> None:
    """SET @x = expression, and the compound operators."""
    items = node.tokens
    name = items[1].text.lower()
    if len(items) < 4:
        raise near(items[-1])
    operator = items[2].text
    expression = node.part(items[3:])
    if operator in _COMPOUND:
        expression = f"{items[1].text} {_COMPOUND[operator]} ({expression})"
    elif operator != "=":
        raise near(items[2])
    if items[3].word == "CURSOR":
        raise unsupported("cursors")
    set_expression(interp, name, expression)
    interp.session.rowcount = 1


def declared(interp: Interpreter, name: str) -> SqlType:
    type = interp.frame.variables.get(name.lower())
    if type is None:
        raise SqlError(137, f'Must declare the scalar variable "{name}".', severity=15, state=2)
    return type


def set_expression(interp: Interpreter, name: str, text: str) -> None:
    type = declared(interp, name)
    if not interp.session.settings.fmtonly:
        interp.frame.values[name] = queries.scalar(interp, text, type)


def store(interp: Interpreter, name: str, value: object, source: SqlType) -> None:
    """Assign a value of another type to a variable."""
    target = declared(interp, name)
    interp.frame.values[name.lower()] = converted(interp, value, source, target)


# Conversions that fail: as the argument of a parameter they all end in one message.
_FAILED = frozenset({220, 232, 235, 241, 242, 244, 245, 248, 295, 8114, 8115, 8169})


def passed(interp: Interpreter, value: object, source: SqlType, target: SqlType) -> object:
    """An argument as its parameter. Raises 8114 where it cannot be."""
    try:
        return converted(interp, value, source, target)
    except SqlError as error:
        if error.number not in _FAILED:
            raise
        names = [type.name.replace("decimal", "numeric") for type in (source, target)]
        raise SqlError(
            8114,
            f"Error converting data type {names[0]} to {target.name if names[0] == names[1] else names[1]}.",
            state=5,
        ) from error


def converted(interp: Interpreter, value: object, source: SqlType, target: SqlType) -> object:
    try:
        return convert.assign(value, source, target)
    except convert.NotDirect:
        return queries.convert(interp, value, source, target)
