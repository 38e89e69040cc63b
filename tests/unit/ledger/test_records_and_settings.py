"""The small rules around the stores: settings, documents, history findings, the package's public names."""

from __future__ import annotations

import pytest

from airflow_provider_dpone import ledger
from airflow_provider_dpone.contracts.canonical import sha256_text
from airflow_provider_dpone.contracts.errors import AdmissionRefused, ConfigurationError, LedgerTampered
from airflow_provider_dpone.ledger import LedgerSettings, documents, history
from airflow_provider_dpone.ledger.enroll import EnrolledDomain, mssql_physical_subject_sha256
from airflow_provider_dpone.ledger.reading import instance_sha256
from airflow_provider_dpone.ledger.records import operation_key
from tests.support.ledger_records import CLICKHOUSE, SERVICE, sha


def test_the_public_names_are_these() -> None:
    assert sorted(ledger.__all__) == [
        "Activation",
        "ActivationStore",
        "AttemptStore",
        "Blocker",
        "Charge",
        "ChargeStore",
        "Evidence",
        "GateReceiptStore",
        "GateStanding",
        "LedgerSettings",
        "LoginGateStore",
        "Registration",
        "RegistrationStore",
        "SnapshotStore",
        "TrustRevision",
        "TrustStore",
    ]


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"service_id": "not a uuid"}, "ledger_service_id"),
        ({"service_id": SERVICE.upper()}, "ledger_service_id"),
        ({"service_id": SERVICE, "control_schema": "a]b"}, "ledger_schema"),
        ({"service_id": SERVICE, "control_schema": ""}, "ledger_schema"),
        ({"service_id": SERVICE, "extension_schema": "1x"}, "ledger_schema"),
        ({"service_id": SERVICE, "control_schema": "dpone_EXT"}, "ledger_schema"),
        ({"service_id": SERVICE, "lock_timeout_seconds": -1}, "ledger_lock_timeout"),
        ({"service_id": SERVICE, "lock_timeout_seconds": True}, "ledger_lock_timeout"),
        ({"service_id": SERVICE, "lock_timeout_seconds": 1.5}, "ledger_lock_timeout"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_connected(members: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        LedgerSettings(**members)  # type: ignore[arg-type]  # wrong on purpose
    assert refused.value.reason == reason


@pytest.mark.parametrize("document", [{"x": 1.5}, {"x": "\ud800"}, {"x": object()}, {1: "x"}])
def test_evidence_that_json_cannot_carry_exactly_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        documents.encode(document)
    assert refused.value.reason == "evidence_document"


@pytest.mark.parametrize("kind", ["", " x", "x y", "ключ", "x" * 65, "1x"])
def test_evidence_kinds_are_plain_names(kind: str) -> None:
    with pytest.raises(ConfigurationError):
        documents.require_kind(kind)


@pytest.mark.parametrize("data", [b'{"a": 1}', b'{"a":1}\n', b"[]", b'{"a":1,"a":1}', b'{"b":1,"a":1}'])
def test_stored_evidence_must_be_its_own_exact_encoding(data: bytes) -> None:
    with pytest.raises(LedgerTampered):
        documents.decode(data, sha256_text(data))


def test_stored_evidence_must_have_its_digest() -> None:
    assert documents.decode(b'{"a":1}', sha256_text(b'{"a":1}')) == {"a": 1}
    with pytest.raises(LedgerTampered):
        documents.decode(b'{"a":2}', sha256_text(b'{"a":1}'))
    with pytest.raises(LedgerTampered):
        documents.decode("text", sha256_text(b"text"))


def test_each_finding_of_the_history_is_named_with_its_keys() -> None:
    clean: list[list[tuple[object, ...]]] = [[] for _ in history.FINDINGS]
    history.verify(clean)
    for number, finding in enumerate(history.FINDINGS):
        found = [*clean]
        found[number] = [(sha("key"),)]
        with pytest.raises(LedgerTampered, match=sha("key")) as refused:
            history.verify(found)
        assert refused.value.reason == f"history_{finding}"


def test_a_history_with_another_number_of_answers_is_no_history() -> None:
    with pytest.raises(ValueError):
        history.verify([[]])


def test_task_instances_that_a_joined_text_would_mix_up_have_different_keys() -> None:
    keys = {
        instance_sha256("a", "b", "c", -1),
        instance_sha256("a", "b", "c", 0),
        instance_sha256("ab", "", "c", -1),
        instance_sha256("a", "bc", "", -1),
    }
    assert len(keys) == 4


def test_an_attempt_is_named_by_a_digest_text_only() -> None:
    assert operation_key(sha("x")) == sha("x")
    with pytest.raises(AdmissionRefused):
        operation_key("manual__1")


def test_the_subject_of_a_database_is_its_guid_and_its_creation_time_as_enrolled_before() -> None:
    """Enrolled subjects are compared for as long as their databases live: these bytes never change."""
    token = "2026-11-29T00:00:00"
    text = f'{{"create_token":"{token}","database_guid":"{CLICKHOUSE}","schema":"dpone.mssql-database-identity.v1"}}'
    assert mssql_physical_subject_sha256(CLICKHOUSE, token) == sha(text)


def test_a_domain_of_another_engine_has_no_database_to_enroll() -> None:
    subject = mssql_physical_subject_sha256(CLICKHOUSE, "2026-11-29T00:00:00")
    with pytest.raises(ConfigurationError):
        EnrolledDomain(connector="mssql", service_id=SERVICE, physical_subject_sha256=subject)
