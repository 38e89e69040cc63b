"""Every public call of the ledger, with its connection lost at every moment that makes a difference.

A matrix: each mutation and each reading by each moment, with the verdict declared beforehand. Nothing is ever sent
again: what a lost commit did is read, and what is not known to have happened is not said to have happened.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_dpone.contracts.errors import ActivationUnknown, ControlUnavailable, OutcomeUnknown
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.principal import Principal
from airflow_provider_dpone.contracts.proof import proof_for
from airflow_provider_dpone.drivers import Connect, drain
from airflow_provider_dpone.ledger import enroll, transaction
from tests.integration.ledger.conftest import fresh_database
from tests.support import ledger_records as make
from tests.support.gate_receipts import receipt
from tests.support.live_ledger import LiveLedger, connecting, nothing, open_ledger
from tests.support.lossy_connection import BreakingAt, Moment
from tests.support.nonproduction import Authority, open_authority
from tests.support.tcp_proxy import TcpProxy

#: A mutation is prepared on a healthy ledger; what comes back runs it on the ledger it is given.
Mutation = Callable[["Ground"], Callable[[LiveLedger], Any]]


def _enroll(ground: Ground) -> Callable[[LiveLedger], Any]:
    domain = make.domain(f"lost {next(ground.numbers)}", "clickhouse")
    return lambda given: enroll.enroll(given.connect, given.settings, [given.enrollment(domain)])


def _prepare(ground: Ground) -> Callable[[LiveLedger], Any]:
    request = make.request(ground.domains(2))
    return lambda given: given.activations.prepare(request)


def _activate(ground: Ground) -> Callable[[LiveLedger], Any]:
    request = make.request(ground.domains(2))
    ground.healthy.activations.prepare(request)
    return lambda given: given.activations.activate(request)


def _withdraw(ground: Ground) -> Callable[[LiveLedger], Any]:
    request = make.request(ground.domains(2))
    ground.healthy.activations.prepare(request)
    return lambda given: given.activations.withdraw(request)


def _record_profile(ground: Ground) -> Callable[[LiveLedger], Any]:
    other = receipt(ground.healthy.receipts.standing().server, clean=True, commit=secrets.token_hex(20))
    return lambda given: given.receipts.record(other)


def _begin_retirement(ground: Ground) -> Callable[[LiveLedger], Any]:
    activation = ground.healthy.active(domains=ground.domains(2))
    return lambda given: given.activations.begin_retirement(activation.request)


def _finalize_retirement(ground: Ground) -> Callable[[LiveLedger], Any]:
    activation = ground.healthy.active(domains=ground.domains(2))
    ground.healthy.activations.begin_retirement(activation.request)
    return lambda given: given.activations.finalize_retirement(activation.request)


def _admit_once(ground: Ground) -> Callable[[LiveLedger], Any]:
    attempt, where = ground.healthy.attempt(ground.wide, ground.workload())
    principals = [*ground.healthy.clickhouse(), *ground.healthy.login()]
    return lambda given: given.attempts.admit_once(attempt, where, principals)


def _put_evidence(ground: Ground) -> Callable[[LiveLedger], Any]:
    operation = ground.admit()
    return lambda given: given.attempts.put_evidence(operation.attempt, "kind", {"schema": "x"})


def _to_ready(ground: Ground) -> Callable[[LiveLedger], Any]:
    operation = ground.admit(ground.healthy.login())
    return lambda given: given.gates.to_ready(operation.attempt, nothing)


def _to_closing(ground: Ground) -> Callable[[LiveLedger], Any]:
    operation = ground.admit(ground.healthy.login())
    return lambda given: given.gates.to_closing(operation.attempt)


def _to_closed(ground: Ground) -> Callable[[LiveLedger], Any]:
    operation = ground.admit(ground.healthy.login())
    ground.healthy.gates.to_closing(operation.attempt)
    return lambda given: given.gates.to_closed(operation.attempt, lambda cursor: {"schema": "x"})


def _put_quiescence(ground: Ground) -> Callable[[LiveLedger], Any]:
    operation = ground.admit(ground.healthy.login())
    ground.healthy.close(operation)
    return lambda given: given.gates.put_quiescence(operation.attempt, {"schema": "x"})


def _put_proof(ground: Ground) -> Callable[[LiveLedger], Any]:
    operation = ground.admit()
    evidence = ground.healthy.attempts.put_evidence(operation.attempt, "closed", {"schema": "x"})
    proof = proof_for(operation.attempt, operation.principals, "CLOSED_GATES", evidence)
    return lambda given: given.attempts.put_proof(operation.attempt, proof)


def _finalize(ground: Ground) -> Callable[[LiveLedger], Any]:
    operation = ground.admit()
    ground.healthy.prove(operation, "CLOSED_GATES")
    ground.healthy.prove(operation, "QUIESCENCE")
    outcome = ground.healthy.prove(operation, "OUTCOME", "FAILED")
    return lambda given: given.attempts.finalize(operation.attempt, state="FAILED", outcome_proof_sha256=outcome)


def _reconcile_unknown(ground: Ground) -> Callable[[LiveLedger], Any]:
    operation = ground.healthy.end(ground.admit(), "COMMIT_UNKNOWN")
    outcome = ground.healthy.prove(operation, "OUTCOME", "SUCCEEDED")
    return lambda given: given.attempts.reconcile_unknown(
        operation.attempt, state="SUCCEEDED", outcome_proof_sha256=outcome
    )


def _charge(ground: Ground) -> Callable[[LiveLedger], Any]:
    activation, workload = ground.wide, ground.workload()
    return lambda given: given.charges.charge(activation.activation_id, workload, 10, 100)


def _snapshot(ground: Ground) -> Callable[[LiveLedger], Any]:
    record = ground.healthy.snapshot(ground.admit())
    return lambda given: given.snapshots.put(record)


def _append_trust(ground: Ground) -> Callable[[LiveLedger], Any]:
    case = Authority(ground.healthy)
    return lambda given: case.append(connect=given.connect)


def _register(ground: Ground) -> Callable[[LiveLedger], Any]:
    case = Authority(ground.healthy)
    under = case.append()
    grant = case.execution(under)
    return lambda given: case.register(grant, under, connect=given.connect)


def _consume(ground: Ground) -> Callable[[LiveLedger], Any]:
    case = Authority(ground.healthy)
    under = case.append()
    grant = case.qualification(under)
    return lambda given: case.register(grant, under, connect=given.connect)


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
    "append_trust": _append_trust,
    "register": _register,
    "consume": _consume,
}

#: Mutations that answer the same when asked again. The others are for one caller, once.
REPEATABLE = frozenset(MUTATIONS) - {"admit_once", "to_ready", "charge", "consume"}
#: The steps of an activation say by a type of their own that they do not know.
ACTIVATION_STEPS = ("prepare", "activate", "withdraw", "begin_retirement", "finalize_retirement")

#: What a mutation says when the connection is lost at a moment, and that it changed nothing then.
REFUSALS: dict[Moment, str] = {
    "connect": "control_connect",
    "begin": "control_operation",
    "begun": "control_operation",
    "commit": "control_commit_lost",
}


def _activation(ground: Ground) -> Callable[[LiveLedger], Any]:
    activation = ground.healthy.active(domains=ground.domains(2))
    return lambda given: given.activations.read(activation.activation_id)


def _require_active(ground: Ground) -> Callable[[LiveLedger], Any]:
    activation = ground.healthy.active(domains=ground.domains(2))
    return lambda given: given.activations.require_active(activation.request)


def _operation(ground: Ground, look: Callable[[LiveLedger, str], Any]) -> Callable[[LiveLedger], Any]:
    operation = ground.admit(ground.healthy.login())
    ground.healthy.attempts.put_evidence(operation.attempt, "kind", {"schema": "x"})
    return lambda given: look(given, operation.attempt_sha256)


def _trust(ground: Ground) -> Callable[[LiveLedger], Any]:
    case = Authority(ground.healthy)
    case.append()
    return lambda given: case.trust(given.connect).read(case.environment_id)


def _registration(ground: Ground) -> Callable[[LiveLedger], Any]:
    case = Authority(ground.healthy)
    under = case.append()
    grant = case.execution(under)
    case.register(grant, under)
    return lambda given: case.store(given.connect).read(grant)


READINGS: dict[str, Mutation] = {
    "read": _activation,
    "require_active": _require_active,
    "read_exact": lambda ground: _operation(ground, lambda given, key: given.attempts.read_exact(key)),
    "unresolved": lambda ground: _operation(ground, lambda given, key: given.attempts.unresolved()),
    "evidence": lambda ground: _operation(ground, lambda given, key: given.attempts.evidence(key, "kind")),
    "gate": lambda ground: _operation(ground, lambda given, key: given.gates.read(key)),
    "standing": lambda ground: lambda given: given.receipts.standing(),
    "trust": _trust,
    "registration": _registration,
}
UNREAD: dict[Moment, str] = {"connect": "control_connect", "begin": "control_read", "begun": "control_read"}

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
    "dpone_trust.policy_revisions",
    "dpone_registration.grants",
    "dpone_registration.memberships",
)
#: Rows of every table, and the states that move.
LOOK = (
    "SELECT "
    + ", ".join(f"(SELECT COUNT(*) FROM {table})" for table in TABLES)
    + "; SELECT owner_key, state FROM dpone_control.composition_owners ORDER BY owner_key"
    "; SELECT operation_key, state FROM dpone_control.composition_operations ORDER BY operation_key"
    "; SELECT operation_key, gate_state FROM dpone_control.composition_login_gates ORDER BY operation_key"
)


class Ground:
    """A ledger with both groups, a proxy before it, and calls that are prepared and have not happened yet."""

    def __init__(self, healthy: LiveLedger, proxy: TcpProxy) -> None:
        self.healthy = healthy
        self._proxy = proxy
        self._through: Connect = connecting(replace(healthy.dsn, host="127.0.0.1", port=proxy.port))
        self._prepared: dict[str, Callable[[LiveLedger], Any]] = {}
        self.numbers = itertools.count()
        self._domains = healthy.enroll(100)
        #: One activation of many workloads, a fresh one for each operation.
        self.wide = healthy.active(domains=self.domains(50))
        self._look: Any = healthy.connect()
        self._look.setautocommit(True)

    def domains(self, count: int) -> list[tuple[str, str, str, str]]:
        """Enrolled ones that nobody has."""
        taken, self._domains = self._domains[:count], self._domains[count:]
        assert len(taken) == count
        return taken

    def workload(self) -> str:
        return f"w{next(self.numbers):03}"

    def admit(self, principals: Sequence[Principal] | None = None) -> Operation:
        return self.healthy.admit(self.wide, self.workload(), principals=principals)

    def call(self, name: str, prepare: Mutation) -> Callable[[LiveLedger], Any]:
        """The call, prepared once for all moments at which it does not happen."""
        if name not in self._prepared:
            self._prepared[name] = prepare(self)
        return self._prepared[name]

    def used(self, name: str) -> None:
        del self._prepared[name]

    def losing(self, moment: Moment) -> tuple[BreakingAt, LiveLedger]:
        fate = BreakingAt(self._through, self._proxy, moment)
        return fate, self.healthy.through(fate)

    def state(self) -> list[list[tuple[Any, ...]]]:
        return drain(self._look, LOOK)

    def close(self) -> None:
        self._look.close()


@pytest.fixture(scope="module")
def ground(tsql_server: Any) -> Iterator[Ground]:
    healthy = open_authority(open_ledger(fresh_database(tsql_server)))
    with TcpProxy(healthy.dsn.host, healthy.dsn.port) as proxy:
        ground = Ground(healthy, proxy)
        yield ground
        ground.close()


@pytest.mark.parametrize("moment", REFUSALS)
@pytest.mark.parametrize("name", MUTATIONS)
def test_what_did_not_happen_is_reported_as_nothing(ground: Ground, name: str, moment: Moment) -> None:
    run = ground.call(name, MUTATIONS[name])
    before = ground.state()
    fate, given = ground.losing(moment)

    with pytest.raises(ControlUnavailable) as refused:
        run(given)

    assert fate.met
    assert refused.value.reason == REFUSALS[moment]
    assert not refused.value.state_may_have_changed
    assert ground.state() == before
    if moment == "commit":
        ground.used(name)
        assert run(ground.healthy) is not None, "the same call can be repeated"


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_lost_acknowledgement_is_resolved_by_reading_and_the_change_happened_once(ground: Ground, name: str) -> None:
    run = ground.call(name, MUTATIONS[name])
    ground.used(name)
    before = ground.state()
    fate, given = ground.losing("reply")

    answer = run(given)

    assert fate.met
    assert answer is not None
    after = ground.state()
    assert after != before
    if name in REPEATABLE:
        assert run(ground.healthy) == answer
        assert ground.state() == after


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_commit_that_cannot_be_looked_for_stays_unknown(
    ground: Ground, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction, "_READBACK_WAITS", (0.0, 0.0, 0.0))
    run = ground.call(name, MUTATIONS[name])
    ground.used(name)
    fate, given = ground.losing("silence")

    with pytest.raises(OutcomeUnknown) as refused:
        run(given)

    assert fate.met
    assert type(refused.value) is (ActivationUnknown if name in ACTIVATION_STEPS else OutcomeUnknown)
    assert refused.value.reason == "control_operation_unknown"
    assert refused.value.state_may_have_changed and refused.value.recovery_required
    if name in REPEATABLE:
        # It did happen: asked again on a healthy connection, the answer is what is stored, and nothing moves.
        happened = ground.state()
        assert run(ground.healthy) is not None
        assert ground.state() == happened


@pytest.mark.parametrize("moment", UNREAD)
@pytest.mark.parametrize("name", READINGS)
def test_what_could_not_be_read_is_no_answer(ground: Ground, name: str, moment: Moment) -> None:
    read = ground.call(name, READINGS[name])
    fate, given = ground.losing(moment)

    with pytest.raises(ControlUnavailable) as refused:
        read(given)

    assert fate.met
    assert refused.value.reason == UNREAD[moment]
    assert read(ground.healthy) is not None
