"""The two grants: one to qualify routes, one to execute the composed release. Each is consumed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from airflow_provider_dpone.contracts import canonical, rules
from airflow_provider_dpone.contracts.activation import CONSTITUENTS
from airflow_provider_dpone.contracts.errors import AuthorityRefused
from airflow_provider_dpone.contracts.nonproduction.policy import (
    AuthorityPolicy,
    SignatureSubject,
    require_epoch,
    require_validity,
)
from airflow_provider_dpone.contracts.nonproduction.scope import (
    Limits,
    Scope,
    limits_from,
    scope_from,
    stored_object,
    text,
)

GRANT_SCHEMA = "dpone.nonproduction-authority.v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grant:
    """What both phases have in common."""

    scope: Scope
    grant_id: str
    not_before: str
    expires_at: str
    revocation_epoch: int
    limits: Limits

    def _require_common(self) -> None:
        rules.record(self.scope, Scope, "scope")
        rules.record(self.limits, Limits, "limits")
        rules.uuid4_text(self.grant_id, "uuid")
        require_validity(self.not_before, self.expires_at, self.limits.max_validity_seconds)
        require_epoch(self.revocation_epoch)

    def _common(self, phase: str) -> dict[str, object]:
        return {
            "schema": GRANT_SCHEMA,
            "phase": phase,
            "scope": self.scope.members(),
            "grant_id": self.grant_id,
            "not_before": self.not_before,
            "expires_at": self.expires_at,
            "revocation_epoch": self.revocation_epoch,
            "limits": self.limits.members(),
        }

    def require_under(self, policy: AuthorityPolicy, *, now: datetime) -> None:
        """Refuse a grant that the current policy does not carry: other policy, expired, revoked or wider scope."""
        with rules.refusing_as(AuthorityRefused):
            policy.require_current(now)
            require_validity(self.not_before, self.expires_at, policy.limits.max_validity_seconds, now=now)
            if self.scope.policy_sha256 != policy.sha256:
                rules.refuse("policy")
            if self.revocation_epoch != policy.revocation_epoch or self.grant_id in policy.revoked_grant_ids:
                rules.refuse("revoked")
            if (self.scope.environment_id, self.scope.enrollment_sha256, self.scope.source_repository) != (
                policy.environment_id,
                policy.enrollment_sha256,
                policy.source_repository,
            ):
                rules.refuse("scope")
            allowed = {participant.key: participant for participant in policy.participants}
            for participant in self.scope.participants:
                granted = allowed.get(participant.key)
                if (
                    granted is None
                    or not set(participant.read_relations) <= set(granted.read_relations)
                    or not set(participant.write_relations) <= set(granted.write_relations)
                ):
                    rules.refuse("scope")


@dataclass(frozen=True, slots=True, kw_only=True)
class QualificationGrant(_Grant):
    """Permission for one qualification run of exactly these two plans."""

    qualification_run_id: str
    fixture_plan_sha256: str
    qualification_plan_sha256: str

    def __post_init__(self) -> None:
        with rules.refusing_as(AuthorityRefused):
            self._require_common()
            rules.uuid4_text(self.qualification_run_id, "uuid")
            rules.digest(self.fixture_plan_sha256)
            rules.digest(self.qualification_plan_sha256)

    @property
    def phase(self) -> str:
        return "qualification"

    @property
    def sha256(self) -> str:
        return canonical.exact_sha256(self.members())

    def members(self) -> dict[str, object]:
        return {
            **self._common(self.phase),
            "qualification_run_id": self.qualification_run_id,
            "fixture_plan_sha256": self.fixture_plan_sha256,
            "qualification_plan_sha256": self.qualification_plan_sha256,
        }

    def document(self) -> bytes:
        return canonical.exact_bytes(self.members())


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantedWorkload:
    """One workload of an execution grant with its own bounds."""

    workload_id: str
    constituent_id: str
    pack_sha256: str
    limits: Limits

    def __post_init__(self) -> None:
        with rules.refusing_as(AuthorityRefused):
            text(self.workload_id)
            rules.record(self.limits, Limits, "limits")
            rules.one_of(self.constituent_id, CONSTITUENTS, "constituent")
            rules.digest(self.pack_sha256)

    def members(self) -> dict[str, object]:
        return {
            "workload_id": self.workload_id,
            "constituent_id": self.constituent_id,
            "pack_sha256": self.pack_sha256,
            "limits": self.limits.members(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionGrant(_Grant):
    """Permission for one activation of one qualified release."""

    qualified_set_sha256: str
    native_release_id: str
    parent_release_id: str
    deployment_id: str
    activation_id: str
    workloads: tuple[GrantedWorkload, ...]

    def __post_init__(self) -> None:
        with rules.refusing_as(AuthorityRefused):
            self._require_common()
            for value in (
                self.qualified_set_sha256,
                self.native_release_id,
                self.parent_release_id,
                self.deployment_id,
            ):
                rules.digest(value)
            rules.uuid4_text(self.activation_id, "uuid")
            if self.workloads == ():
                rules.refuse("array")
            rules.records(self.workloads, GrantedWorkload, "closure", at_most=self.limits.max_workloads)
            rules.ascending([workload.workload_id for workload in self.workloads], "closure")
            if {workload.constituent_id for workload in self.workloads} != set(CONSTITUENTS):
                rules.refuse("complete_parent")

    @property
    def phase(self) -> str:
        return "execution"

    @property
    def sha256(self) -> str:
        return canonical.exact_sha256(self.members())

    def members(self) -> dict[str, object]:
        return {
            **self._common(self.phase),
            "qualified_set_sha256": self.qualified_set_sha256,
            "native_release_id": self.native_release_id,
            "parent_release_id": self.parent_release_id,
            "deployment_id": self.deployment_id,
            "activation_id": self.activation_id,
            "workloads": [workload.members() for workload in self.workloads],
        }

    def document(self) -> bytes:
        return canonical.exact_bytes(self.members())


Grant = QualificationGrant | ExecutionGrant


def require_grant(grant: object) -> Grant:
    """A grant of either phase."""
    if isinstance(grant, QualificationGrant | ExecutionGrant):
        return grant
    raise AuthorityRefused("grant")


def consumption_subject_sha256(grant: Grant) -> str:
    """What may be consumed once: the grant id in its phase. This subject has no schema member."""
    return canonical.exact_sha256({"grant_id": require_grant(grant).grant_id, "phase": grant.phase})


def signature_subject(grant: Grant, policy: AuthorityPolicy) -> SignatureSubject:
    """What the grant's signature must be over."""
    require_grant(grant)
    with rules.refusing_as(AuthorityRefused):
        rules.record(policy, AuthorityPolicy, "policy")
    return SignatureSubject(
        document_schema=GRANT_SCHEMA,
        phase=grant.phase,
        document_sha256=grant.sha256,
        policy_sha256=policy.sha256,
        signer=policy.signer,
    )


