"""Aggregates and window functions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tsqldev.compile import tree as t
from tsqldev.compile.builtins.registry import (
    arity,
    builtin,
    is_unicode,
    text_argument,
    to_int,
)
from tsqldev.compile.collation import key_sql, sensitivity
from tsqldev.compile.convert import COERCIBLE, IMPLICIT, Value, convert
from tsqldev.compile.rules import family
from tsqldev.errors import SqlError, unsupported
from tsqldev.types import (
    BIGINT,
    FLOAT,
    INT,
    MAX,
    SqlType,
)

if TYPE_CHECKING:
    from tsqldev.compile.expressions import Expressions


def _aggregate_argument(c: Expressions, n: t.Call) -> Value:
    if c.no_aggregate and n.over is None:
        raise SqlError(147, c.no_aggregate, severity=15)
    scope = c.scope
    if scope.aggregating and n.over is None:
        raise SqlError(
            130, "Cannot perform an aggregate function on an expression containing an aggregate or a subquery."
        )
    if n.over is not None:
        return c.value(n.arguments[0])
    scope.aggregating = True
    try:
        return c.value(n.arguments[0])
    finally:
        scope.aggregating = False


def _over(c: Expressions, n: t.Call) -> str:
    if n.over is None:
        return ""
    if n.distinct:
        raise SqlError(10759, "Use of DISTINCT is not allowed with the OVER clause.", severity=15)
    if c.no_aggregate:
        raise SqlError(4108, "Windowed functions can only appear in the SELECT or ORDER BY clauses.", severity=15)
    return c.window(n.over)


@builtin("COUNT COUNT_BIG", 0, 1, lazy=True)
def _count(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    big = n.name.upper() == "COUNT_BIG"
    type = (BIGINT if big else INT).with_nullable(False)
    if n.star or not n.arguments:
        if not n.star:
            raise arity("count", 1, 1)
        if c.no_aggregate and n.over is None:
            raise SqlError(147, c.no_aggregate, severity=15)
        inner = "*"
    else:
        v = _aggregate_argument(c, n)
        inner = f"DISTINCT {key_sql(v.type, v.sql)}" if n.distinct else v.sql
    sql = f"count({inner}){_over(c, n)}"
    return Value(sql if big else f"({sql})::int4", type)


@builtin("SUM AVG", 1, lazy=True)
def _sum(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    v = _aggregate_argument(c, n)
    name = n.name.upper()
    kind = family(v.type)
    if v.type.name == "bit" or kind not in ("int", "decimal", "float"):
        raise SqlError(
            8117,
            f"Operand data type {v.type.name if kind != 'null' else 'NULL'} is invalid for {name.lower()} operator.",
        )
    distinct = "DISTINCT " if n.distinct else ""
    over = _over(c, n)
    if kind == "int":
        type = BIGINT if v.type.name == "bigint" else INT
        if name == "SUM":
            return Value(f"(sum({distinct}{v.sql}){over})::{type.postgres}", type)
        return Value(
            f"div((sum({distinct}{v.sql}){over})::numeric, nullif(count({distinct}{v.sql}){over}, 0))::{type.postgres}",
            type,
        )
    if kind == "float":
        return Value(f"{name.lower()}({distinct}({v.sql})::float8){over}", FLOAT)
    if v.type.name in ("money", "smallmoney"):
        money = SqlType("money")
        if name == "SUM":
            return Value(f"(sum({distinct}{v.sql}){over})::numeric(19,4)", money)
        return Value(f"(avg({distinct}{v.sql}){over})::numeric(19,4)", money)
    scale = v.type.scale or 0
    if name == "SUM":
        return Value(
            f"(sum({distinct}{v.sql}){over})::numeric(38,{scale})", replace(v.type, precision=38, nullable=True)
        )
    scale = max(scale, 6)
    total = f"(sum({distinct}{v.sql}){over})::numeric(200,{scale + 4})"
    return Value(
        f"trunc({total} / nullif(count({distinct}{v.sql}){over}, 0), {scale})::numeric(38,{scale})",
        replace(v.type, precision=38, scale=scale, nullable=True),
    )


@builtin("MIN MAX", 1, lazy=True)
def _min(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    v = _aggregate_argument(c, n)
    kind = family(v.type)
    name = n.name.lower()
    if v.type.name in ("bit", "text", "ntext", "image", "xml") or kind == "null":
        raise SqlError(8117, f"Operand data type {v.type.name} is invalid for {name} operator.")
    if kind == "char":
        how = sensitivity(v.type.collation)
        function = name if how == "bin2" else f"sys.{name}_{how}"
    elif kind == "uniqueidentifier":
        function = f"sys.{name}_uuid"
    else:
        function = name
    cast = f"::{v.type.postgres}" if v.type.name in ("tinyint", "smallint") else ""
    sql = f"{function}({v.sql}){_over(c, n)}"
    return Value(f"({sql}){cast}" if cast else sql, v.type.with_nullable(True), v.label)


@builtin("STDEV STDEVP VAR VARP", 1, lazy=True)
def _stdev(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    v = convert(_aggregate_argument(c, n), FLOAT)
    function = {"STDEV": "stddev_samp", "STDEVP": "stddev_pop", "VAR": "var_samp", "VARP": "var_pop"}[n.name.upper()]
    return Value(f"{function}({'DISTINCT ' if n.distinct else ''}{v.sql}){_over(c, n)}", FLOAT)


@builtin("STRING_AGG", 2, lazy=True)
def _string_agg(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    if n.over is not None:
        raise unsupported("STRING_AGG OVER")
    v = text_argument(_aggregate_argument(c, n), "string_agg")
    separator = text_argument(c.value(n.arguments[1]), "string_agg", 2)
    order = ""
    if n.within is not None:
        c.scope.aggregating = True
        try:
            keys = [c.order_key(c.value(item.expression), item.descending) for item in n.within]
        finally:
            c.scope.aggregating = False
        order = " ORDER BY " + ", ".join(keys)
    unicode = is_unicode(v)
    size = MAX if v.type.length == MAX else (4000 if unicode else 8000)
    type = SqlType("nvarchar" if unicode else "varchar", length=size, collation=v.type.collation)
    sql = f"string_agg({v.sql}, {separator.sql}{order})"
    if size != MAX:
        sql = f"sys.aggregate_limit({sql}, {size})"
    return Value(sql, type, v.label)


@builtin("ROW_NUMBER RANK DENSE_RANK CUME_DIST PERCENT_RANK", 0)
def _row_number(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    _ranked(n)
    type = FLOAT if n.name.upper() in ("CUME_DIST", "PERCENT_RANK") else BIGINT
    return Value(f"{n.name.lower()}(){_over(c, n)}", type.with_nullable(False))


def _ranked(n: t.Call) -> None:
    if n.over is None:
        raise SqlError(10753, f"The function '{n.name.upper()}' must have an OVER clause.", severity=15)
    if not n.over.order:
        raise SqlError(4112, f"The function '{n.name.upper()}' must have an OVER clause with ORDER BY.", severity=15)


@builtin("NTILE", 1)
def _ntile(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    _ranked(n)
    return Value(f"(ntile({to_int(a[0])}){_over(c, n)})::int8", BIGINT.with_nullable(False))


@builtin("LAG LEAD", 1, 3)
def _lag(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    _ranked(n)
    offset = to_int(a[1]) if len(a) > 1 else "1"
    default = f", {convert(a[2], a[0].type).sql}" if len(a) > 2 else ""
    return Value(
        f"{n.name.lower()}({a[0].sql}, {offset}{default}){_over(c, n)}",
        a[0].type.with_nullable(True),
        IMPLICIT if a[0].label else COERCIBLE,
    )


@builtin("FIRST_VALUE LAST_VALUE", 1)
def _first_value(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    _ranked(n)
    return Value(f"{n.name.lower()}({a[0].sql}){_over(c, n)}", a[0].type.with_nullable(True), a[0].label)
