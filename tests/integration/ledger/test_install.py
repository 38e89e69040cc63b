"""Installing a ledger happens once, in an empty database, or not at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.drivers import drain
from airflow_provider_dpone.drivers.mssql import MsSqlDsn
from airflow_provider_dpone.ledger import LedgerSettings, install
from airflow_provider_dpone.ledger.audit import compare
from airflow_provider_dpone.ledger.definition import install_batches
from airflow_provider_dpone.ledger.statements import LedgerSql
from tests.support.ledger_records import CLICKHOUSE, SERVICE
from tests.support.live_ledger import LiveLedger, connecting, open_ledger

SETTINGS = LedgerSettings(service_id=SERVICE)


def send(dsn: MsSqlDsn, *batches: str) -> list[list[tuple[object, ...]]]:
    connection = connecting(dsn)()
    try:
        connection.setautocommit(True)  # type: ignore[attr-defined]  # mssql-python's connection
        return [result for batch in batches for result in drain(connection, batch)]
    finally:
        connection.close()


def test_the_installed_catalog_is_line_by_line_the_one_that_the_install_files_define(fresh_ledger: LiveLedger) -> None:
    connection = fresh_ledger.connect()
    try:
        difference = compare(connection, LedgerSql(SETTINGS), SETTINGS)
    finally:
        connection.close()
    assert difference.sentence() == ""


def test_a_new_ledger_audits_clean_and_empty(fresh_ledger: LiveLedger) -> None:
    report = install.audit(fresh_ledger.connect, SETTINGS)
    assert (report.operations, report.activations, report.domains) == (0, 0, 0)


def test_a_second_install_is_refused_and_changes_nothing(fresh_ledger: LiveLedger) -> None:
    with pytest.raises(ConfigurationError) as refused:
        install.apply(fresh_ledger.connect, replace(SETTINGS, service_id=CLICKHOUSE), authority="nonproduction")
    assert refused.value.reason == "ledger_present"
    install.audit(fresh_ledger.connect, SETTINGS)


def test_a_partial_layout_is_refused(empty_database: MsSqlDsn) -> None:
    [owners] = [text for name, text in install_batches(SETTINGS) if name == "table_owners"]
    send(empty_database, "CREATE SCHEMA [dpone_control]", owners)
    with pytest.raises(ConfigurationError) as refused:
        open_ledger(empty_database)
    assert refused.value.reason == "ledger_partial"


def test_tables_of_an_older_layout_are_refused(empty_database: MsSqlDsn) -> None:
    send(empty_database, "CREATE TABLE [dbo].[composition_attempts] ([id] int NOT NULL)")
    with pytest.raises(ConfigurationError) as refused:
        open_ledger(empty_database)
    assert refused.value.reason == "ledger_legacy"


def test_foreign_objects_in_the_place_of_the_ledger_are_refused(empty_database: MsSqlDsn) -> None:
    send(empty_database, "CREATE SCHEMA [dpone_ext]", "CREATE TABLE [dpone_ext].[other] ([id] int NOT NULL)")
    with pytest.raises(ConfigurationError) as refused:
        open_ledger(empty_database)
    assert refused.value.reason == "ledger_place_taken"


def test_a_database_of_another_collation_is_refused(tsql_server: object, empty_database: MsSqlDsn) -> None:
    send(empty_database, f"ALTER DATABASE [{empty_database.database}] COLLATE Latin1_General_100_BIN2")
    with pytest.raises(ConfigurationError) as refused:
        open_ledger(empty_database)
    assert refused.value.reason == "control_database"


@pytest.mark.parametrize("setting", ["ALLOWED", "FORCED"])
def test_a_database_whose_commits_a_crash_may_forget_holds_no_ledger(empty_database: MsSqlDsn, setting: str) -> None:
    durable, forgets = (f"ALTER DATABASE CURRENT SET DELAYED_DURABILITY = {to};" for to in ("DISABLED", setting))
    send(empty_database, forgets)
    with pytest.raises(ConfigurationError, match="DELAYED_DURABILITY is not DISABLED"):
        open_ledger(empty_database)
    send(empty_database, durable)
    ledger = open_ledger(empty_database)
    activation = ledger.active()
    send(empty_database, forgets)
    for call in (
        lambda: ledger.admit(activation),
        lambda: ledger.attempts.unresolved(),
        lambda: install.audit(ledger.connect, SETTINGS),
    ):
        with pytest.raises(ConfigurationError, match="ledger_durability"):
            call()
    send(empty_database, durable)
    assert ledger.attempts.unresolved() == ()


def test_what_a_dba_runs_from_the_rendered_text_is_the_same_ledger(empty_database: MsSqlDsn) -> None:
    batches = [batch for batch in install.render(SETTINGS, authority="nonproduction").split("\nGO\n") if batch.strip()]
    send(empty_database, *batches)
    install.audit(connecting(empty_database), SETTINGS)


def test_a_database_without_a_ledger_is_said_to_have_none(empty_database: MsSqlDsn) -> None:
    with pytest.raises(ConfigurationError) as refused:
        install.audit(connecting(empty_database), SETTINGS)
    assert refused.value.reason in ("ledger_absent", "control_read")


def test_a_ledger_of_another_service_is_refused(fresh_ledger: LiveLedger) -> None:
    with pytest.raises(ConfigurationError) as refused:
        install.audit(fresh_ledger.connect, replace(SETTINGS, service_id=CLICKHOUSE))
    assert refused.value.reason == "ledger_service_id"


def test_two_ledgers_with_other_schema_names_can_be_told_apart(empty_database: MsSqlDsn) -> None:
    other = LedgerSettings(service_id=SERVICE, control_schema="ctl", extension_schema="ctl_ext")
    install.apply(connecting(empty_database), other, authority="nonproduction")
    install.audit(connecting(empty_database), other)
    with pytest.raises(ConfigurationError):
        install.audit(connecting(empty_database), SETTINGS)
