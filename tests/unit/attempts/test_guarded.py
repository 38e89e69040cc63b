"""What a guarded attempt promises, whatever happens to its worker."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_dpone.attempts import GuardedAttempt, Settlement, require_succeeded, sweep
from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.errors import (
    AdmissionRefused,
    AttemptFailed,
    Cancelled,
    ConfigurationError,
    Duplicate,
    GateTampered,
    NotQuiescent,
    OutcomeUnknown,
    Overlap,
)
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.proof import proof_for
from airflow_provider_dpone.routes.interface import AttemptContext
from tests.support import ledger_records as records
from tests.unit.attempts.doubles import GRANT, MemoryGate, MemoryLedger, MemoryRoute

PARENT = records.request([records.domain("target", "clickhouse"), records.domain("other")])
EPOCHS = tuple((resource.guard_id, 1) for resource in PARENT.resources if resource.connector == "clickhouse")


class Bench:
    """One deployment: a ledger, a gate, a target, and the tries made on it."""

    def __init__(self) -> None:
        self.ledger = MemoryLedger()
        self.gate = MemoryGate()
        self.route = MemoryRoute(self.gate)

    def attempt(self, try_number: int = 1, *, task_id: str = "load", map_index: int = -1) -> GuardedAttempt:
        where = records.coordinates(task_id=task_id, try_number=try_number, map_index=map_index)
        return GuardedAttempt(
            records.attempt(PARENT, "w000", EPOCHS, where),
            where,
            route=self.route,
            gates={"clickhouse": self.gate},
            ledger=self.ledger,
            quiescence_seconds=5.0,
        )

    def settlement(self, operation: Operation) -> Settlement:
        return Settlement(
            operation, route=self.route, gates={"clickhouse": self.gate}, ledger=self.ledger, quiescence_seconds=0.0
        )

    @property
    def states(self) -> list[str]:
        return [operation.state for operation in self.ledger.operations.values()]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def raising(error: BaseException) -> Callable[[AttemptContext], None]:
    def step(ctx: AttemptContext) -> None:
        raise error

    return step


def test_a_whole_life_ends_in_three_proofs_and_a_state(bench: Bench) -> None:
    result = bench.attempt().run()
    assert result.operation.state == "SUCCEEDED"
    assert [proof.kind for proof in result.operation.proofs] == ["CLOSED_GATES", "QUIESCENCE", "OUTCOME"]
    assert result.report is not None
    report = bench.ledger.evidence(result.operation.attempt_sha256, "report")
    assert report == {"schema": "dpone.worker-report.v1", "rows": 3, "bytes": 30, "details": {}}
    assert bench.ledger.evidence(result.operation.attempt_sha256, "admission") is not None


def test_an_exception_after_the_commit_does_not_make_it_failed(bench: Bench) -> None:
    bench.route.after_commit = raising(ConnectionResetError("409 from the supervisor"))
    result = bench.attempt().run()
    assert result.operation.state == "SUCCEEDED"
    assert result.report is None


def test_an_exception_before_the_commit_is_failed_by_evidence_and_keeps_its_cause(bench: Bench) -> None:
    cause = ValueError("bad row")
    bench.route.before_commit = raising(cause)
    with pytest.raises(AttemptFailed) as failed:
        bench.attempt().run()
    assert failed.value.__cause__ is cause
    assert bench.states == ["FAILED"]


def test_a_report_of_success_is_not_believed_when_nothing_is_there(bench: Bench) -> None:
    bench.route.after_commit = lambda ctx: bench.route.target.clear()
    with pytest.raises(AttemptFailed):
        bench.attempt().run()
    assert bench.states == ["FAILED"]


def test_an_unreadable_target_is_unknown_and_blocks_everybody(bench: Bench) -> None:
    bench.route.observable = False
    with pytest.raises(OutcomeUnknown) as unknown:
        bench.attempt().run()
    assert "reconcile" in str(unknown.value)
    with pytest.raises(OutcomeUnknown):
        bench.attempt(2).run()
    with pytest.raises(Overlap):
        bench.attempt(task_id="another").run()
    assert bench.states == ["COMMIT_UNKNOWN"]


def test_reconciling_observes_again_and_never_guesses(bench: Bench) -> None:
    bench.route.observable = False
    with pytest.raises(OutcomeUnknown):
        bench.attempt().run()
    (operation,) = bench.ledger.unresolved()
    with pytest.raises(OutcomeUnknown):
        bench.settlement(operation).reconcile()
    assert bench.states == ["COMMIT_UNKNOWN"]
    bench.route.observable = True
    assert bench.settlement(operation).reconcile().state == "SUCCEEDED"
    assert bench.settlement(operation).reconcile().state == "SUCCEEDED"


def test_an_operators_verdict_needs_a_name_and_a_statement(bench: Bench) -> None:
    bench.route.observable = False
    with pytest.raises(OutcomeUnknown):
        bench.attempt().run()
    (operation,) = bench.ledger.unresolved()
    with pytest.raises(ConfigurationError):
        bench.settlement(operation).reconcile(verdict="FAILED", operator="", statement="looked")
    with pytest.raises(ConfigurationError):
        bench.settlement(operation).reconcile(verdict="COMMIT_UNKNOWN", operator="ann", statement="looked")
    done = bench.settlement(operation).reconcile(verdict="FAILED", operator="ann", statement="the table is empty")
    assert done.state == "FAILED"
    document = bench.ledger.evidence(operation.attempt_sha256, "reconciliation")
    assert document is not None
    assert document["operator"] == "ann"


def test_eleven_deliveries_of_one_try_admit_one(bench: Bench) -> None:
    attempts = [bench.attempt() for _ in range(11)]
    barrier = threading.Barrier(11)
    outcomes: list[str] = []

    def deliver(attempt: GuardedAttempt) -> None:
        barrier.wait()
        try:
            attempt.run()
            outcomes.append("done")
        except Duplicate:
            outcomes.append("duplicate")

    threads = [threading.Thread(target=deliver, args=(attempt,)) for attempt in attempts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["done", *["duplicate"] * 10]
    assert bench.states == ["SUCCEEDED"]


def test_a_twin_never_closes_its_living_sibling(bench: Bench) -> None:
    first = bench.attempt()
    operation = first.admit()
    with pytest.raises(Duplicate):
        bench.attempt().run()
    assert bench.gate.closings == []
    assert first.work(operation).rows == 3


def test_a_twins_row_is_not_ones_own(bench: Bench) -> None:
    """A ledger that answers with the sibling's row must not make two executors."""
    bench.attempt().admit()
    twin = bench.attempt()
    (existing,) = bench.ledger.operations.values()
    bench.ledger.admit_once = lambda *_: existing  # type: ignore[method-assign]  # a lost acknowledgement, read back
    with pytest.raises(Duplicate):
        twin.admit()


