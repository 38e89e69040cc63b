"""Types and values on the way from the client: parameters of procedures and rows of a bulk load.

A decoder is a function `(buffer, position) -> (value, next position)`. Where the buffer ends too early it raises
IndexError or struct.error, or returns a position beyond the end; a caller that streams then waits for more, any other
calls it malformed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

from tsqldev.errors import unsupported
from tsqldev.types import MAX, SqlType
from tsqldev.wire.collations import codec_of_bytes, collation_bytes
from tsqldev.wire.encode import DATETIME_UNITS_A_DAY, TICKS_A_DAY
from tsqldev.wire.transport import ProtocolError

Buffer = bytes
Decoder = Callable[[Buffer, int], tuple[Any, int]]

_exact = Context(prec=80)
_scaled = _exact.scaleb
_U16 = struct.Struct("<H").unpack_from
_U32 = struct.Struct("<I").unpack_from
_U64 = struct.Struct("<Q").unpack_from
_I16 = struct.Struct("<h").unpack_from
_HALVES = struct.Struct("<iI").unpack_from
_PLP_NULL, _PLP_UNKNOWN = 0xFFFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFE
_KNOWN_COLLATIONS = {
    collation_bytes(name): name
    for name in (
        "SQL_Latin1_General_CP1_CI_AS",
        "Latin1_General_100_BIN2",
        "Latin1_General_BIN2",
        "Latin1_General_CI_AS",
    )
}


def read_type(buffer: Buffer, position: int) -> tuple[SqlType, Decoder, int]:
    """TYPE_INFO: the type, how to read its values, and the next position."""
    code = buffer[position]
    position += 1
    if code in _FIXED:
        name, layout = _FIXED[code]
        return SqlType(name), _always(name, layout), position
    if code in _SIZED:
        size = buffer[position]
        name = _SIZED[code].get(size, "")
        if not name:
            raise ProtocolError(f"type 0x{code:02x} with {size} bytes")
        return SqlType(name), _sized(name), position + 1
    if code == 0x1F:
        return SqlType("null"), lambda _buffer, at: (None, at), position
    if code in (0x6A, 0x6C, 0x37, 0x3F):
        precision, scale = buffer[position + 1], buffer[position + 2]
        if not 1 <= precision <= 38 or scale > precision:
            raise ProtocolError(f"decimal({precision},{scale})")
        name = "numeric" if code in (0x6C, 0x3F) else "decimal"
        return SqlType(name, precision=precision, scale=scale), _decimal(scale), position + 3
    if code == 0x28:
        return SqlType("date"), _date, position
    if code in (0x29, 0x2A, 0x2B):
        scale = buffer[position]
        if scale > 7:
            raise ProtocolError(f"type 0x{code:02x} with scale {scale}")
        name = ("time", "datetime2", "datetimeoffset")[code - 0x29]
        return SqlType(name, scale=scale), _TICKS[code](10 ** (7 - scale)), position + 1
    return _read_long_type(code, buffer, position)


def _read_long_type(code: int, buffer: Buffer, position: int) -> tuple[SqlType, Decoder, int]:
    if code in (0xA5, 0xAD):
        (size,) = _U16(buffer, position)
        name = "binary" if code == 0xAD else "varbinary"
        length = MAX if size == 0xFFFF else size
        return SqlType(name, length=length), _binary_plp if length == MAX else _binary, position + 2
    if code in (0xA7, 0xAF, 0xE7, 0xEF):
        (size,) = _U16(buffer, position)
        collation = bytes(buffer[position + 2 : position + 7])
        unicode = code >= 0xE0
        name = {0xA7: "varchar", 0xAF: "char", 0xE7: "nvarchar", 0xEF: "nchar"}[code]
        length = MAX if size == 0xFFFF else size // 2 if unicode else size
        codec, errors = ("utf-16-le", "surrogatepass") if unicode else codec_of_bytes(_five(collation))
        decoder = _text_plp(codec, errors) if length == MAX else _text(codec, errors)
        return SqlType(name, length=length, collation=_KNOWN_COLLATIONS.get(collation)), decoder, position + 7
    if code in (0x25, 0x2D):
        name = "varbinary" if code == 0x25 else "binary"
        return SqlType(name, length=buffer[position]), _short_binary, position + 1
    if code in (0x27, 0x2F):
        name = "varchar" if code == 0x27 else "char"
        return SqlType(name, length=buffer[position]), _short_text, position + 1
    if code == 0x22:
        return SqlType("image", length=MAX), _long_binary, position + 4
    if code in (0x23, 0x63):
        collation = _five(bytes(buffer[position + 4 : position + 9]))
        codec, errors = ("utf-16-le", "surrogatepass") if code == 0x63 else codec_of_bytes(collation)
        name = "ntext" if code == 0x63 else "text"
        return (
            SqlType(name, length=MAX, collation=_KNOWN_COLLATIONS.get(collation)),
            _long_text(codec, errors),
            position + 9,
        )
    if code == 0xF1:
        if buffer[position]:
            raise unsupported("parameters of type xml with a schema collection")
        return SqlType("xml", length=MAX), _text_plp("utf-16", "strict"), position + 1
    if code in (0x62, 0xF0, 0xF3):
        name = {0x62: "sql_variant", 0xF0: "a CLR user type", 0xF3: "a table type"}[code]
        raise unsupported(f"parameters of {name}")
    raise ProtocolError(f"type 0x{code:02x}")


def _five(collation: bytes) -> bytes:
    if len(collation) != 5:
        raise IndexError("collation")
    return collation


_FIXED = {
    0x30: ("tinyint", "<B"),
    0x32: ("bit", "<B"),
    0x34: ("smallint", "<h"),
    0x38: ("int", "<i"),
    0x3A: ("smalldatetime", "<HH"),
    0x3B: ("real", "<f"),
    0x3C: ("money", "<iI"),
    0x3D: ("datetime", "<iI"),
    0x3E: ("float", "<d"),
    0x7A: ("smallmoney", "<i"),
    0x7F: ("bigint", "<q"),
}
_LAYOUTS = dict(_FIXED.values())
_SIZED = {
    0x24: {16: "uniqueidentifier"},
    0x26: {1: "tinyint", 2: "smallint", 4: "int", 8: "bigint"},
    0x68: {1: "bit"},
    0x6D: {4: "real", 8: "float"},
    0x6E: {4: "smallmoney", 8: "money"},
    0x6F: {4: "smalldatetime", 8: "datetime"},
}


def _convert(name: str) -> Callable[..., Any]:
    if name == "money":
        return lambda high, low: _scaled(Decimal((high << 32) + low), -4)
    if name == "smallmoney":
        return lambda units: _scaled(Decimal(units), -4)
    if name == "datetime":
        return lambda days, units: days * DATETIME_UNITS_A_DAY + units
    if name == "smalldatetime":
        return lambda days, minutes: days * 1440 + minutes
    if name == "bit":
        return lambda value: 1 if value else 0
    return lambda value: value


def _always(name: str, layout: str) -> Decoder:
    unpack, convert = struct.Struct(layout), _convert(name)

    def decode(buffer: Buffer, position: int) -> tuple[Any, int]:
        return convert(*unpack.unpack_from(buffer, position)), position + unpack.size

    return decode


def _sized(name: str) -> Decoder:
    if name == "uniqueidentifier":
        return _uuid
    unpack, convert = struct.Struct(_LAYOUTS[name]), _convert(name)
    read, size = unpack.unpack_from, unpack.size
    plain = name not in ("money", "smallmoney", "datetime", "smalldatetime", "bit")

    def decode(buffer: Buffer, position: int) -> tuple[Any, int]:
        length = buffer[position]
        position += 1
        if length == 0:
            return None, position
        if length != size:
            return _narrower(name, buffer, position, length)
        value = read(buffer, position)
        return (value[0] if plain else convert(*value)), position + size

    return decode


def _narrower(name: str, buffer: Buffer, position: int, length: int) -> tuple[Any, int]:
    """A value may be sent in fewer bytes than its type has: an int parameter of a tinyint's length."""
    for names in _SIZED.values():
        if name in names.values() and length in names:
            layout = _LAYOUTS[names[length]]
            return _convert(names[length])(*struct.unpack_from(layout, buffer, position)), position + length
    raise ProtocolError(f"{name} of {length} bytes")


