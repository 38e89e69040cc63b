"""sp_describe_undeclared_parameters: the type that the place of a parameter asks for.

ODBC drivers ask it before they send a NULL. A parameter's type is told by the column that it is inserted into, assigned
to or compared with, by the variable that it initialises, or by the CAST around it; one that nothing tells is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tsqldev.compile import tree as t
from tsqldev.compile.statements import StatementParser
from tsqldev.compile.typenames import type_from_name
from tsqldev.errors import SqlError, unsupported
from tsqldev.interfaces import Column, TableInfo, ViewInfo
from tsqldev.session import variables
from tsqldev.session.lexer import VARIABLE, split_commas, tokens
from tsqldev.session.split import Node, Simple
from tsqldev.session.syntax import QUERIES, is_other, simple_statements
from tsqldev.types import BIGINT, SqlType

if TYPE_CHECKING:
    from tsqldev.session.interp import Interpreter

Types = dict[str, SqlType]


def undeclared(interp: Interpreter, text: str, declared: Sequence[str]) -> list[tuple[str, SqlType]]:
    """The undeclared parameters of a batch, in the order of their first use, with their types."""
    known = {name.lower() for name in declared}
    nodes = interp.session.engine.split(text)
    statements = list(simple_statements(nodes))
    for node in statements:
        if node.first == "DECLARE":
            known.update(part[0].text.lower() for part in split_commas(node.tokens[1:]) if part)
    wanted: dict[str, str] = {}
    for token in tokens(text):
        if token.kind == VARIABLE and not token.text.startswith("@@") and token.text.lower() not in known:
            wanted.setdefault(token.text.lower(), token.text)
    found = _found(interp, nodes, statements)
    result = []
    for key, name in wanted.items():
        if key not in found:
            raise unsupported(f"finding the type of the undeclared parameter {name}, which no column tells")
        result.append((name, found[key]))
    return result


def _found(interp: Interpreter, nodes: Sequence[Node], statements: Sequence[Simple]) -> Types:
    found: Types = {}
    for node in statements:
        if node.first == "DECLARE":
            _from_declaration(node, found)
        elif node.first in QUERIES and not is_other(node):
            _from_query(interp, StatementParser(node.text).statement(), found)
    return found


def _from_declaration(node: Simple, found: Types) -> None:
    for part in split_commas(node.tokens[1:]):
        if len(part) > 3 and part[-1].kind == VARIABLE and part[-2].text == "=":
            type, _ = variables.read_type(part, 2 if part[1].word == "AS" else 1)
            found.setdefault(part[-1].text.lower(), type)


def _from_query(interp: Interpreter, statement: object, found: Types) -> None:
    every = list(_walk(statement))
    columns: dict[str, SqlType] = {}
    for node in every:
        if isinstance(node, t.TableRef):
            for column in _columns(interp, node.parts):
                columns.setdefault(column.name.casefold(), column.type)

    def note(node: object, type: SqlType | None) -> None:
        inner = _inner(node)
        if isinstance(inner, t.Variable) and type is not None:
            found.setdefault(inner.name.lower(), type)

    def column_of(node: object) -> SqlType | None:
        inner = _inner(node)
        return columns.get(inner.parts[-1].casefold()) if isinstance(inner, t.Name) else None

    for node in every:
        if isinstance(node, t.Insert):
            _from_insert(interp, node, note)
        elif isinstance(node, t.Assignment) and node.column is not None:
            note(node.value, columns.get(node.column[-1].casefold()))
        elif isinstance(node, (t.Compare, t.Binary)):
            note(node.left, column_of(node.right))
            note(node.right, column_of(node.left))
        elif isinstance(node, t.Between):
            for side in (node.low, node.high):
                note(side, column_of(node.operand))
                note(node.operand, column_of(side))
        elif isinstance(node, t.InList):
            for item in node.items:
                note(item, column_of(node.operand))
        elif isinstance(node, t.Like):
            note(node.pattern, column_of(node.operand))
        elif isinstance(node, t.Cast):
            note(node.operand, type_from_name(node.type))
        elif isinstance(node, t.Top):
            note(node.count, BIGINT)
        elif isinstance(node, t.Query):
            note(node.offset, BIGINT)
            note(node.fetch, BIGINT)


def _from_insert(interp: Interpreter, node: t.Insert, note: object) -> None:
    assert callable(note)
    columns = [column for column in _columns(interp, node.target.parts) if not (column.identity or column.computed)]
    if node.columns is not None:
        by_name = {column.name.casefold(): column for column in _columns(interp, node.target.parts)}
        columns = [by_name[name.casefold()] for name in node.columns if name.casefold() in by_name]
    rows: list[Sequence[object]] = list(node.rows or [])
    body = node.query.body if node.query is not None else None
    if isinstance(body, t.Select):
        rows.append([item.expression for item in body.items])
    for row in rows:
        for column, value in zip(columns, row, strict=False):
            note(value, column.type)


def _columns(interp: Interpreter, parts: Sequence[str]) -> Sequence[Column]:
    session = interp.session
    try:
        table = interp.local_table(list(parts)) or session.catalog.resolve(
            parts, session.principal.database, interp.frame.default_schema
        )
    except SqlError:
        return ()
    return table.columns if isinstance(table, (TableInfo, ViewInfo)) else ()


def _inner(node: object) -> object:
    while isinstance(node, (t.Parenthesis, t.Collate)):
        node = node.operand
    return node


def _walk(node: object) -> Iterator[object]:
    if isinstance(node, (list, tuple)):
        for item in node:
            yield from _walk(item)
    elif dataclasses.is_dataclass(node) and not isinstance(node, type):
        yield node
        for field in dataclasses.fields(node):
            yield from _walk(getattr(node, field.name))
