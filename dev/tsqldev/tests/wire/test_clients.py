"""Unmodified clients of SQL Server against the wire alone, with a double of the engine behind it."""

from __future__ import annotations

import datetime as dt
import threading
import time
from contextlib import nullcontext
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from tsqldev.pytest_plugin import DRIVERS, TsqlServer, cancelling

from .double import TYPED, Double
from .rawclient import SQL_BATCH, RawClient, batch

_DAY = dt.date(2021, 7, 30)
EXPECTED: dict[str, Any] = {
    "bit": True,
    "tinyint": 255,
    "smallint": -32768,
    "int": -2147483648,
    "bigint": 9223372036854775807,
    "decimal38": Decimal("-1234567890123456789012345678.0123456789"),
    "decimal9": Decimal("1234567.89"),
    "numeric19": Decimal("9999999999999999999"),
    "money": Decimal("-922337203685477.5808"),
    "smallmoney": Decimal("214748.3647"),
    "real": 0.5,
    "float": -1.5e300,
    "date": _DAY,
    "time7": dt.time(23, 59, 59, 999999),
    "time0": dt.time(1, 0),
    "datetime2_7": dt.datetime(2021, 7, 30, 0, 0, 0, 123456),
    "datetime2_3": dt.datetime(2021, 7, 30, 0, 0, 0, 123000),
    "dto": dt.datetime(2021, 7, 30, 5, 30, 0, 123456, tzinfo=dt.timezone(dt.timedelta(minutes=330))),
    "datetime": dt.datetime(2021, 7, 30, 1, 0, 0, 3000),
    "smalldatetime": dt.datetime(2021, 7, 30, 1, 1),
    "guid": UUID("6f9619ff-8b86-d011-b42d-00c04fc964ff"),
    "char5": "ab   ",
    "varchar": "naïve €",
    "varchar_max": "v" * 9000,
    "nchar3": "Ж  ",
    "nvarchar": "日本 🎉",
    "nvarchar_max": "Ж" * 40_000,
    "binary4": b"\x01\x02\x00\x00",
    "varbinary": b"\x00\xff",
    "varbinary_max": bytes(range(256)) * 1000,
    "rowversion": (2001).to_bytes(8, "big"),
    "sysname": "sys",
    "empty": "",
}


def _all(connection: Any, sql: str) -> list[Any]:
    cursor = connection.cursor()
    cursor.execute(sql)
    return [tuple(row) for row in cursor.fetchall()]


def _connect(wire: TsqlServer, driver: str, **options: Any) -> Any:
    connection = wire.connect(driver, **options)
    if driver == "pyodbc":
        # pyodbc itself knows no datetimeoffset.
        connection.add_output_converter(-155, _datetimeoffset)
    return connection