def _uuid(buffer: Buffer, position: int) -> tuple[Any, int]:
    length = buffer[position]
    if length == 0:
        return None, position + 1
    if length != 16:
        raise ProtocolError(f"uniqueidentifier of {length} bytes")
    data = buffer[position + 1 : position + 17]
    if len(data) != 16:
        raise IndexError("uniqueidentifier")
    return UUID(bytes_le=bytes(data)), position + 17


def _decimal(scale: int) -> Decoder:
    def decode(buffer: Buffer, position: int) -> tuple[Any, int]:
        length = buffer[position]
        if length == 0:
            return None, position + 1
        units = int.from_bytes(buffer[position + 2 : position + 1 + length], "little")
        value = Decimal(units if buffer[position + 1] else -units)
        return _scaled(value, -scale), position + 1 + length

    return decode


def _date(buffer: Buffer, position: int) -> tuple[Any, int]:
    length = buffer[position]
    if length == 0:
        return None, position + 1
    return int.from_bytes(buffer[position + 1 : position + 4], "little"), position + 1 + length


def _time(unit: int) -> Decoder:
    def decode(buffer: Buffer, position: int) -> tuple[Any, int]:
        end = position + 1 + buffer[position]
        if end == position + 1:
            return None, end
        return int.from_bytes(buffer[position + 1 : end], "little") * unit, end

    return decode


