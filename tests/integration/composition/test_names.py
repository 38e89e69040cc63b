"""Which names are one relation is the word of the database itself, whatever characters they are made of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_dpone.composition.physical import compare_mssql, observe_mssql
from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.drivers import drain
from airflow_provider_dpone.drivers.mssql import connect_autocommit
from tests.support.live_gate import LiveGate, autocommit

#: Names that the collation of a server's databases (SQL_Latin1_General_CP1_CI_AS) does not tell apart, and ones that it does.
ONE = [
    ("planes", "PLANES"),
    ("planes", "planes   "),
    ("\u00e9tat", "\u00c9TAT"),
    ("planes", "\uff50lanes"),
    ("n" * 128, "N" * 128),
]
TWO = [
    ("etat", "\u00e9tat"),
    ("a.b", "[a].[b]"),
    ("a", " a"),
    ("a]b", "a]]b"),
    ("a'b", "a''b"),
    ("a%", "ab"),
    ('a"', "a\\"),
]


def compared(live: LiveGate, *names: tuple[str, str]) -> list[tuple[int, str | None]]:
    target = replace(live.controller, database=live.target)
    found = compare_mssql(lambda: connect_autocommit(target), names)
    return [(each.equivalence, each.object_type) for each in found]


@pytest.mark.parametrize(("one", "other", "same"), [(*each, True) for each in ONE] + [(*each, False) for each in TWO])
def test_two_names_are_one_where_the_database_says_so(live: LiveGate, one: str, other: str, same: bool) -> None:
    for names in (("raw", one), ("raw", other)), ((one, "t"), (other, "t")):
        (first, _), (second, _) = compared(live, *names)
        assert (first == second) is same, names
    # A dot that ends a schema and one that begins a name are not the same one.
    (first, _), (second, _) = compared(live, ("a.b", "c"), ("a", "b.c"))
    assert first != second


def test_what_is_there_is_found_under_every_spelling(live: LiveGate) -> None:
    with autocommit(replace(live.dba, database=live.target)) as admin:
        drain(admin, "CREATE VIEW [raw].[a view] AS SELECT 1 AS [one];")
        drain(admin, "CREATE PROCEDURE [raw].[a procedure] AS SELECT 1 AS [one];")
    kinds = [
        kind
        for _, kind in compared(
            live, *((s, n) for s in ("raw", "RAW ") for n in ("EFFECTS", "a View ", "A procedure", "none"))
        )
    ]
    assert kinds == ["U", "V", "P", None] * 2


def test_a_database_that_tells_case_apart_is_refused_by_its_collation(live: LiveGate) -> None:
    """Not only compared: the verdict of a build would take two of its relations for one."""
    with autocommit(live.dba) as admin:
        drain(admin, "CREATE DATABASE [told apart] COLLATE Latin1_General_100_BIN2;")
    try:
        with pytest.raises(ConfigurationError, match="told apart has the collation Latin1_General_100_BIN2") as refused:
            observe_mssql(
                lambda: connect_autocommit(live.dba), service_id=live.settings.service_id, database="told apart"
            )
        assert refused.value.reason == "database_collation"
    finally:
        with autocommit(live.dba) as admin:
            drain(admin, "DROP DATABASE [told apart];")
