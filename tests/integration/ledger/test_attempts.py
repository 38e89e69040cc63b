"""Attempts on a live ledger: admitted once, proven in order, ended once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.errors import (
    AdmissionRefused,
    ConfigurationError,
    Duplicate,
    GuardError,
    OutcomeUnknown,
    Overlap,
    ParentNotActive,
    StaleEpoch,
)
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.principal import new_mssql_principal
from airflow_provider_dpone.contracts.proof import proof_for
from airflow_provider_dpone.drivers.mssql import connect_autocommit
from airflow_provider_dpone.ledger import AttemptStore
from tests.support import ledger_records as make
from tests.support.live_ledger import LiveLedger, nothing


def together(count: int, call: Callable[[int], Operation]) -> tuple[list[Operation], list[GuardError]]:
    """Call from this many threads at the same moment; what was admitted and what was refused."""
    barrier = threading.Barrier(count)

    def one(number: int) -> Operation | GuardError:
        barrier.wait()
        try:
            return call(number)
        except GuardError as err:
            return err

    with ThreadPoolExecutor(count) as pool:
        answers = list(pool.map(one, range(count)))
    admitted = [answer for answer in answers if isinstance(answer, Operation)]
    return admitted, [answer for answer in answers if isinstance(answer, GuardError)]


def test_an_admitted_attempt_reads_back_exactly(ledger: LiveLedger) -> None:
    activation = ledger.active()
    where = replace(
        make.coordinates("manual__2026-11-29T13:52:27.237281+00:00", task_id="группа.λοad", map_index=3),
        mapped_input_sha256=make.sha("item"),
    )
    attempt, _ = ledger.attempt(activation, where=where)
    principals = [*ledger.clickhouse(), *ledger.login()]
    operation = ledger.attempts.admit_once(attempt, where, principals)

    assert operation == ledger.attempts.read_exact(attempt)
    assert (operation.attempt, operation.coordinates, operation.state) == (attempt, where, "RUNNING")
    assert {principal.key for principal in operation.principals} == {principal.key for principal in principals}
    assert operation.activation_id == activation.activation_id
    assert operation.gate is not None
    assert operation.gate.state == "JOURNALED"
    assert ledger.attempts.find(where.dag_id, where.run_id, where.task_id, where.map_index) == (operation,)
    assert operation in ledger.attempts.unresolved()
    assert operation in ledger.attempts.recent()


def test_long_unicode_coordinates_keep_every_byte(ledger: LiveLedger) -> None:
    where = make.coordinates("r😀" * 120, task_id="т" * 250, dag_id="d" * 250)
    operation = ledger.admit(ledger.active(), where=where)
    assert ledger.attempts.find(where.dag_id, where.run_id, where.task_id, -1)[0].coordinates == operation.coordinates


def test_of_eleven_twins_exactly_one_is_admitted(ledger: LiveLedger) -> None:
    activation = ledger.active()
    attempt, where = ledger.attempt(activation)
    before = ledger.count("dpone_control.composition_operations")

    admitted, refused = together(11, lambda number: ledger.attempts.admit_once(attempt, where, ledger.clickhouse()))

    assert len(admitted) == 1
    assert [type(error) for error in refused] == [Duplicate] * 10
    assert ledger.count("dpone_control.composition_operations") == before + 1


def patient(ledger: LiveLedger) -> LiveLedger:
    """The ledger as many see it at once on a machine that may be slow: docs/performance.md has the seconds it takes."""
    settings = replace(ledger.settings, lock_timeout_seconds=240)
    return replace(ledger, settings=settings, connect=lambda: connect_autocommit(ledger.dsn))


def test_sixty_four_admissions_on_disjoint_guards_all_succeed(ledger: LiveLedger) -> None:
    many = patient(ledger)
    activation = ledger.active(64)
    admitted, refused = together(64, lambda number: many.admit(activation, f"w{number:03}"))
    assert refused == []
    assert len({operation.attempt_sha256 for operation in admitted}) == 64


def test_of_many_runs_on_one_guard_exactly_one_is_admitted(ledger: LiveLedger) -> None:
    many = patient(ledger)
    activation = ledger.active()
    runs = [make.coordinates(f"{activation.activation_id} {number}") for number in range(16)]
    admitted, refused = together(16, lambda number: many.admit(activation, where=runs[number]))
    assert len(admitted) == 1
    assert [type(error) for error in refused] == [Overlap] * 15


def test_a_running_or_unknown_operation_blocks_the_next_run_and_is_named(ledger: LiveLedger) -> None:
    activation = ledger.active()
    operation = ledger.admit(activation)
    for _ in range(2):
        with pytest.raises(Overlap) as refused:
            ledger.admit(activation)
        assert operation.attempt_sha256 in refused.value.blockers[0]
        [blocker] = ledger.attempts.blockers(operation.attempt.guard_ids)
        assert blocker.operation_key == operation.attempt_sha256
        if operation.state == "RUNNING":
            operation = ledger.end(operation, "COMMIT_UNKNOWN")

    outcome = ledger.prove(operation, "OUTCOME", "SUCCEEDED")
    ledger.attempts.reconcile_unknown(operation.attempt, state="SUCCEEDED", outcome_proof_sha256=outcome)
    assert ledger.attempts.blockers(operation.attempt.guard_ids) == ()
    assert ledger.admit(activation).state == "RUNNING"


@pytest.mark.parametrize(("tries", "reason"), [((2, 1), "late_try"), ((1, 1), "same_try"), ((3, 2), "late_try")])
def test_a_try_that_comes_late_or_twice_is_a_duplicate(ledger: LiveLedger, tries: tuple[int, int], reason: str) -> None:
    activation = ledger.active()
    first = make.coordinates("late", try_number=tries[0], task_id=f"{activation.activation_id}")
    ledger.end(ledger.admit(activation, where=first), "FAILED")
    second = replace(make.coordinates("late", try_number=tries[1]), task_id=first.task_id)
    with pytest.raises(Duplicate) as refused:
        ledger.admit(activation, where=second)
    assert refused.value.reason == reason


def test_the_next_try_of_a_settled_one_is_admitted(ledger: LiveLedger) -> None:
    activation = ledger.active()
    first = make.coordinates("retry", task_id=activation.activation_id)
    ledger.end(ledger.admit(activation, where=first), "FAILED")
    assert ledger.admit(activation, where=replace(first, try_number=2)).coordinates.try_number == 2


def test_the_same_run_id_under_a_later_activation_is_a_duplicate_and_says_so(ledger: LiveLedger) -> None:
    domains = ledger.enroll(2)
    first = ledger.active(domains=domains)
    where = make.coordinates("again", task_id=first.activation_id)
    ledger.end(ledger.admit(first, where=where))
    ledger.retire(first)
    with pytest.raises(Duplicate, match="deleted") as refused:
        ledger.admit(ledger.active(domains=domains), where=where)
    assert refused.value.reason == "run_id_reused"


def test_a_workload_belongs_to_one_dag(ledger: LiveLedger) -> None:
    activation = ledger.active()
    ledger.end(ledger.admit(activation))
    with pytest.raises(AdmissionRefused) as refused:
        ledger.admit(activation, where=make.coordinates("elsewhere", dag_id="another dag"))
    assert refused.value.reason == "workload_dag"


def test_epochs_of_an_earlier_owner_are_stale(ledger: LiveLedger) -> None:
    activation = ledger.active()
    attempt, where = ledger.attempt(activation)
    stale = replace(attempt, guard_epochs=tuple((guard, epoch + 1) for guard, epoch in attempt.guard_epochs))
    with pytest.raises(StaleEpoch):
        ledger.attempts.admit_once(stale, where, ledger.clickhouse())


@pytest.mark.parametrize("state", ["PREPARED", "RETIRING", "RETIRED"])
def test_only_an_active_parent_admits(ledger: LiveLedger, state: str) -> None:
    request = make.request(ledger.enroll(2))
    activation = ledger.activations.prepare(request)
    if state != "PREPARED":
        ledger.activations.activate(request)
        ledger.activations.begin_retirement(request)
    if state == "RETIRED":
        ledger.activations.finalize_retirement(request)
    with pytest.raises(ParentNotActive):
        ledger.admit(activation)


def test_a_principal_is_never_journaled_for_two_operations(ledger: LiveLedger) -> None:
    activation = ledger.active(2)
    principals = ledger.login()
    ledger.admit(activation, "w000", principals=principals)
    before = ledger.count("dpone_control.composition_operations")
    with pytest.raises(GuardError):
        ledger.admit(activation, "w001", principals=principals)
    assert ledger.count("dpone_control.composition_operations") == before


def test_a_login_of_another_instance_is_refused(ledger: LiveLedger) -> None:
    with pytest.raises(ConfigurationError) as refused:
        ledger.admit(ledger.active(), principals=[new_mssql_principal(make.CLICKHOUSE, "build")])
    assert refused.value.reason == "mssql_service"


@pytest.mark.parametrize("engines", ["clickhouse", "mssql", "both"])
@pytest.mark.parametrize("state", ["SUCCEEDED", "FAILED"])
def test_a_whole_attempt_life_ends_with_its_triplet(ledger: LiveLedger, engines: str, state: str) -> None:
    activation = ledger.active()
    principals = {
        "clickhouse": ledger.clickhouse(),
        "mssql": ledger.login(),
        "both": [*ledger.clickhouse(), *ledger.login()],
    }[engines]
    operation = ledger.admit(activation, principals=principals)
    if operation.gate is not None:
        assert ledger.gates.to_ready(operation.attempt, nothing).state == "READY"

    ended = ledger.end(operation, "SUCCEEDED" if state == "SUCCEEDED" else "FAILED")

    assert ended.state == state
    assert ended.settled
    assert [proof.kind for proof in ended.proofs] == ["CLOSED_GATES", "QUIESCENCE", "OUTCOME"]
    assert ended.gate is None or ended.gate.state == "CLOSED"
    assert [proof.sha256 for proof in ended.proofs] == [
        ended.closed_gates_proof_sha256,
        ended.quiescence_proof_sha256,
        ended.outcome_proof_sha256,
    ]
    assert ledger.attempts.read_exact(operation.attempt_sha256) == ended


def test_concurrent_closers_leave_one_proof_of_each_kind(ledger: LiveLedger) -> None:
    operation = ledger.admit(ledger.active())

    def end(number: int) -> Operation:
        for kind in ("CLOSED_GATES", "QUIESCENCE"):
            ledger.prove(operation, kind, note=str(number))
        outcome = ledger.prove(operation, "OUTCOME", "FAILED", note=str(number))
        return ledger.attempts.finalize(operation.attempt, state="FAILED", outcome_proof_sha256=outcome)

    ended, refused = together(3, end)

    assert refused == []
    assert len({each.outcome_proof_sha256 for each in ended}) == 1
    assert len(ledger.attempts.proofs(operation.attempt)) == 3


def test_an_outcome_is_never_promoted(ledger: LiveLedger) -> None:
    operation = ledger.end(ledger.admit(ledger.active()), "FAILED")
    with pytest.raises(OutcomeUnknown):
        ledger.prove(operation, "OUTCOME", "SUCCEEDED")
    failed = str(operation.outcome_proof_sha256)
    for end in (ledger.attempts.finalize, ledger.attempts.reconcile_unknown):
        with pytest.raises(AdmissionRefused):
            end(operation.attempt, state="SUCCEEDED", outcome_proof_sha256=failed)
    assert ledger.attempts.read_exact(operation.attempt) == operation


def test_evidence_is_kept_in_order_and_once(ledger: LiveLedger) -> None:
    operation = ledger.admit(ledger.active())
    store: AttemptStore = ledger.attempts
    first = store.put_evidence(operation.attempt, "admission", {"schema": "x", "n": 1, "text": "日本 \\ \u2028"})
    second = store.put_evidence(operation.attempt, "admission", {"schema": "x", "n": 2})
    assert (
        store.put_evidence(operation.attempt, "admission", {"text": "日本 \\ \u2028", "n": 1, "schema": "x"}) == first
    )
    history = store.evidence_history(operation.attempt)
    assert [(evidence.sha256, evidence.order) for evidence in history] == [(first, 1), (second, 2)]
    assert history[0].document == {"schema": "x", "n": 1, "text": "日本 \\ \u2028"}
    assert store.evidence(operation.attempt, "admission") == {"schema": "x", "n": 2}
    assert store.evidence(operation.attempt, "other") is None


def test_a_proof_and_its_evidence_are_stored_together_or_not_at_all(ledger: LiveLedger) -> None:
    operation = ledger.admit(ledger.active())
    document = {"schema": "x", "n": 1}
    sha256 = canonical.exact_sha256(document)
    closed = proof_for(operation.attempt, operation.principals, "CLOSED_GATES", sha256)
    early = proof_for(operation.attempt, operation.principals, "OUTCOME", sha256, "FAILED")

    with pytest.raises(AdmissionRefused):
        ledger.attempts.put_proof(operation.attempt, early, evidence=[("outcome", document)])
    assert ledger.attempts.evidence_history(operation.attempt) == ()

    kept = ledger.attempts.put_proof(
        operation.attempt, closed, evidence=[("closed", document), ("seen", {"schema": "y"}), ("closed", document)]
    )
    assert kept == closed.sha256
    history = ledger.attempts.evidence_history(operation.attempt)
    assert [(each.kind, each.order) for each in history] == [("closed", 1), ("seen", 2)]


def test_the_newest_operations_come_first(ledger: LiveLedger) -> None:
    activation = ledger.active(3)
    admitted = [ledger.admit(activation, f"w{number:03}") for number in range(3)]
    assert list(ledger.attempts.recent(3)) == admitted[::-1]
    ledger.end(admitted[2])
    assert list(ledger.attempts.recent(2, unresolved=True)) == admitted[1::-1]


def test_an_old_run_is_found_behind_newer_ones(ledger: LiveLedger) -> None:
    activation = ledger.active(3)
    old, *_ = [ledger.admit(activation, f"w{number:03}") for number in range(3)]
    where = old.coordinates
    recent = ledger.attempts.recent
    assert recent(1, dag_id=where.dag_id, run_id=where.run_id, task_id=where.task_id) == (old,)
    assert recent(1, run_id=where.run_id) == (old,)
    for wanted in ({"dag_id": "another"}, {"run_id": where.run_id + "'"}, {"run_id": "%"}, {"task_id": "x" * 5000}):
        assert recent(1, **wanted) == ()


def test_large_evidence_is_kept_and_too_large_evidence_is_refused(ledger: LiveLedger) -> None:
    operation = ledger.admit(ledger.active())
    document = {"schema": "x", "text": "a" * 1_000_000}
    ledger.attempts.put_evidence(operation.attempt, "large", document)
    assert ledger.attempts.evidence(operation.attempt, "large") == document
    with pytest.raises(ConfigurationError) as refused:
        ledger.attempts.put_evidence(operation.attempt, "large", {"schema": "x", "text": "a" * 8_400_000})
    assert refused.value.reason == "evidence_size"


def test_an_unknown_attempt_is_refused_by_every_step(ledger: LiveLedger) -> None:
    key = make.sha("unknown")
    assert ledger.attempts.read_exact(key) is None
    with pytest.raises(AdmissionRefused):
        ledger.attempts.put_evidence(key, "kind", {"schema": "x"})
    with pytest.raises(AdmissionRefused):
        ledger.attempts.finalize(key, state="FAILED", outcome_proof_sha256=make.sha("proof"))
    with pytest.raises(AdmissionRefused):
        ledger.gates.to_closing(key)
