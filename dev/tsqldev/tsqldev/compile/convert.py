"""Values, and the conversion of one to another type: explicit, implicit, or as an assignment to a column.

From the conversion chart of "CAST and CONVERT" in the Transact-SQL reference. The PostgreSQL functions that it names
are in functions.sql.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tsqldev.compile.rules import family
from tsqldev.errors import SqlError, unsupported
from tsqldev.types import MAX, UNICODE, SqlType

COERCIBLE, IMPLICIT, EXPLICIT = 0, 1, 2


@dataclass(slots=True)
class Value:
    """A compiled expression. `label` is its collation precedence; `constant` the text of a literal."""

    sql: str
    type: SqlType
    label: int = COERCIBLE
    constant: str | None = None


@dataclass(frozen=True, slots=True)
class Destination:
    """The column that an assignment writes, for the texts of 2628 and 515."""

    table: str
    column: str


def quote(text: str) -> str:
    """A text constant. PostgreSQL cannot hold U+0000; nor is it allowed here."""
    if "\0" in text:
        raise unsupported("the character U+0000 in a string")
    return "'" + text.replace("'", "''") + "'"


_ISO_TEXTS = {"datetime2", "date", "time", "datetimeoffset"}
_TEMPORAL_FROM_TICKS = _ISO_TEXTS | {"datetime", "smalldatetime"}


def convert(
    value: Value,
    target: SqlType,
    *,
    explicit: bool = False,
    attempt: bool = False,
    style: str | None = None,
    destination: Destination | None = None,
) -> Value:
    """`value` as `target`. `style` is PostgreSQL text of an int, or None where none is written; `attempt` answers NULL instead of failing."""
    source = value.type
    if target.collation is None and family(target) == "char":
        target = replace(target, collation=source.collation)
    result = replace(target, nullable=source.nullable or attempt)
    label = value.label if family(source) == "char" and not explicit else COERCIBLE
    if source.name == "null":
        return Value(f"NULL::{target.postgres}", result.with_nullable(True), label)
    if style is None:
        # Without a style the newer types are written as style 121 has it.
        style = "121" if family(target) == "char" and source.name in _ISO_TEXTS else "0"
    sql = _convert(value, source, target, explicit, attempt, style, destination)
    return Value(sql, result, label if label else value.label, value.constant if sql == value.sql else None)


def _convert(
    value: Value,
    source: SqlType,
    target: SqlType,
    explicit: bool,
    attempt: bool,
    style: str,
    destination: Destination | None,
) -> str:
    sql = value.sql
    have, want = family(source), family(target)
    tried = ", true" if attempt else ", false"
    if want == "char":
        if target.name == "xml" and source.name != "xml" and have != "char":
            raise _refusal(source, target, explicit)
        return _to_text(value, source, target, explicit, tried, style, destination)
    if want == "binary":
        return _to_binary(sql, source, target, explicit, tried, style, destination)
    if want == "rowversion":
        if have == "rowversion":
            return sql
        if have == "binary":
            return f"sys.bytes_integer({sql}, 8)"
        if have == "int":
            return f"({sql})::int8"
        raise _refusal(source, target, explicit)
    if want == "int":
        return _to_integer(sql, source, target, explicit, tried)
    if want == "decimal":
        return _to_decimal(sql, source, target, explicit, tried)
    if want == "float":
        cast = "float4" if target.name == "real" else "float8"
        if have == "float":
            return sql if source.name == target.name else f"({sql})::{cast}"
        if have in ("int", "decimal"):
            return f"({sql})::{cast}"
        if have == "char":
            return f"sys.text_to_float({sql}, {quote(source.name)}, {quote(target.name)}{tried})::{cast}"
        if have in ("datetime", "smalldatetime") and explicit:
            return f"sys.days_of_{source.name}({sql})::{cast}"
        raise _refusal(source, target, explicit)
    if want == "uniqueidentifier":
        if have == want:
            return sql
        if have == "char":
            return f"sys.text_to_uuid({sql}{tried})"
        if have == "binary":
            return f"sys.bytes_uuid({sql})"
        raise _refusal(source, target, explicit)
    if want in _TEMPORAL_FROM_TICKS:
        return _to_temporal(sql, source, target, explicit, tried, style)
    raise _refusal(source, target, explicit)


def _refusal(source: SqlType, target: SqlType, explicit: bool) -> SqlError:
    if explicit:
        return SqlError(529, f"Explicit conversion from data type {source.name} to {target} is not allowed.")
    if (
        "date" in source.name + target.name
        or "time" in source.name + target.name
        or "unique" in source.name + target.name
    ):
        return SqlError(206, f"Operand type clash: {source.name} is incompatible with {target.name}")
    return SqlError(
        257,
        f"Implicit conversion from data type {source.name} to {target.name} is not allowed. "
        "Use the CONVERT function to run this query.",
    )


def _to_text(
    value: Value,
    source: SqlType,
    target: SqlType,
    explicit: bool,
    tried: str,
    style: str,
    destination: Destination | None,
) -> str:
    sql, have = value.sql, family(source)
    length = MAX if target.name in ("text", "ntext", "xml") else (target.length or 1)
    longest: int | None = None
    if have == "char":
        longest = source.length
        if target.name not in UNICODE and source.name in UNICODE and "UTF8" not in (target.collation or "").upper():
            ascii_constant = value.constant is not None and value.constant.isascii()
            sql = sql if ascii_constant else f"sys.to_varchar({sql})"
    elif have == "int":
        sql = f"({sql})::text"
        longest = {"bit": 1, "tinyint": 3, "smallint": 6, "int": 11, "bigint": 20}[source.name]
        if length != MAX and length < longest:
            short = quote("*" if source.name in ("int", "smallint", "tinyint") and target.name not in UNICODE else "")
            return _padded(
                f"sys.number_fit({sql}, {length}, {short}, {quote(source.name)}, {quote(target.name)})", target
            )
    elif have == "decimal":
        if source.name in ("money", "smallmoney"):
            sql = f"sys.money_text({sql}, {style})"
        else:
            sql = f"({sql})::{source.postgres}::text"
        return _padded(
            sql
            if length == MAX
            else f"sys.number_fit({sql}, {length}, '', {quote(source.name)}, {quote(target.name)})",
            target,
        )
    elif have == "float":
        sql = f"sys.float_text({sql}, {style}, {'true' if source.name == 'real' else 'false'})"
        return _padded(
            sql
            if length == MAX
            else f"sys.number_fit({sql}, {length}, '', {quote(source.name)}, {quote(target.name)})",
            target,
        )
    elif have == "uniqueidentifier":
        if length != MAX and length < 36:
            return _padded(f"sys.uuid_fit({sql}, {length}{tried})", target)
        sql = f"upper(({sql})::text)"
        longest = 36
    elif have in ("binary", "rowversion"):
        if have == "rowversion":
            sql = f"sys.integer_bytes({sql}, 8)"
        if style == "2":
            sql = f"upper(encode({sql}, 'hex'))"
        else:
            unicode = "true" if target.name in UNICODE else "false"
            sql = f"sys.bytes_text({sql}, {style}, {unicode}{tried})"
    elif have in _TEMPORAL_FROM_TICKS:
        scale = source.scale if source.scale is not None else 0
        sql = f"sys.{have}_text({sql}, {scale}, {style})"
    else:
        raise _refusal(source, target, explicit)
    if length != MAX and (longest is None or longest == MAX or longest > length):
        if destination is not None:
            fit = "fit_units" if target.name in UNICODE else "fit"
            sql = f"sys.{fit}({sql}, {length}, {quote(destination.table)}, {quote(destination.column)})"
        elif value.constant is None or source.length is None or source.length > length:
            sql = f"{'sys.cut' if target.name in UNICODE else 'left'}({sql}, {length})"
    return _padded(sql, target, source)


def _padded(sql: str, target: SqlType, source: SqlType | None = None) -> str:
    if target.name in ("char", "nchar") and not (
        source is not None and source.name in ("char", "nchar") and source.length == target.length
    ):
        return f"{'sys.pad' if target.name in UNICODE else 'rpad'}({sql}, {target.length})"
    return sql


def _to_binary(
    sql: str,
    source: SqlType,
    target: SqlType,
    explicit: bool,
    tried: str,
    style: str,
    destination: Destination | None,
) -> str:
    have = family(source)
    length = MAX if target.name == "image" else (target.length or 1)
    longest: int | None = None
    if have == "binary":
        longest = MAX if source.name == "image" else source.length
    elif have == "char":
        if not explicit:
            raise SqlError(
                257,
                f"Implicit conversion from data type {source.name} to {target} is not allowed. "
                "Use the CONVERT function to run this query.",
            )
        if source.name not in UNICODE and "UTF8" in (source.collation or "").upper() and style == "0":
            sql = f"convert_to({sql}, 'UTF8')"
        elif style == "0":
            sql = f"sys.{'nvarchar' if source.name in UNICODE else 'varchar'}_bytes({sql})"
        else:
            unicode = "true" if source.name in UNICODE else "false"
            sql = f"sys.text_bytes({sql}, {style}, {unicode}{tried})"
    elif have in ("int", "rowversion"):
        size = {"bit": 1, "tinyint": 1, "smallint": 2, "int": 4, "bigint": 8, "rowversion": 8}[source.name]
        width = length if target.name == "binary" and length != MAX else size
        if target.name == "varbinary" and length != MAX and length < size:
            width = length
        return f"sys.integer_bytes(({sql})::int8, {width})"
    elif have == "uniqueidentifier":
        sql = f"sys.uuid_bytes({sql})"
        longest = 16
    else:
        raise unsupported(f"conversion of {source.name} to {target.name}")
    if length != MAX and (longest is None or longest == MAX or longest > length):
        if destination is not None:
            sql = f"sys.fit_bytes({sql}, {length}, {quote(destination.table)}, {quote(destination.column)})"
        else:
            sql = f"substring({sql} FROM 1 FOR {length})"
    if target.name == "binary" and not (source.name == "binary" and source.length == target.length):
        sql = f"sys.pad_bytes({sql}, {length})"
    return sql


def _to_integer(sql: str, source: SqlType, target: SqlType, explicit: bool, tried: str) -> str:
    have = family(source)
    pg = target.postgres
    wide = {"bit": 0, "tinyint": 1, "smallint": 2, "int": 3, "bigint": 4}
    if target.name == "bit":
        if source.name == "bit":
            return sql
        if have in ("int", "decimal", "float"):
            return f"(({sql}) <> 0)::int4::int2"
        if have == "char":
            return f"sys.text_to_bit({sql}, {quote(source.name)}{tried})"
        if have == "binary":
            return f"(sys.bytes_integer({sql}, 8) <> 0)::int4::int2"
        raise _refusal(source, target, explicit)
    if have == "int":
        if wide[source.name] == wide[target.name]:
            return sql
        if wide[source.name] < wide[target.name]:
            return f"({sql})::{pg}"
        return f"sys.integer_fit(({sql})::int8, {quote(target.name)}{tried})::{pg}"
    if have == "decimal":
        rounded = "round" if source.name in ("money", "smallmoney") else "trunc"
        return f"sys.numeric_to_integer({rounded}({sql}), {quote(target.name)}, {quote(source.name)}{tried})::{pg}"
    if have == "float":
        return f"sys.float_to_integer({sql}, {quote(target.name)}{tried})::{pg}"
    if have == "char":
        return f"sys.text_to_integer({sql}, {quote(target.name)}, {quote(source.name)}{tried})::{pg}"
    if have in ("binary", "rowversion"):
        if have == "rowversion":
            return sql if target.name == "bigint" else f"sys.integer_fit({sql}, {quote(target.name)}{tried})::{pg}"
        size = {"tinyint": 1, "smallint": 2, "int": 4, "bigint": 8}[target.name]
        return f"sys.bytes_integer({sql}, {size})::{pg}"
    if have in ("datetime", "smalldatetime") and explicit:
        return f"round(sys.days_of_{have}({sql}))::{pg}"
    raise _refusal(source, target, explicit)


def _to_decimal(sql: str, source: SqlType, target: SqlType, explicit: bool, tried: str) -> str:
    have = family(source)
    money = target.name in ("money", "smallmoney")
    precision, scale = (
        (19 if target.name == "money" else 10, 4) if money else (target.precision or 18, target.scale or 0)
    )
    if have == "decimal":
        if (source.name == target.name or {source.name, target.name} == {"decimal", "numeric"}) and (
            source.precision,
            source.scale,
        ) == (target.precision, target.scale):
            return sql
        p1 = source.precision or (19 if source.name == "money" else 10)
        s1 = source.scale if source.scale is not None else 4
        if s1 <= scale and p1 - s1 <= precision - scale:
            return f"({sql})::numeric({precision},{scale})"
        return f"sys.numeric_fit({sql}, {precision}, {scale}, {quote(source.name)}, {quote(target.name)}{tried})"
    if have == "int":
        digits = {"bit": 1, "tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}[source.name]
        if digits <= precision - scale:
            return f"({sql})::numeric({precision},{scale})"
        return f"sys.numeric_fit({sql}, {precision}, {scale}, {quote(source.name)}, {quote(target.name)}{tried})"
    if have == "float":
        return (
            f"sys.numeric_fit(sys.float_numeric({sql}), {precision}, {scale}, {quote(source.name)}, "
            f"{quote(target.name)}{tried})"
        )
    if have == "char":
        if money:
            return f"sys.text_to_money({sql}, {precision}, {quote(source.name)}{tried})"
        return f"sys.text_to_numeric({sql}, {precision}, {scale}, {quote(source.name)}{tried})"
    if have in ("datetime", "smalldatetime") and explicit:
        return (
            f"sys.numeric_fit(sys.days_of_{have}({sql})::numeric, {precision}, {scale}, {quote(source.name)}, "
            f"{quote(target.name)}{tried})"
        )
    raise _refusal(source, target, explicit)


def _to_temporal(sql: str, source: SqlType, target: SqlType, explicit: bool, tried: str, style: str) -> str:
    have, want = family(source), family(target)
    scale = target.scale if target.scale is not None else 7
    if have == want:
        if source.scale is None or (source.scale or 0) <= scale:
            return sql
        if want == "datetimeoffset":
            return f"sys.round_offset({sql}, {scale})"
        return f"sys.round_time({sql}, {scale})" if want == "time" else f"sys.round_ticks({sql}, {scale})"
    if have == "char":
        if want in ("datetime2", "datetimeoffset", "time"):
            return f"sys.text_to_{want}({sql}, {scale}, {style}, {quote(source.name)}{tried})"
        return f"sys.text_to_{want}({sql}, {style}, {quote(source.name)}{tried})"
    if have in ("int", "decimal", "float") and want in ("datetime", "smalldatetime"):
        return f"sys.days_to_{want}(({sql})::numeric{tried})"
    if have not in _TEMPORAL_FROM_TICKS or {have, want} == {"date", "time"}:
        raise _refusal(source, target, explicit)
    ticks = sql if have == "datetime2" else f"sys.{have}_ticks({sql})"
    if want == "datetime2":
        precise = have in ("date", "smalldatetime") or (
            have in ("time", "datetimeoffset") and (source.scale or 0) <= scale
        )
        return ticks if precise else f"sys.round_ticks({ticks}, {scale})"
    if want == "datetimeoffset":
        if have != "datetime2" or (source.scale or 0) > scale:
            ticks = f"sys.round_ticks({ticks}, {scale})"
        return f"sys.ticks_datetimeoffset({ticks}, 0)"
    if want == "time":
        return f"sys.ticks_time({ticks}, {scale})"
    if want == "date":
        return f"sys.ticks_date({ticks})"
    return f"sys.ticks_{want}({ticks}, {quote(source.name)}{tried})"
