"""The ledger's SQL: complete, named, and accepted by Microsoft's parser."""

from __future__ import annotations

import re

import pytest

from airflow_provider_dpone.drivers import load_sql
from airflow_provider_dpone.ledger import LedgerSettings
from airflow_provider_dpone.ledger.install import controller_grants, render
from airflow_provider_dpone.ledger.statements import FILES, LedgerSql, names
from tests.support.ledger_records import SERVICE
from tests.support.tsql_parser import parse_error

SETTINGS = LedgerSettings(service_id=SERVICE)
SQL = LedgerSql(SETTINGS)

#: Statements that get an identifier of their own when they are sent.
NAMES = sorted(set(names()) - {"grant_control", "grant_extension", "grant_server"})


@pytest.mark.parametrize("name", NAMES)
def test_every_statement_is_valid_tsql_once_its_parameters_stand_for_variables(name: str) -> None:
    assert parse_error(SQL.text(name).replace("?", "@p")) is None


def test_the_parser_refuses_what_is_no_tsql() -> None:
    assert parse_error("SELEC 1 FROM;") is not None


def test_statement_names_are_unique_over_all_files() -> None:
    found = list(names())
    assert len(found) == len(set(found))


def test_every_statement_says_its_purpose() -> None:
    for path in FILES:
        file = load_sql("airflow_provider_dpone.ledger", f"sql/{path}.sql")
        assert all(file.purposes.get(name) for name in file.names)


@pytest.mark.parametrize("name", NAMES)
def test_no_slot_is_left_open(name: str) -> None:
    assert "{{" not in SQL.text(name)


def test_schema_names_reach_every_statement() -> None:
    other = LedgerSql(LedgerSettings(service_id=SERVICE, control_schema="ctl", extension_schema="ext"))
    for name in NAMES:
        text = other.text(name)
        assert "dpone_control" not in text
        assert "dpone_ext" not in text


@pytest.mark.parametrize("batch", ["begin_exclusive", "begin_snapshot", "begin_install", "commit"])
def test_batches_that_set_session_options_have_no_parameters(batch: str) -> None:
    assert "?" not in SQL.text(batch)


def test_the_rendered_installation_is_valid_in_every_batch() -> None:
    batches = re.split(r"(?m)^GO\n", render(SETTINGS))
    assert len(batches) > 30
    for batch in batches:
        if batch.strip():
            assert parse_error(batch) is None


def test_the_controller_gets_no_right_to_delete_or_to_define() -> None:
    text = controller_grants(SETTINGS, "o]wner")
    assert "[o]]wner]" in text
    assert all(parse_error(batch) is None for batch in text.split("\nGO\n") if batch.strip())
    assert not re.search(r"\b(DELETE|CONTROL|ALTER|EXECUTE)\b", text)
