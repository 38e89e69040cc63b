"""Records with one wrong member: refused, each with exactly its reason. What a mutant could change without a test."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dpone.contracts.errors import AdmissionRefused
from airflow_provider_dpone.contracts.gate_evidence import GateObservation
from airflow_provider_dpone.contracts.nonproduction.fixtures import Fixture, PlanObject, PlanOriginal
from airflow_provider_dpone.contracts.ownership import PhysicalClaim
from airflow_provider_dpone.contracts.proof import AttemptProof, Authority
from airflow_provider_dpone.contracts.snapshot import SnapshotLimits, SnapshotRecord, snapshot_record_from
from tests.support.ledger_records import CLICKHOUSE, SERVICE, sha

DATA = json.loads((Path(__file__).parents[2] / "data" / "digests.json").read_text(encoding="utf-8"))

CLOSED = GateObservation(
    attempt_sha256=sha("attempt"),
    service_id=SERVICE,
    login_sid="64706f6e6501" + "0" * 20,
    login_name="dpone_a_1",
    kind="CLOSED_GATES",
)
QUIET = replace(CLOSED, kind="QUIESCENCE", database_ids=(5, 7))
LOGIN = Authority(connector="mssql", service_id=SERVICE, principal_id="mssql-sid:" + "0" * 32)
OUTCOME = AttemptProof(
    kind="OUTCOME",
    attempt_sha256=sha("attempt"),
    activation_request_sha256=sha("request"),
    guard_epochs_sha256=sha("epochs"),
    authorities=(LOGIN,),
    evidence_sha256=sha("evidence"),
    outcome_state="FAILED",
)
FILE = PlanOriginal(path="plans/seed.sql", sha256=sha("file"), size_bytes=1)

FIXTURE = Fixture(
    fixture_id="f",
    profile="small_v1",
    recipe_original=FILE,
    parameters=(("row_count", 3), ("with_nulls", True)),
    bindings=(("source", "a"), ("target", "b")),
)
TABLE = PlanObject(
    object_id="a",
    connector="clickhouse",
    service_id=CLICKHOUSE,
    physical_subject_sha256=sha("database"),
    subject_sha256=sha("table"),
    object_kind="table",
    qualified_name=("flights", "flights"),
)
CLAIM = PhysicalClaim(
    connector="mssql",
    service_id=SERVICE,
    physical_subject_sha256=sha("database"),
    observation_sha256=sha("observation"),
    role="mutation_and_retained_source",
    read_subjects=(sha("read"),),
    write_subjects=(sha("write"),),
)


def snapshot() -> SnapshotRecord:
    vector = next(v for v in DATA["vectors"] if v["name"] == "three_rows_PREPARED")
    return snapshot_record_from({"schema": "dpone.composition-clickhouse-snapshot-record.v1", **vector["inputs"]})


WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (CLOSED, {"login_sid": "64"}, "login_sid"),
    (CLOSED, {"login_sid": None}, "login_sid"),
    (CLOSED, {"service_id": "x"}, "protected_service_id"),
    (CLOSED, {"login_name": ""}, "login_name"),
    (CLOSED, {"kind": "OUTCOME"}, "gate_observation"),
    (CLOSED, {"authentication_barrier": "READY"}, "gate_observation"),
    (CLOSED, {"login_disabled": False}, "gate_observation"),
    (CLOSED, {"database_ids": [5]}, "gate_observation"),
    (CLOSED, {"database_ids": (5,)}, "gate_observation"),
    (QUIET, {"sessions": 1}, "gate_observation"),
    (QUIET, {"transactions": 1}, "gate_observation"),
    (QUIET, {"database_ids": (7, 5)}, "gate_observation"),
    (QUIET, {"database_ids": (5, 5)}, "gate_observation"),
    (QUIET, {"database_ids": (0,)}, "gate_observation"),
    (QUIET, {"database_ids": ()}, "gate_observation"),
    (LOGIN, {"connector": "another"}, "proof_authority"),
    (LOGIN, {"service_id": "x"}, "proof_authority"),
    (LOGIN, {"principal_id": "mssql-sid:0"}, "proof_authority"),
    (OUTCOME, {"kind": "ANOTHER"}, "proof_kind"),
    (OUTCOME, {"authorities": ()}, "proof_authority_closure"),
    (OUTCOME, {"authorities": [LOGIN]}, "proof_authority_closure"),
    (OUTCOME, {"authorities": (LOGIN, LOGIN)}, "proof_authority_closure"),
    (OUTCOME, {"authorities": ("mssql",)}, "proof_authority_closure"),
    (OUTCOME, {"outcome_state": None}, "proof_outcome_state"),
    (OUTCOME, {"outcome_state": "RUNNING"}, "proof_outcome_state"),
    (OUTCOME, {"kind": "QUIESCENCE"}, "proof_outcome_state"),
    (FIXTURE, {"recipe_original": None}, "plan_originals"),
    (FIXTURE, {"profile": "Small"}, "plan_profile"),
    (FIXTURE, {"parameters": (("row_count", 100_001),)}, "plan_profile"),
    (FIXTURE, {"parameters": (("with_nulls", "yes"),)}, "plan_profile"),
    (FIXTURE, {"parameters": ()}, "closure"),
    (FIXTURE, {"bindings": (("target", "a"), ("source", "b"))}, "plan_bindings"),
    (FIXTURE, {"bindings": (("source", "a"), ("target", "a"))}, "plan_bindings"),
    (TABLE, {"qualified_name": ()}, "array"),
    (TABLE, {"qualified_name": ("a", "b", "c")}, "plan_objects"),
    (TABLE, {"qualified_name": ["a", "b"]}, "plan_objects"),
    (TABLE, {"object_kind": "view"}, "plan_objects"),
    (TABLE, {"connector": "another"}, "plan_objects"),
    (CLAIM, {"connector": "another"}, "physical_connector"),
    (CLAIM, {"role": "another"}, "physical_claim_role"),
    (CLAIM, {"service_id": "x"}, "physical_claim"),
    (CLAIM, {"physical_subject_sha256": "x"}, "physical_claim"),
    (CLAIM, {"observation_sha256": "x"}, "physical_claim"),
    (CLAIM, {"read_subjects": ("x",)}, "physical_claim"),
    (CLAIM, {"write_subjects": ("x",)}, "physical_claim"),
    (CLAIM, {"role": "retained_source"}, "physical_claim_role_scope"),
    (CLAIM, {"role": "mutation", "write_subjects": ()}, "physical_claim_role_scope"),
    (CLAIM, {"read_subjects": ()}, "physical_claim_role_scope"),
]


def refused(reason: str, use: Callable[[], object]) -> None:
    with pytest.raises(AdmissionRefused) as raised:
        use()
    assert raised.value.reason == reason


@pytest.mark.parametrize(("record", "change", "reason"), WRONG, ids=lambda value: str(value)[:40])
def test_a_wrong_member_is_refused_by_its_reason(record: Any, change: dict[str, Any], reason: str) -> None:
    refused(reason, lambda: replace(record, **change))


@pytest.mark.parametrize("path", ["a\\b", "/a", "a/", "a//b", "./a", "a/../b", "..", ""])
def test_a_path_that_could_lead_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(AdmissionRefused):
        replace(FILE, path=path)


@pytest.mark.parametrize("size", [0, -1, True, 1.0])
def test_an_empty_file_is_no_original(size: Any) -> None:
    refused("plan_originals", lambda: replace(FILE, size_bytes=size))


def test_a_generation_keeps_each_of_its_limits() -> None:
    """Each limit by itself: the exact size passes, one less is refused."""
    intent = snapshot().intent
    sizes = intent.generation
    exact = {
        "max_rows": sizes.rows,
        "max_source_bytes": sizes.source_bytes,
        "max_wire_bytes": sizes.wire_bytes,
        "max_generation_bytes": sizes.generation_bytes,
        "max_retained_bytes": sizes.retained_bytes,
        "max_total_transient_bytes": sizes.generation_bytes + sizes.old_target_bytes + sizes.retained_bytes,
    }
    assert set(exact) == {field.name for field in fields(SnapshotLimits)}
    replace(intent, limits=SnapshotLimits(**exact))
    for name, value in exact.items():
        refused(
            "snapshot_limits",
            lambda name=name, value=value: replace(intent, limits=SnapshotLimits(**{**exact, name: value - 1})),
        )


def test_the_principals_of_a_publication_are_two_clickhouse_users_of_its_service() -> None:
    intent = snapshot().intent
    user = intent.ingest_principal
    for wrong in (LOGIN, intent.publisher_principal, replace(user, service_id=SERVICE)):
        refused("snapshot_principal", lambda wrong=wrong: replace(intent, ingest_principal=wrong))


def test_a_target_is_in_a_database_that_has_an_identity() -> None:
    nil = "00000000-0000-0000-0000-000000000000"
    refused("snapshot_target", lambda: replace(snapshot().intent.target, database_id=nil))


def test_a_record_is_what_its_state_says() -> None:
    record = snapshot()
    for change, reason in (
        ({"revision": 2}, "snapshot_revision"),
        ({"state": "EXCHANGE_INTENT"}, "snapshot_revision"),
        ({"state": "COMMIT_UNKNOWN", "revision": 2}, "snapshot_revision"),
        ({"state": "ANOTHER"}, "snapshot_state"),
        ({"state": "PUBLISHED", "revision": 3}, "snapshot_outcome_evidence"),
        ({"state": "NOT_PUBLISHED", "revision": 3}, "snapshot_outcome_evidence"),
    ):
        refused(reason, lambda change=change: replace(record, **change))
