"""Stored policies and grants are believed only whole: every column of every row is compared with its original."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_dpone.contracts.canonical import SIGNATURE_BUNDLE_LIMIT, sha256_text
from airflow_provider_dpone.contracts.errors import AuthorityRefused, ControlUnavailable, LedgerTampered
from airflow_provider_dpone.contracts.nonproduction.grants import Grant
from airflow_provider_dpone.ledger import registration, trust
from airflow_provider_dpone.ledger.campaigns import read_campaign, with_bundle
from airflow_provider_dpone.ledger.trust import read_history, require_revision
from tests.support import nonproduction as make
from tests.support.authority_rows import CAMPAIGN, ENVIRONMENT, Row, Rows
from tests.support.ledger_records import sha


def tampered(reason: str, use: Callable[[], object]) -> None:
    with pytest.raises(LedgerTampered) as refused:
        use()
    assert refused.value.reason == reason


def test_a_history_reads_back_in_order_and_counts_in_the_audit() -> None:
    rows = Rows()
    written = (rows.append(), rows.append(limits=make.limits(max_attempts=1)), rows.append(revocation_epoch=3))
    assert read_history(rows.transaction, ENVIRONMENT) == written
    assert trust.audit(rows.transaction) == 3
    assert trust.audit(Rows().transaction) == 0


POLICY_DAMAGES: dict[str, Callable[[Row], None]] = {
    "number": lambda row: row.__setitem__(0, 7),
    "policy digest": lambda row: row.__setitem__(1, sha("another")),
    "policy bytes": lambda row: row.__setitem__(2, row[2] + b" "),
    "policy bytes and digest": lambda row: row.__setitem__(slice(1, 3), [sha256_text(row[2] + b" "), row[2] + b" "]),
    "policy as text": lambda row: row.__setitem__(2, row[2].decode()),
    "root digest": lambda row: row.__setitem__(3, sha("another")),
    "root bytes": lambda row: row.__setitem__(4, b"another"),
    "root and digest": lambda row: row.__setitem__(slice(3, 5), [sha256_text(b"another"), b"another"]),
    "root absent": lambda row: row.__setitem__(4, None),
    "epoch": lambda row: row.__setitem__(5, 1),
    "environment": lambda row: row.__setitem__(
        slice(1, 3), [(other := make.policy(str(uuid.uuid4()))).sha256, other.document()]
    ),
}


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("damage", POLICY_DAMAGES)
def test_one_damaged_revision_refuses_the_whole_history(damage: str, place: int) -> None:
    rows = Rows()
    rows.append()
    rows.append()
    POLICY_DAMAGES[damage](rows.policies[place])
    tampered("trust_revision", lambda: read_history(rows.transaction, ENVIRONMENT))


@pytest.mark.parametrize("revoked", [(), ("6e3f1d6c-0d5e-4a57-9a53-3f9d2f6c1b7a",)])
def test_a_history_that_takes_a_revocation_back_was_not_written_by_the_store(revoked: tuple[str, ...]) -> None:
    rows = Rows()
    rows.append(revocation_epoch=2, revoked_grant_ids=revoked)
    rows.append(revocation_epoch=2 if revoked else 1)
    tampered("trust_revision", lambda: read_history(rows.transaction, ENVIRONMENT))


@pytest.mark.parametrize(
    "environment", ["", "x", "6E3F1D6C-0D5E-4A57-9A53-3F9D2F6C1B7A", "0" * 8 + "-0000-0000-0000-" + "0" * 12, 7]
)
def test_an_environment_is_a_uuid(environment: Any) -> None:
    with pytest.raises(AuthorityRefused):
        read_history(Rows().transaction, environment)


@pytest.mark.parametrize("lock", ["NoLock", "Shared", "Update", "IntentExclusive", "exclusive"])
def test_nothing_is_decided_under_another_lock(lock: str) -> None:
    rows = Rows(lock=lock)
    revision = rows.append()
    with pytest.raises(ControlUnavailable) as refused:
        require_revision(rows.transaction, revision)
    assert refused.value.reason == "trust_lock"


def test_only_the_exact_last_revision_is_in_force() -> None:
    rows = Rows()
    first, last = rows.append(), rows.append()
    assert require_revision(rows.transaction, last) == last
    for other in (first, replace(last, trust_root=b"another"), replace(last, revision=3)):
        with pytest.raises(AuthorityRefused) as refused:
            require_revision(rows.transaction, other)
        assert refused.value.reason == "trust_revision_changed"
    with pytest.raises(AuthorityRefused) as refused:
        require_revision(Rows().transaction, last)
    assert refused.value.reason == "policy_absent"


@pytest.fixture
def campaign() -> Rows:
    """An execution, a qualification, and an execution of a later policy that shares a workload."""
    rows = Rows()
    first = rows.append()
    grants: list[Grant] = [
        make.execution(first.policy, CAMPAIGN, ("n_a", "s_b")),
        make.qualification(first.policy, CAMPAIGN),
    ]
    for grant in grants:
        rows.register(grant, first)
    second = rows.append(limits=make.limits(max_attempts=2))
    grants.append(make.execution(second.policy, CAMPAIGN, ("n_a", "n_c", "s_b")))
    rows.register(grants[-1], second, b"\x00" * 10)
    rows.complete(*grants)
    return rows


def test_a_campaign_reads_back_whole_with_each_bundle(campaign: Rows) -> None:
    read = read_campaign(campaign.transaction, ENVIRONMENT, CAMPAIGN)
    assert [each.trust.revision for each in read.registrations] == [1, 1, 2]
    assert [len(each.ceilings) for each in read.registrations] == [3, 1, 4]
    assert all(each.members == read.members and len(each.members) == 3 for each in read.registrations)
    last = with_bundle(campaign.transaction, read, read.registrations[2].subject)
    assert last.originals.signature_bundle == b"\x00" * 10
    assert registration.audit(campaign.transaction) == 3
    assert registration.read_registration(campaign.transaction, last.subject) == last
    assert registration.read_registration(campaign.transaction, sha("never")) is None
    empty = read_campaign(Rows().transaction, ENVIRONMENT, CAMPAIGN)
    assert (empty.registrations, empty.members, empty.grants) == ((), (), [])


def put(index: int, value: object) -> Callable[[Row], None]:
    return lambda row: row.__setitem__(index, value)


GRANT_DAMAGES: dict[str, tuple[Callable[[Row], None], str]] = {
    "order": (put(0, 9), "registration_campaign"),
    "subject": (put(2, sha("another")), "registration_original"),
    "phase": (put(3, "other"), "registration_original"),
    "grant id": (put(4, str(uuid.uuid4())), "registration_original"),
    "subject id": (put(5, str(uuid.uuid4())), "registration_original"),
    "exclusive id": (put(6, str(uuid.uuid4())), "registration_original"),
    "workload count": (put(7, 63), "registration_original"),
    "revision": (put(8, 9), "registration_trust"),
    "policy": (put(9, sha("another")), "registration_trust"),
    "grant digest": (put(10, sha("another")), "registration_original"),
    "grant bytes": (put(11, b"{}"), "registration_original"),
    "bundle digest": (put(12, sha("another")), "registration_bundle"),
    "bundle size": (put(13, SIGNATURE_BUNDLE_LIMIT + 1), "registration_bundle"),
    "bundle empty": (put(13, 0), "registration_bundle"),
    "bundle found": (put(14, sha("another")), "registration_bundle"),
    "signature subject digest": (put(15, sha("another")), "registration_signature_subject"),
    "signature subject bytes": (put(16, b"{}"), "registration_signature_subject"),
    "request digest": (put(17, sha("another")), "registration_original"),
    "request bytes": (put(18, b"{}"), "registration_original"),
}


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("damage", GRANT_DAMAGES)
def test_one_damaged_column_of_any_grant_refuses_the_campaign(campaign: Rows, damage: str, place: int) -> None:
    change, reason = GRANT_DAMAGES[damage]
    change(campaign.grants[place])
    reasons = {reason, "registration_ceilings"} if damage == "subject" else {reason}
    with pytest.raises(LedgerTampered) as refused:
        read_campaign(campaign.transaction, ENVIRONMENT, CAMPAIGN)
    assert refused.value.reason in reasons


@pytest.mark.parametrize("size", [1, SIGNATURE_BUNDLE_LIMIT])
def test_a_bundle_of_the_smallest_and_of_the_largest_size_is_one(campaign: Rows, size: int) -> None:
    campaign.grants[0][13] = size
    assert len(read_campaign(campaign.transaction, ENVIRONMENT, CAMPAIGN).registrations) == 3


@pytest.mark.parametrize("column", range(9))
@pytest.mark.parametrize("place", range(8))
def test_one_damaged_bound_refuses_the_campaign(campaign: Rows, place: int, column: int) -> None:
    row = campaign.ceilings[place]
    row[column] = sha("another") if column in (0, 2) else row[column] + 1
    tampered("registration_ceilings", lambda: read_campaign(campaign.transaction, ENVIRONMENT, CAMPAIGN))


def test_a_missing_and_an_additional_bound_refuse_the_campaign(campaign: Rows) -> None:
    kept = list(campaign.ceilings)
    for changed in (kept[:-1], kept[1:], [*kept, [*kept[-1][:1], 4, *kept[-1][2:]]]):
        campaign.ceilings = changed
        tampered("registration_ceilings", lambda: read_campaign(campaign.transaction, ENVIRONMENT, CAMPAIGN))


def test_a_workload_set_is_exactly_the_union(campaign: Rows) -> None:
    kept = [list(row) for row in campaign.members]
    other = campaign.grants[2][2]
    for changed in (
        kept[1:],
        [*kept, kept[0]],
        [[sha("another"), *kept[0][1:]], *kept[1:]],
        [[kept[0][0], b"{}", kept[0][2]], *kept[1:]],
        [[*row[:2], other] for row in kept],
        list(reversed(kept)),
    ):
        campaign.members = [list(row) for row in changed]
        tampered("registration_membership", lambda: read_campaign(campaign.transaction, ENVIRONMENT, CAMPAIGN))


@pytest.mark.parametrize("bundle", [b"another", b"", None, "text"])
def test_a_bundle_is_compared_when_it_is_read(campaign: Rows, bundle: object) -> None:
    subject = campaign.grants[1][2]
    campaign.bundles[subject] = bundle
    tampered("registration_bundle", lambda: registration.read_registration(campaign.transaction, subject))
    tampered("registration_bundle", lambda: registration.audit(campaign.transaction))


def test_a_grant_outside_of_its_campaign_is_found_by_the_audit(campaign: Rows) -> None:
    campaign.bundles[sha("a grant that no campaign shows")] = b"x"
    tampered("registration_campaign", lambda: registration.audit(campaign.transaction))


def test_another_campaigns_grant_is_refused(campaign: Rows) -> None:
    tampered("registration_campaign", lambda: read_campaign(campaign.transaction, ENVIRONMENT, str(uuid.uuid4())))
