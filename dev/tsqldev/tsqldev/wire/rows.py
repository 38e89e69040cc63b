"""Rows on the way to the client: a function that is written for one list of columns.

Reading a table spends most of its time here, one value at a time. For a column list that brings many rows, the source
of a function is put together that packs neighbouring values of fixed size in one call. It expects no NULL in them:
where one comes, those values are encoded one by one.
"""

from __future__ import annotations

import codecs
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import call
from typing import Any

from tsqldev.types import MAX, SqlType
from tsqldev.wire.encode import (
    DATETIME_UNITS_A_DAY,
    TICKS_A_DAY,
    Encoder,
    decimal_length,
    exact_scaled,
    time_length,
    wire_type,
)

RowEncoder = Callable[[Sequence[Any]], bytes]

_ROW = b"\xd1"
_LOW32, _LOW64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
_INTEGERS = {"bit": "B", "tinyint": "B", "smallint": "h", "int": "i", "bigint": "q", "real": "f", "float": "d"}
_SIZES = {"B": 1, "h": 2, "i": 4, "q": 8, "f": 4, "d": 8}
_MAGNITUDES = {4: "I", 8: "Q", 12: "QI", 16: "QQ"}


def plain_row_encoder(types: Sequence[SqlType]) -> RowEncoder:
    """From one row to its ROW token, value by value: ready at once."""
    encoders = tuple(wire_type(type)[1] for type in types)
    join, count = b"".join, len(encoders)

    def encode(row: Sequence[Any]) -> bytes:
        if len(row) != count:
            raise ValueError(f"a row of {len(row)} values for {count} columns")
        return join((_ROW, *map(call, encoders, row)))

    return encode


@lru_cache(maxsize=512)
def row_encoder(types: tuple[SqlType, ...]) -> RowEncoder:
    """The same, several times as fast; to be used for more than a few rows, because it has to be compiled."""
    names = [f"v{number}" for number in range(len(types))]
    known: dict[str, Any] = {"join": b"".join, "u16": struct.Struct("<H").pack, "scaled": exact_scaled}
    known["fields"] = struct.Struct(">IHH8s").unpack
    known |= {"utf16": codecs.utf_16_le_encode, "failed": (struct.error, TypeError, AttributeError)}
    lines = ["def encode(row):", f"    {''.join(f'{name}, ' for name in names)} = row" if names else "    row"]
    parts: list[str] = []
    at = 0
    while at < len(types):
        run = _run(types, at)
        if not run:
            known[f"e{at}"] = wire_type(types[at])[1]
            parts.append(_text(types[at], names[at], f"e{at}"))
            at += 1
            continue
        layout, values = "<", []
        if at == 0:
            layout, values = "<B", ["0xd1"]
        for part_layout, part_values in run:
            layout += part_layout
            values += part_values
        numbers = range(at, at + len(run))
        known[f"p{at}"] = struct.Struct(layout).pack
        known |= {f"e{number}": wire_type(types[number])[1] for number in numbers}
        one_by_one = " + ".join([*(["b'\\xd1'"] if at == 0 else []), *(f"e{n}(v{n})" for n in numbers)])
        lines += ["    try:", f"        r{at} = p{at}({', '.join(values)})"]
        lines += ["    except failed:", f"        r{at} = {one_by_one}"]
        parts.append(f"r{at}")
        at += len(run)
    if not types or not _run(types, 0):
        parts.insert(0, "b'\\xd1'")
    lines.append(f"    return join(({', '.join(parts)},))")
    exec("\n".join(lines), known)  # noqa: S102  # the text holds nothing but the words above and numbers
    encode: RowEncoder = known["encode"]
    return encode


def _run(types: Sequence[SqlType], start: int) -> list[tuple[str, list[str]]]:
    """Layout and values of the columns of fixed size from `start` on."""
    found: list[tuple[str, list[str]]] = []
    for number in range(start, len(types)):
        fixed = _fixed(types[number], f"v{number}")
        if fixed is None:
            break
        found.append(fixed)
    return found


def _fixed(type: SqlType, v: str) -> tuple[str, list[str]] | None:
    """How `struct` lays out a value that is not NULL, length byte first; None for types of other lengths."""
    name = type.name
    if name in _INTEGERS:
        code = _INTEGERS[name]
        return "B" + code, [str(_SIZES[code]), v]
    if name == "date":
        return "BHB", ["3", f"{v} & 0xFFFF", f"{v} >> 16"]
    if name == "datetime":
        return "BiI", ["8", f"{v} // {DATETIME_UNITS_A_DAY}", f"{v} % {DATETIME_UNITS_A_DAY}"]
    if name == "uniqueidentifier":
        return "BIHH8s", ["16", f"*fields({v})"]
    if name in ("decimal", "numeric"):
        size = decimal_length(18 if type.precision is None else type.precision)
        magnitude = ["abs(u)"] if size <= 8 else [f"(m := abs(u)) & {_LOW64}", "m >> 64"]
        units = f"(u := int(scaled({v}, {type.scale or 0}))) >= 0"
        return "BB" + _MAGNITUDES[size], [str(size + 1), units, *magnitude]
    if name == "money":
        return "BiI", ["8", f"(u := int(scaled({v}, 4))) >> 32", f"u & {_LOW32}"]
    if name == "datetime2":
        scale = 7 if type.scale is None else type.scale
        if time_length(scale) == 5:
            ticks = f"{v} % {TICKS_A_DAY}" + (f" // {10 ** (7 - scale)}" if scale < 7 else "")
            return "BQ", ["8", f"{v} // {TICKS_A_DAY} << 40 | {ticks}"]
    return None


def _text(type: SqlType, v: str, encoder: str) -> str:
    """The common cases of short text in place; everything else through the column's own function."""
    if type.length in (None, MAX) or type.name not in ("char", "varchar", "nvarchar"):
        return f"{encoder}({v})"
    if type.name == "nvarchar":
        return f"(u16(len(b := utf16({v}, 'surrogatepass')[0])) + b if {v} is not None else {encoder}({v}))"
    usual = f"{v} is not None and {v}.isascii()"
    if type.name == "char":
        usual += f" and len({v}) == {type.length}"
    return f"(u16(len({v})) + {v}.encode() if {usual} else {encoder}({v}))"


__all__ = ["Encoder", "RowEncoder", "plain_row_encoder", "row_encoder"]
