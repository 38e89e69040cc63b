"""Which proofs are kept and when an operation may end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_dpone.contracts.errors import AdmissionRefused, ConfigurationError, GuardError, OutcomeUnknown
from airflow_provider_dpone.contracts.operation import LoginGate, Operation
from airflow_provider_dpone.contracts.principal import new_clickhouse_principal, new_mssql_principal
from airflow_provider_dpone.contracts.proof import AttemptProof, ProofKind, TerminalState, proof_for
from airflow_provider_dpone.ledger import completion
from tests.support import ledger_records as make
from tests.support.ledger_records import CLICKHOUSE, SERVICE, sha

PARENT = make.request([make.domain("a"), make.domain("b")])
WHERE = make.coordinates()
ATTEMPT = make.attempt(PARENT, "w000", ((PARENT.guards_of("w000")[0], 1),), WHERE)
PRINCIPALS = (new_clickhouse_principal(CLICKHOUSE, "publish"), new_mssql_principal(SERVICE, "build"))
EVIDENCE = {sha("evidence")}


def proof(kind: ProofKind, state: TerminalState | None = None, evidence: str = "evidence") -> AttemptProof:
    return proof_for(ATTEMPT, PRINCIPALS, kind, sha(evidence), state)


CLOSED, QUIET = proof("CLOSED_GATES"), proof("QUIESCENCE")
SUCCEEDED, FAILED, UNKNOWN = (proof("OUTCOME", state) for state in ("SUCCEEDED", "FAILED", "COMMIT_UNKNOWN"))
GATE = LoginGate(
    operation_key=ATTEMPT.sha256,
    login_sid=PRINCIPALS[1].sid,
    login_name=PRINCIPALS[1].name,
    state="CLOSED",
    disabled_evidence_sha256=sha("evidence"),
)


def operation(*proofs: AttemptProof, **changes: object) -> Operation:
    running = Operation(
        attempt=ATTEMPT,
        attempt_sha256=ATTEMPT.sha256,
        owner_key=PARENT.owner_key,
        activation_id=PARENT.activation_id,
        state="RUNNING",
        coordinates=WHERE,
        principals=PRINCIPALS,
        gate=GATE,
        proofs=proofs,
        closed_gates_proof_sha256=None,
        quiescence_proof_sha256=None,
        outcome_proof_sha256=None,
    )
    return replace(running, **changes)  # type: ignore[arg-type]  # members by name


def ended(state: TerminalState, outcome: AttemptProof, *proofs: AttemptProof) -> Operation:
    return operation(
        CLOSED,
        QUIET,
        *proofs,
        state=state,
        closed_gates_proof_sha256=CLOSED.sha256,
        quiescence_proof_sha256=QUIET.sha256,
        outcome_proof_sha256=outcome.sha256,
    )


UNDECIDED = ended("COMMIT_UNKNOWN", UNKNOWN, UNKNOWN, FAILED)


def test_proofs_are_taken_in_the_order_of_a_life() -> None:
    assert completion.kept_proof(operation(), CLOSED, EVIDENCE) is None
    assert completion.kept_proof(operation(CLOSED), QUIET, EVIDENCE) is None
    assert completion.kept_proof(operation(CLOSED, QUIET), SUCCEEDED, EVIDENCE) is None


@pytest.mark.parametrize(
    ("found", "given"),
    [(operation(), QUIET), (operation(CLOSED), SUCCEEDED), (operation(QUIET), SUCCEEDED), (operation(), FAILED)],
)
def test_a_proof_before_its_predecessors_is_refused(found: Operation, given: AttemptProof) -> None:
    with pytest.raises(AdmissionRefused) as refused:
        completion.kept_proof(found, given, EVIDENCE)
    assert refused.value.reason == "proof_order"


@pytest.mark.parametrize("state", ["JOURNALED", "READY", "CLOSING"])
def test_no_proof_is_taken_while_the_login_gate_is_not_closed(state: str) -> None:
    gate = replace(GATE, state=state, disabled_evidence_sha256=None)  # type: ignore[arg-type]  # one of the states
    with pytest.raises(AdmissionRefused) as refused:
        completion.kept_proof(operation(gate=gate), CLOSED, EVIDENCE)
    assert refused.value.reason == "gate_not_closed"


def test_of_concurrent_closers_the_first_proof_is_kept() -> None:
    later = proof("CLOSED_GATES", evidence="later")
    assert completion.kept_proof(operation(CLOSED), later, EVIDENCE) == CLOSED.sha256
    assert (
        completion.kept_proof(operation(CLOSED, QUIET, FAILED), proof("OUTCOME", "FAILED", "later"), set())
        == FAILED.sha256
    )


def test_success_and_failure_exclude_each_other() -> None:
    with pytest.raises(OutcomeUnknown) as refused:
        completion.kept_proof(operation(CLOSED, QUIET, FAILED), SUCCEEDED, EVIDENCE)
    assert refused.value.reason == "outcome_conflict"


def test_an_unknown_outcome_may_be_followed_by_a_known_one() -> None:
    assert completion.kept_proof(ended("COMMIT_UNKNOWN", UNKNOWN, UNKNOWN), SUCCEEDED, EVIDENCE) is None


@pytest.mark.parametrize("given", [SUCCEEDED, UNKNOWN])
def test_a_settled_operation_takes_no_other_outcome(given: AttemptProof) -> None:
    with pytest.raises(OutcomeUnknown) as refused:
        completion.kept_proof(ended("FAILED", FAILED, FAILED), given, EVIDENCE)
    assert refused.value.reason == "outcome_conflict"


def test_an_unknown_operation_takes_outcomes_only() -> None:
    found = ended("COMMIT_UNKNOWN", UNKNOWN, UNKNOWN)
    lacking = replace(found, proofs=(QUIET, UNKNOWN))
    with pytest.raises(AdmissionRefused) as refused:
        completion.kept_proof(lacking, CLOSED, EVIDENCE)
    assert refused.value.reason == "proof_state"


def test_evidence_comes_before_its_proof() -> None:
    with pytest.raises(ConfigurationError) as refused:
        completion.kept_proof(operation(), CLOSED, set())
    assert refused.value.reason == "proof_evidence"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (replace(CLOSED, attempt_sha256=sha("other")), "proof_subject"),
        (replace(CLOSED, activation_request_sha256=sha("other")), "proof_subject"),
        (replace(CLOSED, guard_epochs_sha256=sha("other")), "proof_subject"),
        (replace(CLOSED, authorities=CLOSED.authorities[:1]), "proof_authority_closure"),
    ],
)
def test_a_proof_is_about_this_attempt_and_all_its_principals(given: AttemptProof, reason: str) -> None:
    with pytest.raises(AdmissionRefused) as refused:
        completion.kept_proof(operation(), given, EVIDENCE)
    assert refused.value.reason == reason


def test_an_ending_binds_the_triplet() -> None:
    found = completion.ending(operation(CLOSED, QUIET, FAILED), "FAILED", FAILED.sha256, reconciling=False)
    assert found == (CLOSED.sha256, QUIET.sha256, FAILED.sha256)


def test_the_same_ending_again_changes_nothing() -> None:
    found = ended("FAILED", FAILED, FAILED)
    assert completion.ending(found, "FAILED", FAILED.sha256, reconciling=False) is None


@pytest.mark.parametrize(
    ("found", "state", "outcome", "reconciling", "error", "reason"),
    [
        (operation(CLOSED, QUIET, FAILED), "SUCCEEDED", FAILED, False, AdmissionRefused, "outcome_proof"),
        (operation(CLOSED, QUIET), "FAILED", FAILED, False, AdmissionRefused, "outcome_proof"),
        (operation(CLOSED, FAILED), "FAILED", FAILED, False, AdmissionRefused, "proof_triplet"),
        (operation(QUIET, FAILED), "FAILED", FAILED, False, AdmissionRefused, "proof_triplet"),
        (operation(CLOSED, QUIET, FAILED), "FAILED", FAILED, True, AdmissionRefused, "operation_transition"),
        (ended("FAILED", FAILED, FAILED), "SUCCEEDED", SUCCEEDED, False, AdmissionRefused, "operation_transition"),
        (ended("SUCCEEDED", SUCCEEDED, SUCCEEDED), "FAILED", FAILED, True, AdmissionRefused, "operation_transition"),
        (UNDECIDED, "FAILED", FAILED, False, AdmissionRefused, "operation_transition"),
    ],
)  # fmt: skip
def test_no_other_ending_is_possible(
    found: Operation,
    state: TerminalState,
    outcome: AttemptProof,
    reconciling: bool,
    error: type[GuardError],
    reason: str,
) -> None:
    with pytest.raises(error) as refused:
        completion.ending(found, state, outcome.sha256, reconciling=reconciling)
    assert refused.value.reason == reason


def test_reconciliation_keeps_the_closure_and_changes_the_outcome() -> None:
    found = ended("COMMIT_UNKNOWN", UNKNOWN, UNKNOWN, SUCCEEDED)
    triplet = completion.ending(found, "SUCCEEDED", SUCCEEDED.sha256, reconciling=True)
    assert triplet == (CLOSED.sha256, QUIET.sha256, SUCCEEDED.sha256)


def test_proofs_that_come_together_are_taken_one_after_the_other() -> None:
    grown, new = completion.proven(operation(CLOSED), [CLOSED, QUIET, SUCCEEDED], EVIDENCE)
    assert new == [QUIET, SUCCEEDED]
    assert grown.proofs == (CLOSED, QUIET, SUCCEEDED)
    with pytest.raises(AdmissionRefused) as refused:
        completion.proven(operation(), [SUCCEEDED, CLOSED, QUIET], EVIDENCE)
    assert refused.value.reason == "proof_order"


def test_together_with_the_end_no_other_proof_is_kept_in_silence() -> None:
    earlier = proof("CLOSED_GATES", evidence="earlier")
    with pytest.raises(AdmissionRefused) as refused:
        completion.proven(operation(earlier), [CLOSED, QUIET, SUCCEEDED], EVIDENCE)
    assert refused.value.reason == "proof_kept"
