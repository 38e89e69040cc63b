"""Registering nonproduction grants: each is consumed once, with its exact originals, under the trust in force.

A registration is one transaction: the trust revision is compared, the grant is measured against its policy and the
clock, the campaign's workload set stays within the tightest ceiling, and all originals are stored. It authenticates
nothing itself and opens nothing: the caller has verified the signature bundle before, and a registered grant owns no
physical domain yet. Registered history stays readable after expiry and revocation, for recovery.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime

from airflow_provider_dpone.contracts import canonical, rules
from airflow_provider_dpone.contracts.errors import AuthorityRefused, LedgerTampered
from airflow_provider_dpone.contracts.nonproduction.grants import (
    ExecutionGrant,
    Grant,
    consumption_subject_sha256,
    signature_subject,
)
from airflow_provider_dpone.contracts.nonproduction.policy import AuthorityPolicy
from airflow_provider_dpone.contracts.nonproduction.registration import (
    GrantOriginals,
    ceilings,
    member_ceiling,
    members_of,
)
from airflow_provider_dpone.drivers import Connect
from airflow_provider_dpone.ledger import campaigns
from airflow_provider_dpone.ledger.campaigns import Campaign, Registration, read_campaign
from airflow_provider_dpone.ledger.groups import GroupLedger
from airflow_provider_dpone.ledger.settings import LedgerSettings
from airflow_provider_dpone.ledger.transaction import ControlTransaction, Part
from airflow_provider_dpone.ledger.trust import TrustRevision, require_revision

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    return datetime.now(UTC)


class RegistrationStore:
    """Grants by their consumption subject, within the complete set of workloads of their campaign."""

    def __init__(
        self, connect: Connect, settings: LedgerSettings, *, clock: Clock = utc_now, role: str = "registrar"
    ) -> None:
        self._ledger = GroupLedger(connect, settings, "trust", "registration", role=role)
        self._clock = clock

    def register(self, originals: GrantOriginals, *, under: TrustRevision) -> Registration:
        """Consume the grant under exactly this trust revision, and return its registration as read back.

        A qualification grant is consumed by one call, ever: the same again is refused (``qualification_consumed``).
        The same execution grant with the same originals is the same answer. Other refusals, all without any change:
        ``trust_revision_changed``; the reasons of the policy (``policy``, ``scope``, ``revoked``, ``validity``);
        ``registration_rebind`` for other originals of a consumed grant; ``registration_subject_reuse`` for another
        grant of a qualification run; ``membership_ceiling``; ``registration_clock``.
        """
        with rules.refusing_as(AuthorityRefused):
            rules.record(originals, GrantOriginals, "registration_originals")
            rules.record(under, TrustRevision, "trust_revision")
        registration_id = str(uuid.uuid4())
        subject = consumption_subject_sha256(originals.grant)

        def work(transaction: ControlTransaction) -> Registration | None:
            policy = require_revision(transaction, under).policy
            started = self._clock()
            originals.grant.require_under(policy, now=started)
            if (known := self._known(transaction, originals, subject)) is not None:
                return known
            self._write(transaction, originals, under, registration_id)
            # Whoever waited for the lock, or was stopped, must not store what has expired since.
            self._require_still(originals.grant, policy, started)
            return None

        def readback(transaction: ControlTransaction) -> Registration | None:
            found = read_registration(transaction, subject)
            return found if found is not None and found.registration_id == registration_id else None

        return self._ledger.mutate("register grant", work, readback)

    def read(self, grant: Grant | str) -> Registration | None:
        """The registration of a grant, or of a consumption subject, with every byte of its campaign verified.

        Trust may have moved on: what is checked is the revision that it was registered under.
        """
        subject = rules.digest(grant) if isinstance(grant, str) else consumption_subject_sha256(grant)
        found = self._ledger.read(lambda transaction: read_registration(transaction, subject))
        if found is not None and not isinstance(grant, str) and found.originals.grant != grant:
            raise _refused("registration_rebind", "the grant was registered with other content.")
        return found

    def _known(self, transaction: ControlTransaction, originals: GrantOriginals, subject: str) -> Registration | None:
        """The registration that is already there, if asking again for it is allowed; None for a new grant."""
        phase = originals.grant.phase
        results = transaction.run(("registered_as", [subject]), ("exclusive_rows", [phase, originals.exclusive_id]))
        registered, exclusive = results
        if registered and phase == "qualification":
            raise _refused("qualification_consumed", "the qualification grant is already consumed.")
        if registered:
            known = read_registration(transaction, subject)
            if known is None or known.originals != originals:
                raise _refused("registration_rebind", "the grant was registered with other originals.")
            return known
        if exclusive:
            raise _refused("registration_subject_reuse", "another grant was registered for the same qualification run.")
        return None

    def _write(
        self, transaction: ControlTransaction, originals: GrantOriginals, under: TrustRevision, registration_id: str
    ) -> None:
        grant, policy = originals.grant, under.policy
        environment, campaign_id = grant.scope.environment_id, grant.scope.campaign_id
        subject = consumption_subject_sha256(grant)
        campaign = read_campaign(transaction, environment, campaign_id)
        in_force = ceilings(grant, policy)
        members = members_of([*campaign.grants, (subject, grant)])
        if len(members) > (limit := member_ceiling(in_force)):
            raise _refused(
                "membership_ceiling",
                f"with this grant the campaign would have {len(members)} workloads; the ceiling is {limit}.",
            )
        transaction.run(_grant_part(originals, under, registration_id, order=len(campaign.registrations) + 1))
        parts: list[Part] = [
            (
                "insert_ceiling",
                [subject, ordinal, ceiling.workload_sha256 or "", *ceiling.limits.members().values()],
            )
            for ordinal, ceiling in enumerate(in_force)
        ]
        parts += [
            (
                "insert_member",
                [environment, campaign_id, member.workload_sha256, member.document, subject],
            )
            for member in members
            if member not in campaign.members
        ]
        transaction.run(*parts)

    def _require_still(self, grant: Grant, policy: AuthorityPolicy, started: datetime) -> None:
        ended = self._clock()
        if ended < started:
            raise _refused("registration_clock", "the clock went backwards during the registration.")
        grant.require_under(policy, now=ended)


def read_registration(transaction: ControlTransaction, subject: str) -> Registration | None:
    """One registration with its bundle, or None, after its whole campaign was verified."""
    [where] = transaction.run(("registered_as", [subject]))
    if not where:
        return None
    campaign = read_campaign(transaction, *where[0])
    return campaigns.with_bundle(transaction, campaign, subject)


def audit(transaction: ControlTransaction) -> int:
    """Verify every campaign and every bundle; how many grants are registered."""
    all_campaigns, subjects = transaction.run(("all_campaigns", []))
    verified: dict[str, Campaign] = {}
    for environment_id, campaign_id in all_campaigns:
        campaign = read_campaign(transaction, environment_id, campaign_id)
        verified |= dict.fromkeys((found.subject for found in campaign.registrations), campaign)
    if set(verified) != {subject for (subject,) in subjects}:
        raise LedgerTampered("registration_campaign", happened="a grant does not belong to the campaign it names.")
    for subject, campaign in verified.items():
        campaigns.with_bundle(transaction, campaign, subject)
    return len(verified)


def _grant_part(originals: GrantOriginals, under: TrustRevision, registration_id: str, *, order: int) -> Part:
    grant, request = originals.grant, originals.request
    signed = signature_subject(grant, under.policy)
    return (
        "insert_grant",
        [
            consumption_subject_sha256(grant),
            registration_id,
            grant.scope.environment_id,
            grant.scope.campaign_id,
            order,
            grant.phase,
            grant.grant_id,
            originals.subject_id,
            originals.exclusive_id,
            len(grant.workloads) if isinstance(grant, ExecutionGrant) else 0,
            under.revision,
            under.policy.sha256,
            grant.sha256,
            grant.document(),
            canonical.sha256_text(originals.signature_bundle),
            originals.signature_bundle,
            signed.sha256,
            signed.document(),
            "" if request is None else request.sha256,
            b"" if request is None else request.document(),
        ],
    )


def _refused(reason: str, happened: str) -> AuthorityRefused:
    return AuthorityRefused(
        reason,
        happened=happened,
        not_done="nothing was registered.",
        check="the registered grants of the campaign, and the policy in force.",
    )
