"""Values through the Arrow stream into the real engine and back: the content check agrees, and finds a changed row."""

from __future__ import annotations

import random
from contextlib import closing
from decimal import Decimal

import pyarrow as pa
import pytest

from airflow_provider_dpone.contracts.errors import ValueRefused
from airflow_provider_dpone.drivers.clickhouse import connect
from airflow_provider_dpone.routes.arrow_stream import ArrowStream
from airflow_provider_dpone.routes.types import WIDE_DAYS, Carrier, SourceColumn, carry
from tests.integration.clickhouse.conftest import World

#: Column, SQL Server type with its shape, ClickHouse type, the form it is read in, and values to the edges.
CASES: tuple[tuple[str, str, dict[str, int], str, pa.DataType, list[object]], ...] = (
    ("tiny", "tinyint", {}, "UInt8", pa.uint8(), [0, 255]),
    ("small", "smallint", {}, "Int16", pa.int16(), [-32768, 32767]),
    ("whole", "int", {}, "Int32", pa.int32(), [-(2**31), 2**31 - 1]),
    ("big", "bigint", {}, "Int64", pa.int64(), [-(2**63), 2**63 - 1]),
    ("wider", "int", {}, "Int64", pa.int32(), [-(2**31), 2**31 - 1]),
    ("flag", "bit", {}, "Bool", pa.uint8(), [0, 1]),
    ("price", "decimal", {"precision": 10, "scale": 3}, "Decimal(18, 3)", pa.decimal128(10, 3),
     [Decimal("-9999999.999"), Decimal("1.239")]),
    ("huge", "decimal", {"precision": 38, "scale": 10}, "Decimal(38, 10)", pa.decimal128(38, 10),
     [Decimal("-" + "9" * 28 + "." + "9" * 10), Decimal("0.0000000001")]),
    ("cash", "money", {}, "Decimal(19, 4)", pa.decimal128(19, 4),
     [Decimal("-922337203685477.5808"), Decimal("922337203685477.5807")]),
    ("single", "real", {}, "Float32", pa.float32(), [-3.4e38, 1.1754943508222875e-38]),
    ("double", "float", {}, "Float64", pa.float64(), [-1.7976931348623157e308, 0.1]),
    ("words", "nvarchar", {"length": -1}, "String", pa.string(), ["", "a  ä 漢 🛫 'x' \\ \n"]),
    ("fixed", "char", {"length": 4}, "String", pa.string(), ["ab  ", "    "]),
    ("bytes", "varbinary", {"length": -1}, "String", pa.binary(), [b"", b"\x00\xffa\x00\x00"]),
    ("block", "binary", {"length": 3}, "FixedString(3)", pa.binary(), [b"a\x00\x00", b"\x00\x00\x00"]),
    ("guid", "uniqueidentifier", {}, "UUID", pa.string(),
     ["00112233-4455-6677-8899-AABBCCDDEEFF", "6F9619FF-8B86-D011-B42D-00C04FC964FF"]),
    ("day", "date", {}, "Date32", pa.int32(), [-719162, 2932896]),
    ("ticks", "datetime2", {"scale": 7}, "DateTime64(7, 'UTC')", pa.int64(),
     [-621355968000000000, 2534023007999999999, 17131299450748412]),
    ("coarse", "datetime2", {"scale": 0}, "DateTime64(0, 'UTC')", pa.int64(), [-621355968000000000, 10_000_000]),
    ("old", "datetime", {}, "DateTime64(3, 'UTC')", pa.int64(), [-68474592000000000, 30000, 70000]),
    ("clock", "time", {"scale": 7}, "String", pa.string(), ["00:00:00.0000000", "23:59:59.9999999"]),
    ("zoned", "datetimeoffset", {"scale": 7}, "String", pa.string(), ["2024-02-29 12:00:00.1234567 +05:45"]),
)  # fmt: skip


