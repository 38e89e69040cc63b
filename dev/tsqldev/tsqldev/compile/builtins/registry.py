"""The functions that T-SQL texts may call: how many arguments, what type comes back, which PostgreSQL text it is.

A name that is in no table here and not in the catalog's is refused with 195.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tsqldev.compile import tree as t
from tsqldev.compile.convert import Value, convert
from tsqldev.compile.rules import family, text_length
from tsqldev.errors import SqlError
from tsqldev.types import (
    DEFAULT_COLLATION,
    INT,
    MAX,
    UNICODE,
    SqlType,
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


def arity(name: str, minimum: int, maximum: int) -> SqlError:
    if minimum == maximum:
        return SqlError(174, f"The {name.lower()} function requires {minimum} argument(s).", severity=15)
    return SqlError(189, f"The {name.lower()} function requires {minimum} to {maximum} arguments.", severity=15)


def invalid_argument(value: Value, argument: int, name: str) -> SqlError:
    return SqlError(
        8116, f"Argument data type {value.type.name} is invalid for argument {argument} of {name.lower()} function."
    )


def text_argument(value: Value, name: str, argument: int = 1) -> Value:
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
        return convert(value, varchar(text_length(value.type)))
    raise invalid_argument(value, argument, name)


def is_unicode(value: Value) -> bool:
    return value.type.name in UNICODE


def limited(size: int, unicode: bool) -> int:
    return min(size, 4000 if unicode else 8000)


def text_type(like: Value, length: int | None = None, *, nullable: bool | None = None) -> SqlType:
    """nvarchar or varchar after the argument, of the same collation."""
    base = "nvarchar" if is_unicode(like) else "varchar"
    size = like.type.length if length is None else length
    if like.type.name in ("text", "ntext", "xml"):
        size = MAX
    return SqlType(
        base,
        length=size,
        collation=like.type.collation or DEFAULT_COLLATION,
        nullable=like.type.nullable if nullable is None else nullable,
    )


def to_int(value: Value) -> str:
    return convert(value, INT).sql


def nullable(*values: Value) -> bool:
    return any(v.type.nullable for v in values)
