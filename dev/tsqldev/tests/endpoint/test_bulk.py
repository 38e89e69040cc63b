"""Large loads and large reads, as the transfers do them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from tsqldev.pytest_plugin import TsqlServer


@pytest.fixture
def connection(tsql_server: TsqlServer, tsql_database: str) -> Iterator[Any]:
    connection = tsql_server.connect(database=tsql_database)
    yield connection
    connection.close()


_FLIGHTS = """CREATE TABLE dbo.flights (
    [year] smallint NOT NULL, [month] smallint NOT NULL, [day] smallint NOT NULL, dep_time int,
    sched_dep_time int NOT NULL, dep_delay float, arr_time int, sched_arr_time int NOT NULL,
    arr_delay float, carrier varchar(2) NOT NULL,
    flight int NOT NULL, tailnum varchar(6), origin char(3) NOT NULL, dest char(3) NOT NULL, air_time float,
    distance float NOT NULL, [hour] smallint NOT NULL, [minute] smallint NOT NULL, time_hour datetime2(6) NOT NULL)"""


def _flight(n: int) -> tuple[Any, ...]:
    late = n % 50 == 0
    return (
        2013,
        n % 12 + 1,
        n % 28 + 1,
        None if late else n % 2400,
        n % 2359,
        None if late else float(n % 90),
        None if late else n % 2300,
        n % 2359,
        None if late else n / 8,
        "UA",
        n % 8000,
        None if late else f"N{n % 90000}",
        "EWR",
        "IAH",
        None if late else 227.0,
        1400.0,
        n % 24,
        n % 60,
        dt.datetime(2013, 1, 1) + dt.timedelta(seconds=n),
    )


def test_a_year_of_flights_is_loaded_and_read_whole(connection: Any) -> None:
    count = 336_776
    connection.execute(_FLIGHTS)
    done = connection.cursor().bulkcopy("dbo.flights", (_flight(n) for n in range(count)), timeout=300)
    assert done["rows_copied"] == count
    cursor = connection.cursor()
    cursor.execute("SELECT * FROM dbo.flights")
    total = 0
    first: dict[str, Any] = {}
    for batch in cursor.arrow_reader(batch_size=50_000):
        first = first or batch.slice(0, 1).to_pylist()[0]
        total += batch.num_rows
    assert total == count
    assert tuple(first.values()) == _flight(0)


def test_bulk_rows_of_every_type_are_stored_as_they_were_sent(connection: Any) -> None:
    connection.execute("""CREATE TABLE dbo.b (id bigint NOT NULL, a bit, c decimal(38, 10), d money, f real, g float,
        h date, i time(7), j datetime2(7), k datetime, n uniqueidentifier, o char(5), p varchar(20), q nvarchar(20),
        r nvarchar(max), s varbinary(10), t varbinary(max), u tinyint, v smallint, w smalldatetime)""")
    at = dt.datetime(2021, 7, 30, 1, 2, 3, 123456)
    row = (
        2**40,
        True,
        Decimal("-1234567890123456789012345678.0123456789"),
        Decimal("1.2345"),
        0.5,
        -1.5e100,
        at.date(),
        at.time(),
        at,
        dt.datetime(2021, 7, 30, 1, 0, 0, 3000),
        UUID("6f9619ff-8b86-d011-b42d-00c04fc964ff"),
        "ab   ",
        "naïve €",
        "日本 🎉",
        "Ж" * 100_000,
        b"\x00\xff",
        bytes(range(256)) * 2000,
        255,
        -5,
        dt.datetime(2021, 7, 30, 1, 1),
    )
    empty = (1,) + (None,) * 19
    assert connection.cursor().bulkcopy("dbo.b", [row, empty])["rows_copied"] == 2
    found = [tuple(r) for r in connection.execute("SELECT * FROM dbo.b ORDER BY id DESC").fetchall()]
    assert found == [row, empty]


def test_a_row_that_breaks_a_rule_loads_nothing(connection: Any) -> None:
    connection.execute("CREATE TABLE dbo.u (a int NOT NULL PRIMARY KEY)")
    with pytest.raises(Exception, match="PRIMARY KEY"):
        connection.cursor().bulkcopy("dbo.u", [(1,), (2,), (1,)])
    assert connection.execute("SELECT COUNT(*) FROM dbo.u").fetchone()[0] == 0