def test_a_retry_settles_what_the_killed_try_left_and_then_works(bench: Bench) -> None:
    killed = bench.attempt()
    operation = killed.admit()
    bench.gate.issue(operation, operation.principals[0], GRANT)
    result = bench.attempt(2).run()
    assert result.operation.coordinates.try_number == 2
    assert bench.states == ["FAILED", "SUCCEEDED"]
    assert [earlier.state for earlier in bench.route.predecessors] == ["FAILED"]


def test_a_slow_try_that_is_overtaken_can_no_longer_write(bench: Bench) -> None:
    def overtaken(ctx: AttemptContext) -> None:
        bench.route.before_commit = lambda _: None
        bench.attempt(2).run()

    bench.route.before_commit = overtaken
    with pytest.raises(AttemptFailed):
        bench.attempt().run()
    assert bench.states == ["FAILED", "SUCCEEDED"]
    assert len(bench.route.target) == 1


def test_a_late_try_is_refused_after_its_successor(bench: Bench) -> None:
    bench.attempt(2).run()
    with pytest.raises(Duplicate):
        bench.attempt(1).run()
    assert bench.states == ["SUCCEEDED"]


def test_only_the_same_task_instance_is_settled(bench: Bench) -> None:
    bench.attempt(map_index=0).admit()
    with pytest.raises(Overlap):
        bench.attempt(2, map_index=1).run()
    assert bench.states == ["RUNNING"]
    assert bench.gate.closings == []


def test_a_principal_that_was_never_created_is_closed_all_the_same(bench: Bench) -> None:
    operation = bench.attempt().admit()
    assert bench.settlement(operation).settle().state == "FAILED"


def test_waiting_for_quiescence_is_bounded_and_repeatable(bench: Bench) -> None:
    operation = bench.attempt().admit()
    bench.gate.busy_looks = 1
    with pytest.raises(NotQuiescent) as busy:
        bench.settlement(operation).settle()
    assert busy.value.sessions == ({"session_id": 51},)
    assert bench.states == ["RUNNING"]
    assert bench.settlement(operation).settle().state == "FAILED"


