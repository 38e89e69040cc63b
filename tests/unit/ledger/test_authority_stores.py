"""What the trust and registration stores refuse before they write, and what exactly they write."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_provider_dpone.contracts.errors import AdmissionRefused, AuthorityRefused, ControlUnavailable
from airflow_provider_dpone.contracts.nonproduction.grants import Grant
from airflow_provider_dpone.contracts.nonproduction.registration import GrantOriginals
from airflow_provider_dpone.contracts.nonproduction.scope import Participant
from airflow_provider_dpone.ledger import LedgerSettings, RegistrationStore, TrustStore, registration
from airflow_provider_dpone.ledger.trust import read_history
from tests.support import nonproduction as make
from tests.support.authority_rows import CAMPAIGN, ENVIRONMENT, Rows
from tests.support.ledger_records import SERVICE, sha

SETTINGS = LedgerSettings(service_id=SERVICE)


class InMemory:
    """The transactions of a ledger that commits at once, or loses what was written."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.written = 0

    def mutate(self, step: str, work: Callable[..., Any], readback: Callable[..., Any], **_: object) -> Any:
        answer = work(self.rows.transaction)
        if answer is not None:
            return answer
        self.written += 1
        found = readback(self.rows.transaction)
        assert found is not None, step
        return found

    def read(self, query: Callable[..., Any]) -> Any:
        return query(self.rows.transaction)


def never() -> Any:
    raise AssertionError("no connection is needed here")


def trust_store(rows: Rows) -> tuple[TrustStore, InMemory]:
    store, ledger = TrustStore(never, SETTINGS), InMemory(rows)
    store._ledger = ledger  # type: ignore[assignment]  # the same two calls
    return store, ledger


def registrations(rows: Rows, clock: Callable[[], datetime] = lambda: make.NOW) -> tuple[RegistrationStore, InMemory]:
    store, ledger = RegistrationStore(never, SETTINGS, clock=clock), InMemory(rows)
    store._ledger = ledger  # type: ignore[assignment]  # the same two calls
    return store, ledger


def refused(reason: str, use: Callable[[], object], error: type[AdmissionRefused] = AuthorityRefused) -> None:
    with pytest.raises(error) as raised:
        use()
    assert raised.value.reason == reason


def policy(**changes: Any) -> Any:
    return make.policy(ENVIRONMENT, **changes)


def test_a_policy_is_appended_after_the_one_it_was_prepared_from() -> None:
    rows = Rows()
    store, ledger = trust_store(rows)
    first = store.append(policy(), make.TRUST_ROOT, after=0)
    assert store.append(policy(), make.TRUST_ROOT, after=0) == first
    second = store.append(policy(limits=make.limits(max_attempts=1)), make.TRUST_ROOT, after=1)
    assert (first.revision, second.revision, ledger.written) == (1, 2, 2)
    assert store.history(ENVIRONMENT) == (first, second) == read_history(rows.transaction, ENVIRONMENT)
    assert store.read(ENVIRONMENT) == second
    for after in (0, 1, 3, -1):
        refused("trust_revision", lambda after=after: store.append(policy(), make.TRUST_ROOT, after=after))  # type: ignore[misc]  # bound now
    assert ledger.written == 2


def test_no_policy_is_in_force_before_the_first() -> None:
    store, _ = trust_store(Rows())
    refused("policy_absent", lambda: store.read(ENVIRONMENT))
    assert store.history(ENVIRONMENT) == ()


def test_a_revocation_stays() -> None:
    gone = tuple(sorted(str(uuid.uuid4()) for _ in range(2)))
    store, ledger = trust_store(Rows())
    store.append(policy(revocation_epoch=5, revoked_grant_ids=gone), make.TRUST_ROOT, after=0)
    for changes in (
        {"revocation_epoch": 4, "revoked_grant_ids": gone},
        {"revocation_epoch": 5, "revoked_grant_ids": gone[:1]},
        {"revocation_epoch": 9, "revoked_grant_ids": ()},
    ):
        refused("trust_revocation", lambda changes=changes: store.append(policy(**changes), make.TRUST_ROOT, after=1))  # type: ignore[misc]  # bound now
    assert ledger.written == 1
    store.append(
        policy(revocation_epoch=5, revoked_grant_ids=gone, limits=make.limits(max_attempts=1)), make.TRUST_ROOT, after=1
    )


@pytest.mark.parametrize("root", [b"", b"another", bytearray(make.TRUST_ROOT), b"x" * (1024 * 1024 + 1), None, "text"])
def test_a_trust_root_is_the_pinned_one_and_at_most_one_mebibyte(root: Any) -> None:
    store, ledger = trust_store(Rows())
    refused("trust_root", lambda: store.append(policy(), root, after=0))
    assert ledger.written == 0


def test_a_policy_is_at_most_one_mebibyte() -> None:
    relations = tuple(sorted(sha(str(number)) for number in range(15_000)))
    wide: tuple[Participant, ...] = tuple(replace(each, read_relations=relations) for each in make.participants())
    store, ledger = trust_store(Rows())
    refused("trust_size", lambda: store.append(policy(participants=wide), make.TRUST_ROOT, after=0))
    assert ledger.written == 0


