"""Equality, order and patterns of strings under the default and the binary collation."""

from __future__ import annotations

import pytest
from tsqldev.errors import SqlError
from tsqldev.interfaces import Column
from tsqldev.types import BIN2_COLLATION, INT, UNIQUEIDENTIFIER, nvarchar, varchar

from .compile_double import Session


@pytest.fixture
def names(session: Session) -> Session:
    session.catalog.table(
        session.connection,
        "t",
        Column("id", INT.with_nullable(False)),
        Column("name", nvarchar(20)),
        Column("code", varchar(20, BIN2_COLLATION)),
        Column("g", UNIQUEIDENTIFIER),
    )
    session.run(
        "INSERT INTO t (id, name, code) VALUES (1, N'anna', 'a'), (2, N'Anna ', 'A'), (3, N'Ännchen', 'b'),"
        " (4, N'Zoë', 'B '), (5, N'_x', '_'), (6, N'1', '1'), (7, NULL, NULL)"
    )
    return session


def ids(session: Session, condition: str) -> list[int]:
    return [row[0] for row in session.run(f"SELECT id FROM t WHERE {condition} ORDER BY id")]


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("name = 'ANNA'", [1, 2]),
        ("name = N'ÄNNCHEN'", [3]),
        ("name <> 'anna'", [3, 4, 5, 6]),
        ("code = 'a'", [1]),
        ("code = 'b'", [3]),
        ("code = 'B'", [4]),
        ("code COLLATE DATABASE_DEFAULT = 'A'", [1, 2]),
        ("name COLLATE Latin1_General_100_BIN2 = N'Anna'", [2]),
        ("name IN ('ZOË', 'x')", [4]),
        ("name LIKE 'AN%'", [1, 2]),
        ("name LIKE '[a-b]%'", [1, 2]),
        ("name LIKE '[^a]%'", [3, 4, 5, 6]),
        ("name LIKE '!_%' ESCAPE '!'", [5]),
        ("name LIKE '_x'", [5]),
        ("name NOT LIKE '%n%'", [4, 5, 6]),
        ("code LIKE 'B%'", [4]),
        ("code LIKE name", []),
        ("'a' = 'a  '", [1, 2, 3, 4, 5, 6, 7]),
        ("id = '3'", [3]),
        ("name BETWEEN 'b' AND 'zz'", [4]),
        ("code < 'a'", [2, 4, 5, 6]),
    ],
)
def test_conditions(names: Session, condition: str, found: list[int]) -> None:
    if condition == "code LIKE name":
        with pytest.raises(SqlError) as caught:
            ids(names, condition)
        assert caught.value.number == 468
        return
    assert ids(names, condition) == found


def test_a_pattern_in_a_variable_follows_the_same_rules(names: Session) -> None:
    names.declare("@p", nvarchar(20), "[A-B]nn_%")
    assert ids(names, "name LIKE @p") == [1, 2]
    names.values["@p"] = "!_%"
    assert ids(names, "name LIKE @p ESCAPE '!'") == [5]
    names.values["@p"] = "[^0-9]%a"
    assert ids(names, "name LIKE @p") == [1]


def test_order_puts_null_first_then_symbols_digits_letters(names: Session) -> None:
    rows = names.run("SELECT id FROM t ORDER BY name, id")
    assert [row[0] for row in rows] == [7, 5, 6, 1, 2, 3, 4]
    rows = names.run("SELECT id FROM t ORDER BY name DESC, id DESC")
    assert [row[0] for row in rows] == [4, 3, 2, 1, 6, 5, 7]
    rows = names.run("SELECT code FROM t WHERE code IS NOT NULL ORDER BY code")
    assert [row[0] for row in rows] == ["1", "A", "B ", "_", "a", "b"]


def test_groups_distinct_and_set_operations_fold_what_is_equal(names: Session) -> None:
    assert names.run("SELECT COUNT(*) FROM t WHERE id < 3 GROUP BY name") == [(2,)]
    assert len(names.run("SELECT DISTINCT name FROM t WHERE id < 3")) == 1
    assert names.run("SELECT COUNT(DISTINCT name) FROM t WHERE id < 3") == [(1,)]
    assert names.run("SELECT COUNT(DISTINCT code) FROM t WHERE id < 3") == [(2,)]
    assert len(names.run("SELECT name FROM t WHERE id = 1 UNION SELECT 'ANNA'")) == 1
    assert names.run("SELECT name FROM t WHERE id < 3 EXCEPT SELECT 'ANNA'") == []
    assert len(names.run("SELECT name FROM t WHERE id < 3 INTERSECT SELECT 'ANNA'")) == 1
    assert names.run("SELECT NULL, 'a' INTERSECT SELECT NULL, 'A'") == [(None, "a")]
    assert names.run("SELECT MIN(name), MAX(name) FROM t") == [("_x", "Zoë")]


def test_two_collations_do_not_mix(names: Session) -> None:
    with pytest.raises(SqlError) as caught:
        names.compile("SELECT id FROM t WHERE code = name")
    assert caught.value.number == 468
    names.compile("SELECT id FROM t WHERE code = name COLLATE Latin1_General_100_BIN2")
    with pytest.raises(SqlError) as caught:
        names.compile("SELECT 'a' COLLATE Klingon")
    assert caught.value.number == 448


def test_uniqueidentifiers_sort_by_their_last_group(names: Session) -> None:
    names.run(
        "UPDATE t SET g = CASE id WHEN 1 THEN 'ffffffff-0000-0000-0000-000000000001'"
        " WHEN 2 THEN '00000000-0000-0000-0000-000000000002' END WHERE id < 3"
    )
    assert names.run("SELECT id FROM t WHERE g IS NOT NULL ORDER BY g") == [(1,), (2,)]
    assert names.run("SELECT COUNT(*) FROM t WHERE g < '00000000-0000-0000-0000-000000000002'") == [(1,)]
