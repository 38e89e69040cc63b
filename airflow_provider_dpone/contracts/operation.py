"""What the ledger says about one execution operation, read in one consistent transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from airflow_provider_dpone.contracts.attempt import Attempt
from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.contracts.principal import Coordinates, Principal
from airflow_provider_dpone.contracts.proof import AttemptProof, ProofKind

OperationState = Literal["RUNNING", "SUCCEEDED", "FAILED", "COMMIT_UNKNOWN"]
LoginGateState = Literal["JOURNALED", "READY", "CLOSING", "CLOSED"]

__all__ = ["LoginGate", "LoginGateState", "Operation", "OperationState"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginGate:
    """The gate row of an operation's SQL Server login."""

    operation_key: str
    login_sid: bytes
    login_name: str
    state: LoginGateState
    disabled_evidence_sha256: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One admitted attempt with its journaled principals, its gate and every stored proof.

    ``proofs`` may hold several OUTCOME proofs: COMMIT_UNKNOWN and, later, the reconciled one. The three digests are
    what the operation row was bound to when it became terminal.
    """

    attempt: Attempt
    attempt_sha256: str
    owner_key: str
    activation_id: str
    state: OperationState
    coordinates: Coordinates
    principals: tuple[Principal, ...]
    gate: LoginGate | None
    proofs: tuple[AttemptProof, ...]
    closed_gates_proof_sha256: str | None
    quiescence_proof_sha256: str | None
    outcome_proof_sha256: str | None

    def principal(self, purpose: str) -> Principal:
        """The principal of a purpose. Purposes are unique within an operation."""
        for candidate in self.principals:
            if candidate.purpose == purpose:
                return candidate
        raise ConfigurationError(
            "principal_purpose", happened=f"the operation journaled no principal for the purpose {purpose!r}."
        )

    def proof(self, kind: ProofKind) -> AttemptProof | None:
        """The newest stored proof of a kind."""
        for candidate in reversed(self.proofs):
            if candidate.kind == kind:
                return candidate
        return None

    @property
    def settled(self) -> bool:
        """Whether the operation no longer holds its guards."""
        return self.state in ("SUCCEEDED", "FAILED")

    @property
    def digest_prefix(self) -> str:
        """Twelve hexadecimal digits: what log lines carry."""
        return self.attempt_sha256.removeprefix("sha256:")[:12]
