"""The catalog that the install files define, and that an audit therefore expects."""

from __future__ import annotations

import pytest

from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.ledger import LedgerSettings, definition
from airflow_provider_dpone.ledger.statements import LedgerSql
from tests.support.ledger_records import SERVICE

SETTINGS = LedgerSettings(service_id=SERVICE)

TWELVE = {
    "authority", "owners", "domains", "owner_domains", "operations", "operation_domains", "issued_authorities",
    "proofs", "login_gates", "mssql_gate_evidence", "mssql_enrollments", "mssql_managed_schemas",
}  # fmt: skip
EXTENSION = {"incarnation", "evidence", "attempt_coordinates", "snapshot_records", "source_charges", "gate_receipts"}


def test_the_ledger_has_its_twelve_tables_and_the_extension_group() -> None:
    tables = definition.table_names(SETTINGS)
    assert {name for schema, name in tables if schema == "dpone_control"} == {f"composition_{n}" for n in TWELVE}
    assert {name for schema, name in tables if schema == "dpone_ext"} == EXTENSION


def test_every_table_has_a_trigger_that_first_asks_for_the_lock() -> None:
    guard = LedgerSql(SETTINGS).text("require_lock")
    triggers = {
        name.removeprefix("trigger_"): text for name, text in definition.install_batches(SETTINGS) if "trigger_" in name
    }
    assert set(triggers) == TWELVE | EXTENSION
    for text in triggers.values():
        body = text.split("SET NOCOUNT ON;", 1)[1].strip()
        assert body.startswith(guard)
        assert "AFTER INSERT, UPDATE, DELETE" in text


def test_every_text_column_is_compared_by_code_point() -> None:
    for line in definition.structure_lines(SETTINGS):
        kind, *members = line.split("|")
        if kind == "column" and members[4] in ("varchar", "nvarchar"):
            assert members[9] == "Latin1_General_100_BIN2", line


def test_columns_are_described_as_the_server_catalog_has_them() -> None:
    lines = definition.structure_lines(SETTINGS)
    assert (
        "column|dpone_control|composition_login_gates|3|login_name|nvarchar|256|0|0|0|Latin1_General_100_BIN2|0|0"
        in lines
    )
    assert "column|dpone_control|composition_owners|5|subject_document|varbinary|-1|0|0|0||0|0" in lines
    assert "column|dpone_control|composition_domains|5|fencing_epoch|bigint|8|19|0|0||0|0" in lines
    assert "column|dpone_ext|evidence|6|recorded_at|datetime2|7|23|3|0||0|0" in lines


def test_compound_keys_keep_their_column_order() -> None:
    lines = definition.structure_lines(SETTINGS)
    name = "uq_composition_owner_domains_partition"
    keys = [line for line in lines if line.startswith("index|") and f"|{name}|" in line]
    assert [line.rsplit("|", 2)[1:] for line in keys] == [["1", "owner_key"], ["2", "guard_id"], ["3", "fencing_epoch"]]


def test_another_schema_name_is_another_definition() -> None:
    other = LedgerSettings(service_id=SERVICE, control_schema="other")
    assert definition.structure_sha256(other) != definition.structure_sha256(SETTINGS)


def test_a_line_of_another_format_is_refused_instead_of_half_understood() -> None:
    with pytest.raises(ConfigurationError, match="another format"):
        list(definition._table_lines("CREATE TABLE [a].[b] (\n    [c] money NOT NULL\n);"))
    with pytest.raises(ConfigurationError, match="another format"):
        list(definition._table_lines("CREATE TABLE [a].[b] (\n    INDEX [i] ([c])\n);"))


def test_what_may_be_null_and_every_primary_key_is_in_the_expected_catalog() -> None:
    rows = [line.split("|") for line in definition.structure_lines(SETTINGS)]
    assert {(row[2], row[4]) for row in rows if row[0] == "column" and row[9] == "1"} == {
        ("attempt_coordinates", "mapped_input_sha256"),
        ("composition_domains", "owner_key"),
        ("composition_login_gates", "disabled_evidence_sha256"),
        ("composition_operations", "closed_gates_proof_sha256"),
        ("composition_operations", "outcome_proof_sha256"),
        ("composition_operations", "quiescence_proof_sha256"),
        ("source_charges", "operation_key"),
    }
    assert {row[9] for row in rows if row[0] == "column"} == {"0", "1"}
    assert {row[2] for row in rows if row[0] == "index" and row[6] == "1"} == {
        name for _, name in definition.table_names(SETTINGS)
    }