@pytest.fixture
def rows() -> Rows:
    return Rows()


def test_what_is_written_reads_back_as_what_was_registered(rows: Rows) -> None:
    under = rows.append()
    store, ledger = registrations(rows)
    grant, run = make.execution(under.policy, CAMPAIGN), make.qualification(under.policy, CAMPAIGN)
    both: tuple[Grant, ...] = (grant, run)
    for order, each in enumerate(both, 1):
        registered = store.register(make.originals(each), under=under)
        assert (registered.order, registered.originals, registered.trust) == (order, make.originals(each), under)
        assert store.read(each) == store.read(registered.subject) == registered
    assert ledger.written == 2
    assert registration.audit(rows.transaction) == 2
    assert store.register(make.originals(grant), under=under) == store.read(grant)
    assert ledger.written == 2
    assert store.read(make.qualification(under.policy, CAMPAIGN)) is None


def test_a_grant_is_consumed_by_its_originals_alone(rows: Rows) -> None:
    under = rows.append()
    store, ledger = registrations(rows)
    grant, run = make.execution(under.policy, CAMPAIGN), make.qualification(under.policy, CAMPAIGN)
    for each in (grant, run):
        store.register(make.originals(each), under=under)
    changed = replace(grant, deployment_id=sha("another"))
    other_run = replace(run, grant_id=str(uuid.uuid4()))
    for reason, originals in (
        ("qualification_consumed", make.originals(run)),
        ("qualification_consumed", make.originals(run, b"another bundle")),
        ("registration_subject_reuse", make.originals(other_run)),
        ("registration_rebind", make.originals(grant, b"another bundle")),
        ("registration_rebind", make.originals(changed)),
    ):
        refused(reason, lambda originals=originals: store.register(originals, under=under))  # type: ignore[misc]  # bound now
    refused("registration_rebind", lambda: store.read(changed))
    refused("digest", lambda: store.read("no digest"), AdmissionRefused)
    assert ledger.written == 2


def test_the_ceiling_counts_the_whole_campaign(rows: Rows) -> None:
    under = rows.append(limits=make.limits(max_workloads=3))
    store, ledger = registrations(rows)
    first = store.register(make.originals(make.execution(under.policy, CAMPAIGN, ("n_a", "s_b"))), under=under)
    third = make.execution(under.policy, CAMPAIGN, ("n_c", "s_b"))
    registered = store.register(make.originals(third), under=under)
    assert (len(first.members), len(registered.members)) == (2, 3)
    assert rows.members == [
        [each.workload_sha256, each.document, each.first_consumption_subject_sha256] for each in registered.members
    ]
    too_many = make.execution(under.policy, CAMPAIGN, ("n_d", "s_b"))
    refused("membership_ceiling", lambda: store.register(make.originals(too_many), under=under))
    assert ledger.written == 2


@pytest.mark.parametrize(
    ("times", "reason"),
    [
        ((timedelta(hours=-1), timedelta()), "validity"),
        ((timedelta(hours=1), timedelta(hours=1)), "validity"),
        ((timedelta(), timedelta(minutes=20)), "validity"),
        ((timedelta(), timedelta(seconds=-1)), "registration_clock"),
        ((timedelta(minutes=-10), timedelta(minutes=19, seconds=59)), None),
        ((timedelta(), timedelta()), None),
    ],
)
def test_the_clock_is_asked_before_and_after(rows: Rows, times: tuple[timedelta, ...], reason: str | None) -> None:
    """The grants of the tests are valid from ten minutes before NOW to twenty after it."""
    under = rows.append()
    moments = iter(make.NOW + each for each in times)
    store, ledger = registrations(rows, lambda: next(moments))
    originals = make.originals(make.execution(under.policy, CAMPAIGN))
    if reason is None:
        assert store.register(originals, under=under).order == 1
    else:
        refused(reason, lambda: store.register(originals, under=under))
        assert ledger.written == 0
    assert list(moments) == ([] if reason is None or times[0] == timedelta() else [make.NOW + times[1]])


def test_nothing_is_registered_under_another_revision_or_lock(rows: Rows) -> None:
    first = rows.append()
    second = rows.append(limits=make.limits(max_attempts=1))
    store, ledger = registrations(rows)
    refused("trust_revision_changed", lambda: store.register(_execution(first), under=first))
    refused("policy", lambda: store.register(_execution(first), under=second))
    rows.lock = "Shared"
    with pytest.raises(ControlUnavailable):
        store.register(_execution(second), under=second)
    rows.lock = "Exclusive"
    assert ledger.written == 0
    assert store.register(_execution(second), under=second).trust == second


def test_the_default_clock_is_utc() -> None:
    moment = registration.utc_now()
    assert moment.tzinfo is UTC
    assert abs(datetime.now(UTC) - moment) < timedelta(minutes=1)


def _execution(under: Any) -> GrantOriginals:
    return make.originals(make.execution(under.policy, CAMPAIGN))
