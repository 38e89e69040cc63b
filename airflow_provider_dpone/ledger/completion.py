"""Which proofs an operation accepts, and when it may end. Pure decisions over one operation as it was just read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from airflow_provider_dpone.contracts import lifecycle
from airflow_provider_dpone.contracts.errors import AdmissionRefused, ConfigurationError, LedgerTampered, OutcomeUnknown
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.proof import AttemptProof, TerminalState, authorities_of


def kept_proof(operation: Operation, proof: AttemptProof, evidence: Collection[str]) -> str | None:
    """The digest of a stored proof that already says the same, or None when this one is to be stored.

    Closers and observers may run at the same time: of CLOSED_GATES and QUIESCENCE the first one is kept, and of OUTCOME
    the first one of each state. SUCCEEDED and FAILED exclude each other; COMMIT_UNKNOWN may be followed by one of them.
    """
    _require_own(operation, proof)
    stored = [candidate for candidate in operation.proofs if candidate.kind == proof.kind]
    for candidate in stored:
        if candidate == proof or proof.kind != "OUTCOME" or candidate.outcome_state == proof.outcome_state:
            return candidate.sha256
    _require_order(operation, proof)
    decided = [candidate.outcome_state for candidate in stored if candidate.outcome_state != "COMMIT_UNKNOWN"]
    if decided:
        raise OutcomeUnknown(
            "outcome_conflict",
            happened=f"the operation has an outcome proof that says {decided[0]}, and another one now says "
            f"{proof.outcome_state}.",
            not_done="the second outcome proof was not stored.",
            check="the evidence of both observations.",
        )
    if operation.state != "RUNNING" and not (operation.state == "COMMIT_UNKNOWN" and proof.kind == "OUTCOME"):
        raise AdmissionRefused(
            "proof_state", happened=f"the operation is {operation.state} and takes no more {proof.kind} proofs."
        )
    if proof.evidence_sha256 not in evidence:
        raise ConfigurationError(
            "proof_evidence",
            happened="the evidence that the proof names is not in the ledger.",
            not_done="the proof was not stored.",
            check="that the evidence document is put before its proof.",
        )
    return None


def require_evidence(operation: Operation, evidence: Collection[str]) -> Operation:
    """Refuse an operation whose stored proofs, or whose closed gate, name evidence that is not stored as it was.

    ``evidence`` has the digests of what is stored byte for byte.
    """
    named = {proof.evidence_sha256: f"the {proof.kind} proof" for proof in operation.proofs}
    if operation.gate is not None and operation.gate.disabled_evidence_sha256 is not None:
        named[operation.gate.disabled_evidence_sha256] = "the closed login gate"
    for sha256, what in named.items():
        if sha256 not in evidence:
            raise LedgerTampered(
                "operation_evidence",
                happened=f"operation {operation.attempt_sha256}: the evidence {sha256} of {what} is missing or changed.",
                details={"operation_key": operation.attempt_sha256, "part": "evidence"},
            )
    return operation


def proven(
    operation: Operation, proofs: Sequence[AttemptProof], evidence: Collection[str]
) -> tuple[Operation, list[AttemptProof]]:
    """The operation with these proofs, one after the other, and those of them that are not stored yet."""
    new: list[AttemptProof] = []
    for proof in proofs:
        kept = kept_proof(operation, proof, evidence)
        if kept is None:
            operation = replace(operation, proofs=(*operation.proofs, proof))
            new.append(proof)
        elif kept != proof.sha256:
            raise AdmissionRefused(
                "proof_kept",
                happened=f"the operation has an earlier {proof.kind} proof, which the ledger keeps: {kept}.",
                not_done="nothing was stored, and its state was not changed.",
            )
    return operation, new


def ending(
    operation: Operation, state: TerminalState, outcome_proof_sha256: str, *, reconciling: bool
) -> tuple[str, str, str] | None:
    """The proof triplet that the operation is bound to, or None when it has already ended exactly so."""
    if operation.state == state and operation.outcome_proof_sha256 == outcome_proof_sha256:
        return None
    try:
        lifecycle.move_operation(operation.state, state, reconciling=reconciling)
    except AdmissionRefused as err:
        raise AdmissionRefused(
            "operation_transition",
            happened=f"the operation is {operation.state} with the outcome proof {operation.outcome_proof_sha256}; "
            f"it cannot become {state} with {outcome_proof_sha256}"
            + (" by reconciliation." if reconciling else ". A COMMIT_UNKNOWN operation is only reconciled."),
            not_done="its state was not changed.",
        ) from err
    outcome = next(
        (proof for proof in operation.proofs if proof.kind == "OUTCOME" and proof.sha256 == outcome_proof_sha256), None
    )
    if outcome is None or outcome.outcome_state != state:
        raise AdmissionRefused(
            "outcome_proof",
            happened=f"no stored outcome proof of the operation has this digest and says {state}.",
            not_done="its state was not changed.",
            check="the proofs of the operation; an outcome proof of another state never ends it.",
        )
    closed, quiet = operation.proof("CLOSED_GATES"), operation.proof("QUIESCENCE")
    if closed is None or quiet is None:
        raise AdmissionRefused(
            "proof_triplet",
            happened="the operation's gates are not proven closed and quiescent.",
            not_done="its state was not changed.",
        )
    if operation.closed_gates_proof_sha256 is not None and operation.quiescence_proof_sha256 is not None:
        return operation.closed_gates_proof_sha256, operation.quiescence_proof_sha256, outcome_proof_sha256
    return closed.sha256, quiet.sha256, outcome_proof_sha256


def _require_own(operation: Operation, proof: AttemptProof) -> None:
    attempt = operation.attempt
    bound = (proof.attempt_sha256, proof.activation_request_sha256, proof.guard_epochs_sha256)
    own = (operation.attempt_sha256, attempt.activation_request_sha256, attempt.guard_epochs_sha256)
    if bound != own:
        raise AdmissionRefused("proof_subject", happened="the proof is about another attempt, request or epochs.")
    if proof.authorities != authorities_of(operation.principals):
        raise AdmissionRefused(
            "proof_authority_closure", happened="the proof does not name exactly the journaled principals."
        )


def _require_order(operation: Operation, proof: AttemptProof) -> None:
    """Closed, then quiescent, then the outcome: an earlier look proves nothing about a writer that may still come."""
    if operation.gate is not None and operation.gate.state != "CLOSED":
        raise AdmissionRefused(
            "gate_not_closed",
            happened=f"the login gate of the operation is {operation.gate.state}.",
            not_done="the proof was not stored.",
            check="close the gate first.",
        )
    needed = {"CLOSED_GATES": (), "QUIESCENCE": ("CLOSED_GATES",), "OUTCOME": ("CLOSED_GATES", "QUIESCENCE")}
    present = {candidate.kind for candidate in operation.proofs}
    missing = [kind for kind in needed[proof.kind] if kind not in present]
    if missing:
        raise AdmissionRefused(
            "proof_order",
            happened=f"{proof.kind} needs {' and '.join(missing)} to be proven before.",
            not_done="the proof was not stored.",
        )
