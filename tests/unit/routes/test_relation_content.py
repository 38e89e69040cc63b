"""Which columns are hashed and how, and which are named instead. What the server answers is tried in the integration tests."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_dpone.routes.relation_content import TableColumn, TableContent, read_content
from tests.support.scripted_connection import ScriptedConnection


def column(kind: str, **members: Any) -> TableColumn:
    given = {"name": "c ]", "length": 4, "precision": 10, "scale": 2, "collation": None, "hidden": "", **members}
    return TableColumn(type=kind, **given)


def read(*columns: TableColumn, total: Any = 7) -> tuple[TableContent, str]:
    connection = ScriptedConnection(lambda sql, parameters: [[(3, total)]])
    content = read_content(connection, "[s].[t]", columns)
    (batch,) = connection.batches
    return content, batch


@pytest.mark.parametrize("kind", ["xml", "sql_variant", "clr", "json", "vector", "a type of tomorrow"])
def test_a_type_without_exact_bytes_is_named(kind: str) -> None:
    content, batch = read(column("int", name="id"), column(kind))
    assert content.unchecked == {"c ]": f"type {kind}"}
    assert "[c ]]]" not in batch and "[id]" in batch


@pytest.mark.parametrize("hidden", ["masked", "encrypted", "computed"])
def test_values_that_the_observer_does_not_see_are_named(hidden: str) -> None:
    content, batch = read(column("nvarchar", hidden=hidden))
    assert content.unchecked == {"c ]": hidden}
    assert "[c ]]]" not in batch


def test_an_identifier_is_quoted_and_one_statement_is_sent() -> None:
    _, batch = read(column("varchar"))
    assert "[c ]]]" in batch and "[s].[t]" in batch


@pytest.mark.parametrize(
    ("columns", "wide"),
    [
        ([column("int")], False),
        ([column("varchar", length=7991)], False),
        ([column("varchar", length=7992)], True),
        ([column("char", length=4000)] * 2, True),
        ([column("varchar", length=-1)], True),
        ([column("varchar", length=-1), column("int")], True),
        ([column("ntext", length=16)], True),
        ([], False),
    ],
)
def test_a_row_that_may_not_fit_is_unlimited_from_its_first_byte(columns: list[TableColumn], wide: bool) -> None:
    """Otherwise the server would cut what is over 8,000 bytes, without a word."""
    _, batch = read(*columns)
    assert ("HASHBYTES('SHA2_256', (CONVERT(varbinary(max), 0x)" in batch) == wide


def test_every_chain_of_a_wide_row_is_unlimited() -> None:
    """A sum of narrow values is narrow, whatever it is added to afterwards."""
    _, batch = read(*[column("char", length=8000, name=f"c{number}") for number in range(1024)])
    assert batch.count("(CONVERT(varbinary(max), 0x) +") == 1024 // 32


def test_an_empty_table_has_a_digest() -> None:
    empty, _ = read(column("int"), total=None)
    assert empty.sha256 == read(column("int"), total=0)[0].sha256 != read(column("int"), total=1)[0].sha256


@pytest.mark.parametrize("changed", [{"name": "d"}, {"precision": 11}, {"scale": 3}, {"collation": "other"}])
def test_what_a_column_is_counts(changed: dict[str, Any]) -> None:
    assert read(column("decimal"))[0].sha256 != read(column("decimal", **changed))[0].sha256
