"""Number constants as T-SQL types them, and what can be read off an expression before it is compiled."""

from __future__ import annotations

from tsqldev.compile import tree as t
from tsqldev.compile.convert import Value
from tsqldev.errors import SqlError
from tsqldev.types import (
    INT,
    INTEGER,
    SqlType,
)


def integer_literal(text: str) -> Value:
    number = int(text)
    if -(2**31) <= number < 2**31:
        sql = str(number) if number >= 0 else f"({number})"
        if number == -(2**31):
            sql = "(-2147483648)::int4"
        return Value(sql, INT.with_nullable(False), constant=str(number))
    digits = len(text.lstrip("-0")) or 1
    if digits > 38:
        raise SqlError(
            1007,
            f"The number '{text}' is out of the range for numeric representation (maximum precision 38).",
            severity=15,
        )
    return Value(
        f"({number})::numeric({digits},0)",
        SqlType("numeric", precision=digits, scale=0, nullable=False),
        constant=str(number),
    )


def decimal_literal(text: str) -> Value:
    whole, _, fraction = text.partition(".")
    whole = whole.lstrip("0")
    precision = max(len(whole) + len(fraction), 1)
    if precision > 38:
        raise SqlError(
            1007,
            f"The number '{text}' is out of the range for numeric representation (maximum precision 38).",
            severity=15,
        )
    sql = f"{whole or '0'}.{fraction}" if fraction else f"{whole or '0'}"
    type = SqlType("numeric", precision=precision, scale=len(fraction), nullable=False)
    return Value(f"{sql}::numeric({precision},{len(fraction)})", type, constant=text)


def digits_of(value: Value) -> int | None:
    """How many digits an integer constant counts for beside a decimal."""
    if value.constant is None or value.type.name not in INTEGER:
        return None
    return len(value.constant.lstrip("-"))


AGGREGATES = frozenset(
    [
        "COUNT",
        "COUNT_BIG",
        "SUM",
        "AVG",
        "MIN",
        "MAX",
        "STRING_AGG",
        "STDEV",
        "STDEVP",
        "VAR",
        "VARP",
        "GROUPING",
        "GROUPING_ID",
        "APPROX_COUNT_DISTINCT",
        "CHECKSUM_AGG",
    ]
)


def contains_aggregate(node: object) -> bool:
    """Whether an aggregate (no window function) stands in this expression, outside its subqueries."""
    if isinstance(node, t.Call):
        if node.name.upper() in AGGREGATES and node.over is None:
            return True
        return any(contains_aggregate(argument) for argument in node.arguments) or (
            node.over is not None and contains_aggregate(node.over)
        )
    if isinstance(node, t.Query | t.Literal | t.Name | t.Variable | str | type(None)):
        return False
    if isinstance(node, list | tuple):
        return any(contains_aggregate(part) for part in node)
    if isinstance(node, t.Node | t.OrderItem | t.Item):
        return any(contains_aggregate(getattr(node, name)) for name in node.__dataclass_fields__ if name != "pos")
    return False