def workload_member_document(workload_id: str) -> bytes:
    """One member of the registered workload set. It has no schema member."""
    with rules.refusing_as(AuthorityRefused):
        return canonical.exact_bytes({"workload_id": text(workload_id)})


def grant_from(body: Mapping[str, Any]) -> Grant:
    """Rebuild the typed record of either phase from decoded members."""
    with rules.refusing_as(AuthorityRefused), rules.shaped("fields"):
        phase = body.get("phase")
        kind: type[QualificationGrant] | type[ExecutionGrant]
        if phase == "qualification":
            kind = QualificationGrant
        elif phase == "execution":
            kind = ExecutionGrant
        else:
            rules.refuse("grant_phase")
        values = rules.members(body, ["schema", "phase", *(field.name for field in fields(kind))])
        del values["schema"], values["phase"]
        values["scope"] = scope_from(values["scope"])
        values["limits"] = limits_from(values["limits"])
        if kind is ExecutionGrant:
            values["workloads"] = tuple(_workload_from(item) for item in rules.array(values["workloads"]))
        return kind(**values)


def _workload_from(value: object) -> GrantedWorkload:
    body = rules.members(value, [field.name for field in fields(GrantedWorkload)])
    body["limits"] = limits_from(body["limits"])
    return GrantedWorkload(**body)


def decode_grant(document: object, sha256: str) -> Grant:
    """Read a stored grant back: same digest *and* same bytes."""
    with rules.refusing_as(AuthorityRefused):
        grant = grant_from(stored_object(document, GRANT_SCHEMA))
        if grant.sha256 != rules.digest(sha256) or grant.document() != document:
            rules.refuse("document")
        return grant
