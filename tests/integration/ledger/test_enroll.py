"""Only what the server shows now is enrolled, once, and never changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.ledger.enroll import (
    EnrolledDomain,
    MsSqlEnrollment,
    MsSqlIdentity,
    enroll,
    mssql_physical_subject_sha256,
    observe_mssql,
)
from tests.support.ledger_records import CLICKHOUSE, SERVICE
from tests.support.live_ledger import LiveLedger, target_database

SCHEMAS = ("raw", "marts")


@pytest.fixture
def target(tsql_server: Any) -> Iterator[str]:
    """A target database with a writer role and two schemas."""
    with target_database(tsql_server, "dpone_writer", SCHEMAS) as name:
        yield name


def domain_of(
    identity: MsSqlIdentity, role: str = "dpone_writer", schemas: tuple[str, ...] = SCHEMAS
) -> EnrolledDomain:
    return EnrolledDomain(
        connector="mssql",
        service_id=SERVICE,
        physical_subject_sha256=identity.physical_subject_sha256,
        mssql=MsSqlEnrollment(identity=identity, writer_role=role, managed_schemas=schemas),
    )


def test_an_observed_database_is_enrolled_and_enrolling_it_again_is_the_same_answer(
    ledger: LiveLedger, target: str
) -> None:
    domain = domain_of(observe_mssql(ledger.connect, target))
    assert enroll(ledger.connect, ledger.settings, [domain]) == (domain.guard_id,)
    assert enroll(ledger.connect, ledger.settings, [domain]) == (domain.guard_id,)
    rows = ledger.rows(
        "SELECT schema_name FROM dpone_control.composition_mssql_managed_schemas WHERE guard_id = ? ORDER BY schema_name",
        domain.guard_id,
    )
    assert rows == [("marts",), ("raw",)]


@pytest.mark.parametrize("change", ["role", "schemas"])
def test_an_enrollment_is_never_changed(ledger: LiveLedger, target: str, change: str) -> None:
    identity = observe_mssql(ledger.connect, target)
    enroll(ledger.connect, ledger.settings, [domain_of(identity)])
    other = domain_of(identity, schemas=("raw",)) if change == "schemas" else domain_of(identity, role="db_owner")
    with pytest.raises(ConfigurationError):
        enroll(ledger.connect, ledger.settings, [other])


@pytest.mark.parametrize(
    ("role", "schemas"),
    [("missing", SCHEMAS), ("db_owner", SCHEMAS), ("dpone_writer", ("raw", "missing")), ("dpone_writer", ())],
)
def test_roles_and_schemas_have_to_be_there_before(
    ledger: LiveLedger, target: str, role: str, schemas: tuple[str, ...]
) -> None:
    before = ledger.count("dpone_control.composition_domains")
    with pytest.raises(ConfigurationError) as refused:
        enroll(ledger.connect, ledger.settings, [domain_of(observe_mssql(ledger.connect, target), role, schemas)])
    assert refused.value.reason == "enrollment_database"
    assert ledger.count("dpone_control.composition_domains") == before


@pytest.mark.parametrize("member", ["database_guid", "create_token", "database_id"])
def test_a_database_that_was_replaced_is_not_the_one_that_was_observed(
    ledger: LiveLedger, target: str, member: str
) -> None:
    identity = observe_mssql(ledger.connect, target)
    stale = {
        "database_guid": replace(identity, database_guid=CLICKHOUSE),
        "create_token": replace(identity, create_token="2001-01-01T00:00:00"),
        "database_id": replace(identity, database_id=identity.database_id + 1),
    }[member]
    with pytest.raises(ConfigurationError) as refused:
        enroll(ledger.connect, ledger.settings, [domain_of(stale)])
    assert refused.value.reason == "enrollment_identity"


def test_a_subject_that_is_not_the_database_is_refused_before_anything_is_asked(
    ledger: LiveLedger, target: str
) -> None:
    identity = observe_mssql(ledger.connect, target)
    with pytest.raises(ConfigurationError) as refused:
        EnrolledDomain(
            connector="mssql",
            service_id=SERVICE,
            physical_subject_sha256=mssql_physical_subject_sha256(CLICKHOUSE, identity.create_token),
            mssql=MsSqlEnrollment(identity=identity, writer_role="dpone_writer", managed_schemas=SCHEMAS),
        )
    assert refused.value.reason == "enrollment_identity"


def test_a_database_of_another_instance_is_refused(ledger: LiveLedger, target: str) -> None:
    domain = domain_of(observe_mssql(ledger.connect, target))
    with pytest.raises(ConfigurationError) as refused:
        enroll(ledger.connect, ledger.settings, [replace(domain, service_id=CLICKHOUSE)])
    assert refused.value.reason == "mssql_service"


def test_an_unknown_database_has_no_identity(ledger: LiveLedger) -> None:
    with pytest.raises(ConfigurationError) as refused:
        observe_mssql(ledger.connect, "no such database")
    assert refused.value.reason == "database_identity"


def test_an_activation_over_an_enrolled_database_owns_it(ledger: LiveLedger, target: str) -> None:
    domain = domain_of(observe_mssql(ledger.connect, target))
    enroll(ledger.connect, ledger.settings, [domain])
    mssql = (domain.guard_id, "mssql", SERVICE, domain.physical_subject_sha256)
    activation = ledger.active(domains=[mssql, *ledger.enroll(1)])
    assert dict(activation.guard_epochs)[domain.guard_id] == 1
    assert ledger.admit(activation, "w000", principals=ledger.login()).attempt.guard_ids == (domain.guard_id,)