def carriers(nullable: bool = True) -> tuple[Carrier, ...]:
    made = []
    for name, kind, shape, target, _, _ in CASES:
        source = SourceColumn(
            name=name,
            type=kind,
            length=shape.get("length", 0),
            precision=shape.get("precision", 0),
            scale=shape.get("scale", 0),
            nullable=True,
        )
        made.append(carry(source, f"Nullable({target})" if nullable else target, WIDE_DAYS))
    return tuple(made)


def batches(rows: int, size: int = 500) -> list[pa.RecordBatch]:
    """Every edge, every NULL, in random order, the same at each call."""
    chosen = random.Random(20261129)
    columns = []
    for _, _, _, _, _arrow, values in CASES:
        columns.append([chosen.choice([*values, None]) for _ in range(rows)])
    table = pa.table({case[0]: pa.array(column, case[4]) for case, column in zip(CASES, columns, strict=True)})
    return list(table.to_batches(max_chunksize=size))


def create(world: World, nullable: bool = True) -> None:
    columns = ", ".join(f"{case[0]} {f'Nullable({case[3]})' if nullable else case[3]}" for case in CASES)
    world.do(f"CREATE TABLE {world.database}.target ({columns}) ENGINE = MergeTree ORDER BY tuple()")


def insert(world: World, stream: ArrowStream) -> None:
    with closing(connect(world.access, settings={"async_insert": 0, "input_format_null_as_default": 0})) as client:
        client.raw_insert(
            f"{world.database}.target",
            [carrier.name for carrier in stream.carriers],
            insert_block=stream.generate(),
            fmt="ArrowStream",
        )


def test_this_engine_holds_the_whole_range_of_datetime2(world: World) -> None:
    assert world.target().days() == WIDE_DAYS


def test_every_type_arrives_exactly_and_reads_back_as_the_same_content(world: World) -> None:
    create(world)
    stream = ArrowStream(carriers(), batches(3000))
    insert(world, stream)
    back = world.target().content("target", carriers())
    assert back.rows == stream.rows == 3000
    assert back.document() == stream.content.document()
    shown = world.sql(
        f"SELECT DISTINCT toString(guid), toString(ticks) FROM {world.database}.target "
        "WHERE guid = '00112233-4455-6677-8899-aabbccddeeff' AND ticks > '2024-01-01' AND ticks < '2025-01-01'"
    )
    assert shown == [("00112233-4455-6677-8899-aabbccddeeff", "2024-04-14 21:25:45.0748412")]


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_one_changed_value_of_any_type_is_found(
    world: World, case: tuple[str, str, dict[str, int], str, pa.DataType, list[object]]
) -> None:
    create(world)
    stream = ArrowStream(carriers(), batches(40))
    insert(world, stream)
    name = case[0]
    world.do(
        f"ALTER TABLE {world.database}.target UPDATE {name} = NULL WHERE {name} IS NOT NULL SETTINGS mutations_sync = 1"
    )
    assert world.target().content("target", carriers()).document() != stream.content.document()


def test_null_into_a_plain_column_is_refused_before_it_is_sent(world: World) -> None:
    create(world, nullable=False)
    stream = ArrowStream(carriers(nullable=False), batches(40))
    with pytest.raises(Exception, match=r".*"):
        insert(world, stream)
    assert isinstance(stream.failure, ValueRefused)
    assert world.sql(f"SELECT count() FROM {world.database}.target") == [(0,)]


def test_memory_does_not_grow_with_rows(world: World) -> None:
    create(world)

    def peak(repeats: int) -> int:
        part = batches(2000)
        held = pa.total_allocated_bytes()
        seen: list[int] = []
        repeated = (batch for _ in range(repeats) for batch in part)
        insert(world, ArrowStream(carriers(), repeated, lambda *_: seen.append(pa.total_allocated_bytes() - held)))
        return max(seen)

    assert peak(20) < peak(1) * 2 + 1_000_000
