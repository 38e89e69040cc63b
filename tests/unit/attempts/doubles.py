"""A ledger, a gate and a route in memory, that keep the rules of the real ones and can be told to fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.attempt import Attempt
from airflow_provider_dpone.contracts.errors import AdmissionRefused, Duplicate, GateTampered, NotQuiescent, Overlap
from airflow_provider_dpone.contracts.lifecycle import move_operation
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.principal import (
    Connector,
    Coordinates,
    Principal,
    Purpose,
    new_clickhouse_principal,
)
from airflow_provider_dpone.contracts.proof import AttemptProof, TerminalState
from airflow_provider_dpone.drivers import Secret
from airflow_provider_dpone.gates.interface import ClickHouseIngestGrant, Credential, Grant
from airflow_provider_dpone.routes.interface import AttemptContext, Observation, Outcome, RouteReport

SERVICE = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
GRANT = ClickHouseIngestGrant(database="flights", staging_table="staging")


class MemoryLedger:
    """One dictionary under one lock."""

    def __init__(self) -> None:
        self.operations: dict[str, Operation] = {}
        self.documents: dict[str, list[tuple[str, str, Mapping[str, Any]]]] = {}
        self._lock = threading.RLock()

    def admit_once(self, attempt: Attempt, coordinates: Coordinates, principals: Sequence[Principal]) -> Operation:
        with self._lock:
            if attempt.sha256 in self.operations:
                raise Duplicate("operation_exists")
            for other in self.operations.values():
                same = other.coordinates.instance == coordinates.instance
                if same and other.coordinates.try_number >= coordinates.try_number:
                    raise Duplicate("late_try")
                if not other.settled and set(other.attempt.guard_ids) & set(attempt.guard_ids):
                    raise Overlap(blockers=[other.attempt_sha256])
            operation = Operation(
                attempt=attempt,
                attempt_sha256=attempt.sha256,
                owner_key="sha256:" + "0" * 64,
                activation_id=SERVICE,
                state="RUNNING",
                coordinates=coordinates,
                principals=tuple(principals),
                gate=None,
                proofs=(),
                closed_gates_proof_sha256=None,
                quiescence_proof_sha256=None,
                outcome_proof_sha256=None,
            )
            self.operations[attempt.sha256] = operation
            return operation

    def read_exact(self, attempt: Attempt | str) -> Operation | None:
        return self.operations.get(_key(attempt))

    def find(self, dag_id: str, run_id: str, task_id: str, map_index: int) -> tuple[Operation, ...]:
        instance = (dag_id, run_id, task_id, map_index)
        found = [o for o in self.operations.values() if o.coordinates.instance == instance]
        return tuple(sorted(found, key=lambda o: o.coordinates.try_number))

    def unresolved(self) -> tuple[Operation, ...]:
        return tuple(o for o in self.operations.values() if not o.settled)

    def put_evidence(self, attempt: Attempt | str, kind: str, document: Mapping[str, Any]) -> str:
        with self._lock:
            sha256 = canonical.exact_sha256(document)
            self.documents.setdefault(_key(attempt), []).append((kind, sha256, dict(document)))
            return sha256

    def evidence(self, attempt: Attempt | str, kind: str) -> Mapping[str, Any] | None:
        found = [doc for known, _, doc in self.documents.get(_key(attempt), []) if known == kind]
        return found[-1] if found else None

    def put_proof(
        self,
        attempt: Attempt | str,
        proof: AttemptProof,
        *,
        evidence: Sequence[tuple[str, Mapping[str, Any]]] = (),
    ) -> str:
        with self._lock:
            operation = self.operations[_key(attempt)]
            kept = operation.proof(proof.kind)
            if kept is not None and proof.kind != "OUTCOME":
                return kept.sha256  # and nothing is stored
            for kind, document in evidence:
                self.put_evidence(attempt, kind, document)
            if proof.evidence_sha256 not in {sha256 for _, sha256, _ in self.documents.get(_key(attempt), [])}:
                raise AdmissionRefused("proof_evidence")
            needed = {"CLOSED_GATES": [], "QUIESCENCE": ["CLOSED_GATES"], "OUTCOME": ["CLOSED_GATES", "QUIESCENCE"]}
            if any(operation.proof(kind) is None for kind in needed[proof.kind]):  # type: ignore[arg-type]  # literals
                raise AdmissionRefused("proof_order")
            self.operations[_key(attempt)] = replace(operation, proofs=(*operation.proofs, proof))
            return proof.sha256

    def finalize(
        self,
        attempt: Attempt | str,
        *,
        state: TerminalState,
        outcome_proof_sha256: str,
        proofs: Sequence[AttemptProof] = (),
        evidence: Sequence[tuple[str, Mapping[str, Any]]] = (),
    ) -> Operation:
        with self._lock:
            before = self.operations[_key(attempt)], list(self.documents.get(_key(attempt), []))
            for kind, document in evidence:
                self.put_evidence(attempt, kind, document)
            for proof in proofs:
                if self.put_proof(attempt, proof) != proof.sha256:
                    self.operations[_key(attempt)], self.documents[_key(attempt)] = before
                    raise AdmissionRefused("proof_kept")
        return self._move(attempt, state, outcome_proof_sha256, reconciling=False)

    def reconcile_unknown(
        self, attempt: Attempt | str, *, state: TerminalState, outcome_proof_sha256: str
    ) -> Operation:
        return self._move(attempt, state, outcome_proof_sha256, reconciling=True)

    def _move(
        self, attempt: Attempt | str, state: TerminalState, outcome_proof_sha256: str, *, reconciling: bool
    ) -> Operation:
        with self._lock:
            operation = self.operations[_key(attempt)]
            if operation.outcome_proof_sha256 == outcome_proof_sha256:
                return operation
            move_operation(operation.state, state, reconciling=reconciling)
            proof = next(p for p in operation.proofs if p.sha256 == outcome_proof_sha256)
            if proof.kind != "OUTCOME" or proof.outcome_state != state:
                raise AdmissionRefused("proof_triplet")
            moved = replace(operation, state=state, outcome_proof_sha256=outcome_proof_sha256)
            self.operations[_key(attempt)] = moved
            return moved


def _key(attempt: Attempt | str) -> str:
    return attempt if isinstance(attempt, str) else attempt.sha256


@dataclass
class MemoryGate:
    """Principals with a state, and sessions that stay until they are ended."""

    connector: Connector = "clickhouse"
    service_id: str = SERVICE
    state: dict[str, str] = field(default_factory=dict)
    busy_looks: int = 0
    closings: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def new_principal(self, purpose: Purpose) -> Principal:
        return new_clickhouse_principal(self.service_id, purpose)

    def issue(self, operation: Operation, principal: Principal, grant: Grant) -> Credential:
        with self.lock:
            if principal.principal_id in self.state:
                raise GateTampered("issued")
            self.state[principal.principal_id] = "open"
        return Credential(username=principal.name, secret=Secret.generate())

    def close(self, operation: Operation, principal: Principal) -> Mapping[str, object]:
        with self.lock:
            self.state[principal.principal_id] = "closed"
            self.closings.append(principal.principal_id)
        return {"schema": "test.closed.v1", "user": principal.name}

    def prove_quiescent(self, operation: Operation, principal: Principal) -> Mapping[str, object]:
        with self.lock:
            if self.state.get(principal.principal_id) != "closed":
                raise NotQuiescent("gate_not_closed")
            if self.busy_looks > 0:
                self.busy_looks -= 1
                raise NotQuiescent(sessions=[{"session_id": 51}])
        return {"schema": "test.quiescent.v1", "user": principal.name}

    def may_write(self, principal: Principal) -> bool:
        return self.state.get(principal.principal_id) == "open"


class MemoryRoute:
    """Writes the attempt's digest into a target, and observes it there."""

    cell = "mssql_clickhouse_full_refresh_v1"

    def __init__(self, gate: MemoryGate) -> None:
        self.gate = gate
        self.target: set[str] = set()
        self.observable = True
        self.before_commit: Callable[[AttemptContext], None] = lambda ctx: None
        self.after_commit: Callable[[AttemptContext], None] = lambda ctx: None
        self.predecessors: tuple[Operation, ...] = ()

    def principals(self) -> tuple[tuple[Connector, Purpose], ...]:
        return (("clickhouse", "ingest"),)

    def admission_record(self, ctx: Observation) -> Mapping[str, object]:
        self.predecessors = ctx.predecessors
        return {"schema": "test.admission.v1", "rows_before": len(self.target)}

    def work(self, ctx: AttemptContext) -> RouteReport:
        ctx.issue("ingest", GRANT)
        self.before_commit(ctx)
        if not self.gate.may_write(ctx.operation.principal("ingest")):
            raise PermissionError("the login is closed")
        self.target.add(ctx.operation.attempt_sha256)
        self.after_commit(ctx)
        return RouteReport(rows=3, bytes=30)

    def outcome(self, ctx: Observation) -> Outcome:
        if not self.observable:
            return Outcome(state="COMMIT_UNKNOWN", evidence={"schema": "test.outcome.v1", "seen": None})
        seen = ctx.operation.attempt_sha256 in self.target
        return Outcome(state="SUCCEEDED" if seen else "FAILED", evidence={"schema": "test.outcome.v1", "seen": seen})