def _datetimeoffset(raw: bytes) -> dt.datetime:
    import struct

    year, month, day, hour, minute, second, nanoseconds, hours, minutes = struct.unpack("<6hI2h", raw)
    zone = dt.timezone(dt.timedelta(hours=hours, minutes=minutes))
    return dt.datetime(year, month, day, hour, minute, second, nanoseconds // 1000, tzinfo=zone)


@pytest.mark.parametrize("driver", DRIVERS)
def test_every_type_arrives_as_its_value(wire: TsqlServer, driver: str) -> None:
    connection = _connect(wire, driver)
    (row,) = _all(connection, "types")
    for (name, _, _), value in zip(TYPED, row, strict=True):
        expected = EXPECTED[name]
        if name == "guid" and not isinstance(value, UUID):
            value = UUID(value)  # pyodbc answers text
        assert (name, value) == (name, expected)
    connection.close()


@pytest.mark.parametrize("driver", DRIVERS)
def test_null_of_every_type_is_none(wire: TsqlServer, driver: str) -> None:
    connection = _connect(wire, driver)
    assert _all(connection, "nulls") == [(None,) * len(TYPED)]
    connection.close()


@pytest.mark.parametrize("driver", ["mssql-python", "pyodbc"])
@pytest.mark.parametrize("encrypt", [True, False])
def test_a_large_result_is_whole_with_and_without_tls(wire: TsqlServer, driver: str, encrypt: bool) -> None:
    connection = wire.connect(driver, encrypt=encrypt)
    assert _all(connection, "rows 50000") == [(n, f"row {n}") for n in range(50_000)]
    connection.close()


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_wrong_password_is_refused_and_the_right_one_is_taken(wire: TsqlServer, engine: Double, driver: str) -> None:
    # pymssql may say the number of another login that failed in this process: the double knows no disabled account.
    with pytest.raises(Exception, match=r"18456|18470|4060|Login failed"):
        wire.connect(driver, password="wrong")
    wire.connect(driver, database="somewhere").close()
    assert engine.requests[-1].database == "somewhere"
    assert engine.requests[-1].user == "sa"


@pytest.mark.parametrize("driver", DRIVERS)
def test_an_error_carries_its_number_and_text_and_the_connection_goes_on(wire: TsqlServer, driver: str) -> None:
    connection = wire.connect(driver)
    with pytest.raises(Exception, match=r"Error 50001\."):
        _all(connection, "fail 50001")
    assert _all(connection, "rows 1") == [(0, "row 0")]
    connection.close()


@pytest.mark.parametrize("driver", DRIVERS)
def test_several_results_come_one_after_the_other(wire: TsqlServer, driver: str) -> None:
    connection = wire.connect(driver)
    cursor = connection.cursor()
    cursor.execute("rows 2;print hello;count 5;rows 1")
    assert [tuple(row) for row in cursor.fetchall()] == [(0, "row 0"), (1, "row 1")]
    found = []
    while cursor.nextset():
        # python-tds shows a result that was only counted as one without rows.
        if cursor.description and (rows := cursor.fetchall()):
            found.append([tuple(row) for row in rows])
    assert found == [[(0, "row 0")]]
    connection.close()


@pytest.mark.parametrize("driver", ["mssql-python", "pyodbc"])
def test_cancel_stops_the_running_statement_and_the_connection_goes_on(
    wire: TsqlServer, engine: Double, driver: str
) -> None:
    connection = wire.connect(driver)
    if driver == "mssql-python":
        # It has no cancel of a running statement; the driver's own timeout sends the same attention.
        connection.timeout = 1
    cursor = connection.cursor()
    started = time.monotonic()
    with (
        pytest.raises(Exception, match=r"(?i)cancel|timeout|HYT00"),
        cancelling(cursor) if driver == "pyodbc" else nullcontext(),
    ):
        cursor.execute("wait")
    assert time.monotonic() - started < 10
    assert "attention" in engine.events
    assert _all(connection, "rows 1") == [(0, "row 0")]
    connection.close()


def test_an_unread_result_is_ended_by_an_attention_and_the_next_is_right(wire: TsqlServer, engine: Double) -> None:
    connection = wire.connect("pyodbc")
    for _ in range(5):
        cursor = connection.cursor()
        cursor.execute("rows 1000000")
        assert tuple(cursor.fetchone()) == (0, "row 0")
        cursor.close()
        assert _all(connection, "rows 3") == [(n, f"row {n}") for n in range(3)]
    assert "attention" in engine.events
    connection.close()


@pytest.mark.parametrize("driver", ["mssql-python", "pyodbc"])
def test_commit_and_rollback_reach_the_session(wire: TsqlServer, engine: Double, driver: str) -> None:
    connection = wire.connect(driver, autocommit=False)
    _all(connection, "rows 1")
    connection.commit()
    _all(connection, "rows 1")
    connection.rollback()
    connection.close()
    # The driver asks for the next transaction together with the end of the last.
    assert engine.events == ["begin", "commit", "begin", "rollback", "begin"]


def test_parameters_arrive_typed_and_output_values_return(wire: TsqlServer, engine: Double) -> None:
    import pytds

    connection = wire.connect("python-tds")
    cursor = connection.cursor()
    out = pytds.output(value=5, param_type="int")
    answer = cursor.callproc("some_proc", ("téxt", 7, None, dt.date(2021, 7, 30), Decimal("1.50"), out))
    name, parameters = engine.calls[-1]
    assert name == "some_proc"
    assert [p.value for p in parameters] == ["téxt", 7, None, 738_000, Decimal("1.50"), 5]
    assert [p.output for p in parameters] == [False] * 5 + [True]
    assert answer[5] == 5
    assert cursor.get_proc_return_status() == 7
    connection.close()


def test_bulk_rows_of_every_kind_arrive_as_they_were_sent(wire: TsqlServer, engine: Double) -> None:
    import pytds
    from pytds.tds_types import BigIntType, DateTime2Type, DecimalType, NVarCharMaxType, NVarCharType, VarBinaryType

    connection = wire.connect("python-tds")
    cursor = connection.cursor()
    columns = [
        pytds.Column("id", type=BigIntType()),
        pytds.Column("name", type=NVarCharType(50)),
        pytds.Column("price", type=DecimalType(precision=18, scale=4)),
        pytds.Column("at", type=DateTime2Type(precision=7)),
        pytds.Column("raw", type=VarBinaryType(20)),
        pytds.Column("note", type=NVarCharMaxType()),
    ]
    at = dt.datetime(2021, 7, 30, 1, 2, 3, 456789)
    rows: list[tuple[Any, ...]] = [
        (n, f"name {n} Ж", Decimal(n) / 4, at, bytes([n % 256]) * 3, "x" * (n % 700)) for n in range(5000)
    ]
    rows.append((None, None, None, None, None, None))
    rows.append((1, "", Decimal(0), at, b"", "y" * 3_000_000))
    cursor.copy_to(data=rows, table_or_view="t", columns=columns)
    ticks = (at - dt.datetime(1, 1, 1)) // dt.timedelta(microseconds=1) * 10
    assert [column.name for column in engine.columns] == ["id", "name", "price", "at", "raw", "note"]
    assert engine.loaded == [(*row[:3], None if row[3] is None else ticks, *row[4:]) for row in rows]
    connection.close()


def test_a_client_that_vanishes_ends_its_session_and_its_statement(wire: TsqlServer, engine: Double) -> None:
    client = RawClient(wire.port)
    client.login(wire.sa_password)
    client.send(SQL_BATCH, batch("wait"))
    time.sleep(0.2)
    client.close()
    end = time.monotonic() + 5
    while engine.closed == 0 and time.monotonic() < end:
        time.sleep(0.02)
    assert engine.closed == 1
    assert engine.events == ["attention", "waited"]


@pytest.mark.parametrize("words", ["die", "bug"])
def test_a_fatal_error_or_a_bug_ends_one_connection_and_no_other(wire: TsqlServer, engine: Double, words: str) -> None:
    first, second = wire.connect("python-tds"), wire.connect("python-tds")
    with pytest.raises(Exception, match=r".*"):
        _all(first, words)
        _all(first, "rows 1")
    assert _all(second, "rows 1") == [(0, "row 0")]
    deadline = time.monotonic() + 10
    while engine.closed < 1 and time.monotonic() < deadline:
        # The first connection's own thread closes its session after the client has heard of the error.
        time.sleep(0.02)
    assert engine.closed == 1
    second.close()


def test_64_clients_at_once(wire: TsqlServer, engine: Double) -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            connection = wire.connect("python-tds")
            for _ in range(3):
                assert len(_all(connection, "rows 200")) == 200
            connection.close()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    end = time.monotonic() + 5
    while engine.closed < 64 and time.monotonic() < end:
        time.sleep(0.02)
    assert engine.closed == 64
