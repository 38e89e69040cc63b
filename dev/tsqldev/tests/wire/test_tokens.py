"""The bytes of the protocol, as MS-TDS prescribes them."""

from __future__ import annotations

import struct
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsqldev.pytest_plugin import TsqlServer
from tsqldev.types import MAX, SqlType, nvarchar, varbinary, varchar
from tsqldev.wire.collations import collation_bytes
from tsqldev.wire.decode import read_type
from tsqldev.wire.encode import wire_type
from tsqldev.wire.rows import plain_row_encoder, row_encoder

from .double import DAY, Double
from .rawclient import ATTENTION, BULK_LOAD, LOGIN7, PRELOGIN, SQL_BATCH, RawClient, batch, login7, prelogin

_LATIN = bytes.fromhex("0904d00034")

GOLDEN = [
    (SqlType("bit"), 1, "6801", "0101"),
    (SqlType("int"), -2, "2604", "04feffffff"),
    (SqlType("bigint"), 1, "2608", "080100000000000000"),
    (SqlType("decimal", precision=10, scale=2), Decimal("-1.5"), "6a090a02", "09009600000000000000"),
    (SqlType("numeric", precision=38, scale=0), Decimal(1), "6c112600", "1101" + "01" + "00" * 15),
    (SqlType("money"), Decimal("-1"), "6e08", "08fffffffff0d8ffff"),
    (SqlType("float"), 1.0, "6d08", "08000000000000f03f"),
    (SqlType("date"), 0, "28", "03000000"),
    (SqlType("time", scale=0), 10_000_000, "2900", "03010000"),
    (SqlType("time", scale=7), 1, "2907", "050100000000"),
    (SqlType("datetime2", scale=3), DAY + 10_000, "2a03", "0701000000" + "010000"),
    (SqlType("datetimeoffset", scale=7), Decimal((1 << 12) + 2048 - 60), "2b07", "0a0100000000" + "000000" + "c4ff"),
    (SqlType("datetime"), -1, "6f08", "08ffffffff" + struct.pack("<I", 300 * 86400 - 1).hex()),
    (SqlType("smalldatetime"), 1441, "6f04", "0401000100"),
    (
        SqlType("uniqueidentifier"),
        UUID("00112233-4455-6677-8899-aabbccddeeff"),
        "2410",
        "1033221100554477668899aabbccddeeff",
    ),
    (varchar(10), "é", "a70a00" + _LATIN.hex(), "0100e9"),
    (nvarchar(10), "é", "e71400" + _LATIN.hex(), "0200e900"),
    (nvarchar(MAX), "é", "e7ffff" + _LATIN.hex(), "0200000000000000" + "02000000" + "e900" + "00000000"),
    (nvarchar(MAX), "", "e7ffff" + _LATIN.hex(), "0000000000000000" + "00000000"),
    (varbinary(MAX), None, "a5ffff", "ff" * 8),
    (varbinary(3), b"\x01", "a50300", "010001"),
    (SqlType("rowversion"), 258, "ad0800", "0800" + "0000000000000102"),
    (SqlType("null"), None, "2604", "00"),
]


@pytest.mark.parametrize(("type", "value", "info", "data"), GOLDEN, ids=[f"{g[0]}={g[1]}" for g in GOLDEN])
def test_type_and_value_have_the_documented_bytes(type: SqlType, value: object, info: str, data: str) -> None:
    encoded_info, encode = wire_type(type)
    assert encoded_info.hex() == info
    assert encode(value).hex() == data


def test_collations_have_the_documented_bytes() -> None:
    assert collation_bytes("SQL_Latin1_General_CP1_CI_AS") == _LATIN
    assert collation_bytes("Latin1_General_CI_AS").hex() == "0904d00000"
    assert collation_bytes("Latin1_General_100_BIN2").hex() == "0904002200"


def test_every_byte_of_a_code_page_survives_both_ways() -> None:
    _, encode = wire_type(varchar(300))
    _, decode, _ = read_type(bytes.fromhex("a72c01") + _LATIN, 0)
    every = struct.pack("<H", 256) + bytes(range(256))
    text, _ = decode(every, 0)
    assert encode(text) == every
    assert encode("日") == b"\x01\x00?"