def test_closing_steps_run_in_any_order_and_three_times_at_once(bench: Bench) -> None:
    operation = bench.attempt().admit_and_work().operation
    settlements = [bench.settlement(operation) for _ in range(3)]
    threads = [threading.Thread(target=settlement.finalize) for settlement in settlements]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (done,) = bench.ledger.operations.values()
    assert done.state == "SUCCEEDED"
    assert [proof.kind for proof in done.proofs].count("CLOSED_GATES") == 1
    assert [proof.kind for proof in done.proofs].count("QUIESCENCE") == 1
    assert require_succeeded(bench.settlement(done).finalize()).state == "SUCCEEDED"


def test_each_principal_is_issued_once(bench: Bench) -> None:
    def again(ctx: AttemptContext) -> None:
        ctx.issue("ingest", GRANT)

    bench.route.before_commit = again
    with pytest.raises(AttemptFailed) as failed:
        bench.attempt().run()
    assert isinstance(failed.value.__cause__, GateTampered)


def test_a_principal_can_be_closed_in_the_middle_of_the_work(bench: Bench) -> None:
    seen: dict[str, object] = {}
    bench.route.after_commit = lambda ctx: seen.update(ctx.close("ingest"))
    assert bench.attempt().run().operation.state == "SUCCEEDED"
    assert set(seen) == {"closed", "quiescent"}


def test_a_refusal_by_the_route_after_admission_is_settled_not_lost(bench: Bench) -> None:
    bench.route.before_commit = raising(AdmissionRefused("source_bytes_ceiling"))
    with pytest.raises(AttemptFailed) as failed:
        bench.attempt().run()
    assert isinstance(failed.value.__cause__, AdmissionRefused)
    assert bench.states == ["FAILED"]


