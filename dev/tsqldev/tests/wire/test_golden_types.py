"""Bytes on the wire of every type: NULL, least, greatest, ordinary and empty values, read again by python-tds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from tsqldev.pytest_plugin import TsqlServer

from .golden_types import GOLDEN
from .rawclient import SQL_BATCH, RawClient, batch


@pytest.fixture(scope="module")
def raw(tsql_server: TsqlServer) -> Iterator[RawClient]:
    with closing(RawClient(tsql_server.port)) as client:
        client.login(tsql_server.sa_password)
        yield client


@pytest.fixture(scope="module")
def decoder(tsql_server: TsqlServer) -> Iterator[Any]:
    with closing(tsql_server.connect("python-tds")) as connection:
        yield connection


@pytest.mark.parametrize(("type", "info", "values"), GOLDEN, ids=[golden[0] for golden in GOLDEN])
def test_a_value_of_each_kind_has_its_bytes_and_its_meaning(
    raw: RawClient, decoder: Any, type: str, info: str, values: list[tuple[str, str, object]]
) -> None:
    for literal, data, meaning in values:
        raw.send(SQL_BATCH, batch(f"SELECT CAST({literal} AS {type})"))
        message = raw.receive()
        # COLMETADATA of one column without a name (user type and flags apart), one ROW, and DONE.
        assert message[:3].hex() == "810100"
        assert message[9:-13].hex() == f"{info}00d1{data}", literal
        with closing(decoder.cursor()) as cursor:
            cursor.execute(f"SELECT CAST({literal} AS {type})")
            value = cursor.fetchall()[0][0]
        assert value == meaning and value.__class__ is meaning.__class__, literal


@pytest.mark.parametrize(("type", "values"), [(g[0], g[2]) for g in GOLDEN], ids=[golden[0] for golden in GOLDEN])
def test_a_column_keeps_each_value(decoder: Any, type: str, values: list[Any]) -> None:
    if type == "rowversion":
        return  # the server gives its values
    rows = ", ".join(f"({number}, {literal})" for number, (literal, _, _) in enumerate(values))
    with closing(decoder.cursor()) as cursor:
        cursor.execute(f"CREATE TABLE #kept (n int, v {type} NULL); INSERT INTO #kept VALUES {rows}")
        cursor.execute("SELECT v FROM #kept ORDER BY n")
        assert [row[0] for row in cursor.fetchall()] == [meaning for _, _, meaning in values]
        cursor.execute("SELECT COUNT(*) FROM #kept a JOIN #kept b ON a.v = b.v AND a.n = b.n")
        assert cursor.fetchall()[0][0] == len(values) - 1
        cursor.execute("DROP TABLE #kept")
