"""Names bind when a text is compiled, with SQL Server's errors."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tsqldev.errors import SqlError
from tsqldev.interfaces import Column, ViewInfo
from tsqldev.types import INT, nvarchar

from .compile_double import Session


@pytest.fixture
def tables(session: Session) -> Session:
    session.catalog.table(session.connection, "T", Column("Id", INT.with_nullable(False)), Column("Name", nvarchar(20)))
    session.catalog.table(session.connection, "u", Column("Id", INT), Column("t_id", INT))
    return session


@pytest.mark.parametrize(
    ("text", "number", "message"),
    [
        ("SELECT zz FROM T", 207, "Invalid column name 'zz'."),
        ("SELECT * FROM nope", 208, "Invalid object name 'nope'."),
        ("SELECT * FROM x.dbo.T", 208, "Invalid object name 'x.dbo.T'."),
        ("SELECT Id FROM T, u", 209, "Ambiguous column name 'Id'."),
        ("SELECT q.Id FROM T", 4104, 'The multi-part identifier "q.Id" could not be bound.'),
        ("SELECT foo(1)", 195, "'foo' is not a recognized built-in function name."),
        ("SELECT @x", 137, 'Must declare the scalar variable "@x".'),
        ("SELECT * FROM @t", 1087, 'Must declare the table variable "@t".'),
        ("SELECT LEN()", 174, "The len function requires 1 argument(s)."),
        ("SELECT Name, Id FROM T GROUP BY Name", 8120, None),
        ("SELECT COUNT(*) FROM T WHERE COUNT(*) > 1", 147, None),
        ("SELECT x.a FROM (SELECT 1) x", 8155, "No column name was specified for column 1 of 'x'."),
        ("SELECT 1 FROM T JOIN T ON 1 = 1", 1013, None),
        ("SELECT Id FROM T ORDER BY 3", 108, None),
        ("SELECT DISTINCT Name FROM T ORDER BY Id", 145, None),
        ("SELECT 1, 2 UNION SELECT 1", 205, None),
        ("SELECT (SELECT Id, Name FROM T)", 116, None),
        ("SELECT CASE WHEN 1 = 1 THEN NULL END", 8133, None),
        ("SELECT ROW_NUMBER() FROM T", 10753, None),
    ],
)
def test_what_does_not_bind(tables: Session, text: str, number: int, message: str | None) -> None:
    with pytest.raises(SqlError) as caught:
        tables.compile(text)
    assert caught.value.number == number
    if message is not None:
        assert caught.value.message == message


def test_names_match_in_any_case_and_keep_theirs(tables: Session) -> None:
    compiled = tables.compile("SELECT ID, t.NAME, [tEST] = 1, T.* FROM DBO.t")
    assert [c.name for c in compiled.columns] == ["ID", "NAME", "tEST", "Id", "Name"]


def test_a_derived_table_hides_and_a_subquery_sees_the_query_around(tables: Session) -> None:
    tables.run("INSERT INTO T VALUES (1, 'a'), (2, 'b')")
    tables.run("INSERT INTO u VALUES (10, 1)")
    rows = tables.run("SELECT Id FROM T WHERE EXISTS (SELECT 1 FROM u WHERE t_id = T.Id)")
    assert rows == [(1,)]
    with pytest.raises(SqlError):
        tables.compile("SELECT * FROM T a, (SELECT a.Id) x")
    assert tables.run("SELECT a.Id, x.n FROM T a CROSS APPLY (SELECT a.Id + 1 AS n) x ORDER BY 1") == [(1, 2), (2, 3)]


def test_a_view_is_expanded_and_its_owner_pays_for_the_tables(tables: Session) -> None:
    tables.run("INSERT INTO T VALUES (1, 'a')")
    tables.catalog.view("v", "SELECT Id, UPPER(Name) AS Big FROM dbo.T", "Id", "Big")
    compiled = tables.compile("SELECT big FROM v")
    assert tables.execute(compiled) == [("A",)]
    assert [use.object_id for use in compiled.uses] == [tables.catalog.found["v"].object_id]
    view = tables.catalog.found["v"]
    assert isinstance(view, ViewInfo)
    tables.catalog.found["v"] = replace(view, owner_id=99)
    tables.catalog.names_version += 1
    assert len(tables.compile("SELECT big FROM v").uses) == 2


def test_a_view_whose_table_is_gone(tables: Session) -> None:
    tables.catalog.view("w", "SELECT Id FROM dbo.gone", "Id")
    with pytest.raises(SqlError) as caught:
        tables.compile("SELECT * FROM w")
    assert caught.value.number == 4413


def test_rights_are_named_by_statement(tables: Session) -> None:
    def rights(text: str) -> set[str]:
        return {use.permission for use in tables.compile(text).uses}

    assert rights("SELECT * FROM T") == {"SELECT"}
    assert rights("INSERT INTO T VALUES (1, 'a')") == {"INSERT"}
    assert rights("UPDATE T SET Name = 'x' WHERE Id = 1") == {"UPDATE", "SELECT"}
    assert rights("DELETE FROM T WHERE Id = 1") == {"DELETE", "SELECT"}
