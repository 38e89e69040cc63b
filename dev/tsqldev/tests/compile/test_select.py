"""Queries: grouping, windows, set operations, limits, common table expressions, and the locks of hints."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from tsqldev.compile import Compiler, SystemView
from tsqldev.errors import SqlError
from tsqldev.interfaces import Column, TableInfo
from tsqldev.types import BIN2_COLLATION, INT, decimal, nvarchar, varchar

from .compile_double import Session


@pytest.fixture
def sales(session: Session) -> Session:
    session.catalog.table(
        session.connection,
        "s",
        Column("id", INT.with_nullable(False)),
        Column("who", nvarchar(10)),
        Column("amount", decimal(10, 2)),
        Column("k", varchar(10, BIN2_COLLATION).with_nullable(False)),
    )
    session.run("INSERT INTO s VALUES (1, 'a', 1, 'x'), (2, 'A', 2, 'y'), (3, 'b', 4, 'z')")
    return session


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT COUNT(*), SUM(amount), AVG(id) FROM s", [(3, Decimal("7.00"), 2)]),
        ("SELECT AVG(amount) FROM s", [(Decimal("2.333333"),)]),
        ("SELECT COUNT(*) FROM s WHERE 1 = 0", [(0,)]),
        ("SELECT SUM(id) FROM s GROUP BY who HAVING COUNT(*) > 1", [(3,)]),
        (
            "SELECT YEAR('2024-01-01') + id FROM s GROUP BY YEAR('2024-01-01') + id ORDER BY 1 DESC",
            [(2027,), (2026,), (2025,)],
        ),
        ("SELECT TOP (2) id FROM s ORDER BY amount DESC", [(3,), (2,)]),
        ("SELECT TOP (1) WITH TIES who FROM s WHERE id < 3 ORDER BY who", [("a",), ("A",)]),
        ("SELECT id FROM s ORDER BY id OFFSET 1 ROWS FETCH NEXT 1 ROWS ONLY", [(2,)]),
        ("SELECT 1 UNION SELECT 1 UNION ALL SELECT 1 ORDER BY 1", [(1,), (1,)]),
        ("SELECT id FROM s EXCEPT SELECT 2 ORDER BY id", [(1,), (3,)]),
        ("SELECT id, SUM(id) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) FROM s ORDER BY id", [(1, 1), (2, 3), (3, 6)]),
        ("SELECT ROW_NUMBER() OVER (PARTITION BY who ORDER BY id DESC) FROM s ORDER BY id", [(2,), (1,), (1,)]),
        ("SELECT LAG(id, 1, 0) OVER (ORDER BY id) FROM s ORDER BY id", [(0,), (1,), (2,)]),
        ("SELECT STRING_AGG(who, '+') WITHIN GROUP (ORDER BY id DESC) FROM s", [("b+A+a",)]),
        ("WITH n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 4) SELECT SUM(i) FROM n", [(10,)]),
        ("WITH a AS (SELECT id FROM s), b (x) AS (SELECT id FROM a WHERE id > 1) SELECT MIN(x) FROM b", [(2,)]),
        ("SELECT id FROM s WHERE id >= ALL (SELECT id FROM s) AND id = ANY (SELECT id FROM s)", [(3,)]),
        ("SELECT id FROM s WHERE id NOT IN (1, NULL)", []),
        ("SELECT value FROM STRING_SPLIT('a,b', ',')", [("a",), ("b",)]),
        ('SELECT [key], type FROM OPENJSON(\'{"a":1,"b":[1]}\')', [("a", 2), ("b", 4)]),
        ('SELECT x, y FROM OPENJSON(\'[{"x":1,"y":"q"}]\') WITH (x int, y nvarchar(5) \'$.y\')', [(1, "q")]),
        ("SELECT a, b FROM (VALUES (1, 'x'), (2, NULL)) v (a, b)", [(1, "x"), (2, None)]),
        ("SELECT q.n FROM s OUTER APPLY (SELECT id AS n WHERE id > 2) q ORDER BY s.id", [(None,), (None,), (3,)]),
        ("SELECT who AS w, COUNT(*) AS n FROM s GROUP BY who ORDER BY n, w", [("b", 1), ("a", 2)]),
    ],
)
def test_queries(sales: Session, text: str, rows: list[tuple[object, ...]]) -> None:
    assert sales.run(text) == rows


def test_recursion_ends_at_a_hundred_levels_or_where_the_option_says(sales: Session) -> None:
    endless = "WITH n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < {}) SELECT MAX(i) FROM n"
    assert sales.run(endless.format(101)) == [(101,)]
    with pytest.raises(SqlError) as caught:
        sales.run(endless.format(102))
    assert caught.value.number == 530


def test_maxrecursion(sales: Session) -> None:
    text = (
        "WITH n AS (SELECT 1 AS i UNION ALL SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 500) SELECT MAX(i) FROM n"
    )
    assert sales.run(text + " OPTION (MAXRECURSION 0)") == [(500,)]
    with pytest.raises(SqlError) as caught:
        sales.run(text + " OPTION (MAXRECURSION 10)")
    assert caught.value.number == 530


def test_hints_lock_the_rows_that_are_read(sales: Session) -> None:
    def sql(text: str) -> str:
        return sales.compile(text).sql

    assert sql("SELECT id FROM s WITH (HOLDLOCK)").endswith("FOR SHARE OF t1")
    assert sql("SELECT id FROM s WITH (UPDLOCK, HOLDLOCK, NOWAIT)").endswith("FOR NO KEY UPDATE OF t1 NOWAIT")
    assert sql("SELECT id FROM s WITH (XLOCK)").endswith("FOR UPDATE OF t1")
    assert "FOR " not in sql("SELECT id FROM s WITH (NOLOCK)")
    assert "FOR SHARE OF t1) AS t1" in sql("SELECT COUNT(*) FROM s WITH (HOLDLOCK)")
    joined = sql("SELECT 1 FROM s a LEFT JOIN s b WITH (HOLDLOCK) ON a.id = b.id")
    assert joined.endswith("AS t2 WHERE (t1.c1 = t2.c1) FOR SHARE OF t2) AS t2 ON true")
    sales.context = replace(sales.context, isolation="SERIALIZABLE")
    assert sql("SELECT id FROM s").endswith("FOR SHARE OF t1")
    assert sales.run("SELECT COUNT_BIG(*) FROM s WHERE k = 'x'") == [(1,)]
    counted = "SELECT COUNT(b.id), COUNT(*) FROM s a LEFT JOIN s b ON b.id = a.id + 1 JOIN s c ON c.id = a.id"
    assert sales.run(counted) == [(2, 3)]


def test_a_key_lookup_uses_the_index_on_the_key_expression(sales: Session) -> None:
    table = sales.catalog.found["s"]
    assert isinstance(table, TableInfo)
    column, physical = table.columns[3], "c4"
    key = Compiler(sales.catalog, sales.context).key(column, physical)
    assert key == "sys.bin2(c4)"
    sales.connection.execute(f"CREATE UNIQUE INDEX ON {table.relation} ({key})")
    sales.connection.execute("SET LOCAL enable_seqscan = off")
    sales.declare("@k", varchar(10), "x")
    for hint in ("", " WITH (UPDLOCK)", " WITH (HOLDLOCK)"):
        compiled = sales.compile(f"SELECT COUNT(*) FROM s{hint} WHERE k = @k")
        plan = str(sales.connection.execute("EXPLAIN " + compiled.sql.replace("$1::text", "'x'")).fetchall())
        assert "Index Cond" in plan


def test_session_values_are_parameters(sales: Session) -> None:
    compiled = sales.compile("SELECT @@TRANCOUNT, XACT_STATE() WHERE @@TRANCOUNT > 0")
    assert [p.name for p in compiled.parameters] == ["@@TRANCOUNT", "XACT_STATE()"]


def test_rows_of_the_session_come_as_json(sales: Session) -> None:
    sales.catalog.found["dm_exec_sessions"] = SystemView(
        -1, "d", "sys", "dm_exec_sessions", "", (Column("session_id", INT), Column("login_name", nvarchar(128))),
        ('"session_id"', '"login_name"'), system=True, rows="sys.dm_exec_sessions",
    )  # fmt: skip
    sales.catalog.names_version += 1
    sales.values["rows:sys.dm_exec_sessions"] = '[{"session_id": 51, "login_name": "sa"}]'
    assert sales.run("SELECT login_name FROM dm_exec_sessions WHERE session_id = 51") == [("sa",)]


def test_a_text_is_compiled_once(sales: Session) -> None:
    assert sales.compile("SELECT id FROM s") is sales.compile("SELECT id FROM s")
    before = sales.compile("SELECT id FROM s")
    sales.catalog.names_version += 1
    assert sales.compile("SELECT id FROM s") is not before
