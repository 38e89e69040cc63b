"""Admission decides over what one transaction saw. Each rule is tested by breaking exactly one thing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_dpone.contracts.attempt import Attempt
from airflow_provider_dpone.contracts.errors import (
    AdmissionRefused,
    ConfigurationError,
    Duplicate,
    GuardError,
    LedgerTampered,
    Overlap,
    ParentNotActive,
    StaleEpoch,
)
from airflow_provider_dpone.contracts.principal import (
    Principal,
    new_clickhouse_principal,
    new_mssql_principal,
    new_postgres_principal,
)
from airflow_provider_dpone.ledger import admission
from airflow_provider_dpone.ledger.admission import AdmissionState
from tests.support import ledger_records as make
from tests.support.ledger_records import CLICKHOUSE, SERVICE, sha

PARENT = make.request([make.domain("a"), make.domain("b")])
GUARD = PARENT.guards_of("w000")[0]
WHERE = make.coordinates(try_number=2)
ATTEMPT = make.attempt(PARENT, "w000", ((GUARD, 3),), WHERE)
LOGIN = new_mssql_principal(SERVICE, "build")

#: A ledger in which the attempt is admissible: try 1 of the same instance failed before.
GOOD = AdmissionState(
    owner=[(PARENT.owner_key, PARENT.activation_id, PARENT.sha256, PARENT.document(), "ACTIVE")],
    domains=[(GUARD, 3, PARENT.owner_key)],
    blockers=[],
    tries=[(sha("try 1"), 1, "FAILED", PARENT.sha256)],
    dags=[("dag",)],
)


def test_an_attempt_that_breaks_no_rule_is_admitted_under_its_owner() -> None:
    assert admission.decide(ATTEMPT, WHERE, GOOD) == PARENT.owner_key


@pytest.mark.parametrize(
    ("state", "error", "reason"),
    [
        (replace(GOOD, owner=[]), ParentNotActive, "parent_absent"),
        *(
            (replace(GOOD, owner=[(*GOOD.owner[0][:4], state)]), ParentNotActive, "parent_state")
            for state in ("PREPARED", "RETIRING", "RETIRED")
        ),
        (replace(GOOD, owner=[(*GOOD.owner[0][:3], b"{}", "ACTIVE")]), LedgerTampered, "owner_original"),
        (replace(GOOD, domains=[]), StaleEpoch, "domain_absent"),
        (replace(GOOD, domains=[(GUARD, 4, PARENT.owner_key)]), StaleEpoch, "epoch"),
        (replace(GOOD, domains=[(GUARD, 2, PARENT.owner_key)]), StaleEpoch, "epoch"),
        (replace(GOOD, domains=[(GUARD, 3, sha("another owner"))]), StaleEpoch, "epoch"),
        (replace(GOOD, domains=[(GUARD, 3, None)]), StaleEpoch, "epoch"),
        *(
            (replace(GOOD, blockers=[(sha("other"), family, state)]), Overlap, "overlap")
            for family in ("execution", "qualification")
            for state in ("RUNNING", "COMMIT_UNKNOWN")
        ),
        (replace(GOOD, tries=[(ATTEMPT.sha256, 2, "RUNNING", PARENT.sha256)]), Duplicate, "same_try"),
        (replace(GOOD, tries=[(ATTEMPT.sha256, 2, "SUCCEEDED", PARENT.sha256)]), Duplicate, "same_try"),
        (replace(GOOD, tries=[(sha("x"), 3, "RUNNING", PARENT.sha256)]), Duplicate, "late_try"),
        (replace(GOOD, tries=[(sha("x"), 7, "FAILED", PARENT.sha256)]), Duplicate, "late_try"),
        (replace(GOOD, tries=[(sha("x"), 2, "FAILED", sha("older request"))]), Duplicate, "run_id_reused"),
        (replace(GOOD, dags=[("dag",), ("other",)]), AdmissionRefused, "workload_dag"),
    ],
)
def test_each_rule_refuses_by_its_own_name(state: AdmissionState, error: type[GuardError], reason: str) -> None:
    with pytest.raises(error) as refused:
        admission.decide(ATTEMPT, WHERE, state)
    assert refused.value.reason == reason


@pytest.mark.parametrize("number", [2, 3])
def test_a_duplicate_names_the_operation_that_is_there(number: int) -> None:
    with pytest.raises(Duplicate) as refused:
        admission.decide(ATTEMPT, WHERE, replace(GOOD, tries=[(sha("x"), number, "FAILED", PARENT.sha256)]))
    assert refused.value.details == {"operation_key": sha("x"), "state": "FAILED"}


def test_an_overlap_names_who_blocks() -> None:
    with pytest.raises(Overlap) as refused:
        admission.decide(ATTEMPT, WHERE, replace(GOOD, blockers=[(sha("other"), "execution", "COMMIT_UNKNOWN")]))
    assert refused.value.blockers == (f"execution {sha('other')} (COMMIT_UNKNOWN)",)


@pytest.mark.parametrize(
    "other", [replace(ATTEMPT, pack_sha256=sha("other")), replace(ATTEMPT, constituent_id="standalone")]
)
def test_another_pack_or_constituent_is_refused(other: Attempt) -> None:
    with pytest.raises(AdmissionRefused) as refused:
        admission.decide(other, WHERE, GOOD)
    assert refused.value.reason == "workload_pack"


@pytest.mark.parametrize("guards", ["less", "more"])
def test_an_attempt_names_exactly_the_guards_of_its_workload(guards: str) -> None:
    both = tuple(sorted((resource.guard_id, 3) for resource in PARENT.resources))
    other = tuple(pair for pair in both if pair[0] != GUARD)
    attempt = replace(ATTEMPT, guard_epochs=both if guards == "more" else other)
    with pytest.raises(AdmissionRefused) as refused:
        admission.decide(attempt, WHERE, GOOD)
    assert refused.value.reason == "workload_guards"


def test_an_unknown_workload_is_refused() -> None:
    with pytest.raises(AdmissionRefused) as refused:
        admission.decide(replace(ATTEMPT, workload_id="unknown"), WHERE, GOOD)
    assert refused.value.reason == "workload"


@pytest.mark.parametrize(
    ("principals", "reason"),
    [
        ([LOGIN, LOGIN], "principals"),
        ([LOGIN, new_mssql_principal(SERVICE, "publish")], "principals"),
        (
            [new_clickhouse_principal(CLICKHOUSE, "ingest"), new_clickhouse_principal(CLICKHOUSE, "ingest")],
            "principals",
        ),
        ([new_postgres_principal(CLICKHOUSE, "extract")], "principals"),
        ([], "principals"),
    ],
)
def test_principals_must_be_distinct_and_provable(principals: list[Principal], reason: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        admission.require_well_formed(ATTEMPT, WHERE, principals)
    assert refused.value.reason == reason


@pytest.mark.parametrize("change", [{"try_number": 3}, {"map_index": 0}, {"run_id": "x"}, {"task_id": "y"}])
def test_coordinates_must_be_those_of_the_attempt(change: dict[str, object]) -> None:
    with pytest.raises(AdmissionRefused) as refused:
        admission.require_well_formed(ATTEMPT, replace(WHERE, **change), [LOGIN])  # type: ignore[arg-type]  # one member each
    assert refused.value.reason == "coordinates"


def test_a_backslash_is_refused_with_its_reason() -> None:
    with pytest.raises(AdmissionRefused, match="backslash"):
        admission.require_well_formed(replace(ATTEMPT, dag_run_id="a\\b"), WHERE, [LOGIN])
