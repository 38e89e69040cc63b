"""The state machines, and the one-time EXCHANGE record that is built on the same idea."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from airflow_provider_dpone.contracts import lifecycle
from airflow_provider_dpone.contracts.errors import AdmissionRefused
from airflow_provider_dpone.contracts.snapshot import (
    ExchangeObservation,
    PublisherClosure,
    SnapshotRecord,
    snapshot_record_from,
)

DATA = json.loads((Path(__file__).parents[2] / "data" / "digests.json").read_text(encoding="utf-8"))
DIGEST = "sha256:" + "a" * 64
OTHER_UUID = "6ba7b810-9dad-41d1-80b4-00c04fd430c8"


def refused(reason: str, use: Callable[[], object]) -> None:
    """Refused with exactly this reason: callers and people tell refusals apart by it."""
    with pytest.raises(AdmissionRefused) as raised:
        use()
    assert raised.value.reason == reason


def prepared() -> SnapshotRecord:
    vector = next(v for v in DATA["vectors"] if v["name"] == "three_rows_PREPARED")
    return snapshot_record_from({"schema": "dpone.composition-clickhouse-snapshot-record.v1", **vector["inputs"]})


def closure(record: SnapshotRecord) -> PublisherClosure:
    return PublisherClosure(intent_sha256=record.intent.sha256, closed_gates_sha256=DIGEST, quiescence_sha256=DIGEST)


def seen(record: SnapshotRecord, target: str | None, generation: str | None) -> ExchangeObservation:
    g = record.intent.generation
    return ExchangeObservation(
        target=record.intent.target,
        target_uuid=target,
        generation_uuid=generation,
        database_engine="Atomic",
        table_engines=("MergeTree", "MergeTree"),
        node_count=1,
        replica_count=1,
        schema_sha256=(g.schema_sha256, g.schema_sha256),
        physical_sha256=(g.physical_sha256, g.physical_sha256),
        unsupported_features=(),
        generation_content_sha256=g.content_sha256,
        generation_rows=g.rows,
        generation_bytes=g.generation_bytes,
        old_target_bytes=g.old_target_bytes,
        retained_bytes=g.retained_bytes,
        catalog_evidence_sha256=DIGEST,
    )


@pytest.mark.parametrize(
    ("machine", "final"),
    [
        (lifecycle.EXECUTION_OWNER, {"RETIRED"}),
        (lifecycle.QUALIFICATION_OWNER, {"TRANSFERRED", "RETIRED"}),
        (lifecycle.OPERATION, {"SUCCEEDED", "FAILED"}),
        (lifecycle.LOGIN_GATE, {"CLOSED"}),
    ],
)
def test_every_machine_ends_and_never_returns(machine: lifecycle.Arrows, final: set[str]) -> None:
    assert {state for state, targets in machine.items() if not targets} == final
    reach = {state: set(targets) for state, targets in machine.items()}
    for middle, start in itertools.product(machine, machine):
        if middle in reach[start]:
            reach[start] |= reach[middle]
    assert all(state not in reach[state] for state in machine)


def test_an_unknown_operation_moves_only_when_somebody_reconciles_it() -> None:
    assert lifecycle.move_operation("COMMIT_UNKNOWN", "SUCCEEDED", reconciling=True) == "SUCCEEDED"
    for state, target, reconciling in [
        ("COMMIT_UNKNOWN", "SUCCEEDED", False),
        ("RUNNING", "SUCCEEDED", True),
        ("COMMIT_UNKNOWN", "COMMIT_UNKNOWN", True),
        ("SUCCEEDED", "FAILED", False),
        ("FAILED", "SUCCEEDED", True),
    ]:
        refused("operation_transition", partial(lifecycle.move_operation, state, target, reconciling=reconciling))


def test_an_owner_is_moved_by_the_machine_of_its_kind() -> None:
    assert lifecycle.move_owner("qualification", "PREPARED", "SEALING") == "SEALING"
    refused("owner_transition", lambda: lifecycle.move_owner("execution", "PREPARED", "SEALING"))
    refused("owner_transition", lambda: lifecycle.move_owner("execution", "RETIRED", "ACTIVE"))
    refused("owner_kind", lambda: lifecycle.move_owner("another", "PREPARED", "ACTIVE"))  # type: ignore[arg-type]  # bad input


def test_a_gate_closes_from_every_state_and_never_opens_again() -> None:
    assert lifecycle.move_login_gate("JOURNALED", "CLOSING") == "CLOSING"
    for state in ("CLOSING", "CLOSED"):
        refused("login_gate_transition", partial(lifecycle.move_login_gate, state, "READY"))


def test_each_state_of_a_qualification_permits_its_own_actions_alone() -> None:
    actions = ("fixture_seed", "route_qualification", "source_seal", "another")
    allowed = {
        (state, action)
        for state, action in itertools.product(lifecycle.QUALIFICATION_OWNER, actions)
        if lifecycle.qualification_allows(state, action)
    }
    assert allowed == {("ACTIVE", "fixture_seed"), ("ACTIVE", "route_qualification"), ("SEALING", "source_seal")}


def test_the_uuid_pair_decides_the_exchange() -> None:
    intended = prepared().exchange_intended()
    before = (intended.intent.generation.old_target_uuid, intended.intent.generation.new_generation_uuid)
    verdicts = {
        before[::-1]: "PUBLISHED",
        before: "NOT_PUBLISHED",
        (OTHER_UUID, before[1]): "COMMIT_UNKNOWN",
        (before[0], None): "COMMIT_UNKNOWN",
        (None, None): "COMMIT_UNKNOWN",
    }
    for pair, verdict in verdicts.items():
        decided = intended.decided(closure(intended), seen(intended, *pair))
        assert (decided.state, decided.revision) == (verdict, 3)


def test_one_node_of_a_cluster_decides_nothing() -> None:
    intended = prepared().exchange_intended()
    swapped = seen(intended, intended.intent.generation.new_generation_uuid, intended.intent.generation.old_target_uuid)
    assert intended.decided(closure(intended), replace(swapped, node_count=2)).state == "COMMIT_UNKNOWN"


def test_an_exchange_is_intended_once_and_a_verdict_needs_its_evidence() -> None:
    intended = prepared().exchange_intended()
    with pytest.raises(AdmissionRefused, match="snapshot_state"):
        intended.exchange_intended()
    with pytest.raises(AdmissionRefused, match="snapshot_state"):
        prepared().undecided()
    with pytest.raises(AdmissionRefused, match="snapshot_outcome_evidence"):
        replace(intended, state="PUBLISHED", revision=3)
    swapped = seen(intended, intended.intent.generation.new_generation_uuid, intended.intent.generation.old_target_uuid)
    with pytest.raises(AdmissionRefused, match="snapshot_outcome_pair"):
        replace(intended, state="NOT_PUBLISHED", revision=3, closure=closure(intended), observation=swapped)
    unknown = intended.undecided()
    assert (unknown.state, unknown.revision) == ("COMMIT_UNKNOWN", 3)
    assert unknown.decided(closure(unknown), swapped).revision == 4


def test_a_decided_record_reads_back_to_the_same_bytes() -> None:
    intended = prepared().exchange_intended()
    pair = (intended.intent.generation.new_generation_uuid, intended.intent.generation.old_target_uuid)
    decided = intended.decided(closure(intended), seen(intended, *pair))
    assert snapshot_record_from(json.loads(decided.document())).document() == decided.document()
