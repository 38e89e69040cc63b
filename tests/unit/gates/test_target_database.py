"""The script of a target database: hostile names stay names, and one account is one user."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.drivers import go_batches
from airflow_provider_dpone.gates.target_database import TargetDatabase, provision_script
from tests.support.tsql_parser import parse_error

TARGET = TargetDatabase(
    database="warehouse",
    writer_role="writer",
    managed_schemas=("raw", "marts"),
    controller="controller",
    issuer="issuer",
    outcome_reader="reader",
    source_reader="source",
    published_schemas=("marts",),
)
HOSTILE = "a]; DROP DATABASE [x];-- '\" Ж😀 "


def users(target: TargetDatabase) -> list[str]:
    return re.findall(r"CREATE USER \[(.*?)\] FOR LOGIN", provision_script(target))


def test_each_account_but_the_owner_is_one_user() -> None:
    assert users(TARGET) == ["issuer", "reader", "source"]
    assert users(replace(TARGET, source_reader=None)) == ["issuer", "reader"]
    assert users(replace(TARGET, source_reader="reader")) == ["issuer", "reader"]
    assert users(replace(TARGET, issuer="reader", source_reader="reader")) == ["reader"]
    assert users(replace(TARGET, issuer="controller", outcome_reader="controller", source_reader="controller")) == []


def test_an_account_of_two_roles_has_the_rights_of_both() -> None:
    def granted(target: TargetDatabase) -> set[str]:
        return set(re.findall(r"GRANT .* TO \[(?:issuer|reader|source|one)\];", provision_script(target)))

    one = granted(replace(TARGET, issuer="one", outcome_reader="one", source_reader="one"))
    assert one == {re.sub(r"TO \[\w+\]", "TO [one]", line) for line in granted(TARGET)}


@pytest.mark.parametrize("part", ["database", "writer_role", "controller", "issuer", "outcome_reader", "source_reader"])
def test_a_hostile_name_stays_a_name(part: str) -> None:
    script = provision_script(replace(TARGET, **{part: HOSTILE}))
    assert "[a]]; DROP DATABASE [x]];--" in script
    assert all(parse_error(batch) is None for batch in go_batches(script))
    for ends_the_line in ("a\nGO\nDROP DATABASE x", "a\r", "a\u2028b", "", "x" * 129, "\ud800"):
        with pytest.raises(ConfigurationError, match="identifier"):
            provision_script(replace(TARGET, **{part: ends_the_line}))


@pytest.mark.parametrize("spelling", ["CONTROLLER", "controller ", "\uff43ontroller"])
@pytest.mark.parametrize("part", ["issuer", "outcome_reader", "source_reader"])
def test_two_spellings_of_one_account_are_refused(part: str, spelling: str) -> None:
    with pytest.raises(ConfigurationError, match="two spellings"):
        replace(TARGET, **{part: spelling})


@pytest.mark.parametrize("schema", ["dpone_fence", "DPONE_FENCE", "dpone_fence ", "\uff44pone_fence"])
def test_the_fence_is_nobodys_managed_schema(schema: str) -> None:
    """Its script would go on after the failed CREATE SCHEMA, and writers could write markers."""
    with pytest.raises(ConfigurationError, match="fence_schema"):
        replace(TARGET, managed_schemas=("raw", schema))
    with pytest.raises(ConfigurationError, match="fence_schema"):
        replace(TARGET, published_schemas=("raw", schema))
