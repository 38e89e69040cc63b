"""The door: no activation without a recorded green gate profile that unlocks the ledger's authority on its server."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_dpone.contracts.errors import (
    AdmissionRefused,
    ConfigurationError,
    LedgerTampered,
    ParentNotActive,
)
from airflow_provider_dpone.contracts.gate_profile import Engine, GateReceipt, may_be_production, unlocks
from airflow_provider_dpone.drivers.mssql import MsSqlDsn
from airflow_provider_dpone.ledger import GateReceiptStore, LedgerSettings, install
from tests.support import ledger_records as make
from tests.support.gate_receipts import open_door, receipt
from tests.support.live_ledger import LiveLedger, connecting

SETTINGS = LedgerSettings(service_id=make.SERVICE)
RECEIPTS = "dpone_ext.gate_receipts"


@pytest.fixture
def shut(empty_database: MsSqlDsn) -> LiveLedger:
    """A new ledger, as the installer leaves it."""
    install.apply(connecting(empty_database), SETTINGS, authority="nonproduction")
    return LiveLedger(dsn=empty_database, connect=connecting(empty_database), settings=SETTINGS)


def server(ledger: LiveLedger) -> Engine:
    return ledger.receipts.standing().server


def tamper(ledger: LiveLedger, change: str, *parameters: Any, table: str = RECEIPTS) -> None:
    """Change rows as somebody could who may alter the schema, and leave the catalog as it was."""
    trigger = table.replace("dpone_ext.", "dpone_ext.tr_")
    ledger.rows(f"DISABLE TRIGGER {trigger} ON {table}")
    try:
        ledger.rows(change, *parameters)
    finally:
        ledger.rows(f"ENABLE TRIGGER {trigger} ON {table}")


def test_without_a_receipt_nothing_is_reserved_and_the_text_says_what_to_run(shut: LiveLedger) -> None:
    request = make.request(shut.enroll(2))
    with pytest.raises(AdmissionRefused) as refused:
        shut.activations.prepare(request)
    assert (refused.value.code, refused.value.reason) == (
        "DPONE_COMPOSITION_ADMISSION_UNAVAILABLE",
        "gate_profile_absent",
    )
    for said in ("none is recorded", "component-check --profile gate", "record-profile", str(server(shut))):
        assert said in str(refused.value)
    assert shut.count("dpone_control.composition_owners") == 0
    assert shut.rows("SELECT MAX(fencing_epoch) FROM dpone_control.composition_domains") == [(0,)]


def test_a_recorded_receipt_opens_the_door_once_and_for_all_its_activations(shut: LiveLedger) -> None:
    standing = open_door(shut.connect, SETTINGS)
    assert standing.unlocked_by == receipt(standing.server)
    assert open_door(shut.connect, SETTINGS) == standing, "a second recording changes nothing"
    assert shut.count(RECEIPTS) == 1
    for _ in range(2):
        assert shut.retire(shut.active()).state == "RETIRED"
    assert install.audit(shut.connect, SETTINGS).gate_receipts == 1


def altered(name: str, here: Engine) -> GateReceipt:
    green = receipt(here, clean=True)
    return {
        "other build": replace(green, engine=replace(here, product_version=f"{here.product_version}1")),
        "other engine": replace(green, engine=replace(here, version_text=f"x {here.version_text}")),
        "other provider": replace(green, product_version="0.0.1"),
        "not green": replace(green, result="FAIL"),
        "a case missing": replace(green, result="FAIL", cases=green.cases[1:]),
    }[name]


@pytest.mark.parametrize("name", ["other build", "other engine", "other provider", "not green", "a case missing"])
def test_a_receipt_of_anything_else_is_not_recorded(shut: LiveLedger, name: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        shut.receipts.record(altered(name, server(shut)))
    assert (refused.value.reason, refused.value.not_done) == ("gate_profile_refused", "it was not recorded.")
    assert shut.count(RECEIPTS) == 0


@pytest.mark.parametrize("name", ["other build", "other engine", "other provider", "not green"])
def test_a_receipt_of_anything_else_opens_nothing_even_when_it_stands_in_the_ledger(
    shut: LiveLedger, name: str
) -> None:
    """As after an upgrade of the server or of the provider: what was recorded before unlocks nothing any more."""
    other = altered(name, server(shut))
    columns = (other.sha256, other.engine.name, other.engine.product_version, other.product_version, other.document())
    tamper(shut, f"INSERT INTO {RECEIPTS} VALUES (?, ?, ?, ?, ?, SYSUTCDATETIME())", *columns)
    with pytest.raises(AdmissionRefused, match=other.sha256) as refused:
        shut.active()
    assert refused.value.reason == "gate_profile_absent"
    assert shut.count("dpone_control.composition_owners") == 0


def test_what_was_prepared_is_not_opened_once_the_door_is_shut_and_can_be_withdrawn(fresh_ledger: LiveLedger) -> None:
    request = make.request(fresh_ledger.enroll(2))
    fresh_ledger.activations.prepare(request)
    tamper(fresh_ledger, f"DELETE FROM {RECEIPTS}")
    for step in (fresh_ledger.activations.activate, fresh_ledger.activations.prepare):
        with pytest.raises(AdmissionRefused, match="gate_profile_absent"):
            step(request)
    stored = fresh_ledger.activations.read(request.activation_id)
    assert stored is not None and stored.state == "PREPARED"

    assert fresh_ledger.activations.withdraw(request).state == "RETIRING"
    assert fresh_ledger.activations.withdraw(request).state == "RETIRING"
    assert fresh_ledger.activations.finalize_retirement(request).state == "RETIRED"
    install.audit(fresh_ledger.connect, SETTINGS)


def test_an_activation_in_force_is_retired_whatever_became_of_the_receipt(fresh_ledger: LiveLedger) -> None:
    activation = fresh_ledger.active()
    tamper(fresh_ledger, f"DELETE FROM {RECEIPTS}")
    with pytest.raises(ParentNotActive):
        fresh_ledger.activations.withdraw(activation.request)
    assert fresh_ledger.retire(activation).state == "RETIRED"


@pytest.mark.parametrize(
    "change",
    [
        f"UPDATE {RECEIPTS} SET receipt_document = receipt_document + 0x20",
        f"UPDATE {RECEIPTS} SET receipt_document = 0x7B7D",
        f"UPDATE {RECEIPTS} SET receipt_sha256 = '{make.sha('other')}'",
        f"UPDATE {RECEIPTS} SET engine_product_version = N'16.0.1'",
        f"UPDATE {RECEIPTS} SET engine_name = N'Microsoft SQL Server 2022'",
        f"UPDATE {RECEIPTS} SET product_version = N'9.9'",
    ],
)
def test_a_changed_byte_of_a_receipt_stops_activation_and_is_found_by_the_audit(
    fresh_ledger: LiveLedger, change: str
) -> None:
    request = make.request(fresh_ledger.enroll(2))
    tamper(fresh_ledger, change)
    for use in (
        lambda: fresh_ledger.activations.prepare(request),
        lambda: install.audit(fresh_ledger.connect, SETTINGS),
        fresh_ledger.receipts.standing,
    ):
        with pytest.raises(LedgerTampered) as refused:
            use()
        assert refused.value.reason == "gate_receipt"
    assert fresh_ledger.count("dpone_control.composition_owners") == 0


def test_production_authority_stands_on_sql_server_only(empty_database: MsSqlDsn, tsql_server: Any) -> None:
    """By the installer, and by the CHECK for whoever runs the printed script."""
    connect = connecting(empty_database)
    if tsql_server.emulation:
        with pytest.raises(ConfigurationError, match="--authority nonproduction") as refused:
            install.apply(connect, SETTINGS, authority="production")
        assert (refused.value.reason, refused.value.not_done) == ("production_authority", "nothing was installed.")
        bare = LiveLedger(dsn=empty_database, connect=connect, settings=SETTINGS)
        assert bare.rows("SELECT name FROM sys.schemas WHERE name IN ('dpone_control', 'dpone_ext')") == []
        return
    install.apply(connect, SETTINGS, authority="production")
    production = LiveLedger(dsn=empty_database, connect=connect, settings=SETTINGS)
    with pytest.raises(ConfigurationError, match="unlocks nonproduction only"):
        open_door(connect, SETTINGS)
    production.receipts.record(receipt(server(production), clean=True))
    assert production.active().state == "ACTIVE"


def test_the_class_of_a_ledger_is_not_changed_into_production(fresh_ledger: LiveLedger, tsql_server: Any) -> None:
    relabel = "UPDATE dpone_ext.incarnation SET authority_class = 'production'"
    with pytest.raises(Exception, match=r"lock_not_held|conflicted with the CHECK"):
        fresh_ledger.rows(relabel)
    if tsql_server.emulation:
        with pytest.raises(Exception, match="ck_incarnation_authority"):
            tamper(fresh_ledger, relabel, table="dpone_ext.incarnation")
    else:
        tamper(fresh_ledger, relabel, table="dpone_ext.incarnation")
        with pytest.raises(AdmissionRefused, match="unlocks nonproduction only"):
            fresh_ledger.active()
    assert fresh_ledger.receipts.standing().authority == ("nonproduction" if tsql_server.emulation else "production")


def test_what_this_server_unlocks_follows_from_what_it_says_of_itself(ledger: LiveLedger, tsql_server: Any) -> None:
    standing = ledger.receipts.standing()
    assert may_be_production(standing.server) is not tsql_server.emulation
    expected = "nonproduction" if tsql_server.emulation else "production"
    clean = receipt(standing.server, clean=True)
    assert unlocks(clean, server=standing.server, product_version=clean.product_version) == expected


def test_receipts_are_recorded_one_after_the_other_and_the_newest_is_named(fresh_ledger: LiveLedger) -> None:
    newer = receipt(server(fresh_ledger), clean=True, commit=secrets.token_hex(20))
    standing = GateReceiptStore(fresh_ledger.connect, SETTINGS).record(newer)
    assert len(standing.receipts) == 2
    assert standing.unlocked_by == newer


def test_the_receipt_of_a_version_that_required_other_cases_blocks_nothing(shut: LiveLedger) -> None:
    """After an upgrade of the provider: it is read, it unlocks nothing, and a new one is recorded beside it."""
    here = receipt(server(shut), product_version="0.0.1")
    old = replace(here, cases=here.cases[1:])
    columns = (old.sha256, old.engine.name, old.engine.product_version, old.product_version, old.document())
    tamper(shut, f"INSERT INTO {RECEIPTS} VALUES (?, ?, ?, ?, ?, SYSUTCDATETIME())", *columns)
    with pytest.raises(AdmissionRefused, match="cases are not those"):
        shut.active()
    standing = open_door(shut.connect, SETTINGS)
    assert (len(standing.receipts), standing.unlocked_by) == (2, receipt(standing.server))
    assert install.audit(shut.connect, SETTINGS).gate_receipts == 2
    assert shut.active().state == "ACTIVE"


def test_recorders_at_once_leave_each_receipt_once(shut: LiveLedger) -> None:
    here = server(shut)
    wanted = [receipt(here), receipt(here), receipt(here, clean=True), receipt(here, commit=None)]
    with ThreadPoolExecutor(len(wanted)) as pool:
        found = list(pool.map(shut.receipts.record, wanted))
    assert all(each in standing.receipts for each, standing in zip(wanted, found, strict=True))
    assert {each.sha256 for each in shut.receipts.standing().receipts} == {each.sha256 for each in wanted}
