"""The functions that T-SQL texts may call: how many arguments, what type comes back, which PostgreSQL text it is.

A name that is in no table here and not in the catalog's is refused with 195.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tsqldev.compile import tree as t
from tsqldev.compile.convert import COERCIBLE, IMPLICIT, Value, convert, quote
from tsqldev.compile.rules import family
from tsqldev.errors import SqlError, unsupported
from tsqldev.types import (
    BIGINT,
    DATETIME,
    DEFAULT_COLLATION,
    FLOAT,
    INT,
    MAX,
    SYSNAME,
    UNICODE,
    UNIQUEIDENTIFIER,
    SqlType,
    decimal,
    nvarchar,
    varbinary,
    varchar,
)

if TYPE_CHECKING:
    from tsqldev.compile.expressions import Expressions

Build = Callable[["Expressions", t.Call, list[Value]], Value]


@dataclass(frozen=True, slots=True)
class Builtin:
    minimum: int
    maximum: int
    build: Build
    lazy: bool = False  # arguments are not compiled before `build`


BUILTINS: dict[str, Builtin] = {}


def builtin(name: str, minimum: int, maximum: int | None = None, *, lazy: bool = False) -> Callable[[Build], Build]:
    def register(build: Build) -> Build:
        for each in name.split():
            BUILTINS[each] = Builtin(minimum, minimum if maximum is None else maximum, build, lazy)
        return build

    return register


def call(compiler: Expressions, node: t.Call) -> Value:
    name = node.name.upper()
    line = compiler.line(node)
    if node.schema and node.schema[-1].lower() not in ("sys", ""):
        raise SqlError(
            4121,
            f'Cannot find either column "{node.schema[-1]}" or the user-defined function or aggregate '
            f'"{".".join((*node.schema, node.name))}", or the name is ambiguous.',
            line=line,
        )
    found = BUILTINS.get(name)
    try:
        if found is not None:
            count = len(node.arguments)
            if not found.minimum <= count <= found.maximum:
                raise _arity(name, found.minimum, found.maximum)
            if node.star and name not in ("COUNT", "COUNT_BIG"):
                raise SqlError(102, "Incorrect syntax near '*'.", severity=15)
            if node.within is not None and name != "STRING_AGG":
                raise unsupported(f"{name} WITHIN GROUP")
            values = [] if found.lazy else [compiler.value(argument) for argument in node.arguments]
            return found.build(compiler, node, values)
        name = _SAME.get(name, name)
        session = compiler.unit.session_function(name, [] if node.arguments else None)
        if session is not None:
            return session
        metadata = compiler.unit.catalog.functions.get(name)
        if metadata is not None:
            count = len(node.arguments)
            if not metadata.required <= count <= len(metadata.arguments):
                raise _arity(name, metadata.required, len(metadata.arguments))
            values = [compiler.value(argument) for argument in node.arguments]
            passed = [convert(v, type).sql for v, type in zip(values, metadata.arguments, strict=False)]
            passed += [f"NULL::{type.postgres}" for type in metadata.arguments[count:]]
            sql = f"sys.{metadata.sql}({', '.join(passed)})"
            if metadata.result_of is None:
                return Value(sql, metadata.result)
            type = metadata.result_of([v.constant for v in values])
            return Value(f"({sql})::{type.postgres}", type)
    except SqlError as error:
        if error.line == 1:
            error.line = line
        raise
    raise SqlError(195, f"'{node.name}' is not a recognized built-in function name.", severity=15, state=10, line=line)


# Functions without parentheses that are another function with none.
_SAME = {
    "SYSTEM_USER": "SUSER_SNAME",
    "CURRENT_USER": "USER_NAME",
    "SESSION_USER": "USER_NAME",
    "USER": "USER_NAME",
}


def _arity(name: str, minimum: int, maximum: int) -> SqlError:
    if minimum == maximum:
        return SqlError(174, f"The {name.lower()} function requires {minimum} argument(s).", severity=15)
    return SqlError(189, f"The {name.lower()} function requires {minimum} to {maximum} arguments.", severity=15)


def _invalid(value: Value, argument: int, name: str) -> SqlError:
    return SqlError(
        8116, f"Argument data type {value.type.name} is invalid for argument {argument} of {name.lower()} function."
    )


def _text(value: Value, name: str, argument: int = 1) -> Value:
    """An argument that must be a string: other types are converted as SQL Server does implicitly."""
    kind = family(value.type)
    if kind == "char":
        return value
    if kind == "null":
        return convert(value, varchar(1))
    if kind == "binary":
        size = MAX if value.type.length == MAX else (value.type.length or 1)
        return convert(value, varchar(size))
    if kind in (
        "int",
        "decimal",
        "float",
        "uniqueidentifier",
        "date",
        "time",
        "datetime",
        "datetime2",
        "smalldatetime",
        "datetimeoffset",
    ):
        from tsqldev.compile.rules import text_length

        return convert(value, varchar(text_length(value.type)))
    raise _invalid(value, argument, name)


def _is_unicode(value: Value) -> bool:
    return value.type.name in UNICODE


def _limited(size: int, unicode: bool) -> int:
    return min(size, 4000 if unicode else 8000)


def _text_type(like: Value, length: int | None = None, *, nullable: bool | None = None) -> SqlType:
    """nvarchar or varchar after the argument, of the same collation."""
    base = "nvarchar" if _is_unicode(like) else "varchar"
    size = like.type.length if length is None else length
    if like.type.name in ("text", "ntext", "xml"):
        size = MAX
    return SqlType(
        base,
        length=size,
        collation=like.type.collation or DEFAULT_COLLATION,
        nullable=like.type.nullable if nullable is None else nullable,
    )


def _int(value: Value) -> str:
    return convert(value, INT).sql


def _nullable(*values: Value) -> bool:
    return any(v.type.nullable for v in values)


# ---- strings ----------------------------------------------------------------------------------------------------


@builtin("LEN", 1)
def _len(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    text = _text(a[0], "len")
    wide = text.type.length == MAX
    sql = f"sys.len({text.sql})"
    return Value(sql if wide else f"{sql}::int4", (BIGINT if wide else INT).with_nullable(_nullable(text)))


@builtin("DATALENGTH", 1)
def _datalength(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    v = a[0]
    kind = family(v.type)
    result = BIGINT if v.type.length == MAX else INT
    cast = "int8" if v.type.length == MAX else "int4"
    if kind == "char":
        size = f"sys.utf16_bytes({v.sql})" if _is_unicode(v) else f"sys.codepage_bytes({v.sql})"
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
    return Value(f"({size})::{cast}", result.with_nullable(_nullable(v)))


@builtin("LEFT RIGHT", 2)
def _left(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    text = _text(a[0], n.name)
    size = None
    if a[1].constant is not None and a[1].constant.lstrip("-").isdigit():
        number = int(a[1].constant)
        if number < 0:
            raise SqlError(536, f"Invalid length parameter passed to the {n.name.lower()} function.")
        size = max(number, 1) if text.type.length == MAX else min(text.type.length or 1, max(number, 1))
    return Value(f"sys.{n.name.lower()}({text.sql}, {_int(a[1])})", _text_type(text, size), text.label)


@builtin("SUBSTRING", 2, 3)
def _substring(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    length = f"sys.clamp({convert(a[2], BIGINT).sql})" if len(a) > 2 else "2147483647"
    start = f"sys.clamp({convert(a[1], BIGINT).sql})"
    if family(a[0].type) == "binary":
        type = SqlType("varbinary", length=a[0].type.length, nullable=a[0].type.nullable)
        return Value(f"sys.substring({a[0].sql}, {start}, {length})", type)
    text = _text(a[0], "substring")
    if family(a[0].type) not in ("char", "null"):
        raise _invalid(a[0], 1, "substring")
    size = None
    if len(a) > 2 and a[2].constant is not None and a[2].constant.isdigit() and text.type.length != MAX:
        size = max(1, min(int(a[2].constant), text.type.length or 1))
    return Value(f"sys.substring({text.sql}, {start}, {length})", _text_type(text, size), text.label)


def _simple_text(name: str, sql: str) -> None:
    @builtin(name, 1)
    def build(c: Expressions, n: t.Call, a: list[Value]) -> Value:
        text = _text(a[0], n.name)
        return Value(sql.format(text.sql), _text_type(text), text.label)


_simple_text("UPPER", "sys.upper({})")
_simple_text("LOWER", "sys.lower({})")
_simple_text("REVERSE", "reverse({})")


@builtin("LTRIM RTRIM", 1, 2)
def _side_trim(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    text = _text(a[0], n.name)
    characters = _text(a[1], n.name, 2).sql if len(a) > 1 else "' '"
    return Value(f"{n.name.lower()}({text.sql}, {characters})", _text_type(text), text.label)


@builtin("TRIM", 1, 2)
def _trim(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    """TRIM(x), or TRIM(characters FROM x), which the parser gives as two arguments."""
    text = _text(a[-1], "trim")
    characters = _text(a[0], "trim").sql if len(a) > 1 else "' '"
    return Value(f"btrim({text.sql}, {characters})", _text_type(text), text.label)


def _fold(c: Expressions, one: Value, other: Value, n: t.Call) -> str:
    """How both sides of a search are folded: the format of a PostgreSQL call."""
    from tsqldev.compile.collation import sensitivity

    collation, _ = c.collation_of(one, other, c.line(n), n.name.lower())
    return {"ci": "sys.fold({})", "ai": "sys.fold_accents({})"}.get(sensitivity(collation), "{}")


@builtin("REPLACE", 3)
def _replace(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    texts = [_text(v, "replace", i) for i, v in enumerate(a, 1)]
    fold = "true" if _fold(c, texts[0], texts[1], n) != "{}" else "false"
    unicode = any(_is_unicode(v) for v in texts)
    size = MAX if any(v.type.length == MAX for v in texts) else (4000 if unicode else 8000)
    type = SqlType(
        "nvarchar" if unicode else "varchar", length=size, collation=texts[0].type.collation, nullable=_nullable(*texts)
    )
    return Value(f"sys.replace({texts[0].sql}, {texts[1].sql}, {texts[2].sql}, {fold})", type, texts[0].label)


@builtin("CHARINDEX", 2, 3)
def _charindex(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    start = f"sys.clamp({convert(a[2], BIGINT).sql})" if len(a) > 2 else "1"
    wide = a[1].type.length == MAX
    result = (BIGINT if wide else INT).with_nullable(_nullable(*a))
    cast = "int8" if wide else "int4"
    needle, hay = _text(a[0], "charindex"), _text(a[1], "charindex", 2)
    fold = _fold(c, needle, hay, n)
    return Value(f"sys.charindex({fold.format(needle.sql)}, {fold.format(hay.sql)}, {start})::{cast}", result)


@builtin("PATINDEX", 2)
def _patindex(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    pattern, text = _text(a[0], "patindex"), _text(a[1], "patindex", 2)
    fold = "true" if _fold(c, pattern, text, n) != "{}" else "false"
    wide = text.type.length == MAX
    return Value(
        f"sys.patindex({pattern.sql}, {text.sql}, {fold})::{'int8' if wide else 'int4'}",
        (BIGINT if wide else INT).with_nullable(_nullable(*a)),
    )


@builtin("STUFF", 4)
def _stuff(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    text, insert = _text(a[0], "stuff"), _text(a[3], "stuff", 4)
    unicode = _is_unicode(text) or _is_unicode(insert)
    sizes = (text.type.length or 1, insert.type.length or 1)
    size = MAX if MAX in sizes else _limited(sum(sizes), unicode)
    type = SqlType("nvarchar" if unicode else "varchar", length=size, collation=text.type.collation)
    return Value(f"sys.stuff({text.sql}, {_int(a[1])}, {_int(a[2])}, {insert.sql})", type, text.label)


@builtin("REPLICATE", 2)
def _replicate(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    text = _text(a[0], "replicate")
    size = MAX if text.type.length == MAX else (4000 if _is_unicode(text) else 8000)
    if text.constant is not None and a[1].constant is not None and a[1].constant.isdigit() and size != MAX:
        size = max(1, min(size, len(text.constant) * int(a[1].constant)))
    limit = 2147483647 if size == MAX else (4000 if _is_unicode(text) else 8000)
    return Value(f"sys.replicate({text.sql}, {_int(a[1])}, {limit})", _text_type(text, size, nullable=True), text.label)


@builtin("SPACE", 1)
def _space(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    return Value(f"sys.replicate(' ', {_int(a[0])}, 8000)", varchar(8000))


@builtin("CONCAT", 2, 254)
def _concat(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    return _joined(c, n, a, "concat({})")


def _joined(c: Expressions, n: t.Call, a: list[Value], form: str) -> Value:
    texts = [_text(v, n.name, i) for i, v in enumerate(a, 1)]
    unicode = any(_is_unicode(v) for v in texts)
    sizes = [v.type.length or 1 for v in texts]
    size = MAX if MAX in sizes else _limited(sum(sizes) + (len(sizes) * sizes[0] if "ws" in form else 0), unicode)
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
    separator = _text(a[0], "concat_ws")
    joined.sql = f"concat_ws(coalesce({separator.sql}, ''){joined.sql[len('concat_ws(') + len(separator.sql) :]}"
    return joined


@builtin("QUOTENAME", 1, 2)
def _quotename(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    text = convert(_text(a[0], "quotename"), nvarchar(258))
    mark = convert(a[1], nvarchar(1)).sql if len(a) > 1 else "'['"
    return Value(f"sys.quotename({text.sql}, {mark})", nvarchar(258), text.label)


@builtin("ASCII", 1)
def _ascii(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    return Value(f"sys.ascii({_text(a[0], 'ascii').sql})", INT)


@builtin("UNICODE", 1)
def _unicode(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    return Value(f"sys.unicode({_text(a[0], 'unicode').sql})", INT)


@builtin("CHAR NCHAR", 1)
def _char(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    name = n.name.lower()
    type = SqlType(name, length=1, collation=DEFAULT_COLLATION)
    if a[0].constant is not None and a[0].constant.isdigit() and name == "char" and 0 < int(a[0].constant) < 128:
        text = chr(int(a[0].constant))
        return Value(f"chr({int(a[0].constant)})", type.with_nullable(False), constant=text)
    return Value(f"sys.{name}({_int(a[0])})", type)


@builtin("STR", 1, 3)
def _str(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    size = _int(a[1]) if len(a) > 1 else "10"
    digits = _int(a[2]) if len(a) > 2 else "0"
    length = int(a[1].constant) if len(a) > 1 and a[1].constant and a[1].constant.isdigit() else 10
    return Value(f"sys.str({convert(a[0], FLOAT).sql}, {size}, {digits})", varchar(max(length, 1)))


@builtin("TRANSLATE", 3)
def _translate(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    texts = [_text(v, "translate", i) for i, v in enumerate(a, 1)]
    return Value(f"sys.translate({', '.join(v.sql for v in texts)})", _text_type(texts[0]), texts[0].label)


@builtin("STRING_ESCAPE", 2)
def _string_escape(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    if (a[1].constant or "").lower() != "json":
        raise unsupported("STRING_ESCAPE of another kind than json")
    return Value(f"sys.json_escape({_text(a[0], 'string_escape').sql})", nvarchar(MAX))


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
    raise _invalid(a[0], 1, "format")


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


# ---- NULL and choice --------------------------------------------------------------------------------------------


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
    nullable = all(v.type.nullable or v.type.name == "null" for v in a)
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
    return Value(f"CASE {_int(a[0])} {arms} END", merged[0].type.with_nullable(True), max(v.label for v in merged))


@builtin("GREATEST LEAST", 1, 254)
def _greatest(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    merged = c.merge_values(a, c.line(n))
    if family(merged[0].type) in ("char", "uniqueidentifier"):
        from tsqldev.compile.collation import order_sql

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
    return Value(f"sys.isnumeric({_text(a[0], 'isnumeric').sql})", INT.with_nullable(False))


@builtin("ISDATE", 1)
def _isdate(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    return Value(
        f"(sys.text_to_datetime({_text(a[0], 'isdate').sql}, 0, 'varchar', true) IS NOT NULL)::int4",
        INT.with_nullable(False),
    )


# ---- numbers ----------------------------------------------------------------------------------------------------


def _number(value: Value, name: str) -> Value:
    kind = family(value.type)
    if kind in ("int", "decimal", "float"):
        if value.type.name in ("bit", "tinyint", "smallint"):
            return convert(value, INT)
        return convert(value, FLOAT) if value.type.name == "real" else value
    if kind in ("char", "null"):
        return convert(value, FLOAT)
    raise _invalid(value, 1, name)


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
        type = decimal(type.precision or 38, 0).with_nullable(type.nullable)
    return Value(f"{n.name.lower()}({v.sql})", type)


@builtin("ROUND", 2, 3)
def _round(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    v = _number(a[0], "round")
    cut = _int(a[2]) if len(a) > 2 else "0"
    type = v.type
    sql = f"sys.round(({v.sql})::numeric, {_int(a[1])}, {cut})"
    if type.name in ("decimal", "numeric"):
        if type.precision is not None and type.precision < 38 and v.constant is None:
            type = replace(type, name="decimal")
        return Value(f"({sql})::{type.postgres}", type)
    if family(type) == "float":
        sql = f"sys.round_float({v.sql}, {_int(a[1])}, {cut})"
        return Value(sql, type)
    return Value(f"({sql})::{type.postgres}", type)


@builtin("POWER", 2)
def _power(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    v = _number(a[0], "power")
    exponent = convert(a[1], FLOAT).sql
    powered = Value(f"power(({v.sql})::float8, {exponent})", FLOAT.with_nullable(_nullable(*a)))
    return powered if family(v.type) == "float" else convert(powered, v.type, explicit=True)


def _floating(name: str, sql: str, count: int = 1) -> None:
    @builtin(name, count)
    def build(c: Expressions, n: t.Call, a: list[Value]) -> Value:
        arguments = [convert(v, FLOAT).sql for v in a]
        return Value(sql.format(*arguments), FLOAT.with_nullable(_nullable(*a)))


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
    result = Value(f"{n.name.lower()}(({v.sql})::float8)", FLOAT.with_nullable(_nullable(v)))
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


# ---- dates ------------------------------------------------------------------------------------------------------

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
    raise _invalid(value, argument, name)


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
    return Value(sql, (BIGINT if big else INT).with_nullable(_nullable(*sides)))


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
    return Value(f"sys.datepart('{part}', {_ticks(moment)})", INT.with_nullable(_nullable(moment)))


@builtin("DATENAME", 2, lazy=True)
def _datename(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    part = _part(c, n.arguments[0], "datename")
    moment = _moment(c.value(n.arguments[1]), "datename", 2)
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
    return Value(f"sys.datepart('{n.name.lower()}', {_ticks(moment)})", INT.with_nullable(_nullable(moment)))


@builtin("EOMONTH", 1, 2)
def _eomonth(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    moment = convert(_moment(a[0], "eomonth", 1), SqlType("date"))
    months = _int(a[1]) if len(a) > 1 else "0"
    return Value(f"sys.eomonth({moment.sql}, {months})", SqlType("date"))


@builtin("DATEFROMPARTS", 3)
def _datefromparts(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    return Value(f"sys.datefromparts({', '.join(_int(v) for v in a)})", SqlType("date"))


@builtin("DATETIMEFROMPARTS", 7)
def _datetimefromparts(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    ticks = f"sys.datetime2fromparts({', '.join(_int(v) for v in a)}, 3)"
    return Value(f"sys.ticks_datetime({ticks}, 'datetime2', false)", DATETIME)


@builtin("DATETIME2FROMPARTS", 8)
def _datetime2fromparts(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    scale = int(a[7].constant) if a[7].constant and a[7].constant.isdigit() else 7
    return Value(f"sys.datetime2fromparts({', '.join(_int(v) for v in a)})", SqlType("datetime2", scale=scale))


@builtin("TODATETIMEOFFSET SWITCHOFFSET", 2)
def _switchoffset(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    minutes = f"sys.offset_minutes({_text(a[1], n.name, 2).sql})" if family(a[1].type) == "char" else _int(a[1])
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


# ---- hashes and JSON --------------------------------------------------------------------------------------------

_HASHES = {"MD5": ("md5_bytes", 16), "SHA1": ("sha1", 20), "SHA": ("sha1", 20), "SHA2_256": ("sha256", 32),
           "SHA2_512": ("sha512", 64)}  # fmt: skip


@builtin("HASHBYTES", 2)
def _hashbytes(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    algorithm = (a[0].constant or "").upper()
    if a[0].constant is None:
        raise unsupported("HASHBYTES with an algorithm that is no constant")
    if algorithm in ("MD2", "MD4"):
        raise unsupported(f"HASHBYTES {algorithm}")
    if algorithm not in _HASHES:
        return Value("NULL::bytea", varbinary(8000))
    kind = family(a[1].type)
    if kind == "char":
        data = f"sys.{'nvarchar' if _is_unicode(a[1]) else 'varchar'}_bytes({a[1].sql})"
    elif kind == "binary":
        data = a[1].sql
    elif kind == "null":
        return Value("NULL::bytea", varbinary(8000))
    else:
        raise _invalid(a[1], 2, "hashbytes")
    function, _ = _HASHES[algorithm]
    prefix = "" if function.startswith("sha2") or function == "sha512" else "sys."
    return Value(f"{prefix}{function}({data})", varbinary(8000).with_nullable(_nullable(a[1])))


@builtin("ISJSON", 1, 2)
def _isjson(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    if len(a) > 1:
        raise unsupported("ISJSON with a type")
    return Value(f"sys.isjson({_text(a[0], 'isjson').sql})", INT)


@builtin("JSON_VALUE JSON_QUERY", 1, 2)
def _json_value(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    path = _text(a[1], n.name, 2).sql if len(a) > 1 else "'$'"
    type = nvarchar(4000) if n.name.upper() == "JSON_VALUE" else nvarchar(MAX)
    return Value(f"sys.{n.name.lower()}({_text(a[0], n.name).sql}, {path})", type)


@builtin("JSON_MODIFY", 3)
def _json_modify(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    raise unsupported("JSON_MODIFY")


# ---- aggregates and window functions ----------------------------------------------------------------------------


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
            raise _arity("count", 1, 1)
        if c.no_aggregate and n.over is None:
            raise SqlError(147, c.no_aggregate, severity=15)
        inner = "*"
    else:
        v = _aggregate_argument(c, n)
        from tsqldev.compile.collation import key_sql

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
        return Value(f"(sum({distinct}{v.sql}){over})::numeric(38,{scale})", decimal(38, scale))
    scale = max(scale, 6)
    total = f"(sum({distinct}{v.sql}){over})::numeric(200,{scale + 4})"
    return Value(
        f"trunc({total} / nullif(count({distinct}{v.sql}){over}, 0), {scale})::numeric(38,{scale})", decimal(38, scale)
    )


@builtin("MIN MAX", 1, lazy=True)
def _min(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    v = _aggregate_argument(c, n)
    kind = family(v.type)
    name = n.name.lower()
    if v.type.name in ("bit", "text", "ntext", "image", "xml") or kind == "null":
        raise SqlError(8117, f"Operand data type {v.type.name} is invalid for {name} operator.")
    if kind == "char":
        from tsqldev.compile.collation import sensitivity

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
    v = _text(_aggregate_argument(c, n), "string_agg")
    separator = _text(c.value(n.arguments[1]), "string_agg", 2)
    order = ""
    if n.within is not None:
        c.scope.aggregating = True
        try:
            keys = [c.order_key(c.value(item.expression), item.descending) for item in n.within]
        finally:
            c.scope.aggregating = False
        order = " ORDER BY " + ", ".join(keys)
    unicode = _is_unicode(v)
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
    return Value(f"(ntile({_int(a[0])}){_over(c, n)})::int8", BIGINT.with_nullable(False))


@builtin("LAG LEAD", 1, 3)
def _lag(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    _ranked(n)
    offset = _int(a[1]) if len(a) > 1 else "1"
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


# ---- the session ------------------------------------------------------------------------------------------------


@builtin("$ACTION", 0)
def _action(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    if c.action is None:
        raise SqlError(207, "Invalid column name '$action'.")
    return Value(c.action, nvarchar(10))


@builtin("APPLOCK_MODE", 3)
def _applock_mode(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    locks = c.unit.parameter("rows:applocks", nvarchar(MAX))
    count = c.unit.session_value("@@TRANCOUNT", 1).sql
    principal, resource, owner = (convert(v, nvarchar(255)).sql for v in a)
    return Value(f"sys.applock_mode({locks}, {count}, {principal}, {resource}, {owner})", nvarchar(32))


@builtin("APPLOCK_TEST", 4)
def _applock_test(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    locks = c.unit.parameter("rows:applocks", nvarchar(MAX))
    count = c.unit.session_value("@@TRANCOUNT", 1).sql
    principal, resource, mode, owner = (convert(v, nvarchar(255)).sql for v in a)
    return Value(f"sys.applock_test({locks}, {count}, {principal}, {resource}, {mode}, {owner})", INT)


@builtin("SESSION_CONTEXT", 1)
def _session_context(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    values = c.unit.parameter("rows:session_context", nvarchar(MAX))
    return Value(f"(({values})::jsonb ->> {convert(a[0], nvarchar(128)).sql})", nvarchar(4000))


@builtin("CHECKSUM BINARY_CHECKSUM", 1, 254)
def _checksum(c: Expressions, n: t.Call, a: list[Value]) -> Value:
    raise unsupported(f"function {n.name.upper()}")


# Values that only the session knows: parameters of the compiled text.
SESSION_VALUES: dict[str, SqlType] = {
    "@@SPID": SqlType("smallint", nullable=False),
    "@@TRANCOUNT": INT.with_nullable(False),
    "@@ROWCOUNT": INT.with_nullable(False),
    "@@ERROR": INT.with_nullable(False),
    "@@OPTIONS": INT.with_nullable(False),
    "@@IDENTITY": decimal(38, 0),
    "@@VERSION": nvarchar(300).with_nullable(False),
    "@@SERVERNAME": nvarchar(128),
    "@@SERVICENAME": nvarchar(128).with_nullable(False),
    "@@LANGUAGE": nvarchar(128).with_nullable(False),
    "@@LANGID": SqlType("smallint", nullable=False),
    "@@DATEFIRST": SqlType("tinyint", nullable=False),
    "@@LOCK_TIMEOUT": INT.with_nullable(False),
    "@@NESTLEVEL": INT.with_nullable(False),
    "@@PROCID": INT.with_nullable(False),
    "@@MAX_PRECISION": SqlType("tinyint", nullable=False),
    "@@TEXTSIZE": INT.with_nullable(False),
    "@@DBTS": varbinary(8),
    "@@CURSOR_ROWS": INT.with_nullable(False),
    "@@FETCH_STATUS": INT.with_nullable(False),
    "@@MICROSOFTVERSION": INT.with_nullable(False),
    "@@MAX_CONNECTIONS": INT.with_nullable(False),
    "XACT_STATE()": SqlType("smallint", nullable=False),
    "CURRENT_TRANSACTION_ID()": BIGINT.with_nullable(False),
    "SCOPE_IDENTITY()": decimal(38, 0),
    "ERROR_NUMBER()": INT,
    "ERROR_MESSAGE()": nvarchar(4000),
    "ERROR_SEVERITY()": INT,
    "ERROR_STATE()": INT,
    "ERROR_LINE()": INT,
    "ERROR_PROCEDURE()": nvarchar(128),
    "ROWCOUNT_BIG()": BIGINT.with_nullable(False),
    "ORIGINAL_LOGIN()": SYSNAME,
    "EVENTDATA()": nvarchar(MAX),
    "HOST_NAME()": nvarchar(128),
    "HOST_ID()": nvarchar(10),
    "APP_NAME()": nvarchar(128),
    "PROGRAM_NAME()": nvarchar(128),
    "TRIGGER_NESTLEVEL()": INT.with_nullable(False),
    "CONTEXT_INFO()": varbinary(128),
    "GETANSINULL()": SqlType("smallint"),
}
