"""Login gates, snapshot records and source charges on a live ledger."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from airflow_provider_dpone.contracts.errors import (
    AdmissionRefused,
    ConfigurationError,
    GateTampered,
    OutcomeUnknown,
    ParentNotActive,
)
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.drivers import Cursor
from tests.support.live_ledger import LiveLedger, nothing


def with_login(ledger: LiveLedger) -> Operation:
    return ledger.admit(ledger.active(), principals=ledger.login())


def disabled(cursor: Cursor) -> Mapping[str, object]:
    nothing(cursor)
    return {"schema": "test.closed.v1", "disabled": True}


def test_a_gate_moves_forward_and_keeps_its_evidence(ledger: LiveLedger) -> None:
    operation = with_login(ledger)
    key = operation.attempt_sha256
    assert ledger.gates.to_ready(key, nothing).state == "READY"
    assert ledger.gates.to_closing(key, nothing).state == "CLOSING"
    closed = ledger.gates.to_closed(key, disabled)
    assert closed.state == "CLOSED"
    assert ledger.gates.gate_evidence(key, "CLOSED_GATES") == {"schema": "test.closed.v1", "disabled": True}
    first = ledger.gates.put_quiescence(key, {"schema": "test.quiet.v1", "look": 1})
    assert ledger.gates.put_quiescence(key, {"schema": "test.quiet.v1", "look": 2}) == first
    assert ledger.gates.gate_evidence(key, "QUIESCENCE") == {"schema": "test.quiet.v1", "look": 1}
    assert ledger.gates.read(key) == closed


def test_a_login_is_created_once(ledger: LiveLedger) -> None:
    operation = with_login(ledger)
    ledger.gates.to_ready(operation.attempt, nothing)
    with pytest.raises(GateTampered):
        ledger.gates.to_ready(operation.attempt, nothing)


def test_a_login_that_was_never_created_can_be_closed_and_then_never_created(ledger: LiveLedger) -> None:
    operation = with_login(ledger)
    ledger.gates.to_closing(operation.attempt)
    with pytest.raises(GateTampered):
        ledger.gates.to_ready(operation.attempt, nothing)
    assert ledger.gates.to_closed(operation.attempt, disabled).state == "CLOSED"


def test_closing_steps_are_repeatable_and_call_back_once(ledger: LiveLedger) -> None:
    operation = with_login(ledger)
    calls: list[str] = []

    def barrier(cursor: Cursor) -> None:
        calls.append("barrier")
        nothing(cursor)

    def disable(cursor: Cursor) -> Mapping[str, object]:
        calls.append("disable")
        return disabled(cursor)

    for _ in range(2):
        ledger.gates.to_closing(operation.attempt, barrier)
    for _ in range(2):
        ledger.gates.to_closed(operation.attempt, disable)
    assert calls == ["barrier", "disable"]


def test_a_gate_is_not_closed_before_it_is_closing(ledger: LiveLedger) -> None:
    operation = with_login(ledger)
    with pytest.raises(AdmissionRefused):
        ledger.gates.to_closed(operation.attempt, disabled)
    with pytest.raises(AdmissionRefused):
        ledger.gates.put_quiescence(operation.attempt, {"schema": "x"})


def test_what_a_callback_did_is_undone_with_its_failed_step(ledger: LiveLedger) -> None:
    operation = with_login(ledger)

    def create(cursor: Cursor) -> None:
        cursor.execute("CREATE TABLE [dbo].[left_behind] ([id] int NOT NULL)")
        raise GateTampered("test")

    with pytest.raises(GateTampered):
        ledger.gates.to_ready(operation.attempt, create)
    assert ledger.rows("SELECT OBJECT_ID(N'dbo.left_behind')") == [(None,)]
    gate = ledger.gates.read(operation.attempt)
    assert gate is not None
    assert gate.state == "JOURNALED"


def test_a_callback_that_loses_the_transaction_is_noticed(ledger: LiveLedger) -> None:
    operation = with_login(ledger)

    def create(cursor: Cursor) -> None:
        cursor.execute("ROLLBACK TRANSACTION; BEGIN TRANSACTION;")

    with pytest.raises(Exception, match="transaction") as refused:
        ledger.gates.to_ready(operation.attempt, create)
    assert getattr(refused.value, "reason", None) == "transaction_identity"
    gate = ledger.gates.read(operation.attempt)
    assert gate is not None
    assert gate.state == "JOURNALED"


def test_proofs_of_a_login_wait_for_its_closed_gate(ledger: LiveLedger) -> None:
    operation = with_login(ledger)
    ledger.gates.to_ready(operation.attempt, nothing)
    with pytest.raises(AdmissionRefused) as refused:
        ledger.prove(operation, "CLOSED_GATES")
    assert refused.value.reason == "gate_not_closed"


def test_charges_are_cumulative_and_stop_at_the_ceiling(ledger: LiveLedger) -> None:
    activation = ledger.active()
    charge = ledger.charges.charge
    operation = ledger.admit(activation)
    assert charge(activation.activation_id, "w000", 600, 1000, attempt=operation.attempt).cumulative_bytes == 600
    with pytest.raises(AdmissionRefused) as refused:
        charge(activation.activation_id, "w000", 401, 1000)
    assert refused.value.reason == "source_bytes_ceiling"
    assert charge(activation.activation_id, "w000", 400, 1000).cumulative_bytes == 1000
    assert ledger.charges.total(activation.activation_id, "w000") == 1000
    assert charge(activation.activation_id, "w001", 1, 1000).cumulative_bytes == 1


def test_a_ceiling_does_not_move(ledger: LiveLedger) -> None:
    activation = ledger.active()
    ledger.charges.charge(activation.activation_id, "w000", 1, 10)
    with pytest.raises(ConfigurationError):
        ledger.charges.charge(activation.activation_id, "w000", 1, 1_000_000)


def test_nothing_is_charged_without_a_running_activation(ledger: LiveLedger) -> None:
    activation = ledger.active()
    ledger.retire(activation)
    with pytest.raises(ParentNotActive):
        ledger.charges.charge(activation.activation_id, "w000", 1, 10)


def test_a_snapshot_follows_its_state_machine(ledger: LiveLedger) -> None:
    operation = ledger.admit(ledger.active())
    prepared = ledger.snapshot(operation)
    intended = prepared.exchange_intended()
    store = ledger.snapshots
    with pytest.raises(AdmissionRefused):
        store.put(intended)
    assert store.put(prepared) == prepared
    assert store.put(prepared) == prepared
    assert store.put(intended) == intended
    unknown = store.put(intended.undecided())
    published = ledger.decided(unknown, swapped=True)
    assert store.put(published).state == "PUBLISHED"
    assert store.read(operation.attempt) == published
    assert [record.revision for record in store.history(operation.attempt)] == [1, 2, 3, 4]
    with pytest.raises(OutcomeUnknown):
        store.put(ledger.decided(unknown, swapped=False))


def test_a_settled_operation_publishes_nothing(ledger: LiveLedger) -> None:
    operation = ledger.end(ledger.admit(ledger.active()), "FAILED")
    with pytest.raises(AdmissionRefused) as refused:
        ledger.snapshots.put(ledger.snapshot(operation))
    assert refused.value.reason == "snapshot_operation"
