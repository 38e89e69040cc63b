"""Every vector of tests/data/digests.json is computed from its inputs, and nothing else decides the answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.activation import (
    PhysicalResource,
    decode_request,
    request_from,
    source_subject_sha256,
)
from airflow_provider_dpone.contracts.attempt import attempt_from, decode_attempt, guard_epochs, guard_epochs_sha256
from airflow_provider_dpone.contracts.errors import AdmissionRefused
from airflow_provider_dpone.contracts.gate_evidence import gate_observation_from
from airflow_provider_dpone.contracts.nonproduction import fixtures, grants, plans, policy, scope
from airflow_provider_dpone.contracts.ownership import (
    Owner,
    claim_from,
    decode_claim,
    guard_id,
    relation_write_subject,
)
from airflow_provider_dpone.contracts.proof import decode_proof, proof_from
from airflow_provider_dpone.contracts.qualification import (
    decode_qualification_operation,
    decode_qualification_owner,
    invocation_key,
    qualification_operation_from,
    qualification_owner_from,
)
from airflow_provider_dpone.contracts.snapshot import SnapshotRecord, decode_snapshot_record, snapshot_record_from

DATA = json.loads((Path(__file__).parents[2] / "data" / "digests.json").read_text(encoding="utf-8"))
VECTORS: list[dict[str, Any]] = DATA["vectors"]

Inputs = Mapping[str, Any]


def _intent(inputs: Inputs) -> Any:
    record = {
        "schema": "dpone.composition-clickhouse-snapshot-record.v1",
        "intent": {key: value for key, value in inputs.items() if key != "schema"},
        "state": "PREPARED",
        "revision": 1,
        "closure": None,
        "observation": None,
    }
    return snapshot_record_from(record).intent


def _record(inputs: Inputs) -> SnapshotRecord:
    return snapshot_record_from({"schema": "dpone.composition-clickhouse-snapshot-record.v1", **inputs})


def _attempt(inputs: Inputs) -> Any:
    return attempt_from({key: value for key, value in inputs.items() if key != "schema"})


def _resource(inputs: Inputs) -> PhysicalResource:
    return PhysicalResource(**{**inputs, "write_subjects": tuple(inputs["write_subjects"])})


def _source(inputs: Inputs) -> str:
    values = {key: value for key, value in inputs.items() if key not in ("schema", "workloads")}
    return source_subject_sha256(**values, workloads=tuple(tuple(pin) for pin in inputs["workloads"]))


def _policy(inputs: Inputs) -> policy.AuthorityPolicy:
    document = canonical.exact_bytes(inputs)
    return policy.decode_policy(document, canonical.sha256_text(document))


def _signature(inputs: Inputs) -> str:
    return policy.SignatureSubject(**{**inputs, "signer": policy.Signer(**inputs["signer"])}).sha256


def _digest_of_epochs(inputs: Inputs) -> str:
    return guard_epochs_sha256(guard_epochs(tuple(tuple(pair) for pair in inputs["guard_epochs"])))


def _consumption(inputs: Inputs) -> str:
    grant = next(
        grants.grant_from(vector["inputs"])
        for vector in VECTORS
        if vector["kind"] == "np_grant" and vector["inputs"]["grant_id"] == inputs["grant_id"]
    )
    assert grant.phase == inputs["phase"]
    return grants.consumption_subject_sha256(grant)


COMPUTE: dict[str, Callable[[Inputs], str]] = {
    "owner_key": lambda i: Owner(**i).key,
    "physical_guard": lambda i: guard_id(**i),
    "physical_claim_bytes": lambda i: canonical.sha256_text(claim_from(i).document()),
    "relation_write_subject": lambda i: relation_write_subject(**i),
    "activation_request": lambda i: request_from(i).sha256,
    "np_activation_request": lambda i: request_from(i).sha256,
    "physical_resource_bytes": lambda i: canonical.sha256_text(_resource(i).document()),
    "attempt": lambda i: _attempt(i).sha256,
    "attempt_epoch_subject": _digest_of_epochs,
    "mssql_gate_evidence": lambda i: gate_observation_from(i).sha256,
    "attempt_proof": lambda i: proof_from(i).sha256,
    "source_subject": _source,
    "np_policy": lambda i: _policy(i).sha256,
    "np_scope": lambda i: scope.scope_from(i).sha256,
    "np_fixture_plan": lambda i: fixtures.fixture_plan_from(i).sha256,
    "np_work_item": lambda i: plans.work_item_from(i).sha256,
    "np_qualification_plan": lambda i: plans.qualification_plan_from(i).sha256,
    "np_grant": lambda i: grants.grant_from(i).sha256,
    "np_consumption_subject": _consumption,
    "np_signature_subject": _signature,
    "np_workload_member": lambda i: canonical.sha256_text(grants.workload_member_document(i["workload_id"])),
    "qualification_owner_subject": lambda i: qualification_owner_from(i).sha256,
    "qualification_operation_key": lambda i: qualification_operation_from(i).sha256,
    "qualification_invocation_key": lambda i: invocation_key(**i),
    "snapshot_intent": lambda i: _intent(i).sha256,
    "snapshot_record": lambda i: _record(i).sha256,
}

#: Kinds whose vectors give the value itself and the bytes it must become.
ENCODE = {"encoder_exact": canonical.exact_bytes, "encoder_fingerprint": canonical.fingerprint_bytes}


def _name(vector: Mapping[str, Any]) -> str:
    return f"{vector['kind']}-{vector['name']}"


def test_every_kind_of_the_vector_file_is_computed() -> None:
    assert {vector["kind"] for vector in VECTORS} == set(COMPUTE) | set(ENCODE)


@pytest.mark.parametrize("vector", [v for v in VECTORS if v["kind"] in COMPUTE], ids=_name)
def test_digest_of_a_record(vector: dict[str, Any]) -> None:
    assert COMPUTE[vector["kind"]](vector["inputs"]) == vector["sha256"]


@pytest.mark.parametrize("vector", [v for v in VECTORS if v["kind"] in ENCODE], ids=_name)
def test_bytes_of_an_encoder(vector: dict[str, Any]) -> None:
    encoded = ENCODE[vector["kind"]](vector["value"])
    assert encoded == vector["preimage"].encode()
    assert canonical.sha256_text(encoded) == vector["sha256"]


@pytest.mark.parametrize("vector", VECTORS, ids=_name)
def test_the_vector_file_agrees_with_itself(vector: dict[str, Any]) -> None:
    preimage = vector["preimage"].encode()
    assert len(preimage) == vector["preimage_bytes"]
    assert "sha256:" + hashlib.sha256(preimage).hexdigest() == vector["sha256"]


@pytest.mark.parametrize("vector", [v for v in VECTORS if "guard_id" in v], ids=_name)
def test_derived_members_of_a_claim(vector: dict[str, Any]) -> None:
    claim = claim_from(vector["inputs"])
    assert claim.guard_id == vector["guard_id"]
    assert list(claim.effect_subjects) == vector["effect_subjects"]


@pytest.mark.parametrize("vector", [v for v in VECTORS if "owner_key" in v], ids=_name)
def test_owner_key_of_a_qualification_owner(vector: dict[str, Any]) -> None:
    assert qualification_owner_from(vector["inputs"]).owner_key == vector["owner_key"]


STORED: dict[str, Callable[[bytes, str], Any]] = {
    "attempt": decode_attempt,
    "attempt_proof": decode_proof,
    "activation_request": decode_request,
}


@pytest.mark.parametrize("vector", [v for v in VECTORS if "stored_document" in v], ids=_name)
def test_stored_bytes_are_exact_and_read_back(vector: dict[str, Any]) -> None:
    stored = vector["stored_document"].encode()
    record = STORED[vector["kind"]](stored, vector["sha256"])
    assert record.document() == stored
    if "stored_document_sha256" in vector:
        assert canonical.sha256_text(stored) == vector["stored_document_sha256"]


READ_BACK: dict[str, Callable[[bytes, str], Any]] = {
    "physical_claim_bytes": lambda document, _: decode_claim(document),
    "np_activation_request": lambda document, sha: decode_request(document, sha, nonproduction=True),
    "np_policy": policy.decode_policy,
    "np_grant": grants.decode_grant,
    "np_fixture_plan": fixtures.decode_fixture_plan,
    "np_qualification_plan": plans.decode_qualification_plan,
    "qualification_owner_subject": decode_qualification_owner,
    "qualification_operation_key": decode_qualification_operation,
    "snapshot_record": decode_snapshot_record,
}


@pytest.mark.parametrize("vector", [v for v in VECTORS if v["kind"] in READ_BACK], ids=_name)
def test_exact_documents_read_back_to_the_same_bytes(vector: dict[str, Any]) -> None:
    document = vector["preimage"].encode()
    assert READ_BACK[vector["kind"]](document, vector["sha256"]).document() == document


@pytest.mark.parametrize("vector", [v for v in VECTORS if v["kind"] in READ_BACK], ids=_name)
def test_one_byte_more_is_refused(vector: dict[str, Any]) -> None:
    document = vector["preimage"].encode() + b" "
    with pytest.raises(AdmissionRefused):
        READ_BACK[vector["kind"]](document, vector["sha256"])
