"""Every public mutation, with its commit lost on the way there and on the way back. Neither is ever sent again."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_dpone.contracts.errors import ControlUnavailable
from airflow_provider_dpone.contracts.proof import proof_for
from airflow_provider_dpone.drivers import Connect
from airflow_provider_dpone.ledger import enroll
from tests.support import ledger_records as make
from tests.support.gate_receipts import receipt
from tests.support.live_ledger import LiveLedger, connecting, nothing
from tests.support.lossy_connection import LosingTheCommit
from tests.support.tcp_proxy import Loss, TcpProxy

#: A mutation is prepared on a healthy ledger; what comes back runs it on the ledger it is given.
Mutation = Callable[[LiveLedger], Callable[[LiveLedger], Any]]


def _enroll(healthy: LiveLedger) -> Callable[[LiveLedger], Any]:
    domain = make.domain(f"lost {id(healthy)} {healthy.count('dpone_control.composition_domains')}", "clickhouse")
    return lambda given: enroll.enroll(given.connect, given.settings, [given.enrollment(domain)])


def _prepare(healthy: LiveLedger) -> Callable[[LiveLedger], Any]:
    request = make.request(healthy.enroll(2))
    return lambda given: given.activations.prepare(request)


def _activate(healthy: LiveLedger) -> Callable[[LiveLedger], Any]:
    request = make.request(healthy.enroll(2))
    healthy.activations.prepare(request)
    return lambda given: given.activations.activate(request)


def _withdraw(healthy: LiveLedger) -> Callable[[LiveLedger], Any]:
    request = make.request(healthy.enroll(2))
    healthy.activations.prepare(request)
    return lambda given: given.activations.withdraw(request)


def _record_profile(healthy: LiveLedger) -> Callable[[LiveLedger], Any]:
    other = receipt(healthy.receipts.standing().server, clean=True, commit=secrets.token_hex(20))
    return lambda given: given.receipts.record(other)


def _begin_retirement(healthy: LiveLedger) -> Callable[[LiveLedger], Any]:
    activation = healthy.active()
    return lambda given: given.activations.begin_retirement(activation.request)


def _finalize_retirement(healthy: LiveLedger) -> Callable[[LiveLedger], Any]:
    activation = healthy.active()
    healthy.activations.begin_retirement(activation.request)
    return lambda given: given.activations.finalize_retirement(activation.request)


def _admit_once(healthy: LiveLedger) -> Callable[[LiveLedger], Any]:
    attempt, where = healthy.attempt(healthy.active())
    principals = [*healthy.clickhouse(), *healthy.login()]
    return lambda given: given.attempts.admit_once(attempt, where, principals)


def _put_evidence(healthy: LiveLedger) -> Callable[[LiveLedger], Any]:
    operation = healthy.admit(healthy.active())
    return lambda given: given.attempts.put_evidence(operation.attempt, "kind", {"schema": "x"})


def _to_ready(healthy: LiveLedger) -> Callable[[LiveLedger], Any]:
    operation = healthy.admit(healthy.active(), principals=healthy.login())
    return lambda given: given.gates.to_ready(operation.attempt, nothing)


def _to_closing(healthy: LiveLedger) -> Callable[[LiveLedger], Any]:
    operation = healthy.admit(healthy.active(), principals=healthy.login())
    return lambda given: given.gates.to_closing(operation.attempt)


def _to_closed(healthy: LiveLedger) -> Callable[[LiveLedger], Any]:
    operation = healthy.admit(healthy.active(), principals=healthy.login())
    healthy.gates.to_closing(operation.attempt)
    return lambda given: given.gates.to_closed(operation.attempt, lambda cursor: {"schema": "x"})


def _put_quiescence(healthy: LiveLedger) -> Callable[[LiveLedger], Any]:
    operation = healthy.admit(healthy.active(), principals=healthy.login())
    healthy.close(operation)
    return lambda given: given.gates.put_quiescence(operation.attempt, {"schema": "x"})


def _put_proof(healthy: LiveLedger) -> Callable[[LiveLedger], Any]:
    operation = healthy.admit(healthy.active())
    evidence = healthy.attempts.put_evidence(operation.attempt, "closed", {"schema": "x"})
    proof = proof_for(operation.attempt, operation.principals, "CLOSED_GATES", evidence)
    return lambda given: given.attempts.put_proof(operation.attempt, proof)


def _finalize(healthy: LiveLedger) -> Callable[[LiveLedger], Any]:
    operation = healthy.admit(healthy.active())
    healthy.prove(operation, "CLOSED_GATES")
    healthy.prove(operation, "QUIESCENCE")
    outcome = healthy.prove(operation, "OUTCOME", "FAILED")
    return lambda given: given.attempts.finalize(operation.attempt, state="FAILED", outcome_proof_sha256=outcome)


def _reconcile_unknown(healthy: LiveLedger) -> Callable[[LiveLedger], Any]:
    operation = healthy.end(healthy.admit(healthy.active()), "COMMIT_UNKNOWN")
    outcome = healthy.prove(operation, "OUTCOME", "SUCCEEDED")
    return lambda given: given.attempts.reconcile_unknown(
        operation.attempt, state="SUCCEEDED", outcome_proof_sha256=outcome
    )


def _charge(healthy: LiveLedger) -> Callable[[LiveLedger], Any]:
    activation = healthy.active()
    return lambda given: given.charges.charge(activation.activation_id, "w000", 10, 100)


def _snapshot(healthy: LiveLedger) -> Callable[[LiveLedger], Any]:
    record = healthy.snapshot(healthy.admit(healthy.active()))
    return lambda given: given.snapshots.put(record)


MUTATIONS: dict[str, Mutation] = {
    "enroll": _enroll,
    "prepare": _prepare,
    "activate": _activate,
    "withdraw": _withdraw,
    "begin_retirement": _begin_retirement,
    "finalize_retirement": _finalize_retirement,
    "admit_once": _admit_once,
    "put_evidence": _put_evidence,
    "to_ready": _to_ready,
    "to_closing": _to_closing,
    "to_closed": _to_closed,
    "put_quiescence": _put_quiescence,
    "put_proof": _put_proof,
    "finalize": _finalize,
    "reconcile_unknown": _reconcile_unknown,
    "charge": _charge,
    "snapshot": _snapshot,
    "record_profile": _record_profile,
}

#: Mutations that answer the same when asked again. The other three are for one caller, once.
REPEATABLE = frozenset(MUTATIONS) - {"admit_once", "to_ready", "charge"}

TABLES = (
    *(f"dpone_control.composition_{name}" for name in ("owners", "owner_domains", "operations", "operation_domains")),
    *(
        f"dpone_control.composition_{name}"
        for name in ("domains", "issued_authorities", "proofs", "mssql_gate_evidence")
    ),
    *(
        f"dpone_ext.{name}"
        for name in ("evidence", "attempt_coordinates", "snapshot_records", "source_charges", "gate_receipts")
    ),
)


@pytest.fixture
def proxy(ledger: LiveLedger) -> Iterator[TcpProxy]:
    with TcpProxy(ledger.dsn.host, ledger.dsn.port) as running:
        yield running


def losing(ledger: LiveLedger, proxy: TcpProxy, loss: Loss) -> LosingTheCommit:
    through: Connect = connecting(replace(ledger.dsn, host="127.0.0.1", port=proxy.port))
    return LosingTheCommit(through, proxy, loss)


def state(ledger: LiveLedger) -> list[object]:
    """What the ledger holds: rows of every table, and the states that move."""
    counts: list[object] = [ledger.count(table) for table in TABLES]
    owners = ledger.rows("SELECT owner_key, state FROM dpone_control.composition_owners ORDER BY owner_key")
    operations = ledger.rows(
        "SELECT operation_key, state FROM dpone_control.composition_operations ORDER BY operation_key"
    )
    gates = ledger.rows(
        "SELECT operation_key, gate_state FROM dpone_control.composition_login_gates ORDER BY operation_key"
    )
    return [*counts, owners, operations, gates]


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_lost_reply_is_resolved_by_reading_and_the_change_happened_once(
    ledger: LiveLedger, proxy: TcpProxy, name: str
) -> None:
    run = MUTATIONS[name](ledger)
    fate = losing(ledger, proxy, "reply")

    answer = run(ledger.through(fate))

    assert fate.lost == 1
    after = state(ledger)
    assert answer is not None
    if name in REPEATABLE:
        assert run(ledger) == answer
        assert state(ledger) == after


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_commit_that_never_arrived_is_reported_as_nothing_and_can_be_repeated(
    ledger: LiveLedger, proxy: TcpProxy, name: str
) -> None:
    run = MUTATIONS[name](ledger)
    before = state(ledger)
    fate = losing(ledger, proxy, "request")

    with pytest.raises(ControlUnavailable) as refused:
        run(ledger.through(fate))

    assert fate.lost == 1
    assert refused.value.reason == "control_commit_lost"
    assert state(ledger) == before
    assert run(ledger) is not None
    assert state(ledger) != before
