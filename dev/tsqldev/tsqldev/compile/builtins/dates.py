"""Dates and times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tsqldev.compile import tree as t
from tsqldev.compile.builtins.registry import (
    builtin,
    invalid_argument,
    nullable,
    text_argument,
    to_int,
)
from tsqldev.compile.convert import Value, convert
from tsqldev.compile.rules import family
from tsqldev.errors import SqlError, unsupported
from tsqldev.types import (
    BIGINT,
    DATETIME,
    INT,
    UNIQUEIDENTIFIER,
    SqlType,
    nvarchar,
)

if TYPE_CHECKING:
    from tsqldev.compile.expressions import Expressions

_PARTS = {
    "year": "year yy yyyy", "quarter": "quarter qq q", "month": "month mm m", "dayofyear": "dayofyear dy y",
    "day": "day dd d", "week": "week wk ww", "weekday": "weekday dw w", "hour": "hour hh", "minute": "minute mi n",
    "second": "second ss s", "millisecond": "millisecond ms", "microsecond": "microsecond mcs",
    "nanosecond": "nanosecond ns", "tzoffset": "tzoffset tz", "iso_week": "iso_week isowk isoww",
}  # fmt: skip
_PART_NAMES = {alias: part for part, aliases in _PARTS.items() for alias in aliases.split()}


def _part(c: Expressions, node: t.Node, name: str) -> str:
    if isinstance(node, t.Name) and len(node.parts) == 1:
        part = _PART_NAMES.get(node.parts[0].lower())
        if part is not None:
            return part
        raise SqlError(155, f"'{node.parts[0]}' is not a recognized {name.lower()} option.", severity=15)
    if isinstance(node, t.Call) and not node.arguments:
        return _part(c, t.Name((node.name,)), name)
    raise SqlError(1023, f"Invalid parameter 1 specified for {name.lower()}.", severity=15)


def _moment(value: Value, name: str, argument: int) -> Value:
    """An argument that is a date or time; strings become datetime, as do numbers."""
    kind = family(value.type)
    if kind in ("date", "time", "datetime", "datetime2", "smalldatetime", "datetimeoffset"):
        return value
    if kind == "char":
        return convert(value, SqlType("datetimeoffset" if name.upper() == "DATEDIFF_" else "datetime2", scale=7))
    if kind in ("int", "decimal", "float", "null"):
        return convert(value, DATETIME)
    raise invalid_argument(value, argument, name)


def _ticks(value: Value) -> str:
    return convert(value, SqlType("datetime2", scale=7)).sql


@builtin("DATEADD", 3, lazy=True)
def _dateadd(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    part = _part(c, n.arguments[0], "dateadd")
    number = convert(convert(c.value(n.arguments[1]), INT, explicit=True), BIGINT).sql
    given = c.value(n.arguments[2])
    if family(given.type) in ("char", "null", "int", "decimal", "float"):
        given = convert(given, DATETIME)
    moment = _moment(given, "dateadd", 3)
    type = moment.type.with_nullable(True)
    if part in ("tzoffset", "iso_week"):
        raise SqlError(
            9810, f"The datepart {part} is not supported by date function dateadd for data type {type.name}."
        )
    if type.name == "date" and part in ("hour", "minute", "second", "millisecond", "microsecond", "nanosecond"):
        raise SqlError(9810, f"The datepart {part} is not supported by date function dateadd for data type date.")
    if type.name == "time":
        if part not in ("hour", "minute", "second", "millisecond", "microsecond", "nanosecond"):
            raise SqlError(9810, f"The datepart {part} is not supported by date function dateadd for data type time.")
        return Value(f"sys.dateadd_time('{part}', {number}, {moment.sql})", type)
    if type.name == "datetimeoffset":
        return Value(f"sys.dateadd_offset('{part}', {number}, {moment.sql})", type)
    added = f"sys.dateadd('{part}', {number}, {_ticks(moment)})"
    if type.name == "date":
        return Value(f"sys.ticks_date({added})", type)
    if type.name in ("datetime", "smalldatetime"):
        return Value(f"sys.added_{type.name}({added})", type)
    return Value(added, type)


@builtin("DATEDIFF DATEDIFF_BIG", 3, lazy=True)
def _datediff(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    part = _part(c, n.arguments[0], n.name)
    sides = [_moment(c.value(node), n.name, i) for i, node in enumerate(n.arguments[1:], 2)]
    ticks = [f"sys.datetimeoffset_utc({v.sql})" if v.type.name == "datetimeoffset" else _ticks(v) for v in sides]
    big = n.name.upper() == "DATEDIFF_BIG"
    sql = f"sys.datediff('{part}', {ticks[0]}, {ticks[1]})"
    if not big:
        sql = f"sys.datediff_int({sql})"
    return Value(sql, (BIGINT if big else INT).with_nullable(nullable(*sides)))


@builtin("DATEPART", 2, lazy=True)
def _datepart(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    part = _part(c, n.arguments[0], "datepart")
    moment = _moment(c.value(n.arguments[1]), "datepart", 2)
    if part == "tzoffset":
        if moment.type.name != "datetimeoffset":
            raise SqlError(
                9810,
                f"The datepart tzoffset is not supported by date function datepart for data type {moment.type.name}.",
            )
        return Value(f"sys.datetimeoffset_minutes({moment.sql})", INT)
    return Value(f"sys.datepart('{part}', {_ticks(moment)})", INT.with_nullable(nullable(moment)))


@builtin("DATENAME", 2, lazy=True)
def _datename(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    part = _part(c, n.arguments[0], "datename")
    moment = _moment(c.value(n.arguments[1]), "datename", 2)
    if part == "tzoffset":
        if moment.type.name != "datetimeoffset":
            raise SqlError(
                9810,
                f"The datepart tzoffset is not supported by date function datename for data type {moment.type.name}.",
            )
        return Value(f"right(sys.datetimeoffset_text({moment.sql}, 0, 121), 6)", nvarchar(30))
    return Value(f"sys.datename('{part}', {_ticks(moment)})", nvarchar(30))


@builtin("DATETRUNC", 2, lazy=True)
def _datetrunc(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    part = _part(c, n.arguments[0], "datetrunc")
    moment = _moment(c.value(n.arguments[1]), "datetrunc", 2)
    if moment.type.name in ("time", "datetimeoffset"):
        raise unsupported(f"DATETRUNC of {moment.type.name}")
    ticks = Value(f"sys.datetrunc('{part}', {_ticks(moment)})", SqlType("datetime2", scale=7))
    return convert(ticks, moment.type)


@builtin("YEAR MONTH DAY", 1)
def _year(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    moment = _moment(a[0], n.name, 1)
    return Value(f"sys.datepart('{n.name.lower()}', {_ticks(moment)})", INT.with_nullable(nullable(moment)))


@builtin("EOMONTH", 1, 2)
def _eomonth(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    moment = convert(_moment(a[0], "eomonth", 1), SqlType("date"))
    months = to_int(a[1]) if len(a) > 1 else "0"
    return Value(f"sys.eomonth({moment.sql}, {months})", SqlType("date"))


@builtin("DATEFROMPARTS", 3)
def _datefromparts(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    return Value(f"sys.datefromparts({', '.join(to_int(v) for v in a)})", SqlType("date"))


@builtin("DATETIMEFROMPARTS", 7)
def _datetimefromparts(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    ticks = f"sys.datetime2fromparts({', '.join(to_int(v) for v in a)}, 3)"
    return Value(f"sys.ticks_datetime({ticks}, 'datetime2', false)", DATETIME)


@builtin("DATETIME2FROMPARTS", 8)
def _datetime2fromparts(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    scale = int(a[7].constant) if a[7].constant and a[7].constant.isdigit() else 7
    return Value(f"sys.datetime2fromparts({', '.join(to_int(v) for v in a)})", SqlType("datetime2", scale=scale))


@builtin("TODATETIMEOFFSET SWITCHOFFSET", 2)
def _switchoffset(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    minutes = (
        f"sys.offset_minutes({text_argument(a[1], n.name, 2).sql})" if family(a[1].type) == "char" else to_int(a[1])
    )
    if n.name.upper() == "SWITCHOFFSET":
        moment = convert(a[0], SqlType("datetimeoffset", scale=a[0].type.scale if a[0].type.scale is not None else 7))
        return Value(f"sys.switchoffset({moment.sql}, {minutes})", moment.type)
    moment = _moment(a[0], n.name, 1)
    scale = moment.type.scale if moment.type.scale is not None else 7
    return Value(f"sys.ticks_datetimeoffset({_ticks(moment)}, {minutes})", SqlType("datetimeoffset", scale=scale))


def _now(name: str, sql: str, type: SqlType) -> None:
    @builtin(name, 0)
    def build(c: Expressions, n: t.Call, a: list[Value]) -> Value:
        return Value(sql, type.with_nullable(False))


_now("GETDATE GETUTCDATE CURRENT_TIMESTAMP", "sys.getdate()", DATETIME)
_now("SYSDATETIME SYSUTCDATETIME", "sys.sysdatetime()", SqlType("datetime2", scale=7))
_now("SYSDATETIMEOFFSET", "sys.ticks_datetimeoffset(sys.sysdatetime(), 0)", SqlType("datetimeoffset", scale=7))
_now("NEWID NEWSEQUENTIALID", "gen_random_uuid()", UNIQUEIDENTIFIER)
