"""The life of an execution owner, and the domains that it holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_dpone.contracts.errors import ConfigurationError, Duplicate, Overlap, ParentNotActive
from tests.support import ledger_records as make
from tests.support.live_ledger import LiveLedger


def test_a_whole_life_advances_each_domain_by_one_and_gives_it_back(ledger: LiveLedger) -> None:
    domains = ledger.enroll(2)
    request = make.request(domains)

    prepared = ledger.activations.prepare(request)
    assert prepared.state == "PREPARED"
    assert [epoch for _, epoch in prepared.guard_epochs] == [1, 1]
    with pytest.raises(ParentNotActive):
        ledger.activations.require_active(request)

    assert ledger.activations.activate(request).state == "ACTIVE"
    assert ledger.activations.require_active(request).guard_epochs == prepared.guard_epochs
    assert ledger.activations.begin_retirement(request).state == "RETIRING"
    with pytest.raises(ParentNotActive):
        ledger.activations.require_active(request)
    assert ledger.activations.finalize_retirement(request).state == "RETIRED"
    assert request.activation_id in {each.activation_id for each in ledger.activations.list()}
    assert request.activation_id not in {each.activation_id for each in ledger.activations.list(retired=False)}

    successor = ledger.activations.prepare(make.request(domains))
    assert [epoch for _, epoch in successor.guard_epochs] == [2, 2]
    stored = ledger.activations.read(request.activation_id)
    assert stored is not None
    assert (stored.state, stored.request, stored.guard_epochs) == ("RETIRED", request, prepared.guard_epochs)


def test_every_step_asked_again_answers_what_is_stored(ledger: LiveLedger) -> None:
    request = make.request(ledger.enroll(2))
    store = ledger.activations
    for step in (store.prepare, store.activate, store.begin_retirement, store.finalize_retirement):
        assert step(request) == step(request)


def test_an_owned_domain_is_not_reserved_by_anybody_else(ledger: LiveLedger) -> None:
    domains = ledger.enroll(3)
    first = ledger.active(domains=domains[:2])
    with pytest.raises(Overlap) as refused:
        ledger.activations.prepare(make.request(domains[1:]))
    assert first.activation_id in str(refused.value)
    [(epoch,)] = ledger.rows(
        "SELECT fencing_epoch FROM dpone_control.composition_domains WHERE guard_id = ?", domains[2][0]
    )
    assert epoch == 0


def test_a_domain_that_is_not_enrolled_is_refused(ledger: LiveLedger) -> None:
    with pytest.raises(ConfigurationError) as refused:
        ledger.activations.prepare(make.request([*ledger.enroll(1), make.domain("never enrolled", "clickhouse")]))
    assert refused.value.reason == "domain_not_enrolled"


def test_an_activation_id_is_never_used_for_another_request(ledger: LiveLedger) -> None:
    activation = ledger.active()
    other = replace(activation.request, source_subject_sha256=make.sha("another source"))
    for step in (ledger.activations.prepare, ledger.activations.activate, ledger.activations.begin_retirement):
        with pytest.raises(Duplicate):
            step(other)
    assert ledger.activations.read(activation.activation_id) == activation


def test_steps_out_of_order_are_refused(ledger: LiveLedger) -> None:
    request = make.request(ledger.enroll(2))
    for step in (ledger.activations.activate, ledger.activations.begin_retirement):
        with pytest.raises(ParentNotActive):
            step(request)
    ledger.activations.prepare(request)
    for step in (ledger.activations.begin_retirement, ledger.activations.finalize_retirement):
        with pytest.raises(ParentNotActive) as refused:
            step(request)
        assert refused.value.reason == "owner_transition"


@pytest.mark.parametrize("unresolved", ["RUNNING", "COMMIT_UNKNOWN"])
def test_retirement_waits_for_unresolved_operations(ledger: LiveLedger, unresolved: str) -> None:
    activation = ledger.active()
    operation = ledger.admit(activation)
    if unresolved == "COMMIT_UNKNOWN":
        ledger.end(operation, "COMMIT_UNKNOWN")
    ledger.activations.begin_retirement(activation.request)
    with pytest.raises(Overlap) as refused:
        ledger.activations.finalize_retirement(activation.request)
    assert operation.attempt_sha256 in str(refused.value)

    if unresolved == "RUNNING":
        ledger.end(operation, "FAILED")
    else:
        outcome = ledger.prove(operation, "OUTCOME", "FAILED")
        ledger.attempts.reconcile_unknown(operation.attempt, state="FAILED", outcome_proof_sha256=outcome)
    assert ledger.activations.finalize_retirement(activation.request).state == "RETIRED"
