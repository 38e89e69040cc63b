"""Mathematics."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tsqldev.compile import tree as t
from tsqldev.compile.builtins.registry import (
    builtin,
    invalid_argument,
    nullable,
    to_int,
)
from tsqldev.compile.convert import Value, convert
from tsqldev.compile.rules import family
from tsqldev.errors import unsupported
from tsqldev.types import FLOAT, INT

if TYPE_CHECKING:
    from tsqldev.compile.expressions import Expressions


def _number(value: Value, name: str) -> Value:
    kind = family(value.type)
    if kind in ("int", "decimal", "float"):
        if value.type.name in ("bit", "tinyint", "smallint"):
            return convert(value, INT)
        return convert(value, FLOAT) if value.type.name == "real" else value
    if kind in ("char", "null"):
        return convert(value, FLOAT)
    raise invalid_argument(value, 1, name)


@builtin("ABS SIGN", 1)
def _abs(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    v = _number(a[0], n.name)
    cast = f"::{v.type.postgres}" if n.name.upper() == "SIGN" else ""
    return Value(f"{n.name.lower()}({v.sql}){cast}", v.type)


@builtin("CEILING FLOOR", 1)
def _ceiling(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    v = _number(a[0], n.name)
    if family(v.type) == "int":
        return Value(v.sql, v.type)
    type = v.type
    if type.name in ("decimal", "numeric"):
        type = replace(type, scale=0)
    return Value(f"{n.name.lower()}({v.sql})", type)


@builtin("ROUND", 2, 3)
def _round(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    v = _number(a[0], "round")
    cut = to_int(a[2]) if len(a) > 2 else "0"
    type = v.type
    sql = f"sys.round(({v.sql})::numeric, {to_int(a[1])}, {cut})"
    if type.name in ("decimal", "numeric"):
        return Value(f"({sql})::{type.postgres}", type)
    if family(type) == "float":
        sql = f"sys.round_float({v.sql}, {to_int(a[1])}, {cut})"
        return Value(sql, type)
    return Value(f"({sql})::{type.postgres}", type)


@builtin("POWER", 2)
def _power(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    v = _number(a[0], "power")
    exponent = convert(a[1], FLOAT).sql
    if v.type.name in ("decimal", "numeric"):
        v = replace(v, type=replace(v.type, precision=38), constant=None)
    powered = Value(f"power(({v.sql})::float8, {exponent})", FLOAT.with_nullable(nullable(*a)))
    return powered if family(v.type) == "float" else convert(powered, v.type, explicit=True)


def _floating(name: str, sql: str, count: int = 1) -> None:
    @builtin(name, count)
    def build(c: Expressions, n: t.Call, a: list[Value]) -> Value:
        arguments = [convert(v, FLOAT).sql for v in a]
        return Value(sql.format(*arguments), FLOAT.with_nullable(nullable(*a)))


_floating("SQRT", "sys.square_root({})")
_floating("EXP", "exp({})")
_floating("LOG10", "sys.logarithm({}, 10::float8)")
_floating("SIN", "sin({})")
_floating("COS", "cos({})")
_floating("TAN", "tan({})")
_floating("COT", "cot({})")
_floating("ASIN", "asin({})")
_floating("ACOS", "acos({})")
_floating("ATAN", "atan({})")
_floating("ATN2", "atan2({}, {})", 2)
_floating("SQUARE", "power({}, 2)")


@builtin("DEGREES RADIANS", 1)
def _degrees(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    v = _number(a[0], n.name)
    result = Value(f"{n.name.lower()}(({v.sql})::float8)", FLOAT.with_nullable(nullable(v)))
    return convert(result, v.type, explicit=True) if family(v.type) == "int" else result


@builtin("LOG", 1, 2)
def _log(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    base = convert(a[1], FLOAT).sql if len(a) > 1 else "exp(1::float8)"
    return Value(f"sys.logarithm({convert(a[0], FLOAT).sql}, {base})", FLOAT)


@builtin("PI", 0)
def _pi(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    return Value("pi()", FLOAT.with_nullable(False))


@builtin("RAND", 0, 1)
def _rand(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    if a:
        raise unsupported("RAND with a seed")
    return Value("random()", FLOAT.with_nullable(False))
