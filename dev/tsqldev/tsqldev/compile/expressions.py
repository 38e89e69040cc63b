"""Expressions and conditions: from tree to PostgreSQL text with a T-SQL type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tsqldev.compile import tree as t
from tsqldev.compile.collation import key_sql, known_collation, order_sql
from tsqldev.compile.conditions import Conditions
from tsqldev.compile.convert import COERCIBLE, EXPLICIT, IMPLICIT, Value, convert, quote
from tsqldev.compile.literals import contains_aggregate, decimal_literal, digits_of, integer_literal
from tsqldev.compile.rules import (
    arithmetic,
    as_decimal,
    common_of,
    family,
)
from tsqldev.compile.scope import Scope
from tsqldev.compile.typenames import type_from_name
from tsqldev.errors import SqlError, unsupported
from tsqldev.types import (
    CHARACTER,
    DEFAULT_COLLATION,
    INT,
    MAX,
    NULL,
    UNICODE,
    SqlType,
    nvarchar,
    varbinary,
    varchar,
)

if TYPE_CHECKING:
    from tsqldev.compile.unit import Unit


class Expressions(Conditions):
    """Compiles expressions in one scope of a compilation unit."""

    def __init__(self, unit: Unit, scope: Scope) -> None:
        self.unit = unit
        self.scope = scope
        # Why a window function or an aggregate may not stand here, or empty.
        self.no_aggregate = ""
        # What DEFAULT, $action and UPDATE() mean here, if anything.
        self.action: str | None = None

    # ---- values --------------------------------------------------------------------------------------------------

    def value(self, node: t.Node) -> Value:
        if self.scope.grouped and not self.scope.aggregating and not isinstance(node, t.Name | t.Literal | t.Variable):
            matched = self._grouped_expression(node)
            if matched is not None:
                return matched
        method = _VALUES.get(type(node))
        if method is None:
            if isinstance(
                node, t.Logic | t.Not | t.Compare | t.Like | t.Exists | t.IsNull | t.Between | t.InList | t.InQuery
            ):
                raise SqlError(
                    102, "Incorrect syntax near a condition used as a value.", severity=15, line=self.line(node)
                )
            raise unsupported(type(node).__name__)
        return method(self, node)

    def line(self, node: t.Node) -> int:
        return self.unit.line(node.pos)

    def _grouped_expression(self, node: t.Node) -> Value | None:
        grouped = self.scope.grouped
        if not grouped or all("(" not in key for key in grouped):
            return None
        if contains_aggregate(node):
            return None
        self.scope.grouped = None
        try:
            plain = self.value(node)
        finally:
            self.scope.grouped = grouped
        replacement = grouped.get(plain.sql)
        return None if replacement is None else replace(plain, sql=replacement, constant=None)

    def to(self, node: t.Node, target: SqlType) -> str:
        return convert(self.value(node), target).sql

    def literal(self, node: t.Literal) -> Value:
        kind, text = node.kind, node.text
        if kind == "null":
            return Value("NULL", NULL)
        if kind == "int":
            return integer_literal(text)
        if kind == "decimal":
            return decimal_literal(text)
        if kind == "float":
            if text[-1] in "eE+-":
                text += "0"
            return Value(f"'{text}'::float8", SqlType("float", nullable=False), constant=text)
        if kind == "string":
            if not text.isascii():
                text = text.encode("cp1252", "replace").decode("cp1252")
            size = MAX if len(text) > 8000 else max(len(text), 1)
            return Value(f"{quote(text)}::text", varchar(size).with_nullable(False), constant=text)
        if kind == "nstring":
            units = len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
            size = MAX if units > 4000 else max(units, 1)
            return Value(f"{quote(text)}::text", nvarchar(size).with_nullable(False), constant=text)
        if kind == "binary":
            digits = text[2:]
            digits = "0" + digits if len(digits) % 2 else digits
            size = len(digits) // 2
            kind_type = varbinary(MAX if size > 8000 else max(size, 1)).with_nullable(False)
            return Value(f"'\\x{digits.lower()}'::bytea", kind_type, constant=text)
        if kind == "money":
            return Value(f"{text[1:]}::numeric(19,4)", SqlType("money", nullable=False), constant=text[1:])
        raise SqlError(156, f"Incorrect syntax near the keyword '{text}'.", severity=15, line=self.line(node))

    def variable(self, node: t.Variable) -> Value:
        if node.name.startswith("@@"):
            return self.unit.session_value(node.name, self.line(node))
        return self.unit.variable(node.name, self.line(node))

    def name(self, node: t.Name) -> Value:
        parts = node.parts
        if len(parts) > 4:
            raise SqlError(
                4104, f'The multi-part identifier "{".".join(parts)}" could not be bound.', line=self.line(node)
            )
        return self.scope.find(parts, self.line(node))

    def parenthesis(self, node: t.Parenthesis) -> Value:
        return self.value(node.operand)

    def unary(self, node: t.Unary) -> Value:
        operand = self.value(node.operand)
        kind = family(operand.type)
        if node.op == "~":
            if kind != "int":
                raise SqlError(
                    8117, f"Operand data type {operand.type.name} is invalid for '~' operator.", line=self.line(node)
                )
            if operand.type.name == "bit":
                return Value(f"(1 - {operand.sql})::int2", operand.type)
            if operand.type.name == "tinyint":
                return Value(f"(255 - {operand.sql})::int2", operand.type)
            return Value(f"(~{operand.sql})", operand.type)
        if kind not in ("int", "decimal", "float") or operand.type.name == "bit":
            if kind == "char" and node.op == "+":
                return operand
            name = "minus" if node.op == "-" else "plus"
            raise SqlError(
                8117, f"Operand data type {operand.type.name} is invalid for {name} operator.", line=self.line(node)
            )
        if node.op == "+":
            return operand
        if operand.constant is not None and kind == "int" and operand.constant.isdigit():
            negative = integer_literal("-" + operand.constant)
            return replace(negative, type=operand.type if operand.type.name == "int" else negative.type)
        if operand.constant is not None and kind == "decimal" and not operand.constant.startswith("-"):
            return Value(f"(-{operand.sql})", operand.type, constant="-" + operand.constant)
        if operand.type.name == "tinyint":
            raise SqlError(8115, "Arithmetic overflow error converting expression to data type tinyint.")
        return Value(f"(-{operand.sql})", operand.type)

    def binary(self, node: t.Binary) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        return self.operate(node.op, left, right, self.line(node))

    def operate(self, op: str, left: Value, right: Value, line: int) -> Value:
        try:
            result = arithmetic(op, left.type, right.type, (digits_of(left), digits_of(right)))
        except SqlError as error:
            error.line = line
            raise
        kind = family(result)
        if kind == "char":
            collation, label = self.collation_of(left, right, line, "add")
            result = replace(result, collation=collation)
            sides = [
                convert(v, replace(result, length=v.type.length if family(v.type) == "char" else MAX)).sql
                for v in (left, right)
            ]
            joined = f"({sides[0]} || {sides[1]})"
            length = result.length or 1
            limit = 4000 if result.name in UNICODE else 8000
            if length == limit and not (left.constant and right.constant):
                joined = f"left({joined}, {limit})"
            return Value(joined, result, label)
        if kind == "binary":
            return Value(f"({convert(left, result).sql} || {convert(right, result).sql})", result)
        if kind in ("datetime", "smalldatetime"):
            return self._date_arithmetic(op, left, right, result)
        if kind == "decimal" and result.name in ("decimal", "numeric"):
            return self._decimal_arithmetic(op, left, right, result)
        a, b = convert(left, result).sql, convert(right, result).sql
        if op == "^":
            return Value(f"({a} # {b})", result)
        if op == "%" and kind == "float":
            raise SqlError(
                402,
                f"The data types {left.type.name} and {right.type.name} are incompatible in the modulo operator.",
                line=line,
            )
        sql = f"({a} {op} {b})"
        if result.name == "tinyint":
            sql = f"sys.tinyint_result({a}::int4 {op} {b}::int4)" if op in "+-*" else sql
        elif kind == "decimal":  # money: a product is rounded, a quotient cut
            sql = f"round({sql}, 4)" if op == "*" else f"trunc({sql}, 4)" if op == "/" else sql
        return Value(sql, result)

    def _decimal_arithmetic(self, op: str, left: Value, right: Value, result: SqlType) -> Value:
        def side(value: Value) -> str:
            if family(value.type) in ("int", "decimal"):
                return (
                    f"({value.sql})::numeric" if family(value.type) == "int" and value.constant is None else value.sql
                )
            if value.type.name == "null":
                return "NULL::numeric"
            other = right if value is left else left
            return convert(value, as_decimal(other.type)).sql

        a, b = side(left), side(right)
        p, s = result.precision or 38, result.scale or 0
        if op == "/":
            return Value(f"trunc(({a})::numeric(200,{s + 4}) / {b}, {s})::numeric({p},{s})", result)
        if op == "%":
            return Value(f"({a} % {b})", result)
        sql = f"({a} {op} {b})"
        s1 = as_decimal(left.type).scale or 0 if left.type.name != "null" else 0
        s2 = as_decimal(right.type).scale or 0 if family(right.type) in ("int", "decimal") else 0
        natural = s1 + s2 if op == "*" else max(s1, s2)
        if p == 38 or natural != s or left.constant is not None or right.constant is not None:
            sql = f"{sql}::numeric({p},{s})"
        return Value(sql, result)

    def _date_arithmetic(self, op: str, left: Value, right: Value, result: SqlType) -> Value:
        name = result.name
        temporal = [v.type.name == name for v in (left, right)]

        def units(value: Value) -> str:
            if value.type.name == name:
                return value.sql
            if family(value.type) in ("int", "decimal", "float", "null"):
                return f"sys.days_as_{name}(({convert(value, SqlType('float')).sql}))"
            return convert(value, result).sql

        if all(temporal) and op == "-":
            return Value(f"({left.sql} - {right.sql})", result)
        return Value(f"({units(left)} {op} {units(right)})", result)

    def cast(self, node: t.Cast) -> Value:
        target = type_from_name(node.type)
        operand = self.value(node.operand)
        if family(target) == "char" and family(operand.type) == "char":
            target = replace(target, collation=operand.type.collation)
        style = None
        if node.style is not None:
            style = self.to(node.style, INT)
        result = convert(operand, target, explicit=True, attempt=node.attempt, style=style)
        # A column made from a conversion takes NULL, whatever the operand is: SELECT INTO shows it.
        result.type = result.type.with_nullable(True)
        if family(target) == "int":
            # Beside a decimal a written integer counts with its own digits; one that was converted, with its type's.
            result.constant = None
        if family(target) == "char":
            kept = family(operand.type) == "char"
            result.label = operand.label if kept else COERCIBLE
            result.type = replace(result.type, collation=operand.type.collation if kept else DEFAULT_COLLATION)
        return result

    def case(self, node: t.Case) -> Value:
        operand = node.operand
        tests: list[str] = []
        results: list[Value] = []
        for test, outcome in node.whens:
            if operand is not None:
                tests.append(self.compare("=", self.value(operand), self.value(test), self.line(node)))
            else:
                tests.append(self.condition(test))
            results.append(self.value(outcome))
        results.append(self.value(node.otherwise) if node.otherwise is not None else Value("NULL", NULL))
        if all(r.type.name == "null" for r in results):
            raise SqlError(
                8133,
                "At least one of the result expressions in a CASE specification must be an expression other than the "
                "NULL constant.",
                line=self.line(node),
            )
        merged = self.merge_values(results, self.line(node))
        arms = " ".join(f"WHEN {test} THEN {value.sql}" for test, value in zip(tests, merged, strict=False))
        label = max(v.label for v in merged)
        return Value(f"CASE {arms} ELSE {merged[-1].sql} END", merged[0].type, label)

    def merge_values(self, values: Sequence[Value], line: int) -> list[Value]:
        """All converted to their common type (CASE, COALESCE, IIF, CHOOSE ...)."""
        target = common_of([v.type for v in values])
        target = target.with_nullable(any(v.type.nullable or v.type.name == "null" for v in values))
        if family(target) == "char":
            texts = [v for v in values if family(v.type) == "char"]
            chosen = texts[0]
            for other in texts[1:]:
                collation, label = self.collation_of(chosen, other, line, "CASE")
                chosen = replace(chosen, type=replace(chosen.type, collation=collation), label=label)
            target = replace(target, collation=chosen.type.collation)
            if any(family(v.type) != "char" and v.type.name != "null" for v in values):
                raise SqlError(206, "Operand type clash in CASE", line=line)
        try:
            return [replace(convert(v, target), type=target) for v in values]
        except SqlError as error:
            error.line = line
            raise

    def collate(self, node: t.Collate) -> Value:
        operand = self.value(node.operand)
        if family(operand.type) != "char":
            if operand.type.name == "null":
                operand = convert(operand, varchar(1))
            else:
                raise SqlError(
                    447, f"Expression type {operand.type.name} is invalid for COLLATE clause.", line=self.line(node)
                )
        collation = known_collation(node.collation)
        return Value(operand.sql, replace(operand.type, collation=collation), EXPLICIT, operand.constant)

    def collation_of(self, left: Value, right: Value, line: int, operation: str) -> tuple[str, int]:
        """The collation of two operands by the rules of collation precedence; 468 where they conflict."""
        a, b = left.type.collation, right.type.collation
        if family(left.type) != "char":
            return b or DEFAULT_COLLATION, right.label
        if family(right.type) != "char" or left.label > right.label:
            return a or DEFAULT_COLLATION, left.label
        if right.label > left.label:
            return b or DEFAULT_COLLATION, right.label
        if left.label == COERCIBLE or (a or "").casefold() == (b or "").casefold():
            return a or DEFAULT_COLLATION, left.label
        raise SqlError(
            468,
            f'Cannot resolve the collation conflict between "{b}" and "{a}" in the {operation} operation.',
            line=line,
        )

    def at_time_zone(self, node: t.AtTimeZone) -> Value:
        operand = self.value(node.operand)
        zone = self.to(node.zone, varchar(100))
        scale = operand.type.scale if operand.type.scale is not None else 3
        result = SqlType("datetimeoffset", scale=scale, nullable=operand.type.nullable)
        if operand.type.name == "datetimeoffset":
            return Value(f"sys.offset_at_zone({operand.sql}, {zone})", result)
        if family(operand.type) not in ("datetime", "datetime2", "smalldatetime"):
            raise SqlError(
                8116,
                f"Argument data type {operand.type.name} is invalid for argument 1 of AT TIME ZONE function.",
                line=self.line(node),
            )
        ticks = convert(operand, SqlType("datetime2", scale=7)).sql
        return Value(f"sys.ticks_at_zone({ticks}, {zone})", result)

    def subquery(self, node: t.Subquery) -> Value:
        relation = self.unit.subquery(node.query, self.scope)
        if len(relation.columns) != 1:
            raise SqlError(
                116,
                "Only one expression can be specified in the select list when the subquery is not introduced with EXISTS.",
                line=self.line(node),
            )
        type = relation.columns[0].type
        if type.name == "null":
            type = INT
        label = IMPLICIT if type.name in CHARACTER else 0
        return Value(f"({relation.sql})", type.with_nullable(True), label)

    def call(self, node: t.Call) -> Value:
        from tsqldev.compile.builtins import call

        return call(self, node)

    # ---- ordering ------------------------------------------------------------------------------------------------

    def order_key(self, value: Value, descending: bool) -> str:
        if value.type.name in ("text", "ntext", "image", "xml"):
            raise SqlError(
                306,
                "The text, ntext, and image data types cannot be compared or sorted, except when using IS NULL or LIKE operator.",
            )
        key = order_sql(value.type, value.sql)
        if value.type.name == "null":
            key = "NULL::int4"
        elif key.isdigit():
            key = f"({key})::int4"
        nulls = ""
        if value.type.nullable:
            nulls = " NULLS LAST" if descending else " NULLS FIRST"
        return f"{key}{' DESC' if descending else ''}{nulls}"

    def window(self, window: t.Window) -> str:
        parts: list[str] = []
        if window.partition:
            keys = [self.value(node) for node in window.partition]
            parts.append("PARTITION BY " + ", ".join(key_sql(v.type, v.sql) for v in keys))
        if window.order:
            items = []
            for item in window.order:
                if isinstance(item.expression, t.Literal) and item.expression.kind == "int":
                    raise SqlError(
                        5308,
                        "Windowed functions, aggregates and NEXT VALUE FOR functions do not support integer indices as ORDER BY clause expressions.",
                        line=self.line(item.expression),
                    )
                items.append(self.order_key(self.value(item.expression), item.descending))
            parts.append("ORDER BY " + ", ".join(items))
        if window.frame:
            parts.append(window.frame)
        return f" OVER ({' '.join(parts)})"


_VALUES: dict[type, Callable[[Expressions, Any], Value]] = {
    t.Literal: Expressions.literal,
    t.Variable: Expressions.variable,
    t.Name: Expressions.name,
    t.Parenthesis: Expressions.parenthesis,
    t.Unary: Expressions.unary,
    t.Binary: Expressions.binary,
    t.Cast: Expressions.cast,
    t.Case: Expressions.case,
    t.Collate: Expressions.collate,
    t.AtTimeZone: Expressions.at_time_zone,
    t.Subquery: Expressions.subquery,
    t.Call: Expressions.call,
}
