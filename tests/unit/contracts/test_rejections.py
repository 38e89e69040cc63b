"""Every rejection of the vector file is run; every rejection rule has one constructed input that must be refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.activation import (
    ActivationRequest,
    OccurrenceContext,
    PhysicalResource,
    WorkloadAdmission,
    decode_request,
    request_from,
)
from airflow_provider_dpone.contracts.attempt import Attempt, attempt_from, decode_attempt
from airflow_provider_dpone.contracts.errors import AdmissionRefused, AuthorityRefused
from airflow_provider_dpone.contracts.nonproduction import grants, policy, scope
from airflow_provider_dpone.contracts.ownership import Owner, claim_from, guard_id
from airflow_provider_dpone.contracts.proof import AttemptProof, Authority, proof_from
from airflow_provider_dpone.contracts.qualification import qualification_operation_from, qualification_owner_from

DATA = json.loads((Path(__file__).parents[2] / "data" / "digests.json").read_text(encoding="utf-8"))


def vector(kind: str, name: str | None = None) -> dict[str, Any]:
    """A fresh copy of an accepted vector."""
    found: dict[str, Any] = next(v for v in DATA["vectors"] if v["kind"] == kind and name in (None, v["name"]))
    return copy.deepcopy(found)


def inputs(kind: str, name: str | None = None) -> dict[str, Any]:
    return dict(vector(kind, name)["inputs"])


def text_of(rejection: dict[str, Any]) -> str:
    given = rejection["inputs"]
    if rejection["kind"] == "owner_key":
        with pytest.raises(AdmissionRefused) as refused:
            Owner(**given)
        return str(refused.value)
    with pytest.raises(canonical.StrictJsonError) as invalid:
        canonical.strict_object(given["raw_latin1"].encode("latin-1"))
    return str(invalid.value)


@pytest.mark.parametrize("rejection", DATA["rejections"], ids=lambda r: f"{r['kind']}-{r['name']}")
def test_rejections_say_exactly_what_the_vector_says(rejection: dict[str, Any]) -> None:
    assert text_of(rejection) == rejection["message"]


def request(**changes: Any) -> ActivationRequest:
    body = inputs("activation_request", "three_cells_two_domains")
    parts: dict[str, Any] = {
        "context": OccurrenceContext(**(body["context"] | changes.get("context", {}))),
        "source_subject_sha256": body["source_subject_sha256"],
        "workloads": tuple(workload(item) for item in changes.get("workloads", body["workloads"])),
        "resources": tuple(resource(item) for item in changes.get("resources", body["resources"])),
    }
    return ActivationRequest(**parts)


def workload(item: dict[str, Any]) -> WorkloadAdmission:
    return WorkloadAdmission(**{**item, "write_subjects": tuple(item["write_subjects"])})


def resource(item: dict[str, Any]) -> PhysicalResource:
    return PhysicalResource(**{**item, "write_subjects": tuple(item["write_subjects"])})


def attempt(**changes: Any) -> Attempt:
    body = inputs("attempt", "plain_unmapped")
    body["guard_epochs"] = tuple(tuple(pair) for pair in body["guard_epochs"])
    body.pop("schema", None)
    return Attempt(**(body | changes))


def proof(**changes: Any) -> AttemptProof:
    body = proof_from(inputs("attempt_proof", "mixed_authorities"))
    values = {name: getattr(body, name) for name in body.__slots__}
    return AttemptProof(**(values | changes))


def authorities() -> tuple[Authority, ...]:
    return proof_from(inputs("attempt_proof", "mixed_authorities")).authorities


def changed(kind: str, name: str | None = None, **changes: Any) -> dict[str, Any]:
    return {**inputs(kind, name), **changes}


def guard(**changes: Any) -> str:
    return guard_id(**(inputs("physical_guard", "mssql") | changes))


def over_long_grant() -> Any:
    body = inputs("np_grant", "qualification")
    body["expires_at"] = "2026-01-01T01:00:01Z"
    return grants.grant_from(body)


def over_ceiling_policy() -> Any:
    body = inputs("np_policy", "epoch0")
    body["limits"]["max_attempts"] = scope.LIMIT_CEILINGS["max_attempts"] + 1
    document = canonical.exact_bytes(body)
    return policy.decode_policy(document, canonical.sha256_text(document))


def scope_with_space() -> Any:
    body = inputs("np_scope", "epoch9_revoked")
    body["routes"][0]["transport"] += " "
    return scope.scope_from(body)


def three_workloads() -> list[dict[str, Any]]:
    return list(inputs("activation_request", "three_cells_two_domains")["workloads"])


def native_only() -> ActivationRequest:
    body = inputs("activation_request", "three_cells_two_domains")
    native = [item for item in body["workloads"] if item["constituent_id"] == "native"]
    kept = {subject for item in native for subject in item["write_subjects"]}
    resources = [
        {**item, "write_subjects": [s for s in item["write_subjects"] if s in kept]} for item in body["resources"]
    ]
    return request(workloads=native, resources=resources)


def unknown_cell() -> ActivationRequest:
    workloads = three_workloads()
    workloads[0]["execution_cell"] = "spark_v1"
    return request(workloads=workloads)


def missing_write() -> ActivationRequest:
    resources = inputs("activation_request", "three_cells_two_domains")["resources"]
    resources[1]["write_subjects"] = resources[1]["write_subjects"][1:]
    return request(resources=resources)


def owner_without_postgres() -> Any:
    body = inputs("qualification_owner_subject", "other_run")
    body["claims"] = [claim for claim in body["claims"] if claim["connector"] != "postgres"]
    return qualification_owner_from(body)


def operation(**changes: Any) -> Any:
    return qualification_operation_from(changed("qualification_operation_key", "unicode_slash_backslash", **changes))


def epochs(count: int) -> list[list[Any]]:
    return [[f"sha256:{number:064x}", 1] for number in range(count)]


def stored_attempt() -> tuple[bytes, str]:
    body = vector("attempt", "plain_unmapped")
    return body["stored_document"].encode(), body["sha256"]


def stored_request() -> tuple[bytes, str]:
    body = vector("activation_request", "three_cells_two_domains")
    return body["stored_document"].encode(), body["sha256"]


def pretty(document: bytes) -> bytes:
    return json.dumps(json.loads(document), indent=1, ensure_ascii=False, sort_keys=True).encode()


SID_UPPER = "mssql-sid:000102030405060708090A0B0C0D0E0F"
SERVICE = "0f8fad5b-d9cd-469f-a165-70867728950e"
V1_UUID = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
NP_REQUEST = vector("np_activation_request", "other_grant")

#: One constructed input for each rule: start from the accepted vector and change what the name says.
CONSTRUCTED: dict[tuple[str, str], Callable[[], object]] = {
    ("physical_guard", "digest_upper"): lambda: guard(physical_subject_sha256="sha256:" + "A" * 64),
    ("physical_guard", "service_upper"): lambda: guard(service_id=SERVICE.upper()),
    ("physical_claim_bytes", "unsorted"): lambda: claim_from(
        changed(
            "physical_claim_bytes", "both", read_subjects=inputs("physical_claim_bytes", "both")["read_subjects"][::-1]
        )
    ),
    ("physical_claim_bytes", "retained_with_write"): lambda: claim_from(
        changed("physical_claim_bytes", "both", role="retained_source")
    ),
    ("activation_request", "unsorted_workloads"): lambda: request(workloads=three_workloads()[::-1]),
    ("activation_request", "native_only"): native_only,
    ("activation_request", "activation_not_v4"): lambda: request(context={"activation_id": V1_UUID}),
    ("activation_request", "unknown_cell"): unknown_cell,
    ("activation_request", "partition_missing_write"): missing_write,
    ("attempt", "try_bool"): lambda: attempt(try_number=True),
    ("attempt", "map_minus2"): lambda: attempt(map_index=-2),
    ("attempt", "text_513"): lambda: attempt(task_id="t" * 513),
    ("attempt", "try_zero"): lambda: attempt(try_number=0),
    ("attempt", "list_epochs"): lambda: attempt(guard_epochs=[list(pair) for pair in attempt().guard_epochs]),
    ("attempt_proof", "empty_authorities"): lambda: proof(authorities=()),
    ("attempt_proof", "sid_upper"): lambda: Authority(connector="mssql", service_id=SERVICE, principal_id=SID_UPPER),
    ("attempt_proof", "postgres_authority"): lambda: Authority(
        connector="postgres", service_id=SERVICE, principal_id=f"postgres-role:{SERVICE}"
    ),
    ("attempt_proof", "unsorted_authorities"): lambda: proof(authorities=authorities()[::-1]),
    ("np_grant", "validity_over_limit"): over_long_grant,
    ("np_policy", "limit_over_ceiling"): over_ceiling_policy,
    ("np_scope", "text_surrounding_space"): scope_with_space,
    ("qualification_owner_subject", "missing_postgres"): owner_without_postgres,
    ("qualification_operation", "lone_surrogate_item"): lambda: operation(work_item_id="seed\ud800"),
    ("qualification_operation", "runner_v1"): lambda: operation(runner_invocation_id=V1_UUID),
    ("qualification_operation", "epochs_257"): lambda: operation(guard_epochs=epochs(257)),
    ("qualification_operation", "unsorted_epochs"): lambda: operation(guard_epochs=epochs(3)[::-1]),
    ("qualification_operation", "padded_item"): lambda: operation(work_item_id="seed "),
    ("canonical_json_bytes", "surrogate"): lambda: canonical.exact_bytes({"a": "\ud800"}),
    ("decode_attempt", "str_document"): lambda: decode_attempt(stored_attempt()[0].decode(), stored_attempt()[1]),
    ("decode_attempt", "not_a_digest"): lambda: decode_attempt(stored_attempt()[0], "sha256:short"),
    ("decode_attempt", "wrong_hash"): lambda: decode_attempt(stored_attempt()[0], "sha256:" + "0" * 64),
    ("decode_attempt", "pretty"): lambda: decode_attempt(pretty(stored_attempt()[0]), stored_attempt()[1]),
    ("decode_request", "trailing_space"): lambda: decode_request(stored_request()[0] + b" ", stored_request()[1]),
    ("decode_request", "np_family"): lambda: decode_request(NP_REQUEST["preimage"].encode(), NP_REQUEST["sha256"]),
}


def test_every_rule_of_the_vector_file_has_its_input() -> None:
    assert {(rule["kind"], rule["name"]) for rule in DATA["rejection_rules"]} == set(CONSTRUCTED)


@pytest.mark.parametrize("rule", DATA["rejection_rules"], ids=lambda r: f"{r['kind']}-{r['name']}")
def test_each_rule_refuses_its_input_for_its_reason(rule: dict[str, Any]) -> None:
    construct = CONSTRUCTED[rule["kind"], rule["name"]]
    if rule["reason"] == "UnicodeEncodeError":
        with pytest.raises(UnicodeEncodeError):
            construct()
        return
    with pytest.raises(AdmissionRefused) as refused:
        construct()
    assert refused.value.reason == rule["reason"]
    code = "DPONE_NONPRODUCTION_AUTHORITY_INVALID" if rule["kind"].startswith("np_") else AdmissionRefused.code
    assert str(refused.value).splitlines()[0] == f"{code}: {rule['reason']}"


def test_the_inputs_that_rules_start_from_are_accepted() -> None:
    assert request().sha256 == vector("activation_request", "three_cells_two_domains")["sha256"]
    assert attempt().sha256 == vector("attempt", "plain_unmapped")["sha256"]
    assert proof().sha256 == vector("attempt_proof", "mixed_authorities")["sha256"]
    assert operation().sha256 == vector("qualification_operation_key", "unicode_slash_backslash")["sha256"]
    assert attempt_from(attempt().members()) == attempt()


def test_two_coordinates_that_share_a_digest_are_not_admissible() -> None:
    """The fingerprint folds a backslash into a slash: the twin digest is the reason for the admission rule."""
    folded, plain = attempt(dag_run_id="run\\one"), attempt(dag_run_id="run/one")
    assert folded.sha256 == plain.sha256
    assert plain.require_admissible() is plain
    with pytest.raises(AdmissionRefused) as refused:
        folded.require_admissible()
    assert refused.value.reason == "identity_backslash"
    assert "slash" in str(refused.value)


def test_a_float_has_no_place_in_either_encoder() -> None:
    for encode in (canonical.exact_bytes, canonical.fingerprint_bytes):
        with pytest.raises(TypeError):
            encode({"a": 1.0})


@pytest.mark.parametrize("text", ['{"a":1,"a":1}', '{"a":1}x', "", "null", '{"a":Infinity}', '"a"', "{" * 100_000])
def test_strict_reading_refuses(text: str) -> None:
    with pytest.raises(canonical.StrictJsonError):
        canonical.strict_object(text.encode())


def test_a_document_over_its_limit_is_refused_before_it_is_decoded() -> None:
    document = b'{"a":"' + b"x" * canonical.QUALIFICATION_DOCUMENT_LIMIT + b'"}'
    assert canonical.strict_object(document)
    with pytest.raises(canonical.StrictJsonError, match="larger"):
        canonical.strict_object(document, limit=canonical.QUALIFICATION_DOCUMENT_LIMIT)


def test_refusals_of_the_nonproduction_family_are_of_their_own_class() -> None:
    with pytest.raises(AuthorityRefused):
        over_long_grant()
    with pytest.raises(AuthorityRefused, match="grant_phase"):
        grants.grant_from(changed("np_grant", "qualification", phase="rehearsal"))


def test_the_request_families_are_never_read_as_each_other() -> None:
    plain, sha = stored_request()
    with pytest.raises(AdmissionRefused, match="persistence_readback"):
        decode_request(plain, sha, nonproduction=True)
    both = request_from(NP_REQUEST["inputs"])
    assert both.schema.endswith("nonproduction.v1")
    assert both.sha256 == NP_REQUEST["sha256"]
