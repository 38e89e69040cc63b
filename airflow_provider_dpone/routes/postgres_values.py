"""PostgreSQL values on their way into SQL Server columns: carried exactly, or refused by column and reason.

`conversion(source, target)` decides once per column whether the two types fit at all; the function that it gives then
checks every value. What is accepted is listed in docs/types.md.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from airflow_provider_dpone.contracts.errors import ConfigurationError, ValueRefused

#: Largest length that sys.columns counts; -1 stands for (max).
MAX = -1

_INTEGER_RANGE = {
    "tinyint": (0, 255),
    "smallint": (-(2**15), 2**15 - 1),
    "int": (-(2**31), 2**31 - 1),
    "bigint": (-(2**63), 2**63 - 1),
}
_UNICODE = frozenset({"nchar", "nvarchar"})
_CODE_PAGE = frozenset({"char", "varchar"})
_PADDED = frozenset({"char", "nchar", "binary"})

Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetColumn:
    """A SQL Server column. `length` is in characters for character types, in bytes for binary ones."""

    name: str
    type: str
    length: int
    precision: int
    scale: int
    nullable: bool
    identity: bool
    computed: bool
    #: Of a char or varchar column.
    code_page: int | None


def conversion(source_type: str, target: TargetColumn) -> Convert:
    """The check and conversion for one column. `source_type` is PostgreSQL's internal name (int4, numeric...).

    Raises ConfigurationError for a pair of types that could change values silently.
    """
    maker = _MAKERS.get((source_type, target.type))
    if maker is None or target.computed or target.identity:
        raise ConfigurationError(
            "column_types",
            happened=f"column {target.name}: PostgreSQL {source_type} is not carried into SQL Server {target.type}"
            + (" (computed)" if target.computed else " (identity)" if target.identity else "")
            + ".",
            check="the type of the target column against docs/types.md.",
        )
    if target.type in _CODE_PAGE and target.code_page != 1252:
        # The driver would replace what another code page has not, or count other bytes, without an error.
        raise ConfigurationError(
            "column_collation",
            happened=f"column {target.name}: text is carried into {target.type} of code page 1252 only, not of"
            f" {target.code_page or 'an unknown one'}.",
            check="the collation of the target column, or make it nvarchar.",
        )
    convert = maker(target)

    def checked(value: Any) -> Any:
        if value is None:
            if not target.nullable:
                raise ValueRefused(target.name, "null_into_not_null")
            return None
        return convert(value)

    return checked


def _integer(target: TargetColumn) -> Convert:
    low, high = _INTEGER_RANGE[target.type]

    def convert(value: int) -> int:
        if not low <= value <= high:
            raise ValueRefused(target.name, "out_of_range")
        return value

    return convert


def _decimal(target: TargetColumn) -> Convert:
    quantum = decimal.Decimal(1).scaleb(-target.scale)
    limit = decimal.Decimal(10) ** (target.precision - target.scale)
    context = decimal.Context(prec=60, traps=[decimal.Inexact, decimal.InvalidOperation])

    def convert(value: decimal.Decimal | int) -> decimal.Decimal:
        exact = decimal.Decimal(value)
        if not exact.is_finite():
            raise ValueRefused(target.name, "not_finite")
        try:
            exact = exact.quantize(quantum, context=context)
        except (decimal.Inexact, decimal.InvalidOperation) as err:
            raise ValueRefused(target.name, "scale") from err
        if abs(exact) >= limit:
            raise ValueRefused(target.name, "precision")
        return exact

    return convert


def _float(target: TargetColumn) -> Convert:
    def convert(value: float) -> float:
        if not math.isfinite(value):
            raise ValueRefused(target.name, "not_finite")
        return value

    return convert


def _text(target: TargetColumn) -> Convert:
    unicode = target.type in _UNICODE

    def convert(value: str) -> str:
        if unicode:
            length = len(value.encode("utf-16-le")) // 2
        else:
            try:
                length = len(value.encode("cp1252"))
            except UnicodeEncodeError as err:
                raise ValueRefused(target.name, "not_in_code_page") from err
        if target.length != MAX and length > target.length:
            raise ValueRefused(target.name, "too_long")
        if target.type in _PADDED and length != target.length:
            raise ValueRefused(target.name, "would_be_padded")
        return value

    return convert


def _binary(target: TargetColumn) -> Convert:
    def convert(value: bytes) -> bytes:
        if target.length != MAX and len(value) > target.length:
            raise ValueRefused(target.name, "too_long")
        if target.type in _PADDED and len(value) != target.length:
            raise ValueRefused(target.name, "would_be_padded")
        return bytes(value)

    return convert


def _timestamp(target: TargetColumn) -> Convert:
    # PostgreSQL counts microseconds: a target with fewer digits would round.
    unit = 10 ** max(0, 6 - target.scale)

    def convert(value: datetime.datetime) -> datetime.datetime:
        if value.microsecond % unit:
            raise ValueRefused(target.name, "fraction")
        return value

    return convert


def _as_is(target: TargetColumn) -> Convert:
    def convert(value: Any) -> Any:
        return value

    return convert


def _makers() -> dict[tuple[str, str], Callable[[TargetColumn], Convert]]:
    makers: dict[tuple[str, str], Callable[[TargetColumn], Convert]] = {}
    for source in ("int2", "int4", "int8"):
        for target in _INTEGER_RANGE:
            makers[source, target] = _integer
        for target in ("decimal", "numeric"):
            makers[source, target] = _decimal
    for target in ("decimal", "numeric"):
        makers["numeric", target] = _decimal
    makers["float4", "real"] = makers["float4", "float"] = makers["float8", "float"] = _float
    for source in ("text", "varchar", "bpchar"):
        for target in ("char", "varchar", "nchar", "nvarchar"):
            makers[source, target] = _text
    for target in ("binary", "varbinary"):
        makers["bytea", target] = _binary
    makers["bool", "bit"] = makers["date", "date"] = makers["uuid", "uniqueidentifier"] = _as_is
    makers["timestamp", "datetime2"] = makers["timestamptz", "datetimeoffset"] = _timestamp
    makers["time", "time"] = _timestamp
    return makers


_MAKERS = _makers()
