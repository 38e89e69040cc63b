"""A type as written in CAST, CONVERT or OPENJSON ... WITH, to a SqlType."""

from __future__ import annotations

from tsqldev.compile.tree import TypeName
from tsqldev.errors import SqlError, unsupported
from tsqldev.types import DEFAULT_COLLATION, MAX, SYSNAME, SqlType

_PLAIN = {
    "bit": "bit", "tinyint": "tinyint", "smallint": "smallint", "int": "int", "integer": "int", "bigint": "bigint",
    "money": "money", "smallmoney": "smallmoney", "real": "real", "datetime": "datetime",
    "smalldatetime": "smalldatetime", "date": "date", "uniqueidentifier": "uniqueidentifier",
    "rowversion": "rowversion", "timestamp": "rowversion",
}  # fmt: skip
_LARGE = {"text": ("text", True), "ntext": ("ntext", True), "image": ("image", False), "xml": ("xml", True)}
_CHARACTER = {
    "char": "char", "character": "char", "varchar": "varchar", "nchar": "nchar", "nvarchar": "nvarchar",
    "ncharacter": "nchar",
}  # fmt: skip
_BINARY = {"binary": "binary", "varbinary": "varbinary"}
_REFUSED = frozenset({"sql_variant", "hierarchyid", "geography", "geometry", "json", "vector", "cursor", "table"})


def type_from_name(written: TypeName, *, default_length: int = 30) -> SqlType:
    """`default_length` is that of CAST and CONVERT (30); a declaration uses 1."""
    if len(written.parts) > 1 and written.parts[0].lower() != "sys":
        raise unsupported(f"type {'.'.join(written.parts)}")
    name = written.parts[-1].lower()
    arguments = written.arguments
    if name in _PLAIN:
        if arguments:
            raise SqlError(
                2716, f"Column, parameter, or variable #1: Cannot specify a column width on data type {name}."
            )
        return SqlType(_PLAIN[name])
    if name == "sysname":
        return SYSNAME.with_nullable(True)
    if name in _LARGE:
        base, character = _LARGE[name]
        return SqlType(base, length=MAX, collation=DEFAULT_COLLATION if character else None)
    if name in _CHARACTER or name in _BINARY:
        base = _CHARACTER.get(name) or _BINARY[name]
        collation = DEFAULT_COLLATION if name in _CHARACTER else None
        length = default_length
        if arguments:
            length = MAX if arguments[0].upper() == "MAX" else _number(arguments[0], name)
        limit = 4000 if base in ("nchar", "nvarchar") else 8000
        if length == MAX and base in ("char", "nchar", "binary"):
            raise SqlError(102, "Incorrect syntax near 'max'.", severity=15)
        if length != MAX and not 1 <= length <= limit:
            raise SqlError(
                131,
                f"The size ({length}) given to the type '{name}' exceeds the maximum allowed for any data type (8000).",
                severity=15,
            )
        return SqlType(base, length=length, collation=collation)
    if name in ("decimal", "dec", "numeric"):
        precision = _number(arguments[0], name) if arguments else 18
        scale = _number(arguments[1], name) if len(arguments) > 1 else 0
        if not 1 <= precision <= 38:
            raise SqlError(1002, f"Line 1: Specified scale {precision} is invalid.", severity=15)
        if scale > precision:
            raise SqlError(192, "The scale must be less than or equal to the precision.", severity=15)
        return SqlType("numeric" if name == "numeric" else "decimal", precision=precision, scale=scale)
    if name == "float":
        return SqlType("real" if arguments and _number(arguments[0], name) <= 24 else "float")
    if name in ("time", "datetime2", "datetimeoffset"):
        scale = _number(arguments[0], name) if arguments else 7
        if scale > 7:
            raise SqlError(1002, f"Line 1: Specified scale {scale} is invalid.", severity=15)
        return SqlType(name, scale=scale)
    if name in _REFUSED:
        raise unsupported(f"type {name}")
    raise SqlError(243, f"Type {written.parts[-1]} is not a defined system type.")


def _number(text: str, type_name: str) -> int:
    if not text.isdigit():
        raise SqlError(102, f"Incorrect syntax near '{text}'.", severity=15)
    return int(text)
