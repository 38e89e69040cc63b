"""Strings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tsqldev.compile import tree as t
from tsqldev.compile.builtins.registry import (
    builtin,
    invalid_argument,
    is_unicode,
    limited,
    nullable,
    text_argument,
    text_type,
    to_int,
)
from tsqldev.compile.collation import sensitivity, supplementary
from tsqldev.compile.convert import Value, convert, quote
from tsqldev.compile.rules import family
from tsqldev.errors import SqlError, unsupported
from tsqldev.types import (
    BIGINT,
    DEFAULT_COLLATION,
    FLOAT,
    INT,
    MAX,
    SqlType,
    nvarchar,
    varchar,
)

if TYPE_CHECKING:
    from tsqldev.compile.expressions import Expressions


def _counted(value: Value, name: str, argument: int = 1) -> Value:
    """A string in which positions are counted."""
    text = text_argument(value, name, argument)
    return replace(text, sql=f"sys.no_pairs({text.sql})") if supplementary(text.type.collation) else text


def _is_utf8(value: Value) -> bool:
    return "UTF8" in (value.type.collation or "").upper()


@builtin("LEN", 1)
def _len(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    text = _counted(a[0], "len")
    wide = text.type.length == MAX
    sql = f"sys.len({text.sql})"
    return Value(sql if wide else f"{sql}::int4", (BIGINT if wide else INT).with_nullable(nullable(text)))


@builtin("DATALENGTH", 1)
def _datalength(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    v = a[0]
    kind = family(v.type)
    result = BIGINT if v.type.length == MAX else INT
    cast = "int8" if v.type.length == MAX else "int4"
    if kind == "char":
        size = f"{'sys.utf16_bytes' if is_unicode(v) else 'octet_length' if _is_utf8(v) else 'sys.codepage_bytes'}({v.sql})"
    elif kind == "binary":
        size = f"octet_length({v.sql})"
    elif kind == "null":
        return Value("NULL::int4", INT)
    else:
        fixed = {
            "bit": 1,
            "tinyint": 1,
            "smallint": 2,
            "int": 4,
            "bigint": 8,
            "real": 4,
            "float": 8,
            "money": 8,
            "smallmoney": 4,
            "uniqueidentifier": 16,
            "date": 3,
            "datetime": 8,
            "smalldatetime": 4,
            "rowversion": 8,
        }.get(v.type.name)
        if kind == "decimal" and fixed is None:
            precision = v.type.precision or 18
            fixed = 5 if precision <= 9 else 9 if precision <= 19 else 13 if precision <= 28 else 17
        if fixed is None:
            scale = v.type.scale or 0
            extra = 0 if scale <= 2 else 1 if scale <= 4 else 2
            fixed = {"time": 3, "datetime2": 6, "datetimeoffset": 8}[v.type.name] + extra
        size = f"CASE WHEN {v.sql} IS NOT NULL THEN {fixed} END"
    return Value(f"({size})::{cast}", result.with_nullable(nullable(v)))


@builtin("LEFT RIGHT", 2)
def _left(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    text = _counted(a[0], n.name)
    size = None
    if a[1].constant is not None and a[1].constant.lstrip("-").isdigit():
        number = int(a[1].constant)
        if number < 0:
            raise SqlError(536, f"Invalid length parameter passed to the {n.name.lower()} function.")
        size = max(number, 1) if text.type.length == MAX else min(text.type.length or 1, max(number, 1))
    return Value(f"sys.{n.name.lower()}({text.sql}, {to_int(a[1])})", text_type(text, size), text.label)


def _positive(value: Value) -> str | None:
    """The digits of a constant from 1 to 2^31-1."""
    text = value.constant or ""
    return text if text.isascii() and text.isdecimal() and 0 < int(text) < 2**31 else None


@builtin("SUBSTRING", 2, 3)
def _substring(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    for i, position in enumerate(a[1:], 2):
        if family(position.type) == "char":
            raise invalid_argument(position, i, "substring")
    length = f"sys.clamp({convert(a[2], BIGINT).sql})" if len(a) > 2 else "2147483647"
    start = f"sys.clamp({convert(a[1], BIGINT).sql})"
    if family(a[0].type) == "binary":
        size = a[0].type.length
        if size is not None and size != MAX and len(a) > 2 and a[2].constant is not None and a[2].constant.isdigit():
            size = max(1, min(int(a[2].constant), size))
        type = SqlType("varbinary", length=size, nullable=a[0].type.nullable)
        bounds = [_positive(v) for v in a[1:]]
        if len(bounds) == 2 and all(bounds):
            return Value(f"substr({a[0].sql}, {bounds[0]}, {bounds[1]})", type)
        return Value(f"sys.substring({a[0].sql}, {start}, {length})", type)
    text = _counted(a[0], "substring")
    if family(a[0].type) not in ("char", "null"):
        raise invalid_argument(a[0], 1, "substring")
    size = None
    if len(a) > 2 and a[2].constant is not None and a[2].constant.isdigit() and text.type.length != MAX:
        size = max(1, min(int(a[2].constant), text.type.length or 1))
    return Value(f"sys.substring({text.sql}, {start}, {length})", text_type(text, size), text.label)


@builtin("UPPER LOWER REVERSE", 1)
def _turned(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    text = _counted(a[0], n.name)
    units = "_units" if is_unicode(text) and n.name.upper() != "REVERSE" else ""
    return Value(f"sys.{n.name.lower()}{units}({text.sql})", text_type(text), text.label)


@builtin("LTRIM RTRIM", 1, 2)
def _side_trim(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    text = text_argument(a[0], n.name)
    characters = text_argument(a[1], n.name, 2).sql if len(a) > 1 else "' '"
    return Value(f"{n.name.lower()}({text.sql}, {characters})", text_type(text), text.label)


@builtin("TRIM", 1, 2)
def _trim(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    """TRIM(x), or TRIM(characters FROM x), which the parser gives as two arguments."""
    text = text_argument(a[-1], "trim")
    characters = text_argument(a[0], "trim").sql if len(a) > 1 else "' '"
    return Value(f"btrim({text.sql}, {characters})", text_type(text), text.label)


def _fold(c: Expressions, one: Value, other: Value, n: t.Call) -> str:
    """How both sides of a search are folded: the format of a PostgreSQL call."""

    collation, _ = c.collation_of(one, other, c.line(n), n.name.lower())
    return {"ci": "sys.fold({})", "ai": "sys.fold_accents({})"}.get(sensitivity(collation), "{}")


@builtin("REPLACE", 3)
def _replace(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    texts = [text_argument(v, "replace", i) for i, v in enumerate(a, 1)]
    fold = "true" if _fold(c, texts[0], texts[1], n) != "{}" else "false"
    unicode = any(is_unicode(v) for v in texts)
    size = MAX if any(v.type.length == MAX for v in texts) else (4000 if unicode else 8000)
    type = SqlType(
        "nvarchar" if unicode else "varchar", length=size, collation=texts[0].type.collation, nullable=nullable(*texts)
    )
    return Value(f"sys.replace({texts[0].sql}, {texts[1].sql}, {texts[2].sql}, {fold})", type, texts[0].label)


@builtin("CHARINDEX", 2, 3)
def _charindex(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    start = f"sys.clamp({convert(a[2], BIGINT).sql})" if len(a) > 2 else "1"
    wide = a[1].type.length == MAX
    result = (BIGINT if wide else INT).with_nullable(nullable(*a))
    cast = "int8" if wide else "int4"
    needle, hay = _counted(a[0], "charindex"), _counted(a[1], "charindex", 2)
    fold = _fold(c, needle, hay, n)
    texts = f"{fold.format(needle.sql)}, {fold.format(hay.sql)}"
    if start == "1" and not is_unicode(hay) and not _is_utf8(hay):
        return Value(f"sys.charindex_first({texts})::{cast}", result)
    return Value(f"sys.charindex({texts}, {start})::{cast}", result)


@builtin("PATINDEX", 2)
def _patindex(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    pattern, text = text_argument(a[0], "patindex"), text_argument(a[1], "patindex", 2)
    fold = "true" if _fold(c, pattern, text, n) != "{}" else "false"
    wide = text.type.length == MAX
    return Value(
        f"sys.patindex({pattern.sql}, {text.sql}, {fold})::{'int8' if wide else 'int4'}",
        (BIGINT if wide else INT).with_nullable(nullable(*a)),
    )


@builtin("STUFF", 4)
def _stuff(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    text, insert = _counted(a[0], "stuff"), text_argument(a[3], "stuff", 4)
    unicode = is_unicode(text) or is_unicode(insert)
    sizes = (text.type.length or 1, insert.type.length or 1)
    size = MAX if MAX in sizes else limited(sum(sizes), unicode)
    type = SqlType("nvarchar" if unicode else "varchar", length=size, collation=text.type.collation)
    return Value(f"sys.stuff({text.sql}, {to_int(a[1])}, {to_int(a[2])}, {insert.sql})", type, text.label)


@builtin("REPLICATE", 2)
def _replicate(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    text = text_argument(a[0], "replicate")
    size = MAX if text.type.length == MAX else (4000 if is_unicode(text) else 8000)
    if text.constant is not None and a[1].constant is not None and a[1].constant.isdigit() and size != MAX:
        size = max(1, min(size, len(text.constant) * int(a[1].constant)))
    limit = 2147483647 if size == MAX else (4000 if is_unicode(text) else 8000)
    return Value(
        f"sys.replicate({text.sql}, {to_int(a[1])}, {limit})", text_type(text, size, nullable=True), text.label
    )


@builtin("SPACE", 1)
def _space(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    return Value(f"sys.replicate(' ', {to_int(a[0])}, 8000)", varchar(8000))


@builtin("CONCAT", 2, 254)
def _concat(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    return _joined(c, n, a, "concat({})")


def _joined(c: Expressions, n: t.Call, a: list[Value], form: str) -> Value:
    texts = [text_argument(v, n.name, i) for i, v in enumerate(a, 1)]
    unicode = any(is_unicode(v) for v in texts)
    sizes = [v.type.length or 1 for v in texts]
    size = MAX if MAX in sizes else limited(sum(sizes) + (len(sizes) * sizes[0] if "ws" in form else 0), unicode)
    chosen = texts[0]
    for v in texts[1:]:
        collation, label = c.collation_of(chosen, v, c.line(n), n.name.lower())
        chosen = replace(chosen, type=replace(chosen.type, collation=collation), label=label)
    type = SqlType(
        "nvarchar" if unicode else "varchar",
        length=max(size, 1) if size != MAX else MAX,
        collation=chosen.type.collation,
        nullable=False,
    )
    return Value(form.format(", ".join(v.sql for v in texts)), type, chosen.label)


@builtin("CONCAT_WS", 3, 254)
def _concat_ws(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    joined = _joined(c, n, a, "concat_ws({})")
    separator = text_argument(a[0], "concat_ws")
    joined.sql = f"concat_ws(coalesce({separator.sql}, ''){joined.sql[len('concat_ws(') + len(separator.sql) :]}"
    return joined


@builtin("QUOTENAME", 1, 2)
def _quotename(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    text = convert(text_argument(a[0], "quotename"), nvarchar(258))
    mark = convert(a[1], nvarchar(1)).sql if len(a) > 1 else "'['"
    return Value(f"sys.quotename({text.sql}, {mark})", nvarchar(258), text.label)


@builtin("PARSENAME", 2)
def _parsename(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    text = convert(text_argument(a[0], "parsename"), nvarchar(4000))
    return Value(f"sys.parsename({text.sql}, {to_int(a[1])})", nvarchar(128), text.label)


@builtin("ASCII", 1)
def _ascii(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    return Value(f"sys.ascii({text_argument(a[0], 'ascii').sql})", INT)


@builtin("UNICODE", 1)
def _unicode(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    return Value(f"sys.unicode({_counted(a[0], 'unicode').sql})", INT)


@builtin("CHAR NCHAR", 1)
def _char(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    name = n.name.lower()
    type = SqlType(name, length=1, collation=DEFAULT_COLLATION)
    if a[0].constant is not None and a[0].constant.isdigit() and name == "char" and 0 < int(a[0].constant) < 128:
        text = chr(int(a[0].constant))
        return Value(f"chr({int(a[0].constant)})", type.with_nullable(False), constant=text)
    return Value(f"sys.{name}({to_int(a[0])})", type)


@builtin("STR", 1, 3)
def _str(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    size = to_int(a[1]) if len(a) > 1 else "10"
    digits = to_int(a[2]) if len(a) > 2 else "0"
    length = int(a[1].constant) if len(a) > 1 and a[1].constant and a[1].constant.isdigit() else 10
    return Value(f"sys.str({convert(a[0], FLOAT).sql}, {size}, {digits})", varchar(max(length, 1)))


@builtin("TRANSLATE", 3)
def _translate(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    texts = [text_argument(v, "translate", i) for i, v in enumerate(a, 1)]
    return Value(f"sys.translate({', '.join(v.sql for v in texts)})", text_type(texts[0]), texts[0].label)


@builtin("STRING_ESCAPE", 2)
def _string_escape(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    if (a[1].constant or "").lower() != "json":
        raise unsupported("STRING_ESCAPE of another kind than json")
    return Value(f"sys.json_escape({text_argument(a[0], 'string_escape').sql})", nvarchar(MAX))


@builtin("FORMAT", 2, 3)
def _format(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    if len(a) > 2 and (a[2].constant or "").lower() not in ("en-us", ""):
        raise unsupported("FORMAT with another culture than en-US")
    kind = family(a[0].type)
    pattern = a[1].constant
    if pattern is None:
        raise unsupported("FORMAT with a pattern that is no constant")
    if kind in ("date", "datetime", "datetime2", "smalldatetime", "datetimeoffset"):
        ticks = convert(a[0], SqlType("datetime2", scale=7)).sql
        return Value(f"sys.format_ticks({ticks}, {quote(_date_pattern(pattern))})", nvarchar(4000))
    if kind in ("int", "decimal", "float"):
        number = a[0].sql if kind != "float" else f"sys.float_numeric({a[0].sql})"
        return Value(f"sys.format_number(({number})::numeric, {quote(_number_pattern(pattern))})", nvarchar(4000))
    raise invalid_argument(a[0], 1, "format")


def _date_pattern(pattern: str) -> str:
    standard = {"d": "M/d/yyyy", "s": "yyyy-MM-ddTHH:mm:ss", "u": "yyyy-MM-dd HH:mm:ssZ"}
    if len(pattern) == 1:
        if pattern not in standard:
            raise unsupported(f"FORMAT pattern {pattern}")
        return standard[pattern]
    letters = {c for c in pattern if c.isalpha()} - set("yMdHhmsftTZ")
    if letters or "'" in pattern or '"' in pattern or "\\" in pattern:
        raise unsupported(f"FORMAT pattern {pattern}")
    return pattern


def _number_pattern(pattern: str) -> str:
    if pattern and (pattern[0] in "NnDdFf" and (pattern[1:].isdigit() or not pattern[1:])):
        return pattern
    if pattern and set(pattern) <= set("0#,."):
        return pattern
    raise unsupported(f"FORMAT pattern {pattern}")
