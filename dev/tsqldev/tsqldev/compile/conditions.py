"""Conditions: three-valued tests as PostgreSQL booleans, by the collation and the common type of their sides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tsqldev.compile import tree as t
from tsqldev.compile.collation import key_sql, order_sql, supplementary
from tsqldev.compile.convert import IMPLICIT, Value, convert, quote
from tsqldev.compile.patterns import counts, in_units, like_regex
from tsqldev.compile.rules import common, family
from tsqldev.compile.scope import Scope
from tsqldev.errors import SqlError
from tsqldev.types import (
    CHARACTER,
    MAX,
    UNICODE,
    SqlType,
)

if TYPE_CHECKING:
    from tsqldev.compile.unit import Unit


class Conditions:
    """The half of `Expressions` that compiles conditions; what it needs of the other half stands first."""

    unit: Unit
    scope: Scope

    def value(self, node: t.Node) -> Value:
        raise NotImplementedError

    def line(self, node: t.Node) -> int:
        raise NotImplementedError

    def collation_of(self, left: Value, right: Value, line: int, operation: str) -> tuple[str, int]:
        raise NotImplementedError

    def condition(self, node: t.Node) -> str:
        method = _CONDITIONS.get(type(node))
        if method is None:
            raise SqlError(
                4145,
                "An expression of non-boolean type specified in a context where a condition is expected.",
                severity=15,
                line=self.line(node),
            )
        return method(self, node)

    def logic(self, node: t.Logic) -> str:
        return f"({self.condition(node.left)} {node.op} {self.condition(node.right)})"

    def negation(self, node: t.Not) -> str:
        return f"(NOT {self.condition(node.operand)})"

    def enclosed(self, node: t.Parenthesis) -> str:
        return self.condition(node.operand)

    def comparison(self, node: t.Compare) -> str:
        return self.compare(node.op, self.value(node.left), self.value(node.right), self.line(node))

    def compare(self, op: str, left: Value, right: Value, line: int) -> str:
        a, b = self.comparable(left, right, line, ordered=op in ("<", "<=", ">", ">="), op=op)
        return f"({a} {op} {b})"

    def comparable(
        self, left: Value, right: Value, line: int, *, ordered: bool = False, op: str = "equal to"
    ) -> tuple[str, str]:
        """Both sides as PostgreSQL expressions that compare as T-SQL compares them."""
        names = (left.type.name, right.type.name)
        if names[0] == "null" and names[1] == "null":
            return "NULL::int4", "NULL::int4"
        for type in (left.type, right.type):
            if type.name in ("text", "ntext", "image", "xml"):
                word = _COMPARISON_WORDS.get(op, op)
                raise SqlError(
                    402, f"The data types {names[0]} and {names[1]} are incompatible in the {word} operator.", line=line
                )
        target = common(left.type, right.type)
        try:
            if family(target) == "char":
                collation, _ = self.collation_of(left, right, line, _COMPARISON_WORDS.get(op, "equal to"))
                target = replace(target, collation=collation)
                a, b = self._text_side(left, target), self._text_side(right, target)
            elif family(target) == "int" or (names[0] == names[1] and names[0] not in ("decimal", "numeric")):
                # PostgreSQL compares integers of different sizes, indexes included.
                a, b = self._plain(left, target), self._plain(right, target)
            elif family(target) == "binary":
                target, a, b = self._byte_sides(left, right, target)
            elif family(target) == "decimal":
                a, b = self._plain(left, target), self._plain(right, target)
            else:
                a, b = convert(left, target).sql, convert(right, target).sql
        except SqlError as error:
            error.line = line
            raise
        if ordered:
            return order_sql(target, a), order_sql(target, b)
        return key_sql(target, a), key_sql(target, b)

    def _text_side(self, value: Value, target: SqlType) -> str:
        if family(value.type) == "char":
            return value.sql
        return convert(value, replace(target, length=MAX, name="nvarchar" if target.name in UNICODE else "varchar")).sql

    def _byte_sides(self, left: Value, right: Value, target: SqlType) -> tuple[SqlType, str, str]:
        """Beside a binary(n) a shorter value is filled up to n, so that an index on the column serves."""
        sides = [convert(left, target).sql, convert(right, target).sql]
        for i, (fixed, other) in enumerate(((left, right), (right, left))):
            size, given = fixed.type.length or 1, other.type.length or 1
            if fixed.type.name == "binary" and given != MAX and given <= size and family(other.type) == "binary":
                if (other.type.name, given) != ("binary", size):
                    sides[1 - i] = f"sys.pad_bytes({sides[1 - i]}, {size})"
                return replace(target, name="binary", length=size), sides[0], sides[1]
        return target, sides[0], sides[1]

    def _plain(self, value: Value, target: SqlType) -> str:
        kind = family(value.type)
        if kind in ("int", "decimal"):
            return value.sql
        return convert(value, target).sql

    def quantified(self, node: t.Quantified) -> str:
        left = self.value(node.left)
        relation = self.unit.subquery(node.query, self.scope)
        self._one_column(relation.columns, node)
        right = Value("q.c1", relation.columns[0].type, IMPLICIT if relation.columns[0].type.name in CHARACTER else 0)
        a, b = self.comparable(left, right, self.line(node), ordered=node.op not in ("=", "<>"), op=node.op)
        return f"({a} {node.op} {node.quantifier} (SELECT {b} FROM ({relation.sql}) q))"

    def _one_column(self, columns: Sequence[object], node: t.Node) -> None:
        if len(columns) != 1:
            raise SqlError(
                116,
                "Only one expression can be specified in the select list when the subquery is not introduced with EXISTS.",
                line=self.line(node),
            )

    def is_null(self, node: t.IsNull) -> str:
        value = self.value(node.operand)
        sql = "NULL::int4" if value.type.name == "null" else value.sql
        return f"({sql} IS {'NOT ' if node.negated else ''}NULL)"

    def between(self, node: t.Between) -> str:
        operand = self.value(node.operand)
        low = self.compare(">=", operand, self.value(node.low), self.line(node))
        high = self.compare("<=", operand, self.value(node.high), self.line(node))
        return f"(NOT ({low} AND {high}))" if node.negated else f"({low} AND {high})"

    def in_list(self, node: t.InList) -> str:
        operand = self.value(node.operand)
        values = [self.value(item) for item in node.items]
        line = self.line(node)
        pairs = [self.comparable(operand, value, line) for value in values]
        if len({a for a, _ in pairs}) == 1:
            listed = ", ".join(b for _, b in pairs)
            return f"({pairs[0][0]} {'NOT IN' if node.negated else 'IN'} ({listed}))"
        joined = " OR ".join(f"{a} = {b}" for a, b in pairs)
        return f"(NOT ({joined}))" if node.negated else f"({joined})"

    def in_query(self, node: t.InQuery) -> str:
        operand = self.value(node.operand)
        relation = self.unit.subquery(node.query, self.scope)
        self._one_column(relation.columns, node)
        type = relation.columns[0].type
        right = Value("q.c1", type, IMPLICIT if type.name in CHARACTER else 0)
        a, b = self.comparable(operand, right, self.line(node))
        inner = relation.sql if b == "q.c1" else f"SELECT {b} FROM ({relation.sql}) q"
        return f"({a} {'NOT IN' if node.negated else 'IN'} ({inner}))"

    def like(self, node: t.Like) -> str:
        operand, pattern = self.value(node.operand), self.value(node.pattern)
        line = self.line(node)
        for argument, value in enumerate((operand, pattern), 1):
            if value.type.name in ("xml", "image") or family(value.type) == "binary":
                raise SqlError(
                    8116,
                    f"Argument data type {value.type.name} is invalid for argument {argument} of like function.",
                    line=line,
                )
        collation, _ = self.collation_of(operand, pattern, line, "like")
        target = SqlType("nvarchar", length=MAX, collation=collation)
        text = convert(operand, target).sql
        kind = key_sql(target, "")[4:-2]
        fold = {"ci": "sys.fold({0})", "ai": "sys.fold_accents({0})"}.get(kind, "{0}")
        negated = "!~" if node.negated else "~"
        blanks = operand.type.name not in UNICODE and pattern.type.name not in UNICODE
        escape = self.value(node.escape) if node.escape is not None else None
        # Beyond U+FFFF, _ and a set stand for half a character.
        halves = operand.type.name in UNICODE
        if supplementary(collation):
            text = f"sys.no_pairs({text})"
        if pattern.constant is not None and (escape is None or escape.constant is not None):
            constant, mark = pattern.constant, escape.constant if escape else None
            if halves and counts(constant, mark):
                if kind == "bin2":
                    constant, text = in_units(constant), f"sys.like_units({text})"
                else:
                    text = f"sys.like_text({text}, '_')"
            regex = like_regex(constant, mark, trailing_blanks=blanks)
            if regex is None:
                return "(false)" if not node.negated else f"({text} IS NOT NULL)"
            return f"({fold.format(text)} {negated} {fold.format(quote(regex) + '::text') if kind != 'bin2' else quote(regex)})"
        escape_sql = convert(escape, target).sql if escape is not None else "NULL"
        wanted = convert(pattern, target).sql
        flag = "true" if blanks else "false"
        if halves and kind == "bin2":
            text, wanted = f"sys.like_units({text})", f"sys.like_units({wanted})"
        elif halves:
            text = f"sys.like_text({text}, {wanted})"
        regex_sql = f"sys.like_regex({wanted}, {escape_sql}, {flag})"
        return f"({fold.format(text)} {negated} {fold.format(regex_sql)})"

    def exists(self, node: t.Exists) -> str:
        relation = self.unit.subquery(node.query, self.scope)
        return f"EXISTS ({relation.sql})"

    def condition_call(self, node: t.Call) -> str:
        if node.name.upper() == "UPDATE":
            column = node.arguments[0]
            assert isinstance(column, t.Name)
            return f"({self.unit.parameter(f'UPDATE({column.parts[-1]})', SqlType('bit'))} <> 0)"
        raise SqlError(
            4145,
            "An expression of non-boolean type specified in a context where a condition is expected.",
            severity=15,
            line=self.line(node),
        )


_COMPARISON_WORDS = {
    "=": "equal to",
    "<>": "not equal to",
    "<": "less than",
    "<=": "less than or equal to",
    ">": "greater than",
    ">=": "greater than or equal to",
}

_CONDITIONS: dict[type, Callable[[Conditions, Any], str]] = {
    t.Logic: Conditions.logic,
    t.Not: Conditions.negation,
    t.Parenthesis: Conditions.enclosed,
    t.Compare: Conditions.comparison,
    t.Quantified: Conditions.quantified,
    t.IsNull: Conditions.is_null,
    t.Between: Conditions.between,
    t.InList: Conditions.in_list,
    t.InQuery: Conditions.in_query,
    t.Like: Conditions.like,
    t.Exists: Conditions.exists,
    t.Call: Conditions.condition_call,
}