def test_a_timeout_bars_the_writer_and_leaves_the_rest_to_a_later_try(bench: Bench) -> None:
    bench.route.before_commit = raising(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        bench.attempt().run()
    assert len(bench.gate.closings) == 1
    assert bench.states == ["RUNNING"]
    bench.route.before_commit = lambda ctx: None
    assert bench.attempt(2).run().operation.state == "SUCCEEDED"


def test_cancelling_calls_what_the_route_registered(bench: Bench) -> None:
    attempt = bench.attempt()
    calls: list[str] = []

    def cancelled(ctx: AttemptContext) -> None:
        with ctx.interruptible(lambda: calls.append("query")):
            attempt.cancel()

    bench.route.before_commit = cancelled
    attempt.run()
    attempt.cancel()
    assert calls == ["query"]


@pytest.mark.parametrize("moment", ["before the login is issued", "after the last interrupt"])
def test_a_task_that_was_told_to_stop_takes_no_effect(bench: Bench, moment: str) -> None:
    """An interrupt stops what can be interrupted; what comes after it must not begin."""
    attempt = bench.attempt()
    if moment == "before the login is issued":
        attempt.cancel()
    else:

        def cancelled(ctx: AttemptContext) -> None:
            attempt.cancel()
            ctx.require_wanted()

        bench.route.before_commit = cancelled
    with pytest.raises(AttemptFailed) as failed:
        attempt.run()
    assert isinstance(failed.value.__cause__, Cancelled)
    assert bench.states == ["FAILED"]


def test_a_sweep_takes_only_what_is_said_to_be_over_and_stops_for_nobody(bench: Bench) -> None:
    first = bench.attempt().admit()
    where = records.coordinates(task_id="second")
    epochs = tuple((resource.guard_id, 1) for resource in PARENT.resources if resource.connector == "mssql")
    other = bench.ledger.admit_once(
        records.attempt(PARENT, "w001", epochs, where), where, [bench.gate.new_principal("ingest")]
    )
    assert sweep(bench.ledger, is_over=lambda _: False, settlement_of=bench.settlement) == ()
    assert bench.states == ["RUNNING", "RUNNING"]
    bench.gate.busy_looks = 1
    swept = sweep(bench.ledger, is_over=lambda _: True, settlement_of=bench.settlement)
    assert [type(one.error) for one in swept] == [NotQuiescent, type(None)]
    assert [one.operation.attempt_sha256 for one in swept] == [first.attempt_sha256, other.attempt_sha256]
    assert bench.states == ["RUNNING", "FAILED"]


def test_a_gate_of_another_service_is_not_used(bench: Bench) -> None:
    operation = bench.attempt().admit()
    stranger = MemoryGate(service_id=records.SERVICE)
    settlement = Settlement(operation, route=bench.route, gates={"clickhouse": stranger}, ledger=bench.ledger)
    with pytest.raises(ConfigurationError, match="gate_service"):
        settlement.close()
    assert stranger.closings == []


def test_log_lines_name_the_attempt_and_hold_no_secret(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secrets: list[str] = []
    issue = bench.gate.issue

    def remember(operation, principal, grant):  # type: ignore[no-untyped-def]  # wraps the gate's method as it is
        credential = issue(operation, principal, grant)
        secrets.append(credential.secret.reveal())
        return credential

    bench.gate.issue = remember  # type: ignore[method-assign]  # see above
    operation = bench.attempt().run().operation
    text = caplog.text
    assert f"[attempt {operation.digest_prefix}]" in text
    for step in ("admitted", "issued", "closed", "is gone", "finalized as SUCCEEDED"):
        assert step in text
    assert secrets
    assert not any(secret in text for secret in secrets)


def test_coordinates_and_attempt_must_be_the_same_try(bench: Bench) -> None:
    where = records.coordinates(try_number=2)
    with pytest.raises(ConfigurationError, match="coordinates"):
        GuardedAttempt(
            records.attempt(PARENT, "w000", EPOCHS, records.coordinates()),
            where,
            route=bench.route,
            gates={"clickhouse": bench.gate},
            ledger=bench.ledger,
        )


def test_a_step_that_another_process_proved_in_between_ends_the_operation_with_its_proof(bench: Bench) -> None:
    operation = bench.attempt().admit_and_work().operation
    finalize = bench.ledger.finalize
    theirs: list[str] = []

    def overtaken(*args: object, **kwargs: object) -> Operation:
        bench.ledger.finalize = finalize  # type: ignore[method-assign]  # only the first call is overtaken
        evidence = {"schema": "test.closed.v1", "by": "another process"}
        proof = proof_for(operation.attempt, operation.principals, "CLOSED_GATES", canonical.exact_sha256(evidence))
        theirs.append(bench.ledger.put_proof(operation.attempt_sha256, proof, evidence=[("closed", evidence)]))
        return finalize(*args, **kwargs)  # type: ignore[arg-type]  # passed through

    bench.ledger.finalize = overtaken  # type: ignore[method-assign]  # see above
    final = bench.settlement(operation).finalize()
    assert final.state == "SUCCEEDED"
    assert [proof.sha256 for proof in final.proofs if proof.kind == "CLOSED_GATES"] == theirs


@pytest.mark.parametrize("same", [True, False])
def test_a_gate_that_another_process_proved_closed_in_between_does_not_lose_what_was_seen_after_it(
    bench: Bench, same: bool
) -> None:
    """Callbacks that run several times at once: one has gathered two proofs when the other has stored the first."""
    operation = bench.attempt().admit_and_work().operation
    prove, close = bench.gate.prove_quiescent, bench.gate.close
    closed = [bench.settlement(operation)]

    def overtaken(*args: Any) -> Any:
        if closed:
            if not same:
                bench.gate.close = lambda *given: {**close(*given), "by": "another process"}  # type: ignore[method-assign]  # its look
            closed.pop().close()
        return prove(*args)

    bench.gate.prove_quiescent = overtaken  # type: ignore[method-assign]  # the moment in between
    bench.settlement(operation).prove_quiescence()
    assert [proof.kind for proof in bench.ledger.operations[operation.attempt_sha256].proofs] == [
        "CLOSED_GATES",
        "QUIESCENCE",
    ]
    assert bench.settlement(operation).finalize().state == "SUCCEEDED"


def test_another_observer_that_finalized_first_is_believed(bench: Bench) -> None:
    operation = bench.attempt().admit_and_work().operation
    slow = bench.settlement(operation)
    bench.route.observable = False
    slow.resolve_outcome()
    finalize = bench.ledger.finalize

    def overtaken(*args: object, **kwargs: object) -> Operation:
        bench.ledger.finalize = finalize  # type: ignore[method-assign]  # only the first call is overtaken
        bench.route.observable = True
        assert bench.settlement(operation).finalize().state == "SUCCEEDED"
        return finalize(*args, **kwargs)  # type: ignore[arg-type]  # passed through

    bench.route.observable = False
    bench.ledger.finalize = overtaken  # type: ignore[method-assign]  # see above
    assert slow.finalize().state == "SUCCEEDED"
