"""What attempts ask of the ledger. ``ledger.AttemptStore`` is the one real answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from airflow_provider_dpone.contracts.attempt import Attempt
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.principal import Coordinates, Principal
from airflow_provider_dpone.contracts.proof import AttemptProof, TerminalState


class AttemptLedger(Protocol):
    """Wherever an attempt is asked for, its digest text is accepted as well."""

    def admit_once(self, attempt: Attempt, coordinates: Coordinates, principals: Sequence[Principal]) -> Operation:
        """Admit and journal in one transaction, or refuse. Whoever reads back its own principals executes."""

    def read_exact(self, attempt: Attempt | str) -> Operation | None: ...

    def find(self, dag_id: str, run_id: str, task_id: str, map_index: int) -> tuple[Operation, ...]:
        """Every operation of one task instance, by try number."""

    def unresolved(self) -> tuple[Operation, ...]:
        """Every operation that is RUNNING or COMMIT_UNKNOWN."""

    def put_evidence(self, attempt: Attempt | str, kind: str, document: Mapping[str, Any]) -> str: ...

    def evidence(self, attempt: Attempt | str, kind: str) -> Mapping[str, Any] | None: ...

    def put_proof(
        self,
        attempt: Attempt | str,
        proof: AttemptProof,
        *,
        evidence: Sequence[tuple[str, Mapping[str, Any]]] = (),
    ) -> str:
        """Store a proof, with its evidence, and return the digest that is kept.

        The first of CLOSED_GATES and QUIESCENCE stays.
        """

    def finalize(
        self,
        attempt: Attempt | str,
        *,
        state: TerminalState,
        outcome_proof_sha256: str,
        proofs: Sequence[AttemptProof] = (),
        evidence: Sequence[tuple[str, Mapping[str, Any]]] = (),
    ) -> Operation:
        """End it, with proofs and evidence that are stored before, all in one transaction.

        Refused (AdmissionRefused ``proof_kept``) when an earlier proof is kept instead of one of these.
        """

    def reconcile_unknown(
        self, attempt: Attempt | str, *, state: TerminalState, outcome_proof_sha256: str
    ) -> Operation: ...
