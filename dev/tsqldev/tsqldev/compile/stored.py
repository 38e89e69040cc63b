"""CHECK, DEFAULT and filter texts as SQL Server stores them.

SQL Server keeps no text of these: it writes its parsed form. Names in brackets, functions in lower case, numbers in
parentheses, IN as a chain of OR from the last item to the first, BETWEEN as two comparisons, and the whole in
parentheses.
"""

from __future__ import annotations

from tsqldev.compile import tree as t
from tsqldev.compile.parser import Parser
from tsqldev.errors import unsupported


def rewrite_check(text: str) -> str:
    """A condition (CHECK, index filter) or, if it is none, an expression (DEFAULT, computed column) as stored."""
    parser = Parser(text)
    if _whole_is_condition(parser):
        node = parser.condition()
        parser.end()
        return f"({_condition(node)})"
    parser = Parser(text)
    node = parser.expression()
    parser.end()
    return f"({_value(_bare(node))})"


def _whole_is_condition(parser: Parser) -> bool:
    from tsqldev.errors import SqlError

    trial = Parser(parser.text)
    try:
        trial.condition()
        trial.end()
    except SqlError:
        return False
    return True


def _bare(node: t.Node) -> t.Node:
    while isinstance(node, t.Parenthesis):
        node = node.operand
    return node


def _condition(node: t.Node, parent: str = "") -> str:
    if isinstance(node, t.Parenthesis):
        return _condition(node.operand, parent)
    if isinstance(node, t.Logic):
        text = f"{_condition(node.left, node.op)} {node.op} {_condition(node.right, node.op)}"
        return (
            f"({text})"
            if (node.op == "OR" and parent in ("AND", "NOT")) or (node.op == "AND" and parent == "NOT")
            else text
        )
    if isinstance(node, t.Not):
        inner = _bare(node.operand)
        return (
            f"NOT {_condition(inner, 'NOT')}"
            if isinstance(inner, t.Logic | t.InList | t.Between)
            else f"NOT {_condition(inner)}"
        )
    if isinstance(node, t.Compare):
        return f"{_value(node.left)}{node.op}{_value(node.right)}"
    if isinstance(node, t.IsNull):
        return f"{_value(node.operand)} IS {'NOT ' if node.negated else ''}NULL"
    if isinstance(node, t.Between):
        left = _value(node.operand)
        if node.negated:
            text = f"{left}<{_value(node.low)} OR {left}>{_value(node.high)}"
            return f"({text})" if parent in ("AND", "NOT") else text
        text = f"{left}>={_value(node.low)} AND {left}<={_value(node.high)}"
        return f"({text})" if parent == "NOT" else text
    if isinstance(node, t.InList):
        left = _value(node.operand)
        if node.negated:
            text = " AND ".join(f"{left}<>{_value(item)}" for item in reversed(node.items))
            return f"({text})" if parent == "NOT" and len(node.items) > 1 else text
        text = " OR ".join(f"{left}={_value(item)}" for item in reversed(node.items))
        return f"({text})" if parent in ("AND", "NOT") and len(node.items) > 1 else text
    if isinstance(node, t.Like):
        escape = f" escape {_value(node.escape)}" if node.escape is not None else ""
        text = f"{_value(node.operand)} like {_value(node.pattern)}{escape}"
        return f"NOT {text}" if node.negated else text
    raise unsupported(f"{type(node).__name__} in a constraint")


def _value(node: t.Node) -> str:
    if isinstance(node, t.Parenthesis):
        inner = _bare(node)
        return f"({_value(inner)})" if isinstance(inner, t.Binary) else _value(inner)
    if isinstance(node, t.Literal):
        if node.kind in ("int", "decimal", "float", "money"):
            return f"({node.text})"
        if node.kind in ("string", "nstring"):
            escaped = node.text.replace("'", "''")
            return f"{'N' if node.kind == 'nstring' else ''}'{escaped}'"
        return node.text
    if isinstance(node, t.Name):
        return ".".join(f"[{part.replace(']', ']]')}]" for part in node.parts)
    if isinstance(node, t.Unary):
        inner = _bare(node.operand)
        if node.op == "-" and isinstance(inner, t.Literal):
            return f"(-{inner.text})"
        return f"{node.op}{_value(inner)}"
    if isinstance(node, t.Binary):
        return f"{_value(node.left)}{node.op}{_value(node.right)}"
    if isinstance(node, t.Call):
        name = node.name.lower() if not node.schema else ".".join(f"[{p}]" for p in (*node.schema, node.name))
        if node.name.upper() == "CURRENT_TIMESTAMP":
            return "getdate()"
        if node.name.upper() in ("CURRENT_USER", "SESSION_USER", "SYSTEM_USER", "USER"):
            return f"{'user_name' if node.name.upper() != 'SYSTEM_USER' else 'suser_sname'}()"
        if node.name.upper() == "COALESCE":
            return _coalesce(node.arguments)
        return f"{name}({','.join(_value(argument) for argument in node.arguments)})"
    if isinstance(node, t.Cast):
        type_text = f"[{node.type.parts[-1].lower()}]" + (
            f"({','.join(a.lower() for a in node.type.arguments)})" if node.type.arguments else ""
        )
        style = f",{_value(node.style)}" if node.style is not None else ""
        if node.attempt:
            return f"TRY_CAST({_value(_bare(node.operand))} AS {type_text})"
        return f"CONVERT({type_text},{_value(_bare(node.operand))}{style})"
    if isinstance(node, t.Case):
        operand = f" {_value(node.operand)}" if node.operand is not None else ""
        whens = "".join(
            f" when {_value(test) if node.operand is not None else _condition(test)} then {_value(result)}"
            for test, result in node.whens
        )
        otherwise = f" else {_value(node.otherwise)}" if node.otherwise is not None else ""
        return f"case{operand}{whens}{otherwise} end"
    if isinstance(node, t.Collate):
        return f"{_value(node.operand)} collate {node.collation}"
    raise unsupported(f"{type(node).__name__} in a constraint")


def _coalesce(arguments: list[t.Node]) -> str:
    head = _value(arguments[0])
    if len(arguments) == 1:
        return head
    rest = _value(arguments[1]) if len(arguments) == 2 else _coalesce(arguments[1:])
    return f"case when {head} IS NOT NULL then {head} else {rest} end"