_ROUND_TRIP: list[tuple[SqlType, st.SearchStrategy[object]]] = [
    (SqlType("bigint"), st.integers(-(2**63), 2**63 - 1)),
    (SqlType("smallint"), st.integers(-(2**15), 2**15 - 1)),
    (
        SqlType("decimal", precision=38, scale=7),
        st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(f"{n}e-7")),
    ),
    (SqlType("money"), st.integers(-(2**63), 2**63 - 1).map(lambda n: Decimal(f"{n}e-4"))),
    (SqlType("float"), st.floats(allow_nan=False, allow_infinity=False)),
    (SqlType("datetime2", scale=7), st.integers(0, 3_652_059 * DAY - 1)),
    (SqlType("time", scale=7), st.integers(0, DAY - 1)),
    (SqlType("date"), st.integers(0, 3_652_058)),
    (SqlType("datetime"), st.integers(-53_690 * 25_920_000, 2_958_463 * 25_920_000)),
    (SqlType("uniqueidentifier"), st.uuids()),
    (nvarchar(4000), st.text(max_size=400)),
    (nvarchar(MAX), st.text()),
    (varbinary(MAX), st.binary()),
    (varbinary(8000), st.binary(max_size=8000)),
]


@pytest.mark.parametrize(("type", "values"), _ROUND_TRIP, ids=[str(t) for t, _ in _ROUND_TRIP])
def test_what_is_written_is_read_back(type: SqlType, values: st.SearchStrategy[object]) -> None:
    info, encode = wire_type(type)
    _, decode, position = read_type(info, 0)
    assert position == len(info)

    @given(st.none() | values)
    def check(value: object) -> None:
        data = encode(value)
        assert decode(data, 0) == (value, len(data))

    check()


def test_a_row_of_another_width_than_its_columns_is_refused() -> None:
    with pytest.raises(ValueError, match="2 values for 1 columns"):
        plain_row_encoder([SqlType("int")])((1, 2))
    with pytest.raises(ValueError, match="too many values"):
        row_encoder((SqlType("int"),))((1, 2))


_COLUMNS: list[tuple[SqlType, st.SearchStrategy[object]]] = [
    *_ROUND_TRIP,
    (SqlType("bit"), st.integers(0, 1)),
    (SqlType("tinyint"), st.integers(0, 255)),
    (SqlType("real"), st.floats(width=32, allow_nan=False, allow_infinity=False)),
    (SqlType("decimal", precision=9, scale=2), st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal(f"{n}e-2"))),
    (SqlType("numeric", precision=19, scale=0), st.integers(-(10**19) + 1, 10**19 - 1).map(Decimal)),
    (
        SqlType("decimal", precision=28, scale=9),
        st.integers(-(10**28) + 1, 10**28 - 1).map(lambda n: Decimal(f"{n}e-9")),
    ),
    (SqlType("smallmoney"), st.integers(-(2**31), 2**31 - 1).map(lambda n: Decimal(f"{n}e-4"))),
    (SqlType("datetime2", scale=6), st.integers(0, 3_652_059 * DAY - 1)),
    (SqlType("datetime2", scale=0), st.integers(0, 3_652_059 * DAY - 1)),
    (SqlType("smalldatetime"), st.integers(0, 65535 * 1440)),
    (SqlType("uniqueidentifier"), st.binary(min_size=16, max_size=16)),
    (SqlType("char", length=3, collation="SQL_Latin1_General_CP1_CI_AS"), st.text(alphabet="aé€", max_size=3)),
    (SqlType("nchar", length=3, collation="SQL_Latin1_General_CP1_CI_AS"), st.text(max_size=3)),
    (varchar(20), st.text(alphabet="aé€", max_size=20)),
    (varchar(MAX), st.text(alphabet="aé€")),
]


@given(st.data())
def test_a_function_written_for_its_columns_gives_the_bytes_of_each_value(data: st.DataObject) -> None:
    picked = data.draw(st.lists(st.sampled_from(range(len(_COLUMNS))), min_size=0, max_size=12))
    types = tuple(_COLUMNS[number][0] for number in picked)
    row = tuple(data.draw(st.none() | _COLUMNS[number][1]) for number in picked)
    assert row_encoder(types)(row) == plain_row_encoder(types)(row)
    assert plain_row_encoder(types)(row) == b"\xd1" + b"".join(
        wire_type(type)[1](value) for type, value in zip(types, row, strict=True)
    )


# ---- streams


def _dones(message: bytes) -> list[tuple[int, int, int]]:
    """(token, status, count) of the DONE tokens at the end of a message, last first."""
    found = []
    while len(message) >= 13 and message[-13] in (0xFD, 0xFE, 0xFF):
        token, status, _, count = struct.unpack("<BHHQ", message[-13:])
        found.append((token, status, count))
        message = message[:-13]
    return found


