"""A batch with a syntax error anywhere does nothing at all: its queries are parsed before the first statement runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tsqldev.compile.statements import StatementParser
from tsqldev.errors import SqlError
from tsqldev.session.lexer import PUNCT
from tsqldev.session.split import Block, If, Node, Simple, Try, While

QUERIES = frozenset({"SELECT", "WITH", "INSERT", "UPDATE", "DELETE", "MERGE"})
# What the parser refuses as not emulated waits until the statement is reached: its branch may never be taken.
_SYNTAX = frozenset({102, 103, 105, 113, 156, 170})


def check_syntax(nodes: Sequence[Node]) -> None:
    """Raises the first syntax error of the queries and changes in `nodes`, with its line."""
    for node in simple_statements(nodes):
        if node.first not in QUERIES or is_other(node):
            continue
        try:
            StatementParser(node.text).statement()
        except SqlError as error:
            if error.number in _SYNTAX:
                error.line = node.line + max(error.line - 1, 0)
                raise


def simple_statements(nodes: Sequence[Node]) -> Iterator[Simple]:
    """The statements of a batch, those in blocks and branches too."""
    for node in nodes:
        if isinstance(node, Simple):
            yield node
        elif isinstance(node, Block):
            yield from simple_statements(node.body)
        elif isinstance(node, If):
            yield from simple_statements([node.then] if node.otherwise is None else [node.then, node.otherwise])
        elif isinstance(node, While):
            yield from simple_statements([node.body])
        else:
            assert isinstance(node, Try)
            yield from simple_statements(node.body)
            yield from simple_statements(node.handler)


def is_other(node: Simple) -> bool:
    """Statements that begin like a query and are none: INSERT BULK, UPDATE STATISTICS; and INSERT ... EXEC."""
    if node.first not in ("INSERT", "UPDATE") or len(node.tokens) < 2:
        return False
    if node.tokens[1].word in ("BULK", "STATISTICS"):
        return True
    return node.first == "INSERT" and exec_source(node) > 0


def exec_source(node: Simple) -> int:
    """Where EXEC stands in INSERT ... EXEC, 0 for another source."""
    depth = 0
    for index, token in enumerate(node.tokens):
        if token.kind == PUNCT and token.text in "()":
            depth += 1 if token.text == "(" else -1
        elif depth == 0 and index:
            if token.word in ("SELECT", "VALUES", "WITH", "DEFAULT"):
                return 0
            if token.word in ("EXEC", "EXECUTE"):
                return index
    return 0
