"""NULL and choice."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tsqldev.compile import tree as t
from tsqldev.compile.builtins.registry import (
    builtin,
    text_argument,
    to_int,
)
from tsqldev.compile.collation import order_sql
from tsqldev.compile.convert import Value, convert
from tsqldev.compile.rules import family
from tsqldev.errors import SqlError
from tsqldev.types import (
    INT,
)

if TYPE_CHECKING:
    from tsqldev.compile.expressions import Expressions


@builtin("ISNULL", 2)
def _isnull(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    """The type of the first argument, unless that is a bare NULL."""
    first, second = a
    if first.type.name == "null":
        return second if second.type.name != "null" else Value("NULL::int4", INT)
    type = first.type
    label = first.label
    if family(type) == "char" and family(second.type) == "char":
        collation, label = c.collation_of(first, second, c.line(n), "isnull")
        type = replace(type, collation=collation)
    other = convert(second, type)
    nullable = first.type.nullable and second.type.nullable
    return Value(f"coalesce({first.sql}, {other.sql})", type.with_nullable(nullable), label)


@builtin("COALESCE", 1, 254)
def _coalesce(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    if all(v.type.name == "null" for v in a):
        raise SqlError(
            4127, "At least one of the arguments to COALESCE must be an expression that is not the NULL constant."
        )
    merged = c.merge_values(a, c.line(n))
    # COALESCE is a CASE: it may be NULL as far as its types say, where ISNULL may not.
    nullable = any(v.type.nullable or v.type.name == "null" for v in a)
    return Value(
        f"coalesce({', '.join(v.sql for v in merged)})",
        merged[0].type.with_nullable(nullable),
        max(v.label for v in merged),
    )


@builtin("NULLIF", 2)
def _nullif(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    if a[0].type.name == "null":
        raise SqlError(
            4151,
            "The type of the first argument to NULLIF cannot be the NULL constant because the type of the "
            "first argument has to be known.",
        )
    test = c.compare("=", a[0], a[1], c.line(n))
    return Value(f"CASE WHEN {test} THEN NULL ELSE {a[0].sql} END", a[0].type.with_nullable(True), a[0].label)


@builtin("CHOOSE", 2, 254)
def _choose(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    merged = c.merge_values(a[1:], c.line(n))
    arms = " ".join(f"WHEN {i} THEN {v.sql}" for i, v in enumerate(merged, 1))
    return Value(f"CASE {to_int(a[0])} {arms} END", merged[0].type.with_nullable(True), max(v.label for v in merged))


@builtin("GREATEST LEAST", 1, 254)
def _greatest(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    merged = c.merge_values(a, c.line(n))
    if family(merged[0].type) in ("char", "uniqueidentifier"):
        direction = " DESC" if n.name.upper() == "GREATEST" else ""
        rows = ", ".join(f"({v.sql})" for v in merged)
        key = order_sql(merged[0].type, "g.v")
        sql = f"(SELECT g.v FROM (VALUES {rows}) g(v) WHERE g.v IS NOT NULL ORDER BY {key}{direction} LIMIT 1)"
        return Value(sql, merged[0].type, merged[0].label)
    return Value(f"{n.name.lower()}({', '.join(v.sql for v in merged)})", merged[0].type)


@builtin("ISNUMERIC", 1)
def _isnumeric(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    if family(a[0].type) in ("int", "decimal", "float"):
        return Value(f"(({a[0].sql}) IS NOT NULL)::int4", INT.with_nullable(False))
    return Value(f"sys.isnumeric({text_argument(a[0], 'isnumeric').sql})", INT.with_nullable(False))


@builtin("ISDATE", 1)
def _isdate(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    return Value(
        f"(sys.text_to_datetime({text_argument(a[0], 'isdate').sql}, 0, 'varchar', true) IS NOT NULL)::int4",
        INT.with_nullable(False),
    )
