"""What a registration keeps of a grant: its originals, the ceilings in force, and the campaign's workload set.

A registration is history. It neither verifies a signature nor opens a door: whoever registers has verified the bundle
over ``signature_subject`` before, and whoever executes acquires the physical scope afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_provider_dpone.contracts import canonical, rules
from airflow_provider_dpone.contracts.activation import ActivationRequest
from airflow_provider_dpone.contracts.errors import AuthorityRefused
from airflow_provider_dpone.contracts.nonproduction.grants import (
    ExecutionGrant,
    Grant,
    QualificationGrant,
    workload_member_document,
)
from airflow_provider_dpone.contracts.nonproduction.policy import AuthorityPolicy
from airflow_provider_dpone.contracts.nonproduction.scope import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantOriginals:
    """A grant with the raw signature bundle over it and, for an execution, the request that it grants."""

    grant: Grant
    signature_bundle: bytes
    request: ActivationRequest | None = None

    def __post_init__(self) -> None:
        with rules.refusing_as(AuthorityRefused):
            if (
                type(self.signature_bundle) is not bytes
                or not 1 <= len(self.signature_bundle) <= canonical.SIGNATURE_BUNDLE_LIMIT
            ):
                rules.refuse("signature_bundle")
            if isinstance(self.grant, QualificationGrant):
                if self.request is not None:
                    rules.refuse("registration_request")
            elif isinstance(self.grant, ExecutionGrant) and type(self.request) is ActivationRequest:
                _require_granted(self.grant, self.request)
            else:
                rules.refuse("registration_request")

    @property
    def subject_id(self) -> str:
        """What the grant is for: the qualification run, or the activation."""
        if isinstance(self.grant, QualificationGrant):
            return self.grant.qualification_run_id
        return self.grant.activation_id

    @property
    def exclusive_id(self) -> str:
        """What no second grant may name. A run has one grant; an activation may have several candidates."""
        return self.subject_id if isinstance(self.grant, QualificationGrant) else self.grant.grant_id


def _require_granted(grant: ExecutionGrant, request: ActivationRequest) -> None:
    """The request names this grant and is exactly the parent that it grants."""
    context = request.context
    asked = (request.execution_grant_sha256, context.activation_id, context.deployment_id, context.release_id)
    granted = (grant.sha256, grant.activation_id, grant.deployment_id, grant.parent_release_id)
    pins = [(workload.workload_id, workload.constituent_id, workload.pack_sha256) for workload in request.workloads]
    if asked != granted or pins != [
        (workload.workload_id, workload.constituent_id, workload.pack_sha256) for workload in grant.workloads
    ]:
        rules.refuse("registration_request")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The smallest bound of each kind: of a grant as a whole, or of one of its workloads."""

    workload_sha256: str | None
    limits: Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One workload of a campaign, and the grant that brought it in, by its consumption subject."""

    workload_sha256: str
    document: bytes
    first_consumption_subject_sha256: str


def workload_sha256(workload_id: str) -> str:
    return canonical.sha256_text(workload_member_document(workload_id))


@rules.shaped("registration_originals")
def ceilings(grant: Grant, policy: AuthorityPolicy) -> tuple[Ceiling, ...]:
    """What is in force: the grant as a whole first, then its workloads in their order."""
    whole = policy.limits.within(grant.limits)
    workloads = grant.workloads if isinstance(grant, ExecutionGrant) else ()
    return (
        Ceiling(workload_sha256=None, limits=whole),
        *(
            Ceiling(workload_sha256=workload_sha256(workload.workload_id), limits=whole.within(workload.limits))
            for workload in workloads
        ),
    )


@rules.shaped("registration_originals")
def member_ceiling(in_force: Iterable[Ceiling]) -> int:
    """How many different workloads the whole campaign may have, by the tightest ceiling of this grant."""
    return min(ceiling.limits.max_workloads for ceiling in in_force)


@rules.shaped("registration_originals")
def members_of(registered: Iterable[tuple[str, Grant]]) -> tuple[Member, ...]:
    """The complete workload set of a campaign, from its grants in the order in which they were registered."""
    found: dict[str, Member] = {}
    for subject, grant in registered:
        for workload in grant.workloads if isinstance(grant, ExecutionGrant) else ():
            document = workload_member_document(workload.workload_id)
            sha256 = canonical.sha256_text(document)
            if sha256 not in found:
                found[sha256] = Member(
                    workload_sha256=sha256, document=document, first_consumption_subject_sha256=subject
                )
    return tuple(found[sha256] for sha256 in sorted(found))