@pytest.fixture
def client(wire: TsqlServer) -> RawClient:
    client = RawClient(wire.port)
    assert client.login(wire.sa_password)[:1] == b"\xe3"
    return client


def test_only_the_last_done_of_a_batch_has_no_more_bit(client: RawClient) -> None:
    client.send(SQL_BATCH, batch("count 1;count 2;nothing"))
    assert _dones(client.receive()) == [(0xFD, 0, 0), (0xFD, 0x11, 2), (0xFD, 0x11, 1)]


def test_an_error_marks_the_done_of_its_statement_only(client: RawClient) -> None:
    client.send(SQL_BATCH, batch("fail 208;count 3"))
    message = client.receive()
    assert message[0] == 0xAA
    number, state, severity = struct.unpack_from("<iBB", message, 3)
    assert (number, state, severity) == (208, 3, 16)
    assert _dones(message) == [(0xFD, 0x10, 3), (0xFD, 0x03, 0)]


def test_a_reset_is_done_before_the_request_and_acknowledged_first(client: RawClient, engine: Double) -> None:
    client.send(SQL_BATCH, batch("count 1"), status=0x01 | 0x08)
    assert client.receive().startswith(bytes.fromhex("e30300120000"))
    assert engine.events == ["reset"]


def test_an_attention_without_a_request_is_acknowledged(client: RawClient, engine: Double) -> None:
    client.send(ATTENTION, b"")
    assert client.receive() == bytes.fromhex("fd20000000" + "00" * 8)
    assert engine.events == []
    client.send(SQL_BATCH, batch("count 1"))
    assert _dones(client.receive()) == [(0xFD, 0x10, 1)]


def test_an_attention_before_the_end_of_a_message_drops_it(client: RawClient) -> None:
    client.send(SQL_BATCH, batch("wait"), status=0)
    client.send(ATTENTION, b"")
    assert client.receive() == bytes.fromhex("fd20000000" + "00" * 8)


def test_a_message_with_the_ignore_bit_is_not_run(client: RawClient, engine: Double) -> None:
    client.send(SQL_BATCH, batch("wait"), status=0)
    client.send(SQL_BATCH, b"", status=3)
    assert _dones(client.receive()) == [(0xFD, 0x02, 0)]
    assert engine.events == []


def test_a_request_in_many_packets_is_one(client: RawClient) -> None:
    whole = batch("count 7;" + " " * 5000)
    for start in range(0, len(whole), 100):
        client.send(SQL_BATCH, whole[start : start + 100], status=int(start + 100 >= len(whole)))
    assert _dones(client.receive())[1] == (0xFD, 0x11, 7)


def test_a_broken_bulk_stream_loads_nothing_and_ends_the_connection(client: RawClient, engine: Double) -> None:
    column = struct.pack("<BHIH", 0x81, 1, 0, 1) + b"\x26\x04\x01a\x00"
    client.send(BULK_LOAD, column + b"\xd1\x04\x01\x00\x00\x00" + b"\xd1\x04\x01")
    assert client.receive() == b""
    assert engine.loaded == []


def test_a_column_that_cannot_be_loaded_is_refused_by_name_and_the_connection_goes_on(client: RawClient) -> None:
    column = struct.pack("<BHIH", 0x81, 1, 0, 1) + b"\xf0" + bytes(20)
    client.send(BULK_LOAD, column)
    assert "CLR user type".encode("utf-16-le") in client.receive()
    client.send(SQL_BATCH, batch("count 1"))
    assert _dones(client.receive()) == [(0xFD, 0x10, 1)]


def test_a_client_of_an_older_protocol_is_told_so(wire: TsqlServer) -> None:
    client = RawClient(wire.port)
    client.send(PRELOGIN, prelogin())
    client.receive()
    client.send(LOGIN7, login7("sa", wire.sa_password, version=0x71000001))
    message = client.receive()
    assert message[0] == 0xAA
    assert "7.3".encode("utf-16-le") in message
    assert client.receive() == b""


@given(st.uuids())
def test_a_uniqueidentifier_is_the_same_as_uuid_and_as_its_bytes(value: UUID) -> None:
    types = (SqlType("uniqueidentifier"),)
    expected = b"\xd1\x10" + value.bytes_le
    assert {
        encoder(types)((form,)) for encoder in (row_encoder, plain_row_encoder) for form in (value, value.bytes)
    } == {expected}
