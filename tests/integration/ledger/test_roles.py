"""A controller that has only what docs and `controller_grants` say can do its whole work, and nothing else."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_dpone.drivers import Secret
from airflow_provider_dpone.ledger import install
from tests.support.live_ledger import LiveLedger, connecting


@pytest.fixture(scope="module")
def controller(ledger: LiveLedger, tsql_server: Any) -> Iterator[LiveLedger]:
    """The same ledger through a login with the grants of a controller."""
    name, password = f"controller {secrets.token_hex(4)}", secrets.token_urlsafe(24) + "aA1!"
    administrator = tsql_server.connect()
    try:
        administrator.execute(f"CREATE LOGIN [{name}] WITH PASSWORD = N'{password}', CHECK_POLICY = OFF")
        administrator.execute(f"USE [{ledger.dsn.database}]; CREATE USER [{name}] FOR LOGIN [{name}];")
        for batch in install.controller_grants(ledger.settings, name).split("\nGO\n"):
            if batch.strip():
                administrator.execute(batch)
    finally:
        administrator.close()
    dsn = ledger.dsn.for_login(name, Secret(password))
    yield replace(ledger, dsn=dsn, connect=connecting(dsn))


def test_a_controller_runs_a_whole_life(ledger: LiveLedger, controller: LiveLedger) -> None:
    activation = controller.active(domains=ledger.enroll(2))
    operation = controller.admit(activation, principals=[*controller.clickhouse(), *controller.login()])
    controller.charges.charge(activation.activation_id, "w000", 1, 10, attempt=operation.attempt)
    controller.snapshots.put(controller.snapshot(operation))
    assert controller.end(operation).state == "SUCCEEDED"
    assert controller.retire(activation).state == "RETIRED"
    install.audit(controller.connect, controller.settings)


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
def test_a_controller_can_neither_delete_nor_define(ledger: LiveLedger, controller: LiveLedger, statement: str) -> None:
    with pytest.raises(Exception, match=r"permission|does not exist|Cannot"):
        controller.rows(statement)
    install.audit(ledger.connect, ledger.settings)
