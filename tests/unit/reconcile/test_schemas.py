"""The witness sees a lost digit, a shorter text, a forbidden NULL and a missing column."""

from __future__ import annotations

import pytest
from dpone_reconcile.schemas import Column, Columns, loaded, published

SOURCE: Columns = {
    "tailnum": Column("character varying(10)", False),
    "retired_on": Column("date", False),
    "book_value": Column("numeric(12,2)", True),
}
TARGET: Columns = {
    "tailnum": Column("nvarchar(10)", False),
    "retired_on": Column("date", False),
    "book_value": Column("decimal(12,2)", True),
}
PUBLISHED: Columns = {
    "tailnum": Column("String", True),
    "retired_on": Column("Date32", True),
    "book_value": Column("Decimal(12, 2)", True),
}


def test_types_that_hold_every_value_pass() -> None:
    assert loaded("a", SOURCE, TARGET).passed
    assert loaded("a", SOURCE, {**TARGET, "tailnum": Column("varchar(10)", True)}).passed
    assert published("a", TARGET, PUBLISHED).passed


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (Column("decimal(12,1)", True), "book_value: numeric(12,2) is held as decimal(12,1)"),
        (Column("float", True), "book_value: numeric(12,2) is held as float"),
        (Column("decimal(12,2)", False), "book_value: NULL has no place in the target"),
    ],
)
def test_a_type_that_would_lose_something_does_not(column: Column, said: str) -> None:
    check = loaded("a", SOURCE, {**TARGET, "book_value": column})
    assert not check.passed
    assert check.detail == said


def test_nor_does_another_set_of_columns() -> None:
    assert not published("a", TARGET, {**PUBLISHED, "more": Column("String", True)}).passed
    assert not published("a", TARGET, {"tailnum": PUBLISHED["tailnum"]}).passed
    assert not published("a", {}, {}).passed
    assert not published("a", {**TARGET, "tailnum": Column("sql_variant", False)}, PUBLISHED).passed