def _datetime2(unit: int) -> Decoder:
    def decode(buffer: Buffer, position: int) -> tuple[Any, int]:
        end = position + 1 + buffer[position]
        if end == position + 1:
            return None, end
        ticks = int.from_bytes(buffer[position + 1 : end - 3], "little") * unit
        return int.from_bytes(buffer[end - 3 : end], "little") * TICKS_A_DAY + ticks, end

    return decode


def _datetimeoffset(unit: int) -> Decoder:
    def decode(buffer: Buffer, position: int) -> tuple[Any, int]:
        end = position + 1 + buffer[position]
        if end == position + 1:
            return None, end
        ticks = int.from_bytes(buffer[position + 1 : end - 5], "little") * unit
        days = int.from_bytes(buffer[end - 5 : end - 2], "little")
        (minutes,) = _I16(buffer, end - 2)
        if not -840 <= minutes <= 840:
            raise ProtocolError(f"an offset of {minutes} minutes")
        return Decimal(((days * TICKS_A_DAY + ticks) << 12) + minutes + 2048), end

    return decode


_TICKS = {0x29: _time, 0x2A: _datetime2, 0x2B: _datetimeoffset}


def _binary(buffer: Buffer, position: int) -> tuple[Any, int]:
    (length,) = _U16(buffer, position)
    position += 2
    if length == 0xFFFF:
        return None, position
    return bytes(buffer[position : position + length]), position + length


def _text(codec: str, errors: str) -> Decoder:
    def decode(buffer: Buffer, position: int) -> tuple[Any, int]:
        (length,) = _U16(buffer, position)
        position += 2
        if length == 0xFFFF:
            return None, position
        end = position + length
        if end > len(buffer):
            raise IndexError("text")
        return _characters(buffer[position:end], codec, errors), end

    return decode


def _characters(data: Buffer, codec: str, errors: str) -> str:
    try:
        return str(data, codec, errors)
    except UnicodeDecodeError as error:
        raise ProtocolError(f"text that is not {codec}") from error


def _plp(buffer: Buffer, position: int) -> tuple[bytes | None, int]:
    (total,) = _U64(buffer, position)
    position += 8
    if total == _PLP_NULL:
        return None, position
    if total != _PLP_UNKNOWN and total > len(buffer) - position:
        raise IndexError("value")  # do not gather chunks only to find that the last is missing
    chunks = []
    while True:
        (length,) = _U32(buffer, position)
        position += 4
        if length == 0:
            break
        if position + length > len(buffer):
            raise IndexError("chunk")
        chunks.append(buffer[position : position + length])
        position += length
    data = bytes(chunks[0]) if len(chunks) == 1 else b"".join(chunks)
    if total not in (_PLP_UNKNOWN, len(data)):
        raise ProtocolError(f"a value of {total} bytes came with {len(data)}")
    return data, position


def _binary_plp(buffer: Buffer, position: int) -> tuple[Any, int]:
    return _plp(buffer, position)


def _text_plp(codec: str, errors: str) -> Decoder:
    def decode(buffer: Buffer, position: int) -> tuple[Any, int]:
        data, position = _plp(buffer, position)
        return (None if data is None else _characters(data, codec, errors)), position

    return decode


def _short_binary(buffer: Buffer, position: int) -> tuple[Any, int]:
    end = position + 1 + buffer[position]
    return (bytes(buffer[position + 1 : end]) if end > position + 1 else None), end


def _short_text(buffer: Buffer, position: int) -> tuple[Any, int]:
    data, end = _short_binary(buffer, position)
    return (None if data is None else _characters(data, "cp1252", "tsqldev-windows")), end


def _long(buffer: Buffer, position: int) -> tuple[bytes | None, int]:
    (length,) = _U32(buffer, position)
    position += 4
    if length == 0xFFFFFFFF:
        return None, position
    if position + length > len(buffer):
        raise IndexError("value")
    return bytes(buffer[position : position + length]), position + length


def _long_binary(buffer: Buffer, position: int) -> tuple[Any, int]:
    return _long(buffer, position)


def _long_text(codec: str, errors: str) -> Decoder:
    def decode(buffer: Buffer, position: int) -> tuple[Any, int]:
        data, position = _long(buffer, position)
        return (None if data is None else _characters(data, codec, errors)), position

    return decode
