"""A large result passes through the endpoint; neither side holds it."""

from __future__ import annotations

import psutil
import pytest
from tsqldev.pytest_plugin import TsqlServer

MILLION = 1_000_000


def _process(server: TsqlServer) -> psutil.Process:
    listening = [
        c for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN and c.laddr.port == server.port
    ]
    return psutil.Process(listening[0].pid)


@pytest.mark.parametrize("driver", ["mssql-python", "python-tds"])
def test_a_million_rows_in_bounded_memory(tsql_server: TsqlServer, driver: str) -> None:
    connection = tsql_server.connect(driver)
    watched = {"client": psutil.Process()}
    if tsql_server.emulation:
        watched["endpoint"] = _process(tsql_server)
    cursor = connection.cursor()
    cursor.execute("SELECT 1")
    cursor.fetchall()
    before = {name: process.memory_info().rss for name, process in watched.items()}
    peak = dict(before)
    cursor = connection.cursor()
    cursor.execute(
        f"SELECT value, CONCAT(N'row ', value) AS name, value * 2 AS twice FROM GENERATE_SERIES(1, {MILLION})"
    )
    count = total = 0
    while rows := cursor.fetchmany(10_000):
        count += len(rows)
        total += sum(row[0] for row in rows)
        for name, process in watched.items():
            peak[name] = max(peak[name], process.memory_info().rss)
    connection.close()
    assert (count, total) == (MILLION, MILLION * (MILLION + 1) // 2)
    assert {name: (peak[name] - before[name]) >> 20 for name in watched if peak[name] - before[name] > 64 << 20} == {}
