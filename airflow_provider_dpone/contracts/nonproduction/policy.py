"""The signed policy that every grant is measured against, and the subject that a signature is over."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Literal

from airflow_provider_dpone.contracts import canonical, rules
from airflow_provider_dpone.contracts.errors import AuthorityRefused
from airflow_provider_dpone.contracts.nonproduction.scope import (
    PURPOSE,
    TRUST_TIER,
    Limits,
    Participant,
    limits_from,
    participant_from,
    repository,
    require_participants,
    stored_object,
    text,
)

POLICY_SCHEMA = "dpone.nonproduction-authority-policy.v1"
SIGNER_BACKEND = "github_artifact_attestation_v1"

Phase = Literal["qualification", "execution"]
PHASES: tuple[Phase, ...] = ("qualification", "execution")


def require_validity(
    not_before: object, expires_at: object, maximum_seconds: int, *, now: datetime | None = None
) -> None:
    """A window of whole UTC seconds, not longer than allowed; ``now``, if given, lies inside it."""
    start, end = rules.utc_seconds(not_before), rules.utc_seconds(expires_at)
    with rules.shaped("validity"):
        if not 0 < (end - start).total_seconds() <= maximum_seconds:
            rules.refuse("validity")
        if now is not None and not start <= now < end:
            rules.refuse("validity")


def require_epoch(value: object) -> None:
    rules.whole_number(value, "revocation_epoch", at_least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """Who signs, as the attestation backend names them."""

    backend: str
    issuer: str
    identity: str
    trust_root_sha256: str

    def __post_init__(self) -> None:
        with rules.refusing_as(AuthorityRefused):
            if self.backend != SIGNER_BACKEND:
                rules.refuse("signer_backend")
            text(self.issuer)
            text(self.identity)
            rules.digest(self.trust_root_sha256)

    def members(self) -> dict[str, object]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureSubject:
    """What a signature is over: one document under one policy, in one phase, by one signer."""

    document_schema: str
    phase: str
    document_sha256: str
    policy_sha256: str
    signer: Signer

    def __post_init__(self) -> None:
        with rules.refusing_as(AuthorityRefused):
            text(self.document_schema)
            rules.one_of(self.phase, PHASES, "grant_phase")
            rules.digest(self.document_sha256)
            rules.digest(self.policy_sha256)
            rules.record(self.signer, Signer, "signer")

    @property
    def sha256(self) -> str:
        return canonical.exact_sha256(self.members())

    def members(self) -> dict[str, object]:
        return {
            "document_schema": self.document_schema,
            "phase": self.phase,
            "document_sha256": self.document_sha256,
            "policy_sha256": self.policy_sha256,
            "signer": self.signer.members(),
        }

    def document(self) -> bytes:
        return canonical.exact_bytes(self.members())


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorityPolicy:
    """The ceiling of every grant of one environment, with the grants that were revoked."""

    signer: Signer
    environment_id: str
    enrollment_sha256: str
    participants: tuple[Participant, ...]
    source_repository: str
    not_before: str
    expires_at: str
    revocation_epoch: int
    revoked_grant_ids: tuple[str, ...]
    limits: Limits
    purpose: str = PURPOSE
    trust_tier: str = TRUST_TIER

    def __post_init__(self) -> None:
        with rules.refusing_as(AuthorityRefused):
            if self.purpose != PURPOSE or self.trust_tier != TRUST_TIER:
                rules.refuse("policy_family")
            rules.record(self.signer, Signer, "signer")
            rules.record(self.limits, Limits, "limits")
            rules.uuid_text(self.environment_id, "uuid", nil=False)
            rules.digest(self.enrollment_sha256)
            require_participants(self.participants)
            repository(self.source_repository)
            require_validity(self.not_before, self.expires_at, self.limits.max_validity_seconds)
            require_epoch(self.revocation_epoch)
            if type(self.revoked_grant_ids) is not tuple:
                rules.refuse("array")
            for grant_id in self.revoked_grant_ids:
                rules.uuid4_text(grant_id, "uuid")
            rules.ascending(self.revoked_grant_ids, "closure")

    @property
    def sha256(self) -> str:
        return canonical.exact_sha256(self.members())

    def members(self) -> dict[str, object]:
        body: dict[str, object] = {field.name: getattr(self, field.name) for field in fields(self)}
        body |= {
            "schema": POLICY_SCHEMA,
            "signer": self.signer.members(),
            "limits": self.limits.members(),
            "participants": [participant.members() for participant in self.participants],
        }
        return body

    def document(self) -> bytes:
        return canonical.exact_bytes(self.members())

    def require_current(self, now: datetime) -> None:
        """Refuse outside of the policy's window."""
        with rules.refusing_as(AuthorityRefused):
            require_validity(self.not_before, self.expires_at, self.limits.max_validity_seconds, now=now)


def decode_policy(document: object, sha256: str) -> AuthorityPolicy:
    """Read a stored policy back: same digest *and* same bytes."""
    with rules.refusing_as(AuthorityRefused):
        body = stored_object(document, POLICY_SCHEMA)
        values = rules.members(body, ["schema", *(field.name for field in fields(AuthorityPolicy))])
        del values["schema"]
        values["signer"] = Signer(**rules.members(values["signer"], [field.name for field in fields(Signer)]))
        values["limits"] = limits_from(values["limits"])
        values["participants"] = tuple(participant_from(item) for item in rules.array(values["participants"]))
        values["revoked_grant_ids"] = rules.array(values["revoked_grant_ids"])
        policy = AuthorityPolicy(**values)
        if policy.sha256 != rules.digest(sha256) or policy.document() != document:
            rules.refuse("document")
        return policy
