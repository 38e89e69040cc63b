"""The texts of the SQL Server gate, as Microsoft's parser and a reader see them."""

from __future__ import annotations

import itertools
import re

import pytest

from airflow_provider_dpone.contracts.principal import SID_TAG
from airflow_provider_dpone.drivers import go_batches, load_sql
from airflow_provider_dpone.gates import logon_gate
from airflow_provider_dpone.ledger import LedgerSettings
from tests.support.ledger_records import SERVICE
from tests.support.tsql_parser import parse_error

SETTINGS = LedgerSettings(service_id=SERVICE)
LITERALS = {
    "hash": "0x0200",
    "sid": "0x01",
    "tag": "0x01",
    "session": "55",
    "reader_text": "N'r'",
    "create_login": "SELECT 1;",
}
FILES = ("mssql_gate", "database_policy")
STATEMENTS = [
    (file, name) for file in FILES for name in load_sql("airflow_provider_dpone.gates", f"sql/{file}.sql").names
]


@pytest.mark.parametrize(("file", "name"), STATEMENTS)
def test_every_statement_parses(file: str, name: str) -> None:
    sql = load_sql("airflow_provider_dpone.gates", f"sql/{file}.sql")
    text = sql.text(name, **{slot: LITERALS.get(slot, f"[{slot}]") for slot in sql.slots(name)})
    numbers = itertools.count()
    assert parse_error(re.sub(r"\?", lambda _: f"@p{next(numbers)}", text)) is None


def test_every_batch_of_the_logon_gate_parses() -> None:
    for batch in go_batches(logon_gate.render(SETTINGS, "control")):
        assert parse_error(batch) is None


def test_others_pass_before_the_trigger_reads_a_table() -> None:
    text = logon_gate.trigger_text(SETTINGS, "control")
    assert text.index("RETURN") < text.index("FROM")
    assert f"0x{SID_TAG.hex().upper()}" in text
    # A result set or a SET option in a LOGON trigger breaks drivers.
    assert "SET " not in text
    assert "EXECUTE AS N'dpone_gate_reader'" in text


def test_the_parser_would_have_said_so() -> None:
    assert parse_error("CREATE LOGIN x WITH PASSWORT = 'y';") is not None
