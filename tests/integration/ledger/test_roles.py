"""The standing accounts have only what `ledger render-grants` prints, can do their work with it, and nothing else."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.drivers import Secret, go_batches
from airflow_provider_dpone.ledger import LoginGateStore, grants, install
from tests.support.gate_receipts import receipt
from tests.support.live_ledger import LiveLedger, connecting

ROLES = ("controller", "issuer", "closer")


@pytest.fixture(scope="module")
def by_role(ledger: LiveLedger, tsql_server: Any) -> Mapping[str, LiveLedger]:
    """The same ledger through a login with the grants of each role."""
    logins = {role: (f"{role} {secrets.token_hex(4)}", secrets.token_urlsafe(24) + "aA1!") for role in ROLES}
    names = grants.StandingLogins(
        controller=logins["controller"][0], issuer=logins["issuer"][0], closer=logins["closer"][0]
    )
    administrator = tsql_server.connect()
    try:
        for name, password in logins.values():
            administrator.execute(f"CREATE LOGIN [{name}] WITH PASSWORD = N'{password}', CHECK_POLICY = OFF")
        administrator.execute(f"USE [{ledger.dsn.database}];")
        for batch in go_batches(grants.script(ledger.settings, names)):
            administrator.execute(batch)
    finally:
        administrator.close()
    dsns = {role: ledger.dsn.for_login(name, Secret(password)) for role, (name, password) in logins.items()}
    return {
        role: replace(ledger, dsn=dsn, connect=connecting(dsn), closer=connecting(dsns["closer"]))
        for role, dsn in dsns.items()
    }


@pytest.fixture(scope="module")
def controller(by_role: Mapping[str, LiveLedger]) -> LiveLedger:
    return by_role["controller"]


def test_a_controller_and_a_closer_run_a_whole_life(ledger: LiveLedger, controller: LiveLedger) -> None:
    activation = controller.active(domains=ledger.enroll(2))
    operation = controller.admit(activation, principals=[*controller.clickhouse(), *controller.login()])
    controller.charges.charge(activation.activation_id, "w000", 1, 10, attempt=operation.attempt)
    controller.snapshots.put(controller.snapshot(operation))
    assert controller.end(operation).state == "SUCCEEDED"
    assert controller.retire(activation).state == "RETIRED"
    install.audit(controller.connect, controller.settings)


def test_a_controller_can_move_no_gate_and_is_told_which_role_can(ledger: LiveLedger, controller: LiveLedger) -> None:
    operation = controller.admit(controller.active(domains=ledger.enroll(2)), principals=controller.login())
    gates = LoginGateStore(controller.connect, controller.settings, role="controller")
    with pytest.raises(ConfigurationError, match="role_right_missing") as refused:
        gates.to_closing(operation.attempt)
    assert "role controller" in str(refused.value)
    assert "docs/roles.md" in refused.value.check
    gate = gates.read(operation.attempt)
    assert gate is not None and gate.state == "JOURNALED"


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM dpone_control.composition_owners",
        "DELETE FROM dpone_ext.evidence",
        "UPDATE dpone_ext.evidence SET evidence_kind = 'x'",
        "DISABLE TRIGGER dpone_control.tr_composition_owners ON dpone_control.composition_owners",
        "ALTER TABLE dpone_control.composition_owners ADD note int NULL",
        "DROP TABLE dpone_ext.source_charges",
        "CREATE TABLE dpone_control.mine (id int NOT NULL)",
        "TRUNCATE TABLE dpone_ext.source_charges",
    ],
)
def test_nobody_can_delete_or_define(
    ledger: LiveLedger, by_role: Mapping[str, LiveLedger], role: str, statement: str
) -> None:
    with pytest.raises(Exception, match=r"permission|does not exist|Cannot"):
        by_role[role].rows(statement)
    install.audit(ledger.connect, ledger.settings)


@pytest.mark.parametrize("role", ROLES)
def test_only_the_installer_records_what_opens_the_door(
    ledger: LiveLedger, by_role: Mapping[str, LiveLedger], role: str
) -> None:
    before = ledger.receipts.standing()
    other = receipt(before.server, clean=True, commit=secrets.token_hex(20))
    with pytest.raises(ConfigurationError, match="role_right_missing"):
        by_role[role].receipts.record(other)
    assert ledger.receipts.standing() == before


def test_a_controller_reads_what_opens_the_door(ledger: LiveLedger, controller: LiveLedger) -> None:
    assert controller.receipts.standing() == ledger.receipts.standing()


@pytest.mark.parametrize("role", ["issuer", "closer"])
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO dpone_ext.evidence (operation_key) VALUES ('x')",
        "UPDATE dpone_control.composition_operations SET state = 'SUCCEEDED'",
        "INSERT INTO dpone_control.composition_proofs (operation_key) VALUES ('x')",
        "INSERT INTO dpone_control.composition_login_gates (operation_key) VALUES ('x')",
        "UPDATE dpone_control.composition_mssql_enrollments SET writer_role = N'db_owner'",
    ],
)
def test_who_issues_or_closes_neither_admits_nor_concludes(
    by_role: Mapping[str, LiveLedger], role: str, statement: str
) -> None:
    with pytest.raises(Exception, match=r"permission was denied"):
        by_role[role].rows(statement)
