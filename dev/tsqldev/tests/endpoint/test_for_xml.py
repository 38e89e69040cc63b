"""FOR XML PATH(''), the older way to join texts of rows, and PARSENAME: what scripts that write scripts use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tsqldev.pytest_plugin import TsqlServer

Query = Callable[[str], Any]


@pytest.fixture
def value(tsql_server: TsqlServer, tsql_database: str) -> Iterator[Query]:
    connection = tsql_server.connect(database=tsql_database)
    connection.execute("CREATE TABLE dbo.t (id int, name nvarchar(20))")
    connection.execute("INSERT dbo.t VALUES (2, N'b<&>'), (1, N'a'), (3, NULL)")
    yield lambda sql: connection.execute(sql).fetchone()[0]
    connection.close()


def test_rows_become_one_text_in_their_order(value: Query) -> None:
    assert value("SELECT (SELECT name + ', ' FROM dbo.t ORDER BY id FOR XML PATH(''))") == "a, b&lt;&amp;&gt;, "
    assert value("SELECT STUFF((SELECT ',' + name FROM dbo.t WHERE id < 2 FOR XML PATH('')), 1, 1, '')") == "a"
    assert value(
        "SELECT x.c FROM (SELECT 1 AS one) o CROSS APPLY (SELECT name + '' FROM dbo.t FOR XML PATH ('')) x (c)"
    )
    assert (
        value(
            "DECLARE @s nvarchar(max); SELECT @s = (SELECT '' + name FROM dbo.t WHERE id = 9 FOR XML PATH('')); "
            "SELECT @s"
        )
        is None
    )


@pytest.mark.parametrize(
    "query",
    [
        "SELECT (SELECT name FROM dbo.t FOR XML PATH(''))",
        "SELECT (SELECT '' + name FROM dbo.t FOR XML PATH('row'))",
        "SELECT (SELECT '' + name FROM dbo.t FOR XML PATH(''), TYPE)",
        "SELECT (SELECT '' + name FROM dbo.t FOR XML RAW)",
        "SELECT '' + name FROM dbo.t FOR XML PATH('')",
    ],
)
def test_elements_are_refused_by_name(value: Query, query: str) -> None:
    with pytest.raises(Exception, match="FOR XML"):
        value(query)


@pytest.mark.parametrize(
    ("name", "piece", "part"),
    [
        ("s.d.o.t", 1, "t"),
        ("s.d.o.t", 4, "s"),
        ("t", 2, None),
        ("o.[a.b]]c]", 1, "a.b]c"),
        ('"o"."t"', 2, "o"),
        ("d..t", 2, None),
        ("d..t", 3, "d"),
        ("a.b.c.d.e", 1, None),
        ("[a", 1, None),
        ("[a]b", 1, None),
        ("a", 5, None),
    ],
)
def test_parsename(value: Query, name: str, piece: int, part: str | None) -> None:
    assert value(f"SELECT PARSENAME(N'{name}', {piece})") == part
