"""The optional groups are installed once, whole, into a ledger that is there, and nobody gets more than a role's rights."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_dpone.contracts.errors import ConfigurationError, ControlUnavailable, GuardError, LedgerTampered
from airflow_provider_dpone.drivers.mssql import MsSqlDsn
from airflow_provider_dpone.drivers.sqlfiles import go_batches
from airflow_provider_dpone.ledger import LedgerSettings, group_install, install
from airflow_provider_dpone.ledger.definition import install_batches
from tests.support.counting_connection import Counting
from tests.support.ledger_records import CLICKHOUSE, SERVICE
from tests.support.live_ledger import LiveLedger, connecting
from tests.support.lossy_connection import LosingTheCommit
from tests.support.nonproduction import Authority, open_authority, standing_login
from tests.support.tcp_proxy import Loss, TcpProxy


def apply(ledger: LiveLedger, name: str = "trust") -> None:
    group_install.apply(ledger.connect, ledger.settings, name)


def refused(reason: str, use: Callable[[], object], error: type[GuardError] = ConfigurationError) -> None:
    with pytest.raises(error) as raised:
        use()
    assert raised.value.reason == reason


def objects(ledger: LiveLedger) -> int:
    [(number,)] = ledger.rows(
        "SELECT COUNT(*) FROM sys.objects AS o WHERE SCHEMA_NAME(o.schema_id) IN ('dpone_trust', 'dpone_registration')"
    )
    return int(number)


def test_a_group_goes_into_a_ledger_that_is_there_and_of_this_service(
    empty_database: MsSqlDsn, fresh_ledger: LiveLedger
) -> None:
    other = fresh_ledger.through(connecting(replace(empty_database, database="master")))
    foreign = replace(fresh_ledger, settings=replace(fresh_ledger.settings, service_id=CLICKHOUSE))
    refused("ledger_absent", lambda: apply(other))
    refused("ledger_service_id", lambda: apply(foreign))
    assert objects(fresh_ledger) == 0


def test_foreign_objects_and_a_part_of_a_group_are_not_adopted(fresh_ledger: LiveLedger) -> None:
    fresh_ledger.rows("CREATE SCHEMA [dpone_trust]")
    [version] = [
        text
        for name, text in install_batches(fresh_ledger.settings, ("install_trust",))
        if name == "table_trust_version"
    ]
    fresh_ledger.rows(version)
    refused("trust_partial", lambda: apply(fresh_ledger))
    fresh_ledger.rows("DROP TABLE dpone_trust.trust_version")
    fresh_ledger.rows("CREATE TABLE dpone_trust.other (id int NOT NULL)")
    refused("trust_partial", lambda: apply(fresh_ledger))
    assert objects(fresh_ledger) == 1


def test_a_damaged_ledger_takes_no_group(fresh_ledger: LiveLedger) -> None:
    fresh_ledger.rows("DISABLE TRIGGER dpone_control.tr_composition_owners ON dpone_control.composition_owners")
    refused("catalog", lambda: apply(fresh_ledger), LedgerTampered)
    assert objects(fresh_ledger) == 0


@pytest.mark.parametrize("loss", ["reply", "request"])
def test_a_lost_commit_of_an_installation_is_decided_by_reading(fresh_ledger: LiveLedger, loss: Loss) -> None:
    with TcpProxy(fresh_ledger.dsn.host, fresh_ledger.dsn.port) as proxy:
        through = connecting(replace(fresh_ledger.dsn, host="127.0.0.1", port=proxy.port))
        fate = LosingTheCommit(through, proxy, loss)
        if loss == "reply":
            apply(fresh_ledger.through(fate))
            refused("trust_present", lambda: apply(fresh_ledger))
        else:
            refused("control_commit_lost", lambda: apply(fresh_ledger.through(fate)), ControlUnavailable)
            assert objects(fresh_ledger) == 0
            apply(fresh_ledger)
    assert fate.lost == 1
    apply(fresh_ledger, "registration")


def test_of_two_installers_one_installs(fresh_ledger: LiveLedger) -> None:
    together = threading.Barrier(2)

    def contend(_: int) -> str:
        together.wait(timeout=30)
        try:
            apply(fresh_ledger)
        except ConfigurationError as err:
            return err.reason
        return "installed"

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(contend, range(2))) == ["installed", "trust_present"]


def test_what_a_dba_runs_from_the_rendered_text_is_the_same_group(empty_database: MsSqlDsn) -> None:
    settings = LedgerSettings(service_id=SERVICE, trust_schema="np_trust", registration_schema="np_grants")
    install.apply(connecting(empty_database), settings, authority="nonproduction")
    ledger = LiveLedger(dsn=empty_database, connect=connecting(empty_database), settings=settings)
    connection: Any = ledger.connect()
    try:
        connection.setautocommit(True)
        for name in ("trust", "registration"):
            for batch in go_batches(group_install.render(settings, name)):
                connection.execute(batch)
    finally:
        connection.close()
    assert group_install.audit(ledger.connect, settings) == group_install.GroupsReport(
        policy_revisions=0, registered_grants=0
    )
    for name in ("trust", "registration"):
        refused(f"{name}_present", lambda name=name: apply(ledger, name))  # type: ignore[misc]  # bound now
    refused("trust_absent", lambda: Authority(replace(ledger, settings=LedgerSettings(service_id=SERVICE))).append())


def test_a_registration_takes_as_many_batches_with_a_history_as_without(fresh_ledger: LiveLedger) -> None:
    case = Authority(open_authority(fresh_ledger))
    under = case.append()

    def costs() -> list[int]:
        counting = Counting(fresh_ledger.connect)
        grant = case.execution(under)
        case.register(grant, under, connect=counting)
        registered = len(counting.batches)
        case.store(counting).read(grant)
        return [registered, len(counting.batches) - registered]

    first = costs()
    for _ in range(4):
        case.register(case.execution(under), under)
    assert costs() == first


def test_a_controller_that_may_read_authority_creates_none(fresh_ledger: LiveLedger) -> None:
    case = Authority(open_authority(fresh_ledger))
    under = case.append()
    grant = case.execution(under)
    registered = case.register(grant, under)
    name, own = standing_login(fresh_ledger, "authority-reader")
    fresh_ledger.rows(f"GRANT SELECT, INSERT, UPDATE ON SCHEMA::dpone_control TO [{name}]")
    fresh_ledger.rows(f"GRANT SELECT, INSERT ON SCHEMA::dpone_ext TO [{name}]")

    assert case.store(own.connect).read(grant) == registered
    assert group_install.audit(own.connect, own.settings).registered_grants == 1
    before = case.state()
    refused("role_right_missing", lambda: case.append(after=1, connect=own.connect))
    refused("role_right_missing", lambda: case.register(case.execution(under), under, connect=own.connect))
    assert case.state() == before
