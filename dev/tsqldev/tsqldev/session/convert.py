"""Assignment of a value of one type to a variable or parameter of another, where no server is needed for it."""

from __future__ import annotations

import re
from decimal import Decimal
from uuid import UUID

from tsqldev.errors import SqlError
from tsqldev.types import BINARY, CHARACTER, INTEGER, MAX, SqlType

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_RANGES = {
    "bit": (0, 1),
    "tinyint": (0, 255),
    "smallint": (-(1 << 15), (1 << 15) - 1),
    "int": (-(1 << 31), (1 << 31) - 1),
    "bigint": (-(1 << 63), (1 << 63) - 1),
}


class NotDirect(Exception):
    """The conversion needs the compiler's rules."""


def assign(value: object, source: SqlType, target: SqlType) -> object:
    """`value` as `target` holds it. Raises NotDirect for conversions that PostgreSQL must compute."""
    if value is None:
        return None
    if target.name in CHARACTER and source.name in CHARACTER:
        return _character(str(value), source, target)
    if target.name in INTEGER and source.name in INTEGER:
        return _integer(int(value), target)  # type: ignore[call-overload]  # integers are held as int
    if target.name in BINARY and source.name in BINARY:
        data = bytes(value)  # type: ignore[call-overload]  # binaries are held as bytes
        if target.length not in (MAX, None) and len(data) > (target.length or 0):
            data = data[: target.length]
        if target.name == "binary" and target.length:
            data = data.ljust(target.length, b"\x00")
        return data
    if target.name in ("decimal", "numeric") and source.name in INTEGER:
        number = Decimal(int(value))  # type: ignore[call-overload]  # integers are held as int
        if abs(number) >= Decimal(10) ** ((target.precision or 18) - (target.scale or 0)):
            raise SqlError(
                8115, f"Arithmetic overflow error converting {source.name} to data type {target.name}.", state=6
            )
        return number.quantize(Decimal(1).scaleb(-(target.scale or 0)))
    if target.name == source.name and target.scale == source.scale:
        if target.name in ("decimal", "numeric") and target.precision != source.precision:
            raise NotDirect
        return value
    if target.name == "uniqueidentifier" and source.name in CHARACTER and _UUID.fullmatch(str(value)):
        return UUID(str(value))
    raise NotDirect


def _character(text: str, source: SqlType, target: SqlType) -> str:
    if not text.isascii():
        # Lengths count units of UTF-16 or bytes of a code page: the compiler's functions know them.
        roomy = target.length in (MAX, None) or 2 * len(text) <= (target.length or 0)
        if target.name not in ("nvarchar", "ntext", "xml", "sysname") or not roomy:
            raise NotDirect
        return text
    if target.length not in (MAX, None) and target.name not in ("text", "ntext", "xml"):
        text = text[: target.length]
    if target.name in ("char", "nchar") and target.length:
        text = text.ljust(target.length)
    return text


def _integer(number: int, target: SqlType) -> int:
    if target.name == "bit":
        return 1 if number else 0
    low, high = _RANGES[target.name]
    if not low <= number <= high:
        if target.name in ("tinyint", "smallint"):
            raise SqlError(220, f"Arithmetic overflow error for data type {target.name}, value = {number}.", state=1)
        raise SqlError(8115, f"Arithmetic overflow error converting expression to data type {target.name}.", state=2)
    return number
