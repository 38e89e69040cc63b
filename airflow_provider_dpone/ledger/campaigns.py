"""Reading registered grants back: a campaign is one closure, and one wrong byte anywhere in it refuses all of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.activation import decode_request
from airflow_provider_dpone.contracts.errors import AdmissionRefused, LedgerTampered
from airflow_provider_dpone.contracts.nonproduction.grants import (
    ExecutionGrant,
    Grant,
    consumption_subject_sha256,
    decode_grant,
    signature_subject,
)
from airflow_provider_dpone.contracts.nonproduction.registration import (
    Ceiling,
    GrantOriginals,
    Member,
    ceilings,
    members_of,
)
from airflow_provider_dpone.ledger.transaction import ControlTransaction
from airflow_provider_dpone.ledger.trust import TrustRevision, read_history

Row = Sequence[Any]

#: Stands for a bundle that stays on the server while its campaign is verified.
_BUNDLE_NOT_READ = b"\x00"


class _GrantRow(NamedTuple):
    """One row of ``campaign_rows``."""

    order: int
    registration_id: str
    subject: str
    phase: str
    grant_id: str
    subject_id: str
    exclusive_id: str
    workload_count: int
    trust_revision: int
    policy_sha256: str
    grant_sha256: str
    grant_document: bytes
    bundle_sha256: str
    bundle_bytes: int
    bundle_found: str
    signature_subject_sha256: str
    signature_subject_document: bytes
    request_sha256: str | None
    request_document: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A consumed grant: its originals, the trust revision of that time, and the ceilings that were in force."""

    registration_id: str
    order: int
    originals: GrantOriginals
    bundle_sha256: str
    trust: TrustRevision
    ceilings: tuple[Ceiling, ...]
    members: tuple[Member, ...]

    @property
    def subject(self) -> str:
        return consumption_subject_sha256(self.originals.grant)


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """Every registration of one campaign in order, and its complete workload set."""

    registrations: tuple[Registration, ...]
    members: tuple[Member, ...]

    @property
    def grants(self) -> list[tuple[str, Grant]]:
        return [(found.subject, found.originals.grant) for found in self.registrations]


def read_campaign(transaction: ControlTransaction, environment_id: str, campaign_id: str) -> Campaign:
    """Verify and rebuild a whole campaign in two statements. The bundles' bytes are compared by the server."""
    grants, bounds, members = transaction.run(("campaign_rows", [environment_id, campaign_id]))
    history = {revision.revision: revision for revision in read_history(transaction, environment_id)}
    stored: dict[str, list[Row]] = defaultdict(list)
    for row in bounds:
        stored[row[0]].append(row)
    found = []
    for number, row in enumerate(map(_GrantRow._make, grants), 1):
        registration = _registration(row, history, stored[row.subject])
        scope = registration.originals.grant.scope
        if registration.order != number or (scope.environment_id, scope.campaign_id) != (environment_id, campaign_id):
            raise _tampered("campaign", registration.subject, "it does not belong in this place of this campaign")
        found.append(registration)
    complete = members_of((each.subject, each.originals.grant) for each in found)
    if complete != tuple(
        Member(workload_sha256=sha256, document=document, first_consumption_subject_sha256=first)
        for sha256, document, first in members
    ):
        raise LedgerTampered(
            "registration_membership",
            happened=f"the workload set of the campaign {campaign_id} is not that of its registered grants.",
            details={"environment_id": environment_id, "campaign_id": campaign_id},
        )
    return Campaign(registrations=tuple(replace(each, members=complete) for each in found), members=complete)


def with_bundle(transaction: ControlTransaction, campaign: Campaign, subject: str) -> Registration:
    """The registration of a verified campaign with its signature bundle's own bytes."""
    [found] = [each for each in campaign.registrations if each.subject == subject]
    [rows] = transaction.run(("bundle_of", [subject]))
    bundle = rows[0][0] if len(rows) == 1 else None
    if type(bundle) is not bytes or canonical.sha256_text(bundle) != found.bundle_sha256:
        raise _tampered("bundle", subject, "its signature bundle cannot be read back")
    return replace(found, originals=replace(found.originals, signature_bundle=bundle))


def _registration(row: _GrantRow, history: dict[int, TrustRevision], bounds: Sequence[Row]) -> Registration:
    trust = history.get(row.trust_revision)
    if trust is None or trust.policy.sha256 != row.policy_sha256:
        raise _tampered("trust", row.subject, "the trust revision that it names is not there")
    try:
        grant = decode_grant(row.grant_document, row.grant_sha256)
        originals = GrantOriginals(
            grant=grant,
            signature_bundle=_BUNDLE_NOT_READ,
            request=None
            if row.request_document is None
            else decode_request(row.request_document, row.request_sha256, nonproduction=True),
        )
    except AdmissionRefused as err:
        raise _tampered("original", row.subject, "an original cannot be read back") from err
    columns = (row.subject, row.phase, row.grant_id, row.subject_id, row.exclusive_id, row.workload_count)
    if (*columns, row.request_sha256) != (
        consumption_subject_sha256(grant),
        grant.phase,
        grant.grant_id,
        originals.subject_id,
        originals.exclusive_id,
        len(grant.workloads) if isinstance(grant, ExecutionGrant) else 0,
        None if originals.request is None else originals.request.sha256,
    ):
        raise _tampered("original", row.subject, "its columns are not those of its grant")
    expected = signature_subject(grant, trust.policy)
    signed = (row.signature_subject_sha256, row.signature_subject_document, row.policy_sha256)
    if signed != (expected.sha256, expected.document(), grant.scope.policy_sha256):
        raise _tampered("signature_subject", row.subject, "its signature subject is not that of its grant and policy")
    if row.bundle_found != row.bundle_sha256 or not 1 <= row.bundle_bytes <= canonical.SIGNATURE_BUNDLE_LIMIT:
        raise _tampered("bundle", row.subject, "its signature bundle is not the one that was registered")
    in_force = ceilings(grant, trust.policy)
    if [tuple(bound) for bound in bounds] != [
        (row.subject, ordinal, ceiling.workload_sha256, *ceiling.limits.members().values())
        for ordinal, ceiling in enumerate(in_force)
    ]:
        raise _tampered("ceilings", row.subject, "its ceilings are not those of its grant and policy")
    return Registration(
        registration_id=row.registration_id,
        order=row.order,
        originals=originals,
        bundle_sha256=row.bundle_sha256,
        trust=trust,
        ceilings=in_force,
        members=(),
    )


def _tampered(part: str, subject: object, what: str) -> LedgerTampered:
    return LedgerTampered(
        f"registration_{part}",
        happened=f"the registration {subject}: {what}.",
        details={"consumption_subject_sha256": subject, "part": part},
    )
