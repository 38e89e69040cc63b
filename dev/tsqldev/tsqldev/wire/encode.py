"""Values and types on the way to the client: TYPE_INFO and the bytes of a value (MS-TDS 2.2.5.4 to 2.2.5.6).

Every column gets one function from a value (as `tsqldev.types` holds it) to its bytes.
Types are always sent in the form that can be NULL, whatever the flags of the column say.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any
from uuid import UUID

from tsqldev.types import MAX, SqlType
from tsqldev.wire.collations import codec_of_name, collation_bytes

TICKS_A_DAY = 864_000_000_000
DATETIME_UNITS_A_DAY = 300 * 86400

Encoder = Callable[[Any], bytes]

_exact = Context(prec=80)
exact_scaled = _exact.scaleb
_NULL8 = b"\x00"
_NULL16 = b"\xff\xff"
_NULL_PLP = b"\xff" * 8
_U16 = struct.Struct("<H").pack
_PLP_HEAD = struct.Struct("<QI").pack
_PLP_END = b"\x00\x00\x00\x00"
_EMPTY_PLP = bytes(12)


@lru_cache(maxsize=4096)
def wire_type(type: SqlType) -> tuple[bytes, Encoder]:
    """TYPE_INFO of a type, and the function that writes its values."""
    name = type.name
    if name in _INTEGERS:
        return _INTEGERS[name]
    if name in _SIMPLE:
        return _SIMPLE[name]()
    if name in ("decimal", "numeric"):
        return _decimal(type)
    if name in ("time", "datetime2", "datetimeoffset"):
        return _TICKS[name](7 if type.scale is None else type.scale)
    if name in ("binary", "varbinary", "image"):
        return _binary(type)
    return _character(type)


def time_length(scale: int) -> int:
    return 3 if scale <= 2 else 4 if scale <= 4 else 5


def decimal_length(precision: int) -> int:
    """Bytes of the magnitude."""
    return 4 if precision <= 9 else 8 if precision <= 19 else 12 if precision <= 28 else 16


def _fixed(info: bytes, layout: str, size: int) -> tuple[bytes, Encoder]:
    pack = struct.Struct("<B" + layout).pack

    def encode(value: Any) -> bytes:
        return _NULL8 if value is None else pack(size, value)

    return info, encode


_INTEGERS = {
    "bit": _fixed(b"\x68\x01", "B", 1),
    "tinyint": _fixed(b"\x26\x01", "B", 1),
    "smallint": _fixed(b"\x26\x02", "h", 2),
    "int": _fixed(b"\x26\x04", "i", 4),
    "bigint": _fixed(b"\x26\x08", "q", 8),
    "real": _fixed(b"\x6d\x04", "f", 4),
    "float": _fixed(b"\x6d\x08", "d", 8),
    # A bare NULL is described as int.
    "null": _fixed(b"\x26\x04", "i", 4),
}


def _money() -> tuple[bytes, Encoder]:
    pack = struct.Struct("<BiI").pack

    def encode(value: Decimal | None) -> bytes:
        if value is None:
            return _NULL8
        units = int(exact_scaled(value, 4))
        return pack(8, units >> 32, units & 0xFFFFFFFF)

    return b"\x6e\x08", encode


def _smallmoney() -> tuple[bytes, Encoder]:
    pack = struct.Struct("<Bi").pack

    def encode(value: Decimal | None) -> bytes:
        return _NULL8 if value is None else pack(4, int(exact_scaled(value, 4)))

    return b"\x6e\x04", encode


def _datetime() -> tuple[bytes, Encoder]:
    pack = struct.Struct("<BiI").pack

    def encode(value: int | None) -> bytes:
        return _NULL8 if value is None else pack(8, *divmod(value, DATETIME_UNITS_A_DAY))

    return b"\x6f\x08", encode


def _smalldatetime() -> tuple[bytes, Encoder]:
    pack = struct.Struct("<BHH").pack

    def encode(value: int | None) -> bytes:
        return _NULL8 if value is None else pack(4, *divmod(value, 1440))

    return b"\x6f\x04", encode


def _date() -> tuple[bytes, Encoder]:
    def encode(value: int | None) -> bytes:
        return _NULL8 if value is None else b"\x03" + value.to_bytes(3, "little")

    return b"\x28", encode


def _uniqueidentifier() -> tuple[bytes, Encoder]:
    pack, fields = struct.Struct("<BIHH8s").pack, struct.Struct(">IHH8s").unpack

    def encode(value: UUID | bytes | None) -> bytes:
        if value is None:
            return _NULL8
        return pack(16, *fields(value if isinstance(value, bytes) else value.bytes))

    return b"\x24\x10", encode


def _rowversion() -> tuple[bytes, Encoder]:
    def encode(value: int | None) -> bytes:
        return _NULL16 if value is None else b"\x08\x00" + value.to_bytes(8, "big")

    return b"\xad\x08\x00", encode


_SIMPLE: dict[str, Callable[[], tuple[bytes, Encoder]]] = {
    "money": _money,
    "smallmoney": _smallmoney,
    "datetime": _datetime,
    "smalldatetime": _smalldatetime,
    "date": _date,
    "uniqueidentifier": _uniqueidentifier,
    "rowversion": _rowversion,
}


def _decimal(type: SqlType) -> tuple[bytes, Encoder]:
    precision = 18 if type.precision is None else type.precision
    scale = 0 if type.scale is None else type.scale
    size = decimal_length(precision)
    positive, negative = bytes([size + 1, 1]), bytes([size + 1, 0])

    def encode(value: Decimal | None) -> bytes:
        if value is None:
            return _NULL8
        units = int(exact_scaled(value, scale))
        return positive + units.to_bytes(size, "little") if units >= 0 else negative + (-units).to_bytes(size, "little")

    return bytes([0x6C if type.name == "numeric" else 0x6A, size + 1, precision, scale]), encode


def _time(scale: int) -> tuple[bytes, Encoder]:
    size = time_length(scale)
    unit: int = 10 ** (7 - scale)
    head = bytes([size])

    def encode(value: int | None) -> bytes:
        return _NULL8 if value is None else head + (value // unit).to_bytes(size, "little")

    return bytes([0x29, scale]), encode


def _datetime2(scale: int) -> tuple[bytes, Encoder]:
    size = time_length(scale)
    unit: int = 10 ** (7 - scale)
    head, shift, whole = bytes([size + 3]), 8 * size, size + 3

    def encode(value: int | None) -> bytes:
        if value is None:
            return _NULL8
        days, ticks = divmod(value, TICKS_A_DAY)
        return head + (days << shift | ticks // unit).to_bytes(whole, "little")

    return bytes([0x2A, scale]), encode


def _datetimeoffset(scale: int) -> tuple[bytes, Encoder]:
    size = time_length(scale)
    unit: int = 10 ** (7 - scale)
    head, shift, whole = bytes([size + 5]), 8 * size, size + 3
    offset = struct.Struct("<h").pack

    def encode(value: Decimal | None) -> bytes:
        if value is None:
            return _NULL8
        held = int(value)
        days, ticks = divmod(held >> 12, TICKS_A_DAY)
        return head + (days << shift | ticks // unit).to_bytes(whole, "little") + offset((held & 4095) - 2048)

    return bytes([0x2B, scale]), encode


_TICKS: dict[str, Callable[[int], tuple[bytes, Encoder]]] = {
    "time": _time,
    "datetime2": _datetime2,
    "datetimeoffset": _datetimeoffset,
}


def _plp(data: bytes) -> bytes:
    """Partially length-prefixed bytes: the whole length, one chunk, the end."""
    return _PLP_HEAD(len(data), len(data)) + data + _PLP_END if data else _EMPTY_PLP


def _binary(type: SqlType) -> tuple[bytes, Encoder]:
    length = MAX if type.length is None or type.name == "image" else type.length
    if length == MAX:
        return b"\xa5\xff\xff", lambda value: _NULL_PLP if value is None else _plp(bytes(value))
    if type.name == "binary":

        def encode_padded(value: bytes | None) -> bytes:
            return _NULL16 if value is None else _U16(length) + bytes(value).ljust(length, b"\x00")

        return b"\xad" + _U16(length), encode_padded

    def encode(value: bytes | None) -> bytes:
        return _NULL16 if value is None else _U16(len(value)) + value

    return b"\xa5" + _U16(length), encode


def _character(type: SqlType) -> tuple[bytes, Encoder]:
    collation = collation_bytes(type.collation)
    length = MAX if type.length is None or type.name in ("text", "ntext", "xml") else type.length
    unicode = type.name not in ("char", "varchar")
    if type.name == "sysname":
        length = 128
    codec, errors = ("utf-16-le", "surrogatepass") if unicode else codec_of_name(type.collation)
    if length == MAX:

        def encode_max(value: str | None) -> bytes:
            return _NULL_PLP if value is None else _plp(value.encode(codec, errors))

        return (b"\xe7" if unicode else b"\xa7") + b"\xff\xff" + collation, encode_max
    fixed = type.name in ("char", "nchar")
    code = (0xEF if fixed else 0xE7) if unicode else (0xAF if fixed else 0xA7)
    size = 2 * length if unicode else length
    blank = " ".encode(codec)

    def encode(value: str | None) -> bytes:
        if value is None:
            return _NULL16
        data = value.encode(codec, errors)
        if fixed:
            data += blank * ((size - len(data)) // len(blank))
        return _U16(len(data)) + data

    def encode_ascii(value: str | None) -> bytes:
        # The codecs of code pages are slow, and most varchar text is ASCII.
        if value is None:
            return _NULL16
        if value.isascii():
            return _U16(len(value)) + value.encode()
        data = value.encode(codec, errors)
        return _U16(len(data)) + data

    info = bytes([code]) + _U16(size) + collation
    return info, encode if unicode or fixed else encode_ascii
