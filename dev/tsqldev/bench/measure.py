"""How fast the endpoint answers, and how it shares itself out: latency, rows a second, 64 sessions, memory.

    python dev/tsqldev/bench/measure.py [latency] [rows] [sessions] [memory] [--report FILE]

Everything is measured in one run against one freshly started endpoint; ratios mean more than figures, which depend on
the machine and on what else it does. The targets stand beside the results; a missed one ends the run with status 1.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import platform
import secrets
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
from tsqldev.process import Served, served
from tsqldev.pytest_plugin import DRIVERS, TsqlServer

FLIGHTS = """CREATE TABLE dbo.flights (
    [year] smallint NOT NULL, [month] smallint NOT NULL, [day] smallint NOT NULL, dep_time int,
    sched_dep_time int NOT NULL, dep_delay float, arr_time int, sched_arr_time int NOT NULL, arr_delay float,
    carrier varchar(2) NOT NULL, flight int NOT NULL, tailnum varchar(6), origin char(3) NOT NULL,
    dest char(3) NOT NULL, air_time float, distance float NOT NULL, [hour] smallint NOT NULL,
    [minute] smallint NOT NULL, time_hour datetime2(6) NOT NULL)"""
MIXED = """CREATE TABLE dbo.mixed (id bigint NOT NULL, amount decimal(18, 4), name nvarchar(50), note varchar(50),
    at datetime2(7), day date, flag bit, code uniqueidentifier)"""
BATCH = 50_000


class Results:
    """Lines of the report, and whether every target was met."""

    def __init__(self) -> None:
        self.lines = ["| what | target | measured | |", "|---|---|---|---|"]
        self.met = True

    def add(self, what: str, target: str, measured: str, met: bool | None) -> None:
        """`met` is None for a figure without a target."""
        word = {True: "met", False: "MISSED", None: ""}[met]
        self.met = self.met and met is not False
        self.lines.append(f"| {what} | {target} | {measured} | {word} |")
        print(f"{what}: {measured} (target: {target or '-'}) {word}", file=sys.stderr, flush=True)


def flights(count: int) -> Iterator[tuple[Any, ...]]:
    first = dt.datetime(2013, 1, 1)
    for n in range(count):
        late = n % 50 == 0
        yield (
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
            first + dt.timedelta(seconds=n),
        )


def prepare(server: TsqlServer, count: int) -> None:
    first = server.connect()
    first.execute("CREATE DATABASE bench")
    first.close()
    # A bulk copy opens a connection of its own, to the database that this one names.
    connection = server.connect(database="bench")
    connection.execute(
        "CREATE TABLE dbo.points (id int NOT NULL PRIMARY KEY, name nvarchar(50), amount decimal(18, 2))"
    )
    connection.execute(FLIGHTS)
    connection.execute(MIXED)
    connection.cursor().bulkcopy("dbo.flights", flights(count), timeout=600)
    connection.execute(
        f"INSERT dbo.mixed SELECT value, value / 7.0, CONCAT(N'name Ж ', value), CONCAT('note ', value), "
        f"DATEADD(second, value, CAST('2024-01-01' AS datetime2(7))), CAST('2024-02-29' AS date), value % 2, NEWID() "
        f"FROM GENERATE_SERIES(CAST(1 AS bigint), CAST({count} AS bigint))"
    )
    connection.execute(
        "INSERT dbo.points SELECT value, CONCAT(N'point ', value), value / 4.0 FROM GENERATE_SERIES(1, 10000)"
    )
    connection.close()


# -- latency


def latency(server: TsqlServer, results: Results) -> None:
    for number, driver in enumerate(DRIVERS, 1):
        connection = server.connect(driver, database="bench")
        for what, run in _single_rows(connection, driver, number * 1_000_000):
            times = _timed(run, 1000)
            median = statistics.median(times) * 1000
            late = statistics.quantiles(times, n=20)[-1] * 1000
            results.add(
                f"one row, parametrised {what}, {driver}",
                "median at most 5 ms",
                f"median {median:.2f} ms, 95 % within {late:.2f} ms",
                median <= 5,
            )
        connection.close()


def _single_rows(connection: Any, driver: str, first: int) -> list[tuple[str, Callable[[int], None]]]:
    mark = "?" if driver in ("mssql-python", "pyodbc") else "%s"
    cursor = connection.cursor()

    def select(n: int) -> None:
        cursor.execute(f"SELECT name, amount FROM dbo.points WHERE id = {mark}", (n % 10_000 + 1,))
        assert len(cursor.fetchall()) == 1

    def insert(n: int) -> None:
        cursor.execute(f"INSERT dbo.points (id, name, amount) VALUES ({mark}, {mark}, 1.5)", (first + n, f"new {n}"))

    return [("select", select), ("insert", insert)]


def _timed(run: Callable[[int], None], count: int) -> list[float]:
    for n in range(20):
        run(-n - 1)
    times = []
    for n in range(count):
        began = time.perf_counter()
        run(n)
        times.append(time.perf_counter() - began)
    return times


# -- rows


def rows(server: TsqlServer, endpoint: Served, folder: Path, results: Results) -> None:
    """One after the other, several times: the best of each, because others on the machine only ever slow one down."""
    serving = psutil.Process(endpoint.pid)
    for table in ("flights", "mixed"):
        by_psycopg, by_arrow, spent = 0.0, 0.0, float("inf")
        for _ in range(5):
            by_psycopg = max(by_psycopg, _psycopg_rate(server, folder, table))
            before = sum(serving.cpu_times()[:2])
            rate, count = _arrow_rate(server, table)
            by_arrow = max(by_arrow, rate)
            spent = min(spent, (sum(serving.cpu_times()[:2]) - before) / count)
        ratio = by_arrow / by_psycopg
        results.add(
            f"dbo.{table}: rows a second to mssql-python's Arrow reader, of psycopg's from the same PostgreSQL table",
            "a third at least",
            f"{by_arrow:,.0f} of {by_psycopg:,.0f}: {ratio:.2f}",
            ratio >= 1 / 3,
        )
        results.add(f"dbo.{table}: the endpoint's own CPU time a row", "", f"{spent * 1e6:.1f} us", None)


def _psycopg_rate(server: TsqlServer, folder: Path, table: str) -> float:
    """What psycopg reads as Python rows, with its defaults."""
    connection = server.connect(database="bench")
    number = connection.execute(f"SELECT OBJECT_ID('dbo.{table}')").fetchone()[0]
    connection.close()
    socket = (folder / "data" / "pgdata" / "postmaster.pid").read_text().split("\n")[4]
    with psycopg.connect(host=socket, port=5432, dbname="postgres", user="postgres") as plain, plain.cursor() as cursor:
        began = time.perf_counter()
        cursor.execute(f"SELECT * FROM data.t{int(number)}")
        count = sum(1 for _ in cursor)
        return count / (time.perf_counter() - began)


def _arrow_rate(server: TsqlServer, table: str) -> tuple[float, int]:
    connection = server.connect(database="bench")
    cursor = connection.cursor()
    began = time.perf_counter()
    cursor.execute(f"SELECT * FROM dbo.{table}")
    count = sum(batch.num_rows for batch in cursor.arrow_reader(batch_size=BATCH))
    rate = count / (time.perf_counter() - began)
    connection.close()
    return rate, count


# -- sessions


def sessions(server: TsqlServer, results: Results, number: int = 64, seconds: float = 15) -> None:
    """All sessions work as fast as they can for some seconds: none is left behind."""
    counts = [0] * number
    waits = [0.0] * number
    failures: list[BaseException] = []
    together = threading.Barrier(number, timeout=180)

    def work(index: int) -> None:
        try:
            connection = server.connect("python-tds", database="bench")
            cursor = connection.cursor()
            together.wait()
            end = time.perf_counter() + seconds
            while (began := time.perf_counter()) < end:
                cursor.execute("SELECT name FROM dbo.points WHERE id = %s", (counts[index] % 10_000 + 1,))
                cursor.fetchall()
                waits[index] = max(waits[index], time.perf_counter() - began)
                counts[index] += 1
            connection.close()
        except BaseException as error:  # noqa: BLE001  # it is reported below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise RuntimeError(f"{len(failures)} sessions failed, the first with {failures[0]!r}")
    median = statistics.median(counts)
    share = min(counts) / median
    results.add(
        f"{number} sessions at once for {seconds:.0f} s: the slowest one's share of the median one's statements",
        "half at least",
        f"{share:.2f} (median {median:.0f}, in all {sum(counts) / seconds:,.0f} statements a second, longest wait "
        f"{max(waits):.2f} s)",
        share >= 0.5,
    )


# -- memory


def memory(server: TsqlServer, endpoint: Served, results: Results) -> None:
    """A million rows pass through endpoint and client; neither holds them."""
    watched = {"endpoint": psutil.Process(endpoint.pid), "client": psutil.Process()}
    connection = server.connect(database="bench")
    cursor = connection.cursor()
    before = {name: process.memory_info().rss for name, process in watched.items()}
    peak = dict(before)
    cursor.execute("SELECT a.* FROM dbo.flights a CROSS JOIN (VALUES (1), (2), (3)) b(n)")
    count = 0
    for batch in cursor.arrow_reader(batch_size=10_000):
        count += batch.num_rows
        for name, process in watched.items():
            peak[name] = max(peak[name], process.memory_info().rss)
    connection.close()
    for name in watched:
        grown = (peak[name] - before[name]) / 2**20
        results.add(
            f"{count:,} rows of 19 columns streamed: growth of the {name}",
            "at most 64 MiB",
            f"{grown:.0f} MiB",
            grown <= 64,
        )


def machine() -> str:
    load = os.getloadavg()[0]
    memory_size = psutil.virtual_memory().total / 2**30
    return (
        f"{dt.datetime.now(dt.UTC):%Y-%m-%d}, {os.cpu_count()} cores, {memory_size:.0f} GiB, load {load:.1f} at the start, "
        f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="latency, rows, sessions, memory; all without it")
    parser.add_argument("--rows", type=int, default=336_776, help="rows of the tables that are read")
    parser.add_argument("--report", type=Path)
    options = parser.parse_intermixed_args()
    wanted = options.parts or ["latency", "rows", "sessions", "memory"]
    results = Results()
    where = machine()
    with tempfile.TemporaryDirectory() as name:
        password = secrets.token_urlsafe(16) + "aA1"
        with served(Path(name), password) as endpoint:
            server = TsqlServer("127.0.0.1", endpoint.port, password)
            prepare(server, options.rows)
            if "latency" in wanted:
                latency(server, results)
            if "rows" in wanted:
                rows(server, endpoint, Path(name), results)
            if "sessions" in wanted:
                sessions(server, results)
            if "memory" in wanted:
                memory(server, endpoint, results)
    text = f"{where}\n\n" + "\n".join(results.lines) + "\n"
    if options.report:
        options.report.write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0 if results.met else 1


if __name__ == "__main__":
    sys.exit(main())
