"""What is no T-SQL is refused as SQL Server refuses it; what is T-SQL and not emulated is refused by name."""

from __future__ import annotations

import pytest
from tsqldev.compile.statements import StatementParser
from tsqldev.errors import SqlError


def refusal(text: str) -> SqlError:
    with pytest.raises(SqlError) as caught:
        StatementParser(text).statement()
    return caught.value


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("SELECT a FROM t LIMIT 5", "5"),
        ("SELECT a::int FROM t", "::"),
        ("SELECT a || b FROM t", "|"),
        ("SELECT a FROM t WHERE a ILIKE 'x'", "ILIKE"),
        ("SELECT a FROM t USING (a)", "USING"),
    ],
)
def test_other_dialects_are_a_syntax_error(text: str, near: str) -> None:
    error = refusal(text)
    if near == "ILIKE":
        assert error.number == 4145
    else:
        assert (error.number, error.message) == (102, f"Incorrect syntax near '{near}'.")


def test_a_reserved_word_is_named_as_one() -> None:
    error = refusal("SELECT 1 FROM t WHERE SELECT")
    assert (error.number, error.message) == (156, "Incorrect syntax near the keyword 'SELECT'.")


def test_the_line_of_an_error_counts_from_one() -> None:
    assert refusal("SELECT 1\nFROM t\nWHERE )").line == 3


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("SELECT a FROM t FOR XML PATH", "FOR XML"),
        ("SELECT NEXT VALUE FOR s", "NEXT VALUE FOR"),
        ("SELECT a FROM t TABLESAMPLE (10 PERCENT)", "TABLESAMPLE"),
        ("SELECT a FROM t PIVOT (SUM(x) FOR y IN ([1])) p", "PIVOT"),
        ("SELECT a FROM t WITH (READPAST)", "table hint READPAST"),
        ("SELECT a FROM t OPTION (QUERYTRACE 1)", "query hint QUERYTRACE"),
        ("SELECT x.value('.', 'int') FROM t", "XML method .value()"),
        ("SELECT a, SUM(b) FROM t GROUP BY ROLLUP (a)", "GROUP BY ROLLUP"),
        ("DELETE FROM t WHERE CURRENT OF c", "WHERE CURRENT OF"),
        ("INSERT INTO t EXEC p", "INSERT ... EXECUTE"),
    ],
)
def test_what_is_not_emulated_is_refused_by_name(text: str, name: str) -> None:
    error = refusal(text)
    assert error.number == 40000
    assert name in error.message


def test_an_unknown_table_hint_is_refused_by_name() -> None:
    error = refusal("SELECT a FROM t WITH (HOLDLOK)")
    assert error.number == 321
    assert '"HOLDLOK"' in error.message


@pytest.mark.parametrize(
    "text",
    [
        "SELECT TOP (3) WITH TIES a = b + 1, @x FROM [d]..t AS x WITH (UPDLOCK, HOLDLOCK) ORDER BY a DESC",
        "UPDATE x SET a = 1, x.b += 2 OUTPUT inserted.a, deleted.b INTO @t (a, b) FROM t x JOIN u ON u.a = x.a",
        "DELETE TOP (10) x OUTPUT deleted.* FROM t x WHERE x.a !> 3",
        "MERGE INTO t WITH (HOLDLOCK) AS d USING (SELECT 1 a) s ON d.a = s.a WHEN MATCHED AND d.b = 1 THEN UPDATE SET b = s.a"
        " WHEN NOT MATCHED BY TARGET THEN INSERT (a) VALUES (s.a) WHEN NOT MATCHED BY SOURCE THEN DELETE"
        " OUTPUT $action, inserted.a;",
        "SELECT 'x' 'y', a b, c AS 'd' FROM t /* a /* nested */ comment */ -- and one more",
        "SELECT * FROM (VALUES (1, 2), (3, 4)) v (a, b) CROSS APPLY OPENJSON(@j) WITH (x int '$.x') q",
        "SELECT a FROM t a JOIN t b JOIN t c ON b.id = c.id ON a.id = b.id OPTION (MAXDOP 1, LABEL = 'x')",
        "INSERT t (a) OUTPUT inserted.a VALUES (1), (DEFAULT)",
        "SELECT {fn now()}, $12.5, 0x1F, 1e3, N'a''b', \"quoted\" FROM t WHERE (a = 1 OR (b + 1) * 2 > 3) AND c NOT LIKE 'x!%' ESCAPE '!'",
    ],
)
def test_t_sql_that_other_parsers_bend_is_read(text: str) -> None:
    StatementParser(text).statement()
