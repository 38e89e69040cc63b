"""Changes: assignment rules, OUTPUT, joins in UPDATE and DELETE, MERGE, and what triggers are given."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from tsqldev.errors import SqlError
from tsqldev.interfaces import Column, TableInfo
from tsqldev.types import INT, SqlType, decimal, nvarchar, varbinary, varchar

from .compile_double import Session


@pytest.fixture
def tables(session: Session) -> Session:
    session.catalog.table(
        session.connection,
        "t",
        Column("id", INT.with_nullable(False)),
        Column("name", nvarchar(5)),
        Column("amount", decimal(5, 2)),
        Column("doc", varbinary(3)),
        Column("c", SqlType("char", length=3, collation="SQL_Latin1_General_CP1_CI_AS")),
    )
    session.catalog.table(
        session.connection, "u", Column("id", INT.with_nullable(False), identity=True), Column("t_id", INT)
    )
    session.run("INSERT INTO t (id, name, amount) VALUES (1, 'a', 1), (2, 'b', 2.255), (3, NULL, '3')")
    return session


def test_values_are_converted_to_their_columns(tables: Session) -> None:
    tables.run(
        "INSERT t (id, name, amount, doc, c) VALUES ('7', 5, '1.005', 0x010203, 'x'), (8, 'ab   ' + '  ', 1, NULL, NULL)"
    )
    assert tables.run("SELECT name, amount, doc, c FROM t WHERE id = 7") == [("5", Decimal("1.01"), b"\1\2\3", "x  ")]
    assert tables.run("SELECT DATALENGTH(name) FROM t WHERE id = 8") == [(10,)]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("INSERT INTO t (id, name) VALUES (9, 'abcdef')", 2628),
        ("INSERT INTO t (id, doc) VALUES (9, 0x01020304)", 2628),
        ("UPDATE t SET name = name + 'abcdef' WHERE id = 1", 2628),
        ("INSERT INTO t (id, amount) VALUES (9, 1000)", 8115),
        ("INSERT INTO t (id) VALUES ('x')", 245),
        ("INSERT INTO t (id, doc) VALUES (9, 'abc')", 257),
        ("INSERT INTO t (id, nope) VALUES (9, 1)", 207),
        ("INSERT INTO t (id, id) VALUES (9, 1)", 264),
        ("INSERT INTO t (id, name) VALUES (9)", 109),
        ("INSERT INTO t (id) VALUES (9, 'x')", 110),
        ("INSERT INTO t (id, name) SELECT 9", 120),
        ("INSERT INTO t VALUES (9)", 213),
        ("INSERT INTO u (id, t_id) VALUES (1, 1)", 544),
        ("UPDATE u SET id = 5", 8102),
    ],
)
def test_refused_assignments(tables: Session, text: str, number: int) -> None:
    with pytest.raises(SqlError) as caught:
        tables.run(text)
    assert caught.value.number == number


def test_2628_names_table_column_and_value(tables: Session) -> None:
    with pytest.raises(SqlError) as caught:
        tables.run("INSERT INTO t (id, name) VALUES (9, 'abcdef')")
    assert caught.value.message == (
        "String or binary data would be truncated in table 'd.dbo.t', column 'name'. Truncated value: 'abcde'."
    )


def test_output_shows_the_row_before_and_after(tables: Session) -> None:
    rows = tables.run(
        "UPDATE t SET amount += 1, name = 'z' OUTPUT deleted.name, inserted.name, inserted.amount WHERE id = 1"
    )
    assert rows == [("a", "z", Decimal("2.00"))]
    assert tables.run("DELETE FROM t OUTPUT deleted.id WHERE id = 3") == [(3,)]
    assert tables.run("INSERT INTO u (t_id) OUTPUT inserted.id, inserted.t_id VALUES (4), (5)") == [(1, 4), (2, 5)]


def test_output_into_a_table_keeps_the_count(tables: Session) -> None:
    compiled = tables.compile("UPDATE t SET name = 'q' OUTPUT inserted.id INTO u (t_id) WHERE id < 3")
    assert compiled.count_in_result
    assert tables.execute(compiled) == [(2,)]
    assert tables.run("SELECT t_id FROM u ORDER BY t_id") == [(1,), (2,)]


def test_update_and_delete_through_joins(tables: Session) -> None:
    tables.run("INSERT INTO u (t_id) VALUES (1), (2)")
    tables.run("UPDATE x SET amount = u.id * 10 FROM t x JOIN u ON u.t_id = x.id WHERE u.id > 1")
    assert tables.run("SELECT id, amount FROM t WHERE amount > 9") == [(2, Decimal("20.00"))]
    tables.run("UPDATE t SET name = 'none' FROM t LEFT JOIN u ON u.t_id = t.id WHERE u.id IS NULL")
    assert tables.run("SELECT id FROM t WHERE name = 'none'") == [(3,)]
    tables.run("DELETE t FROM t LEFT JOIN u ON u.t_id = t.id WHERE u.id IS NULL")
    tables.run("DELETE FROM x FROM t AS x, u WHERE u.t_id = x.id AND u.id = 1")
    assert tables.run("SELECT id FROM t") == [(2,)]


def test_top_and_common_table_expressions_choose_the_rows(tables: Session) -> None:
    assert tables.run("DELETE TOP (2) FROM t") == [(2,)]
    tables.run("INSERT INTO t (id, name) VALUES (10, 'x'), (11, 'x'), (12, 'y')")
    tables.run(
        "WITH q AS (SELECT *, ROW_NUMBER() OVER (PARTITION BY name ORDER BY id) AS n FROM t WHERE id >= 10) DELETE FROM q WHERE n > 1"
    )
    assert tables.run("SELECT id FROM t WHERE id >= 10 ORDER BY id") == [(10,), (12,)]
    tables.run("WITH q AS (SELECT id AS k, name AS v FROM t) UPDATE q SET v = 'w' WHERE k = 12")
    assert tables.run("SELECT name FROM t WHERE id = 12") == [("w",)]


def test_update_assigns_variables(tables: Session) -> None:
    tables.declare("@old", nvarchar(10), None)
    tables.declare("@new", decimal(10, 2), None)
    compiled = tables.compile("UPDATE t SET @old = name, name = 'n', @new = amount = amount + 1 WHERE id = 1")
    assert compiled.assigns == ["@old", "@new"]
    assert tables.execute(compiled) == [("a", Decimal("2.00"))]


def test_merge_tells_what_it_did(tables: Session) -> None:
    rows = tables.run(
        "MERGE t AS d USING (VALUES (1, 'm'), (9, 'n')) AS s (id, name) ON d.id = s.id"
        " WHEN MATCHED THEN UPDATE SET name = s.name"
        " WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)"
        " WHEN NOT MATCHED BY SOURCE AND d.id = 3 THEN DELETE"
        " OUTPUT $action, inserted.id, deleted.id, s.name;"
    )
    assert sorted(rows, key=str) == [("DELETE", None, 3, None), ("INSERT", 9, None, "n"), ("UPDATE", 1, 1, "m")]


def transition(session: Session, table: TableInfo) -> list[tuple[object, ...]]:
    return session.connection.execute(f"SELECT * FROM {table.relation} ORDER BY 1").fetchall()


def test_after_triggers_get_inserted_and_deleted(tables: Session) -> None:
    tables.catalog.trigger("t", "INSERT", "UPDATE", "DELETE")
    compiled = tables.compile("UPDATE t SET name = 'n' WHERE id < 3")
    assert tables.execute(compiled) == [(2,)]
    (fire,) = compiled.fires
    assert [row[:2] for row in transition(tables, fire.deleted)] == [(1, "a"), (2, "b")]
    assert [row[:2] for row in transition(tables, fire.inserted)] == [(1, "n"), (2, "n")]
    compiled = tables.compile("DELETE FROM t WHERE id = 3")
    assert tables.execute(compiled) == [(1,)]
    assert [row[0] for row in transition(tables, compiled.fires[0].deleted)] == [3]
    assert transition(tables, compiled.fires[0].inserted) == []


def test_merge_fires_each_action_with_its_own_rows(tables: Session) -> None:
    tables.catalog.trigger("t", "INSERT", "UPDATE")
    compiled = tables.compile(
        "MERGE t AS d USING (VALUES (1), (9)) s (id) ON d.id = s.id WHEN MATCHED THEN UPDATE SET name = 'm'"
        " WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id);"
    )
    assert tables.execute(compiled) == [(2,)]
    found = {fire.action: [row[0] for row in transition(tables, fire.inserted)] for fire in compiled.fires}
    assert found == {"INSERT": [9], "UPDATE": [1]}


def test_output_to_the_client_beside_a_trigger_is_334(tables: Session) -> None:
    tables.catalog.trigger("t", "UPDATE")
    with pytest.raises(SqlError) as caught:
        tables.compile("UPDATE t SET name = 'n' OUTPUT inserted.id")
    assert caught.value.number == 334


def test_instead_of_triggers_get_the_rows_and_the_table_stays(tables: Session) -> None:
    tables.catalog.trigger("t", "INSERT", "UPDATE", "DELETE", instead_of=True)
    compiled = tables.compile("INSERT INTO t (id, name) VALUES (7, 'i')")
    tables.execute(compiled)
    assert transition(tables, compiled.fires[0].inserted) == [(7, "i", None, None, None)]
    compiled = tables.compile("UPDATE t SET name = 'u' WHERE id = 1")
    tables.execute(compiled)
    assert [row[:2] for row in transition(tables, compiled.fires[0].inserted)] == [(1, "u")]
    assert [row[:2] for row in transition(tables, compiled.fires[0].deleted)] == [(1, "a")]
    compiled = tables.compile("DELETE FROM t WHERE id = 2")
    tables.execute(compiled)
    assert [row[0] for row in transition(tables, compiled.fires[0].deleted)] == [2]
    assert tables.run("SELECT id, name FROM t ORDER BY id") == [(1, "a"), (2, "b"), (3, None)]


def test_a_running_instead_of_trigger_does_the_real_work(tables: Session) -> None:
    tables.catalog.trigger("t", "DELETE", instead_of=True)
    info = tables.catalog.found["t"]
    assert isinstance(info, TableInfo)
    tables.context = replace(tables.context, running_triggers=frozenset({info.triggers[0].object_id}))
    assert tables.run("DELETE FROM t WHERE id = 2") == [(1,)]


def test_identity_insert(tables: Session) -> None:
    info = tables.catalog.found["u"]
    tables.context = replace(tables.context, identity_insert=info.object_id)
    tables.run("INSERT INTO u (id, t_id) VALUES (77, 1)")
    assert tables.run("SELECT id FROM u") == [(77,)]
    with pytest.raises(SqlError) as caught:
        tables.run("INSERT INTO u (t_id) VALUES (1)")
    assert caught.value.number == 545


def test_select_into_names_the_table_and_its_columns(tables: Session) -> None:
    compiled = tables.compile(
        "SELECT id, name + 'x' AS n INTO dbo.copy FROM u JOIN (SELECT 1 AS k, 'a' AS name) q ON 1 = 1"
    )
    assert compiled.into == "[dbo].[copy]"
    assert [(c.name, str(c.type), c.identity) for c in compiled.columns] == [
        ("id", "int", False),
        ("n", "varchar(2)", False),
    ]
    assert tables.compile("SELECT * INTO copy FROM u").columns[0].identity
    assert tables.compile("SELECT TOP 0 * INTO copy FROM u UNION ALL SELECT TOP 0 * FROM u").into == "[copy]"


def test_an_assignment_that_uses_its_own_variable_accumulates(tables: Session) -> None:
    tables.declare("@s", varchar(100), None)
    rows = tables.run("SELECT @s = COALESCE(@s + ',', '') + CAST(id AS varchar(5)) FROM t ORDER BY id DESC")
    assert rows[-1] == ("3,2,1",)
