"""What a registration keeps of a grant: originals that belong together, the tightest ceilings, the campaign's set."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from airflow_provider_dpone.contracts.canonical import SIGNATURE_BUNDLE_LIMIT
from airflow_provider_dpone.contracts.errors import AuthorityRefused
from airflow_provider_dpone.contracts.nonproduction.registration import (
    GrantOriginals,
    ceilings,
    member_ceiling,
    members_of,
    workload_sha256,
)
from tests.support import nonproduction as make
from tests.support.ledger_records import sha

ENVIRONMENT, CAMPAIGN = str(uuid.uuid4()), str(uuid.uuid4())
POLICY = make.policy(ENVIRONMENT)


@pytest.mark.parametrize("bundle", [b"", b"x" * (SIGNATURE_BUNDLE_LIMIT + 1), bytearray(b"x"), "x"])
def test_a_bundle_is_one_byte_to_eight_mebibytes(bundle: object) -> None:
    with pytest.raises(AuthorityRefused) as refused:
        GrantOriginals(grant=make.qualification(POLICY, CAMPAIGN), signature_bundle=bundle)  # type: ignore[arg-type]  # the point
    assert refused.value.reason == "signature_bundle"


def test_the_request_of_an_execution_is_exactly_the_parent_that_was_granted() -> None:
    grant = make.execution(POLICY, CAMPAIGN)
    assert make.originals(grant).request is not None
    request = make.request_of(grant)
    other = make.execution(POLICY, CAMPAIGN, ("n_one", "s_three"), activation_id=grant.activation_id)
    wrong = [
        None,
        replace(request, execution_grant_sha256=other.sha256),
        replace(request, execution_grant_sha256=None),
        replace(request, context=replace(request.context, deployment_id=sha("other"))),
        replace(make.request_of(other), execution_grant_sha256=grant.sha256),
    ]
    for each in wrong:
        with pytest.raises(AuthorityRefused) as refused:
            GrantOriginals(grant=grant, signature_bundle=b"x", request=each)
        assert refused.value.reason == "registration_request"


def test_a_qualification_has_no_request() -> None:
    request = make.request_of(make.execution(POLICY, CAMPAIGN))
    with pytest.raises(AuthorityRefused):
        GrantOriginals(grant=make.qualification(POLICY, CAMPAIGN), signature_bundle=b"x", request=request)


def test_a_run_takes_one_grant_and_an_activation_several_candidates() -> None:
    run = make.originals(make.qualification(POLICY, CAMPAIGN))
    candidate = make.originals(make.execution(POLICY, CAMPAIGN))
    assert run.exclusive_id == run.subject_id
    assert candidate.exclusive_id == candidate.grant.grant_id != candidate.subject_id


def test_each_ceiling_is_the_smallest_of_policy_grant_and_workload() -> None:
    policy = make.policy(ENVIRONMENT, limits=make.limits(max_attempts=9))
    grant = make.execution(policy, CAMPAIGN, limits=make.limits(max_source_rows=7, max_workloads=5))
    tight = replace(grant.workloads[0], limits=make.limits(max_source_bytes=3, max_workloads=4))
    whole, first, *rest = ceilings(replace(grant, workloads=(tight, *grant.workloads[1:])), policy)
    assert (whole.workload_sha256, first.workload_sha256) == (None, workload_sha256("n_one"))
    assert (whole.limits.max_attempts, whole.limits.max_source_rows, whole.limits.max_workloads) == (9, 7, 5)
    assert (first.limits.max_attempts, first.limits.max_source_rows, first.limits.max_source_bytes) == (9, 7, 3)
    assert [each.limits.max_source_bytes for each in rest] == [whole.limits.max_source_bytes] * 2
    assert member_ceiling([whole, first, *rest]) == 4


def test_a_campaigns_set_is_the_union_of_its_executions_and_each_member_names_the_first() -> None:
    one = make.execution(POLICY, CAMPAIGN, ("n_one", "s_two"))
    two = make.execution(POLICY, CAMPAIGN, ("n_one", "n_zwei", "s_two"))
    members = members_of([("q", make.qualification(POLICY, CAMPAIGN)), ("a", one), ("b", two)])
    assert {(each.workload_sha256, each.first_consumption_subject_sha256) for each in members} == {
        (workload_sha256("n_one"), "a"),
        (workload_sha256("s_two"), "a"),
        (workload_sha256("n_zwei"), "b"),
    }
    assert [each.workload_sha256 for each in members] == sorted(each.workload_sha256 for each in members)
