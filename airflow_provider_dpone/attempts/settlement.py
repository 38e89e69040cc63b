"""Ending an operation: close every writer, prove that they are gone, read the outcome, finalize.

Each step can be called from any process, at any time, again, and also while the worker still runs; a step whose
predecessor is missing takes it first. Nothing here believes the worker: not its exception, not its report.

A step that is called alone stores its proof before it returns. ``finalize`` takes all that are missing and stores what
they proved together with the end, in one transaction; when one of them cannot be taken, what was proven is stored first.
Proofs are evidence of what is so, not permissions: a process that dies between two steps loses nothing that the next
one could not observe again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from airflow_provider_dpone.attempts.context import AttemptLog, Gates, Log, ObservationContext, gate_of, wait_quiescent
from airflow_provider_dpone.attempts.ports import AttemptLedger
from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.errors import (
    AdmissionRefused,
    AttemptFailed,
    ConfigurationError,
    ControlUnavailable,
    GuardError,
    LedgerTampered,
    OutcomeUnknown,
)
from airflow_provider_dpone.contracts.gate_evidence import SCHEMA as LOGIN_GATE_SCHEMA
from airflow_provider_dpone.contracts.gate_evidence import gate_observation_from
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.principal import Principal
from airflow_provider_dpone.contracts.proof import AttemptProof, ProofKind, TerminalState, proof_for
from airflow_provider_dpone.drivers.trigger_points import reach
from airflow_provider_dpone.routes.interface import Observation, Outcome

CLOSED_SCHEMA = "dpone.attempt-closed-gates.v1"
QUIESCENT_SCHEMA = "dpone.attempt-quiescence.v1"
RECONCILIATION_SCHEMA = "dpone.attempt-operator-reconciliation.v1"

_STEP = {"CLOSED_GATES": "closed", "QUIESCENCE": "quiescent"}


class OutcomeReader(Protocol):
    """What a settlement asks a route, and only when the writers are closed and proven gone."""

    def outcome(self, ctx: Observation) -> Outcome: ...


class Settlement:
    """The way from an admitted operation to its end. Closing and proving need the ledger and the gates alone."""

    def __init__(
        self,
        operation: Operation,
        *,
        route: OutcomeReader,
        gates: Gates,
        ledger: AttemptLedger,
        log: Log | None = None,
        quiescence_seconds: float = 0.0,
        evidence: Sequence[tuple[str, Mapping[str, object]]] = (),
    ) -> None:
        """``evidence`` is stored by the first step that stores anything."""
        self._key = operation.attempt_sha256
        self._gathered: list[AttemptProof] = []
        self._documents = list(evidence)
        self._operation = operation
        self._route = route
        self._gates = gates
        self._ledger = ledger
        self._log = AttemptLog(log or logging.getLogger(__name__), operation.attempt_sha256)
        self._quiescence_seconds = quiescence_seconds

    @property
    def operation(self) -> Operation:
        """The operation as last read."""
        return self._operation

    def close(self) -> AttemptProof:
        """Close every journaled principal of the operation, on every engine, irreversibly."""
        self._refresh()
        return self._stored(self._closed())

    def prove_quiescence(self) -> AttemptProof:
        """Prove that nothing of any closed principal is left. Raises NotQuiescent while something is."""
        self._refresh()
        return self._stored(self._quiescent())

    def resolve_outcome(self) -> AttemptProof:
        """Observe the outcome from evidence. A stored SUCCEEDED or FAILED is final; an unknown is observed again."""
        self._refresh()
        return self._stored(self._resolved())

    def finalize(self) -> Operation:
        """Bind the proof triplet to the operation. Returns it in its terminal state; raises for none of them."""
        if self._refresh().state != "RUNNING":
            self._store_what_there_is()
            return self._operation
        try:
            proof = self._resolved()
        except GuardError:
            self._store_what_there_is()
            raise
        assert proof.outcome_state is not None
        try:
            final = self._ledger.finalize(
                self._key,
                state=proof.outcome_state,
                outcome_proof_sha256=proof.sha256,
                proofs=self._gathered,
                evidence=self._documents,
            )
        except AdmissionRefused as err:
            # Somebody else finalized in between, maybe by another observation: theirs stands.
            if self._refresh().state != "RUNNING":
                return self._operation
            if err.reason != "proof_kept":
                raise
            # Somebody else proved a step in between: their proof is kept, and this operation ends with it.
            self._stored(proof)
            return self.finalize()
        self._gathered, self._documents = [], []
        self._operation = final
        self._log.info("finalized as %s", self._operation.state)
        return self._operation

    def _closed(self) -> AttemptProof:
        operation = self._operation
        if proof := operation.proof("CLOSED_GATES"):
            return proof
        evidence: list[tuple[Principal, Mapping[str, object]]] = []
        for principal in operation.principals:
            gate = gate_of(self._gates, principal)
            with _answered(f"closing {principal.name}", "the server and the rights of the closer (docs/roles.md)"):
                evidence.append((principal, gate.close(operation, principal)))
            self._log.info("closed %s login %s", principal.connector, principal.name)
        return self._prove("CLOSED_GATES", evidence, CLOSED_SCHEMA)

    def _quiescent(self) -> AttemptProof:
        self._closed()
        operation = self._operation
        if proof := operation.proof("QUIESCENCE"):
            return proof
        evidence: list[tuple[Principal, Mapping[str, object]]] = []
        for principal in operation.principals:
            gate = gate_of(self._gates, principal)
            with _answered(f"looking for {principal.name}", "the server and the rights of the closer (docs/roles.md)"):
                seen = wait_quiescent(gate, operation, principal, seconds=self._quiescence_seconds, log=self._log)
            evidence.append((principal, seen))
            self._log.info("%s is gone from the server: no session, no transaction", principal.name)
        return self._prove("QUIESCENCE", evidence, QUIESCENT_SCHEMA)

    def _resolved(self) -> AttemptProof:
        self._quiescent()
        operation = self._operation
        proof = operation.proof("OUTCOME")
        if proof is not None and (proof.outcome_state != "COMMIT_UNKNOWN" or operation.state != "RUNNING"):
            return proof
        return self._observe(operation)

    def settle(self) -> Operation:
        """All steps that are still missing."""
        return self.finalize()

    def reconcile(self, *, verdict: TerminalState | None = None, operator: str = "", statement: str = "") -> Operation:
        """Resolve a COMMIT_UNKNOWN operation: by observing again, or by an operator's signed-for verdict.

        Without a verdict the targets are observed again; if they still decide nothing, OutcomeUnknown is raised.
        """
        operation = self._refresh()
        if operation.settled:
            return operation
        if operation.state == "RUNNING":
            operation = self.finalize()
            if operation.settled:
                return operation
        if verdict is None:
            proof = self._stored(self._observe(operation))
        else:
            proof = self._stored(self._operator_proof(operation, verdict, operator, statement))
        if proof.outcome_state not in ("SUCCEEDED", "FAILED"):
            raise _unknown(operation)
        self._operation = self._ledger.reconcile_unknown(
            self._key, state=proof.outcome_state, outcome_proof_sha256=proof.sha256
        )
        self._log.info("reconciled as %s", self._operation.state)
        return self._operation

    def _operator_proof(
        self, operation: Operation, verdict: TerminalState, operator: str, statement: str
    ) -> AttemptProof:
        if verdict == "COMMIT_UNKNOWN" or not operator.strip() or not statement.strip():
            raise ConfigurationError(
                "reconciliation_statement",
                happened="a verdict by an operator needs SUCCEEDED or FAILED, who says so, and what was looked at.",
                not_done="nothing was reconciled.",
                check="the target, then give the operator's name and a statement of what was found.",
                avoid="guess: without evidence the operation stays COMMIT_UNKNOWN.",
            )
        document = {
            "schema": RECONCILIATION_SCHEMA,
            "attempt_sha256": operation.attempt_sha256,
            "verdict": verdict,
            "operator": operator,
            "statement": statement,
        }
        return self._outcome_proof(operation, verdict, "reconciliation", document)

    def _observe(self, operation: Operation) -> AttemptProof:
        context = ObservationContext(operation=operation, evidence=self._ledger, log=self._log)
        with _answered("observing the outcome", "the server and the rights of the outcome reader (docs/roles.md)"):
            reach("read_outcome", "before")
            outcome = self._route.outcome(context)
            reach("read_outcome", "applied")
        self._log.info("observed outcome: %s", outcome.state)
        proof = self._outcome_proof(operation, outcome.state, "outcome", outcome.evidence)
        reach("read_outcome", "acknowledged")
        return proof

    def _outcome_proof(
        self, operation: Operation, state: TerminalState, kind: str, document: Mapping[str, object]
    ) -> AttemptProof:
        digest = canonical.exact_sha256(document)
        proof = proof_for(operation.attempt, operation.principals, "OUTCOME", digest, state)
        return self._gather(proof, (kind, document))

    def _prove(
        self, kind: ProofKind, evidence: list[tuple[Principal, Mapping[str, object]]], schema: str
    ) -> AttemptProof:
        operation = self._operation
        if digest := _login_gate_digest(evidence):
            return self._gather(proof_for(operation.attempt, operation.principals, kind, digest))
        # The proof binds one document over all principals: PostgreSQL roles are bound through it alone.
        document: dict[str, object] = {
            "schema": schema,
            "attempt_sha256": operation.attempt_sha256,
            "principals": [
                {
                    "connector": principal.connector,
                    "service_id": principal.service_id,
                    "principal_id": principal.principal_id,
                    "evidence_sha256": canonical.exact_sha256(seen),
                    "evidence": dict(seen),
                }
                for principal, seen in evidence
            ],
        }
        digest = canonical.exact_sha256(document)
        mine = proof_for(operation.attempt, operation.principals, kind, digest)
        return self._gather(mine, (_STEP[kind], document))

    def _gather(self, mine: AttemptProof, *evidence: tuple[str, Mapping[str, object]]) -> AttemptProof:
        """A proof of this process, with its evidence, that is not stored yet."""
        self._gathered.append(mine)
        self._documents += evidence
        self._operation = replace(self._operation, proofs=(*self._operation.proofs, mine))
        return mine

    def _stored(self, proof: AttemptProof) -> AttemptProof:
        """Store what was gathered, ``proof`` last. When the ledger keeps an earlier one of its kind, that is the answer."""
        while self._gathered:
            mine = self._gathered[0]
            # A ledger that keeps an earlier proof stores nothing: the evidence of those after it goes along again.
            kept = self._ledger.put_proof(self._key, mine, evidence=self._documents)
            del self._gathered[0]
            proof = mine if kept == mine.sha256 else self._kept(mine.kind, kept)
            if proof is mine and not self._gathered:
                self._documents = []
        self._store_documents()
        return proof

    def _store_documents(self) -> None:
        """What went with no proof. The ledger holds each document once."""
        for kind, document in self._documents:
            self._ledger.put_evidence(self._key, kind, document)
        self._documents = []

    def _kept(self, kind: ProofKind, sha256: str) -> AttemptProof:
        for proof in self._refresh().proofs:
            if (proof.kind, proof.sha256) == (kind, sha256):
                return proof
        raise LedgerTampered("proof_readback", happened=f"the stored {kind} proof is not the one that was kept.")

    def _store_what_there_is(self) -> None:
        """On the way out: nothing that happens here replaces the reason to leave."""
        try:
            if self._gathered:
                self._stored(self._gathered[-1])
            self._store_documents()
        except GuardError as err:
            self._log.warning("what was proven so far could not be stored and will be observed again: %s", err)

    def _refresh(self) -> Operation:
        operation = self._ledger.read_exact(self._key)
        if operation is None:
            raise LedgerTampered("operation_missing", happened="an admitted operation is no longer in the ledger.")
        self._operation = operation
        return operation


@contextmanager
def _answered(step: str, check: str) -> Iterator[None]:
    """Whatever a driver raises in a closing step means one thing: the step is not done, and can be repeated."""
    try:
        yield
    except GuardError:
        raise
    except Exception as err:
        said = " ".join(str(err).split())[:500]
        raise ControlUnavailable(
            "closing_step",
            happened=f"{step} answered {type(err).__name__}: {said}.",
            not_done="the operation was not finalized; nothing was concluded from the error.",
            check=f"{check}, then repeat the same call.",
        ) from err


def _login_gate_digest(evidence: list[tuple[Principal, Mapping[str, object]]]) -> str | None:
    """The proof of a single SQL Server login binds the gate's own observation, as other ledger readers expect."""
    if len(evidence) != 1 or evidence[0][1].get("schema") != LOGIN_GATE_SCHEMA:
        return None
    return gate_observation_from(evidence[0][1]).sha256


def require_succeeded(operation: Operation, *, cause: BaseException | None = None) -> Operation:
    """Raise what a task must end with unless the operation is proven SUCCEEDED."""
    if operation.state == "SUCCEEDED":
        return operation
    if operation.state == "FAILED":
        raise AttemptFailed("attempt_failed", details={"attempt_sha256": operation.attempt_sha256}) from cause
    raise _unknown(operation) from cause


def _unknown(operation: Operation) -> OutcomeUnknown:
    key = operation.attempt_sha256
    return OutcomeUnknown(
        "commit_unknown",
        happened=f"operation {key} is {operation.state}: evidence does not tell whether its work took effect.",
        check=f"the target, then `dponectl attempts reconcile {key}`.",
        details={"attempt_sha256": key},
    )
