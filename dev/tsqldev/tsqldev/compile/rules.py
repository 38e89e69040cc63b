"""Static typing of T-SQL: precedence, common types, decimal arithmetic.

From "Data type precedence" and "Precision, scale, and length" of the Transact-SQL reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tsqldev.errors import SqlError
from tsqldev.types import (
    BINARY,
    CHARACTER,
    DEFAULT_COLLATION,
    INTEGER,
    MAX,
    TEMPORAL,
    UNICODE,
    SqlType,
    decimal,
)

_PRECEDENCE = {
    name: rank
    for rank, name in enumerate(
        [
            "null",
            "binary",
            "varbinary",
            "image",
            "char",
            "varchar",
            "text",
            "nchar",
            "nvarchar",
            "sysname",
            "ntext",
            "uniqueidentifier",
            "rowversion",
            "bit",
            "tinyint",
            "smallint",
            "int",
            "bigint",
            "smallmoney",
            "money",
            "numeric",
            "decimal",
            "real",
            "float",
            "time",
            "date",
            "smalldatetime",
            "datetime",
            "datetime2",
            "datetimeoffset",
            "xml",
        ]
    )
}
_INTEGER_DIGITS = {"bit": 1, "tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_MONEY = {"money": decimal(19, 4), "smallmoney": decimal(10, 4)}
EXACT_DECIMAL = frozenset({"decimal", "numeric", "money", "smallmoney"})
FLOATING = frozenset({"real", "float"})


def rank(type: SqlType) -> int:
    return _PRECEDENCE[type.name]


def family(type: SqlType) -> str:
    name = type.name
    if name in CHARACTER:
        return "char"
    if name in BINARY:
        return "binary"
    if name in INTEGER:
        return "int"
    if name in EXACT_DECIMAL:
        return "decimal"
    if name in FLOATING:
        return "float"
    return name


def as_decimal(type: SqlType, digits: int | None = None) -> SqlType:
    """The decimal type that holds every value of a numeric type; `digits` of an integer constant."""
    if type.name in INTEGER:
        return decimal(digits or _INTEGER_DIGITS[type.name], 0)
    if type.name in _MONEY:
        return _MONEY[type.name]
    return type


def _clip(precision: int, scale: int) -> SqlType:
    """Precision over 38 is paid for by the scale, which keeps at least 6 digits in multiplication and division."""
    if precision > 38:
        scale = max(38 - (precision - scale), min(scale, 6))
        precision = 38
    return decimal(precision, scale)


def _fitted(whole: int, scale: int, carry: int = 0) -> SqlType:
    """Where the digits before the point are kept, and only those after it give way: sums, CASE, UNION."""
    precision = min(whole + scale + carry, 38)
    return decimal(precision, min(scale, precision - whole))


def decimal_result(op: str, left: SqlType, right: SqlType) -> SqlType:
    p1, s1, p2, s2 = left.precision or 0, left.scale or 0, right.precision or 0, right.scale or 0
    if op in ("+", "-"):
        scale = max(s1, s2)
        return _fitted(max(p1 - s1, p2 - s2), scale, carry=1)
    if op == "*":
        return _clip(p1 + p2 + 1, s1 + s2)
    if op == "/":
        scale = max(6, s1 + p2 + 1)
        return _clip(p1 - s1 + s2 + scale, scale)
    return _fitted(min(p1 - s1, p2 - s2), max(s1, s2))


def joined_decimal(left: SqlType, right: SqlType) -> SqlType:
    """The decimal of CASE, UNION and comparison: wide enough for both."""
    s1, s2 = left.scale or 0, right.scale or 0
    return _named(_fitted(max((left.precision or 0) - s1, (right.precision or 0) - s2), max(s1, s2)), left, right)


def _named(type: SqlType, left: SqlType, right: SqlType) -> SqlType:
    """decimal comes before numeric in the order of types; numbers written with a point are numeric."""
    return replace(type, name="decimal" if "decimal" in (left.name, right.name) else "numeric")


def _length(left: SqlType, right: SqlType) -> int:
    if MAX in (left.length, right.length):
        return MAX
    return max(left.length or 1, right.length or 1)


def text_length(type: SqlType) -> int:
    """How long the text of a value can be (the length of an implicit conversion to varchar)."""
    if type.name in CHARACTER:
        return MAX if type.name in ("text", "ntext", "xml") else (type.length or 1)
    if type.name in BINARY:
        return type.length or 1
    if type.name in ("decimal", "numeric"):
        return (type.precision or 18) + 3
    return {"bit": 1, "tinyint": 3, "smallint": 6, "int": 12, "bigint": 20, "uniqueidentifier": 36}.get(type.name, 50)


def common(left: SqlType, right: SqlType) -> SqlType:
    """The type of CASE branches, COALESCE arguments, set operations and comparisons of two types."""
    nullable = left.nullable or right.nullable
    if left.name == "null":
        return right.with_nullable(True)
    if right.name == "null":
        return left.with_nullable(True)
    if rank(left) < rank(right):
        left, right = right, left
    kind, other = family(left), family(right)
    if kind == "char":
        if other == "char":
            name = left.name
            if name == "sysname" or (name in ("varchar", "char") and right.name in UNICODE):
                name = "nvarchar"
            if name in ("char", "nchar") and right.name != name:
                name = "var" + name if name == "char" else "nvarchar"
            collation = left.collation or right.collation
            return SqlType(name, length=_length(left, right), collation=collation, nullable=nullable)
        return replace(left, length=_length(left, right), nullable=nullable)
    if kind == "binary":
        if other == "binary" and {left.name, right.name} == {"binary"}:
            return SqlType("binary", length=_length(left, right), nullable=nullable)
        return SqlType("varbinary", length=_length(left, right), nullable=nullable)
    if kind == "decimal" and left.name in ("decimal", "numeric") and other in ("int", "decimal"):
        return _named(joined_decimal(left, as_decimal(right)), left, right).with_nullable(nullable)
    if kind in ("time", "datetime2", "datetimeoffset") and right.name in ("time", "datetime2", "datetimeoffset"):
        return replace(left, scale=max(left.scale or 0, right.scale or 0), nullable=nullable)
    return left.with_nullable(nullable)


def common_of(types: Sequence[SqlType]) -> SqlType:
    result = types[0]
    for type in types[1:]:
        result = common(result, type)
    return result


_OPERATOR_NAMES = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "/": "divide",
    "%": "modulo",
    "&": "'&'",
    "|": "'|'",
    "^": "'^'",
}


def operator_name(op: str) -> str:
    return _OPERATOR_NAMES[op]


def arithmetic(op: str, left: SqlType, right: SqlType, digits: tuple[int | None, int | None]) -> SqlType:
    """The result type of `left op right`; both operands are converted to it (decimals keep their own scale)."""
    nullable = left.nullable or right.nullable
    if left.name == "null" and right.name == "null":
        return SqlType("int")
    if left.name == "null":
        left = right
    if right.name == "null":
        right = left
    kinds = {family(left), family(right)}
    if op == "+" and kinds == {"char"}:
        return concatenation(left, right).with_nullable(nullable)
    if op == "+" and kinds == {"binary"}:
        size = MAX if MAX in (left.length, right.length) else min((left.length or 1) + (right.length or 1), 8000)
        return SqlType("varbinary", length=size, nullable=nullable)
    for type in (left, right):
        bad = type.name in (
            "xml",
            "text",
            "ntext",
            "image",
            "uniqueidentifier",
            "date",
            "time",
            "datetime2",
            "datetimeoffset",
        )
        if bad and len(kinds) == 2 and kinds <= TEMPORAL:
            raise SqlError(
                402,
                f"The data types {left.name} and {right.name} are incompatible in the {operator_name(op)} operator.",
            )
        if bad and len(kinds) > 1 and not (kinds - {"char"} == {family(type)}):
            raise SqlError(206, f"Operand type clash: {left.name} is incompatible with {right.name}")
        if bad or (kinds == {"char"}):
            raise SqlError(8117, f"Operand data type {type.name} is invalid for {operator_name(op)} operator.")
    high = left if rank(left) >= rank(right) else right
    if op in ("&", "|", "^"):
        if high.name not in INTEGER and not (kinds == {"int", "binary"}):
            raise SqlError(
                402,
                f"The data types {left.name} and {right.name} are incompatible in the {operator_name(op)} operator.",
            )
        return high.with_nullable(nullable)
    kind = family(high)
    if kind == "char" or kind == "binary":
        raise SqlError(8117, f"Operand data type {high.name} is invalid for {operator_name(op)} operator.")
    if high.name == "bit":
        raise SqlError(
            402, f"The data types {left.name} and {right.name} are incompatible in the {operator_name(op)} operator."
        )
    if kind in ("datetime", "smalldatetime"):
        if op not in ("+", "-"):
            raise SqlError(8117, f"Operand data type {high.name} is invalid for {operator_name(op)} operator.")
        return high.with_nullable(nullable)
    if kind == "decimal" and high.name in ("decimal", "numeric"):
        sides = [
            as_decimal(type, digit) if family(type) in ("int", "decimal") else high
            for type, digit in ((left, digits[0]), (right, digits[1]))
        ]
        return _named(decimal_result(op, sides[0], sides[1]), left, right).with_nullable(nullable)
    return high.with_nullable(nullable)


def concatenation(left: SqlType, right: SqlType) -> SqlType:
    unicode = left.name in UNICODE or right.name in UNICODE
    limit = 4000 if unicode else 8000
    size = MAX if MAX in (text_length(left), text_length(right)) else min(text_length(left) + text_length(right), limit)
    return SqlType(
        "nvarchar" if unicode else "varchar",
        length=size,
        collation=left.collation or right.collation or DEFAULT_COLLATION,
        nullable=left.nullable or right.nullable,
    )


def is_temporal(type: SqlType) -> bool:
    return type.name in TEMPORAL
