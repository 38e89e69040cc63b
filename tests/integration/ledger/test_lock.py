"""The one lock: waited for with a bound, never by readers, and gone with the session that held it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_dpone.contracts.errors import ControlUnavailable
from airflow_provider_dpone.drivers import Cursor, drain
from airflow_provider_dpone.ledger.transaction import ControlLedger, ControlTransaction
from tests.support import ledger_records as make
from tests.support.live_ledger import LiveLedger

HOLD = (
    "BEGIN TRANSACTION; DECLARE @r int; EXEC @r = sys.sp_getapplock @Resource = N'dpone:composition-control:v1', "
    "@LockMode = N'Exclusive', @LockOwner = N'Transaction', @LockTimeout = 5000; SELECT @r;"
)


@contextmanager
def held(ledger: LiveLedger) -> Iterator[Any]:
    """Another session that holds the lock, until the block ends."""
    connection: Any = ledger.connect()
    connection.setautocommit(True)
    assert drain(connection, HOLD) == [[(0,)]]
    try:
        yield connection
    finally:
        connection.close()


def test_a_lock_that_is_held_too_long_is_an_answer_and_nothing_is_changed(ledger: LiveLedger) -> None:
    impatient = replace(ledger, settings=replace(ledger.settings, lock_timeout_seconds=1))
    domains = ledger.enroll(2)
    with held(ledger):
        started = time.monotonic()
        with pytest.raises(ControlUnavailable) as refused:
            impatient.activations.prepare(make.request(domains))
        assert time.monotonic() - started < 15
    assert refused.value.reason == "control_lock"
    assert refused.value.details == {"lock_result": -1}
    assert impatient.activations.prepare(make.request(domains)).state == "PREPARED"


def test_a_reader_does_not_wait_for_a_writer(ledger: LiveLedger) -> None:
    activation = ledger.active()
    operation = ledger.admit(activation)
    with held(ledger):
        assert ledger.attempts.read_exact(operation.attempt) == operation
        assert ledger.activations.require_active(activation.request) == activation


def test_no_reading_waits_for_rows_that_a_writer_has_written_and_not_committed(ledger: LiveLedger) -> None:
    activation = ledger.active()
    operation = ledger.admit(activation, principals=ledger.login())
    key, seen = operation.attempt_sha256, []

    def reads_beside_its_writes(transaction: ControlTransaction) -> None:
        transaction.run(("advance_gate", [key, "JOURNALED", "CLOSING", ""]))
        # A reading that waited for this transaction would wait for itself, until its lock time-out ends it with an error.
        gate, exact = ledger.gates.read(key), ledger.attempts.read_exact(key)
        assert gate is not None
        assert exact is not None
        seen.extend([gate.state, exact.state, ledger.activations.require_active(activation.request).state])
        seen.append(key in {each.attempt_sha256 for each in ledger.attempts.unresolved()})
        seen.append(activation.activation_id in {each.activation_id for each in ledger.activations.list()})
        seen.append([each.operation_key for each in ledger.attempts.blockers(operation.attempt.guard_ids)])

    ControlLedger(ledger.connect, ledger.settings).mutate("closing", reads_beside_its_writes, lambda transaction: True)
    assert seen == ["JOURNALED", "RUNNING", "ACTIVE", True, True, [key]]
    gate = ledger.gates.read(key)
    assert gate is not None
    assert gate.state == "CLOSING"


def test_a_writer_goes_on_when_the_holder_is_gone(ledger: LiveLedger) -> None:
    request = make.request(ledger.enroll(2))
    answers: list[str] = []
    with held(ledger):
        writer = threading.Thread(target=lambda: answers.append(ledger.activations.prepare(request).state))
        writer.start()
        writer.join(timeout=1)
        assert answers == []
    writer.join(timeout=60)
    assert answers == ["PREPARED"]


def test_a_session_that_is_killed_inside_its_transaction_leaves_nothing(ledger: LiveLedger) -> None:
    operation = ledger.admit(ledger.active(), principals=ledger.login())

    def killed(cursor: Cursor) -> None:
        cursor.execute("SELECT @@SPID")
        [(session,)] = cursor.fetchall()
        ledger.rows(f"KILL {int(session)}")
        cursor.execute("SELECT 1")
        cursor.fetchall()

    with pytest.raises(ControlUnavailable):
        ledger.gates.to_ready(operation.attempt, killed)
    gate = ledger.gates.read(operation.attempt)
    assert gate is not None
    assert gate.state == "JOURNALED"
    assert ledger.gates.to_closing(operation.attempt).state == "CLOSING"


def test_a_deadlock_victim_is_begun_again_and_its_change_happens_once(ledger: LiveLedger) -> None:
    operation = ledger.admit(ledger.active(), principals=ledger.login())
    ledger.rows("CREATE TABLE dbo.circle (id int NOT NULL PRIMARY KEY, n int); INSERT dbo.circle VALUES (1, 0), (2, 0)")
    tries: list[int] = []
    other: Any = ledger.connect()
    other.setautocommit(True)
    drain(other, "SET DEADLOCK_PRIORITY HIGH; BEGIN TRANSACTION; UPDATE dbo.circle SET n = 1 WHERE id = 2")
    closing = threading.Thread(target=lambda: drain(other, "UPDATE dbo.circle SET n = 1 WHERE id = 1; COMMIT"))

    def crossing(cursor: Cursor) -> None:
        tries.append(1)
        cursor.execute("UPDATE dbo.circle SET n = n + 10 WHERE id = 1")
        if len(tries) == 1:
            closing.start()
            time.sleep(1)
        cursor.execute("UPDATE dbo.circle SET n = n + 10 WHERE id = 2")

    try:
        assert ledger.gates.to_ready(operation.attempt, crossing).state == "READY"
        closing.join(timeout=30)
    finally:
        other.close()
    assert len(tries) == 2
    assert ledger.rows("SELECT id, n FROM dbo.circle ORDER BY id") == [(1, 11), (2, 11)]
