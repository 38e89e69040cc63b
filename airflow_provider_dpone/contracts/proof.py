"""The three proofs of an attempt: its gates are closed, its writers are gone, its outcome is known.

A proof names the attempt, its parent request, its guard epochs and every issued authority, and binds the digest of
the evidence that its producer observed. Its shape grants nothing: the ledger accepts it from the producing step only.
PostgreSQL roles never stand in a proof; their closure is bound through the evidence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.attempt import Attempt
from airflow_provider_dpone.contracts.errors import AdmissionRefused
from airflow_provider_dpone.contracts.principal import Principal
from airflow_provider_dpone.contracts.rules import digest, one_of, refuse, shaped, uuid_text

SCHEMA = "dpone.composition-attempt-proof.v1"
PROOF_KINDS: tuple[ProofKind, ...] = ("CLOSED_GATES", "QUIESCENCE", "OUTCOME")
OUTCOME_STATES: tuple[TerminalState, ...] = ("SUCCEEDED", "FAILED", "COMMIT_UNKNOWN")

ProofKind = Literal["CLOSED_GATES", "QUIESCENCE", "OUTCOME"]
TerminalState = Literal["SUCCEEDED", "FAILED", "COMMIT_UNKNOWN"]

_AUTHORITY_ID = {
    "mssql": re.compile(r"mssql-sid:[0-9a-f]{32}"),
    "clickhouse": re.compile(r"clickhouse-user:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
}


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Authority:
    """An issued principal as proofs name it."""

    connector: str
    service_id: str
    principal_id: str

    def __post_init__(self) -> None:
        pattern = _AUTHORITY_ID.get(self.connector) if type(self.connector) is str else None
        if pattern is None or type(self.principal_id) is not str or not pattern.fullmatch(self.principal_id):
            refuse("proof_authority")
        uuid_text(self.service_id, "proof_authority")

    def members(self) -> dict[str, object]:
        return {"connector": self.connector, "service_id": self.service_id, "principal_id": self.principal_id}


@shaped("proof_authority_closure")
def authorities_of(principals: Iterable[Principal]) -> tuple[Authority, ...]:
    """The authorities that a proof must name for these principals, in proof order."""
    return tuple(
        sorted(
            Authority(connector=p.connector, service_id=p.service_id, principal_id=p.principal_id)
            for p in principals
            if p.connector in _AUTHORITY_ID
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptProof:
    kind: ProofKind
    attempt_sha256: str
    activation_request_sha256: str
    guard_epochs_sha256: str
    authorities: tuple[Authority, ...]
    evidence_sha256: str
    outcome_state: TerminalState | None = None

    def __post_init__(self) -> None:
        one_of(self.kind, PROOF_KINDS, "proof_kind")
        digest(self.attempt_sha256)
        digest(self.activation_request_sha256)
        digest(self.guard_epochs_sha256)
        digest(self.evidence_sha256)
        if type(self.authorities) is not tuple or not self.authorities:
            refuse("proof_authority_closure")
        if any(type(authority) is not Authority for authority in self.authorities):
            refuse("proof_authority_closure")
        if any(left >= right for left, right in pairwise(self.authorities)):
            refuse("proof_authority_closure")
        if self.kind == "OUTCOME":
            one_of(self.outcome_state, OUTCOME_STATES, "proof_outcome_state")
        elif self.outcome_state is not None:
            refuse("proof_outcome_state")

    @property
    def sha256(self) -> str:
        return canonical.fingerprint_sha256(self.members())

    def members(self) -> dict[str, object]:
        return {
            "schema": SCHEMA,
            "kind": self.kind,
            "attempt_sha256": self.attempt_sha256,
            "activation_request_sha256": self.activation_request_sha256,
            "guard_epochs_sha256": self.guard_epochs_sha256,
            "authorities": [authority.members() for authority in self.authorities],
            "evidence_sha256": self.evidence_sha256,
            "outcome_state": self.outcome_state,
        }

    def document(self) -> bytes:
        """The bytes that the ledger stores."""
        return canonical.exact_bytes(self.members())


@shaped("proof_subject")
def proof_for(
    attempt: Attempt,
    principals: Iterable[Principal],
    kind: ProofKind,
    evidence_sha256: str,
    outcome_state: TerminalState | None = None,
) -> AttemptProof:
    """The proof of one kind for an operation: every journaled authority, the attempt's own parent and epochs."""
    return AttemptProof(
        kind=kind,
        attempt_sha256=attempt.sha256,
        activation_request_sha256=attempt.activation_request_sha256,
        guard_epochs_sha256=attempt.guard_epochs_sha256,
        authorities=authorities_of(principals),
        evidence_sha256=evidence_sha256,
        outcome_state=outcome_state,
    )


@shaped("proof_members")
def proof_from(members: Mapping[str, Any]) -> AttemptProof:
    """Rebuild the typed record from decoded members."""
    values = dict(members)
    if values.pop("schema", None) != SCHEMA:
        refuse("proof_schema")
    authorities = tuple(Authority(**authority) for authority in values.pop("authorities"))
    return AttemptProof(authorities=authorities, **values)


def decode_proof(document: object, sha256: object) -> AttemptProof:
    """Read a stored proof back: same digest *and* same bytes, or ``proof_persistence_readback``."""
    expected = digest(sha256)
    if type(document) is not bytes:
        refuse("proof_persistence_readback")
    try:
        proof = proof_from(canonical.strict_object(document))
    except (canonical.StrictJsonError, AdmissionRefused) as err:
        raise AdmissionRefused("proof_persistence_readback") from err
    if proof.sha256 != expected or proof.document() != document:
        refuse("proof_persistence_readback")
    return proof
