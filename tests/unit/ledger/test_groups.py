"""The two optional groups as their files define them: tables, triggers, installation and rights."""

from __future__ import annotations

import re

import pytest

from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.ledger import LedgerSettings, definition, group_install, groups
from airflow_provider_dpone.ledger.statements import LedgerSql
from tests.support.ledger_records import SERVICE
from tests.support.tsql_parser import parse_error

SETTINGS = LedgerSettings(service_id=SERVICE)
SQL = LedgerSql(SETTINGS)

TABLES = {
    "trust": {"trust_version", "policy_revisions"},
    "registration": {"registration_version", "grants", "ceilings", "memberships"},
}


@pytest.mark.parametrize("name", TABLES)
def test_a_group_has_its_tables_in_its_own_schema_and_the_ledger_has_none_of_them(name: str) -> None:
    schema = f"dpone_{name}"
    assert definition.table_names(SETTINGS, groups.group(name).files) == {(schema, table) for table in TABLES[name]}
    assert schema not in {found for found, _ in definition.table_names(SETTINGS)}


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_a_trigger_that_first_asks_for_the_lock_and_then_for_the_session(name: str) -> None:
    lock, session = SQL.text("require_lock"), SQL.text("require_session")
    blocks = dict(definition.install_batches(SETTINGS, groups.group(name).files))
    triggers = {block.removeprefix("trigger_"): text for block, text in blocks.items() if "trigger_" in block}
    assert set(triggers) == TABLES[name]
    for table, text in triggers.items():
        first, _, rest = text.split("SET NOCOUNT ON;", 1)[1].strip().partition(lock)
        assert (first, "AFTER INSERT, UPDATE, DELETE" in text) == ("", True)
        assert rest.strip().startswith(session) is not table.endswith("_version")


@pytest.mark.parametrize("name", TABLES)
def test_every_text_column_is_compared_by_code_point(name: str) -> None:
    for line in definition.structure_lines(SETTINGS, groups.group(name).files):
        kind, *members = line.split("|")
        if kind == "column" and members[4] in ("varchar", "nvarchar"):
            assert members[9] == "Latin1_General_100_BIN2", line


@pytest.mark.parametrize("name", TABLES)
def test_the_rendered_installation_is_valid_in_every_batch_and_makes_triggers_last(name: str) -> None:
    batches = [batch for batch in group_install.render(SETTINGS, name).split("\nGO\n") if batch.strip()]
    assert all(parse_error(batch) is None for batch in batches)
    kinds = [match[1] for batch in batches if (match := re.match(r"(CREATE \w+|INSERT)", batch))]
    assert kinds == sorted(kinds, key=["CREATE SCHEMA", "CREATE TABLE", "INSERT", "CREATE TRIGGER"].index)


def test_an_unknown_group_and_an_unknown_role_are_refused_by_name() -> None:
    with pytest.raises(ConfigurationError) as refused:
        group_install.render(SETTINGS, "worker")
    assert refused.value.reason == "ledger_group"
    with pytest.raises(ConfigurationError) as refused:
        group_install.role_grants(SETTINGS, "controller", "somebody")
    assert refused.value.reason == "ledger_role"


def test_schemas_of_the_groups_are_plain_names_and_all_different() -> None:
    for changes in ({"trust_schema": "a b"}, {"registration_schema": "DPONE_EXT"}, {"trust_schema": ""}):
        with pytest.raises(ConfigurationError) as refused:
            LedgerSettings(service_id=SERVICE, **changes)  # type: ignore[arg-type]  # by name
        assert refused.value.reason == "ledger_schema"


@pytest.mark.parametrize("role", group_install.ROLES)
def test_the_rights_of_a_role_are_valid_and_let_nobody_change_or_define_anything(role: str) -> None:
    text = group_install.role_grants(SETTINGS, role, "some'body]")
    assert "N'some''body]'" in text
    assert all(parse_error(batch) is None for batch in text.split("\nGO\n") if batch.strip())
    assert not re.search(r"\b(UPDATE|DELETE|ALTER|CONTROL|EXECUTE|REFERENCES|IMPERSONATE)\b", text)


def test_only_the_provisioner_writes_trust_and_only_the_registrar_writes_registrations() -> None:
    inserts = {
        role: set(
            re.findall(r"GRANT INSERT ON OBJECT::\[(\w+)\]\.\[(\w+)\]", group_install.role_grants(SETTINGS, role, "x"))
        )
        for role in group_install.ROLES
    }
    assert inserts == {
        "trust-provisioner": {("dpone_trust", "policy_revisions")},
        "registrar": {("dpone_registration", table) for table in ("grants", "ceilings", "memberships")},
        "authority-reader": set(),
    }
