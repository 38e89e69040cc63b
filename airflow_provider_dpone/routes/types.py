"""SQL Server values on their way into ClickHouse columns: carried exactly, or refused by column and reason.

``carry`` decides once per column whether the two types fit; the ``Carrier`` that it gives reads, checks, sends and
reads back that column. Every rule is listed in docs/types.md. Three principles: a value is read in a form that the
driver does not round, cast in Arrow with every loss an error, and read back from ClickHouse to be compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from airflow_provider_dpone.contracts.errors import ConfigurationError, ValueRefused

if TYPE_CHECKING:
    import pyarrow as pa

Kind = Literal["integer", "decimal", "float", "bytes", "ticks", "text_lower"]
Prepare = Callable[["pa.Array"], "pa.Array"]

_TARGET = re.compile(r"(?P<nullable>Nullable\()?(?P<name>[A-Za-z0-9]+)(?:\((?P<arguments>[^()]*)\))?\)?")
_INTEGER_BITS = {"tinyint": (8, False), "smallint": (16, True), "int": (32, True), "bigint": (64, True)}
_TICKS_A_SECOND = 10_000_000
_SECONDS_A_DAY = 86_400
#: Days since 1970-01-01, first and last, that DateTime64 and Date32 hold: everywhere, and where the server shows more.
NARROW_DAYS = (-25_567, 120_529)
WIDE_DAYS = (-719_162, 2_932_896)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceColumn:
    """A SQL Server column as sys.columns shows it. ``length`` is in bytes, -1 for (max)."""

    name: str
    type: str
    length: int
    precision: int
    scale: int
    nullable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetType:
    """A ClickHouse type, taken apart: ``Nullable(Decimal(10, 2))`` is nullable Decimal with arguments 10 and 2."""

    name: str
    arguments: tuple[str, ...]
    nullable: bool

    @classmethod
    def parse(cls, column: str, text: str) -> TargetType:
        found = _TARGET.fullmatch(text)
        if found is None:
            raise ConfigurationError(
                "target_type", happened=f"column {column}: the ClickHouse type {text} is not one that can be checked."
            )
        arguments = found["arguments"]
        parts = tuple(part.strip().strip("'") for part in arguments.split(",")) if arguments else ()
        return cls(name=found["name"], arguments=parts, nullable=found["nullable"] is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrier:
    """How one column travels. ``read`` and ``back`` name SQL fragments; ``kind`` says how its values are compared.

    ``prepare`` gives the Arrow array of the exact target type, or raises ValueRefused.
    """

    name: str
    read: str
    back: str
    kind: Kind
    nullable: bool
    prepare: Prepare


def carry(source: SourceColumn, target: str, days: tuple[int, int] = NARROW_DAYS) -> Carrier:
    """The carrier from ``source`` to the ClickHouse type ``target``; ``days`` is the range that the server holds."""
    wanted = TargetType.parse(source.name, target)
    maker = _MAKERS.get(source.type)
    if maker is None:
        raise _unfit(source, target, "this SQL Server type is not carried")
    read, back, kind, prepare = maker(source, wanted, days)

    def checked(array: pa.Array) -> pa.Array:
        if array.null_count and not wanted.nullable:
            raise ValueRefused(source.name, "null_into_not_nullable")
        return prepare(array)

    return Carrier(name=source.name, read=read, back=back, kind=kind, nullable=wanted.nullable, prepare=checked)


Made = tuple[str, str, Kind, Prepare]


def _unfit(source: SourceColumn, target: TargetType | str, why: str) -> ConfigurationError:
    return ConfigurationError(
        "column_types",
        happened=f"column {source.name}: {source.type} is not carried into {_shown(target)}: {why}.",
        check="the type of the target column against docs/types.md.",
    )


def _shown(target: TargetType | str) -> str:
    if isinstance(target, str):
        return target
    return target.name + (f"({', '.join(target.arguments)})" if target.arguments else "")


def _cast(source: SourceColumn, to: pa.DataType) -> Prepare:
    """Cast with every loss an error."""

    def prepare(array: pa.Array) -> pa.Array:
        import pyarrow as pa

        try:
            return array.cast(to, safe=True)
        except pa.ArrowInvalid as err:
            raise ValueRefused(source.name, "out_of_range") from err

    return prepare


def _integer(source: SourceColumn, target: TargetType, _: tuple[int, int]) -> Made:
    import pyarrow as pa

    bits, signed = _INTEGER_BITS[source.type]
    found = re.fullmatch(r"(U?)Int(8|16|32|64)", target.name)
    if found is None:
        raise _unfit(source, target, "an integer type is wanted")
    target_signed, target_bits = not found[1], int(found[2])
    room = target_bits - target_signed
    if room < bits - signed or (signed and not target_signed):
        raise _unfit(source, target, "its range is smaller")
    return "plain", "plain", "integer", _cast(source, getattr(pa, target.name.lower())())


def _bit(source: SourceColumn, target: TargetType, _: tuple[int, int]) -> Made:
    import pyarrow as pa

    if target.name not in ("Bool", "UInt8"):
        raise _unfit(source, target, "Bool or UInt8 is wanted")
    return "bit", "plain", "integer", _cast(source, pa.bool_() if target.name == "Bool" else pa.uint8())


def _decimal(source: SourceColumn, target: TargetType, _: tuple[int, int]) -> Made:
    import pyarrow as pa

    money = source.type in ("money", "smallmoney")
    precision, scale = ({"money": 19, "smallmoney": 10}[source.type], 4) if money else (source.precision, source.scale)
    if target.name != "Decimal" or len(target.arguments) != 2:
        raise _unfit(source, target, f"Decimal({precision}, {scale}) is wanted")
    target_precision, target_scale = (int(argument) for argument in target.arguments)
    if target_scale != scale or target_precision < precision or target_precision > 38:
        raise _unfit(source, target, f"the scale must be {scale} and the precision {precision} to 38")
    cast = _cast(source, pa.decimal128(target_precision, scale))

    def prepare(array: pa.Array) -> pa.Array:
        # ClickHouse does not enforce the precision: Decimal(5, 2) stores 1234.5. The Arrow type does.
        return cast(array)

    return ("money" if money else "plain"), "plain", "decimal", prepare


def _float(source: SourceColumn, target: TargetType, _: tuple[int, int]) -> Made:
    import pyarrow as pa

    single = source.type == "real"
    if target.name == "Float64" or (single and target.name == "Float32"):
        return "plain", "plain", "float", _cast(source, pa.float64() if target.name == "Float64" else pa.float32())
    raise _unfit(source, target, "Float64" + (" or Float32" if single else "") + " is wanted")


def _text(source: SourceColumn, target: TargetType, _: tuple[int, int]) -> Made:
    import pyarrow as pa

    if target.name != "String":
        raise _unfit(source, target, "String is wanted")
    cast = _cast(source, pa.large_string())

    def prepare(array: pa.Array) -> pa.Array:
        text = cast(array)
        try:
            # UTF-16 with a lone surrogate has no UTF-8 form; a driver that lets one through is caught here.
            text.validate(full=True)
        except pa.ArrowInvalid as err:
            raise ValueRefused(source.name, "not_unicode") from err
        return text

    read = {"time": "time_text", "datetimeoffset": "offset_text"}.get(source.type, "plain")
    return read, "plain", "bytes", prepare


def _binary(source: SourceColumn, target: TargetType, _: tuple[int, int]) -> Made:
    import pyarrow as pa

    fixed = target.name == "FixedString" and source.type == "binary" and target.arguments == (str(source.length),)
    if target.name != "String" and not fixed:
        raise _unfit(source, target, "String is wanted, or FixedString of a binary's own length")
    # Never fixed_size_binary: into String it loses trailing zero bytes.
    return "plain", "plain", "bytes", _cast(source, pa.large_binary())


def _guid(source: SourceColumn, target: TargetType, _: tuple[int, int]) -> Made:
    import pyarrow as pa

    if target.name != "UUID":
        raise _unfit(source, target, "UUID is wanted")
    return "guid", "text", "text_lower", _cast(source, pa.string())


def _date(source: SourceColumn, target: TargetType, days: tuple[int, int]) -> Made:
    import pyarrow as pa

    low, high = {"Date": (0, 65_535), "Date32": days}.get(target.name, (0, -1))
    if low > high:
        raise _unfit(source, target, "Date32 or Date is wanted")

    def prepare(array: pa.Array) -> pa.Array:
        _within(source, array, low, high)
        return array.cast(pa.int32()).cast(pa.date32())

    return "days", "days", "integer", prepare


def _moment(source: SourceColumn, target: TargetType, days: tuple[int, int]) -> Made:
    import pyarrow as pa

    needed = {"datetime2": source.scale, "datetime": 3, "smalldatetime": 0}[source.type]
    if target.name != "DateTime64" or len(target.arguments) != 2 or target.arguments[1] != "UTC":
        raise _unfit(source, target, f"DateTime64({needed}, 'UTC') is wanted, its zone named")
    scale = int(target.arguments[0])
    if not needed <= scale <= 7:
        # Scales 8 and 9 end in the year 2262.
        raise _unfit(source, target, f"a scale from {needed} to 7 is wanted")
    low, high = days[0] * _SECONDS_A_DAY * _TICKS_A_SECOND, (days[1] + 1) * _SECONDS_A_DAY * _TICKS_A_SECOND - 1

    def prepare(array: pa.Array) -> pa.Array:
        import pyarrow.compute as pc

        _within(source, array, low, high)
        ticks = array.cast(pa.int64())
        coarse = pc.divide(ticks, 10 ** (7 - scale))
        if (
            not pc.all(pc.equal(pc.multiply(coarse, 10 ** (7 - scale)), ticks)).as_py()
            and len(array) > array.null_count
        ):
            raise ValueRefused(source.name, "finer_than_target")
        # The integer is the unscaled decimal; ClickHouse takes a decimal as seconds, exactly.
        return _unscaled(coarse, scale)

    return ("datetime_ticks" if source.type == "datetime" else "ticks"), "ticks", "ticks", prepare


def _unscaled(array: pa.Array, scale: int) -> pa.Array:
    """Read integers as the digits of decimals with ``scale`` places, without arithmetic."""
    import pyarrow as pa

    digits = array.cast(pa.decimal128(19, 0))
    return pa.Array.from_buffers(
        pa.decimal128(19, scale), len(digits), digits.buffers(), null_count=digits.null_count, offset=digits.offset
    )


def _within(source: SourceColumn, array: pa.Array, low: int, high: int) -> None:
    import pyarrow.compute as pc

    ends = pc.min_max(array).as_py()
    if ends["min"] is not None and not (low <= ends["min"] and ends["max"] <= high):
        raise ValueRefused(source.name, "outside_target_range")


_MAKERS: dict[str, Callable[[SourceColumn, TargetType, tuple[int, int]], Made]] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), _integer),
    "bit": _bit,
    **dict.fromkeys(("decimal", "numeric", "money", "smallmoney"), _decimal),
    **dict.fromkeys(("real", "float"), _float),
    **dict.fromkeys(("char", "varchar", "nchar", "nvarchar", "time", "datetimeoffset"), _text),
    **dict.fromkeys(("binary", "varbinary"), _binary),
    "uniqueidentifier": _guid,
    "date": _date,
    **dict.fromkeys(("datetime2", "datetime", "smalldatetime"), _moment),
}
