"""Which SQL Server types fit which ClickHouse types, and which values are refused instead of changed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from airflow_provider_dpone.contracts.errors import ConfigurationError, ValueRefused
from airflow_provider_dpone.routes.types import WIDE_DAYS, Carrier, SourceColumn, carry


def column(kind: str, length: int = 4, precision: int = 0, scale: int = 0) -> SourceColumn:
    return SourceColumn(name="c", type=kind, length=length, precision=precision, scale=scale, nullable=True)


def made(kind: str, target: str, days: tuple[int, int] | None = None, /, **shape: int) -> Carrier:
    source = column(kind, **shape)
    return carry(source, target, days) if days else carry(source, target)


@pytest.mark.parametrize(
    ("kind", "shape", "target"),
    [
        ("bigint", {}, "Int32"),
        ("int", {}, "Int16"),
        ("int", {}, "UInt32"),
        ("tinyint", {}, "Int8"),
        ("int", {}, "String"),
        ("bit", {}, "Int8"),
        ("decimal", {"precision": 10, "scale": 3}, "Decimal(18, 2)"),
        ("decimal", {"precision": 10, "scale": 2}, "Decimal(18, 3)"),
        ("decimal", {"precision": 10, "scale": 2}, "Decimal(9, 2)"),
        ("decimal", {"precision": 38, "scale": 2}, "Decimal(76, 2)"),
        ("decimal", {"precision": 10, "scale": 2}, "Float64"),
        ("money", {}, "Decimal(18, 4)"),
        ("money", {}, "Decimal(19, 2)"),
        ("float", {}, "Float32"),
        ("nvarchar", {}, "FixedString(10)"),
        ("nvarchar", {}, "LowCardinality(String)"),
        ("varbinary", {"length": 16}, "FixedString(16)"),
        ("binary", {"length": 15}, "FixedString(16)"),
        ("uniqueidentifier", {"length": 16}, "FixedString(16)"),
        ("date", {}, "DateTime"),
        ("datetime2", {"scale": 7}, "DateTime64(6, 'UTC')"),
        ("datetime2", {"scale": 7}, "DateTime64(7)"),
        ("datetime2", {"scale": 7}, "DateTime64(7, 'Europe/Berlin')"),
        ("datetime2", {"scale": 7}, "DateTime64(9, 'UTC')"),
        ("datetime", {}, "DateTime64(2, 'UTC')"),
        ("datetimeoffset", {"scale": 7}, "DateTime64(7, 'UTC')"),
        ("time", {"scale": 7}, "Int64"),
        ("xml", {}, "String"),
        ("sql_variant", {}, "String"),
        ("timestamp", {}, "UInt64"),
        ("hierarchyid", {}, "String"),
    ],
)
def test_types_that_could_change_a_value_are_refused_before_anything_is_read(
    kind: str, shape: dict[str, int], target: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        made(kind, target, **shape)
    assert "column c" in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "shape", "target"),
    [
        ("tinyint", {}, "UInt8"),
        ("tinyint", {}, "Int16"),
        ("smallint", {}, "Nullable(Int16)"),
        ("int", {}, "Int64"),
        ("bigint", {}, "Nullable(Int64)"),
        ("bit", {}, "Bool"),
        ("decimal", {"precision": 10, "scale": 2}, "Nullable(Decimal(18, 2))"),
        ("smallmoney", {}, "Decimal(10, 4)"),
        ("real", {}, "Float64"),
        ("float", {}, "Float64"),
        ("nchar", {}, "String"),
        ("binary", {"length": 16}, "FixedString(16)"),
        ("varbinary", {"length": -1}, "String"),
        ("uniqueidentifier", {"length": 16}, "Nullable(UUID)"),
        ("date", {}, "Date32"),
        ("datetime2", {"scale": 3}, "DateTime64(7, 'UTC')"),
        ("datetime2", {"scale": 0}, "DateTime64(0, 'UTC')"),
        ("smalldatetime", {}, "DateTime64(0, 'UTC')"),
        ("datetimeoffset", {"scale": 7}, "String"),
        ("time", {"scale": 7}, "String"),
    ],
)
def test_types_that_hold_every_value_are_carried(kind: str, shape: dict[str, int], target: str) -> None:
    assert made(kind, target, **shape).name == "c"


def test_null_into_a_column_that_is_not_nullable_is_refused_by_name() -> None:
    carrier = made("int", "Int32")
    assert carrier.prepare(pa.array([1, 2], pa.int32())).to_pylist() == [1, 2]
    with pytest.raises(ValueRefused) as caught:
        carrier.prepare(pa.array([1, None], pa.int32()))
    assert (caught.value.column, caught.value.reason) == ("c", "null_into_not_nullable")


def test_a_decimal_that_the_declared_precision_does_not_hold_is_refused() -> None:
    # P24: ClickHouse itself stores 1234.5 in a Decimal(5, 2).
    carrier = made("decimal", "Decimal(5, 2)", precision=5, scale=2)
    with pytest.raises(ValueRefused):
        carrier.prepare(pa.array([123450], pa.int64()).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2)))


def test_every_tick_of_datetime2_survives() -> None:
    carrier = made("datetime2", "DateTime64(7, 'UTC')", WIDE_DAYS, scale=7)
    ticks = [17_131_299_450_748_412, -1, -621_355_968_000_000_000, 2_534_023_007_999_999_999, None]
    nullable = made("datetime2", "Nullable(DateTime64(7, 'UTC'))", WIDE_DAYS, scale=7)
    sent = nullable.prepare(pa.array(ticks, pa.int64()))
    assert sent.type == pa.decimal128(19, 7)
    assert [None if value is None else int(value.scaleb(7)) for value in sent.to_pylist()] == ticks
    assert carrier.kind == "ticks"


@pytest.mark.parametrize("ticks", [-621_355_968_000_000_000, 2_534_023_007_999_999_999])
def test_a_moment_outside_the_servers_range_is_refused_not_clamped(ticks: int) -> None:
    carrier = made("datetime2", "DateTime64(7, 'UTC')", scale=7)
    with pytest.raises(ValueRefused, match="outside_target_range"):
        carrier.prepare(pa.array([0, ticks], pa.int64()))


def test_a_moment_finer_than_the_target_is_refused() -> None:
    carrier = made("datetime2", "DateTime64(3, 'UTC')", scale=3)
    with pytest.raises(ValueRefused, match="finer_than_target"):
        carrier.prepare(pa.array([10_000, 10_001], pa.int64()))


def test_a_date_outside_of_date_is_refused() -> None:
    with pytest.raises(ValueRefused):
        made("date", "Date").prepare(pa.array([-1], pa.int32()))


def test_text_that_is_no_unicode_is_refused() -> None:
    lone = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer((0).to_bytes(4, "little") + (3).to_bytes(4, "little")),
                         pa.py_buffer(b"\xed\xa0\x80")]
    )  # fmt: skip
    with pytest.raises(ValueRefused, match="not_unicode"):
        made("nvarchar", "String").prepare(lone)


def test_trailing_zero_bytes_are_sent_as_variable_binary() -> None:
    sent = made("binary", "String", length=3).prepare(pa.array([b"a\x00\x00"], pa.binary(3)))
    assert sent.type == pa.large_binary() and sent.to_pylist() == [b"a\x00\x00"]
