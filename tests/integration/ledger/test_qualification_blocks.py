"""A qualification owner or operation, which nothing here creates yet, blocks every overlapping execution path."""

from __future__ import annotations

import uuid

import pytest

from airflow_provider_dpone.contracts.errors import Overlap
from airflow_provider_dpone.contracts.ownership import PhysicalClaim
from airflow_provider_dpone.contracts.qualification import QualificationOperation, QualificationOwner
from airflow_provider_dpone.ledger import install
from airflow_provider_dpone.ledger.enroll import EnrolledDomain, enroll
from tests.support import ledger_records as make
from tests.support.live_ledger import LiveLedger

LOCKED = """
SET XACT_ABORT ON;
BEGIN TRANSACTION;
DECLARE @r int;
EXEC @r = sys.sp_getapplock @Resource = N'dpone:composition-control:v1', @LockMode = N'Exclusive', @LockOwner = N'Transaction', @LockTimeout = 5000;
DECLARE @owner varchar(71) = ?;
{work}
COMMIT TRANSACTION;
"""
OWNER = """
INSERT INTO dpone_control.composition_owners VALUES (@owner, 'qualification', ?, ?, ?, 'PREPARED');
"""
DOMAIN = """
UPDATE dpone_control.composition_domains SET fencing_epoch = fencing_epoch + 1, owner_key = @owner WHERE guard_id = ?;
INSERT INTO dpone_control.composition_owner_domains VALUES (@owner, ?, ?, 1);
"""
STATE = "UPDATE dpone_control.composition_owners SET state = '{state}' WHERE owner_key = @owner;\n"
OPERATION = """
DECLARE @operation varchar(71) = ?;
INSERT INTO dpone_control.composition_operations VALUES (@operation, 'qualification', @owner, ?, ?, ?, 'RUNNING', NULL, NULL, NULL);
"""
SCOPE = "INSERT INTO dpone_control.composition_operation_domains VALUES (@operation, ?, @owner, 1);\n"


def qualification(ledger: LiveLedger) -> QualificationOwner:
    """A qualification owner of three new domains, with one of each engine, in the ledger and PREPARED."""
    postgres = PhysicalClaim(
        connector="postgres",
        service_id=str(uuid.uuid4()),
        physical_subject_sha256=make.sha("postgres"),
        observation_sha256=make.sha("observed"),
        role="retained_source",
        read_subjects=(make.sha("read"),),
        write_subjects=(),
    )
    enroll(
        ledger.connect,
        ledger.settings,
        [
            EnrolledDomain(
                connector="postgres",
                service_id=postgres.service_id,
                physical_subject_sha256=postgres.physical_subject_sha256,
            )
        ],
    )
    claims = [postgres]
    for connector in ("clickhouse", "mssql"):
        guard, _, service, subject = (
            ledger.enroll(1)[0] if connector == "clickhouse" else make.domain(str(uuid.uuid4()), "mssql")
        )
        claims.append(
            PhysicalClaim(
                connector=connector,
                service_id=service,
                physical_subject_sha256=subject,
                observation_sha256=make.sha(guard),
                role="mutation",
                read_subjects=(),
                write_subjects=(make.sha(f"write {guard}"),),
            )
        )
        if connector == "mssql":
            ledger.rows(
                LOCKED.format(work="INSERT INTO dpone_control.composition_domains VALUES (?, 'mssql', ?, ?, 0, NULL);"),
                "",
                guard,
                service,
                subject,
            )
    owner = QualificationOwner(
        qualification_run_id=str(uuid.uuid4()),
        consumption_subject_sha256=make.sha("consumption"),
        grant_sha256=make.sha("grant"),
        fixture_plan_sha256=make.sha("fixture"),
        qualification_plan_sha256=make.sha("plan"),
        scope_sha256=make.sha("scope"),
        environment_id=str(uuid.uuid4()),
        campaign_id=str(uuid.uuid4()),
        claims=tuple(sorted(claims, key=lambda claim: claim.guard_id)),
    )
    parameters: list[object] = [owner.owner_key, owner.qualification_run_id, owner.sha256, owner.document()]
    for claim in owner.claims:
        parameters += [claim.guard_id, claim.guard_id, claim.document()]
    ledger.rows(LOCKED.format(work=OWNER + DOMAIN * len(owner.claims)), *parameters)
    return owner


@pytest.mark.parametrize("states", [[], ["ACTIVE"], ["SEALING"], ["ACTIVE", "SEALING", "SEALED"]])
def test_a_qualification_owner_keeps_every_activation_off_its_domains(
    fresh_ledger: LiveLedger, states: list[str]
) -> None:
    owner = qualification(fresh_ledger)
    for state in states:
        fresh_ledger.rows(LOCKED.format(work=STATE.format(state=state)), owner.owner_key)
    claim = next(claim for claim in owner.claims if claim.connector == "clickhouse")
    held = (claim.guard_id, claim.connector, claim.service_id, claim.physical_subject_sha256)
    with pytest.raises(Overlap) as refused:
        fresh_ledger.activations.prepare(make.request([held, *fresh_ledger.enroll(1)]))
    assert f"qualification {owner.qualification_run_id} ({states[-1] if states else 'PREPARED'})" in str(refused.value)


def test_a_retired_qualification_owner_gives_its_domains_to_an_activation(fresh_ledger: LiveLedger) -> None:
    owner = qualification(fresh_ledger)
    release = "UPDATE dpone_control.composition_domains SET owner_key = NULL WHERE owner_key = @owner;"
    steps = STATE.format(state="SEALING") + STATE.format(state="RETIRED") + release
    fresh_ledger.rows(LOCKED.format(work=steps), owner.owner_key)
    claim = next(claim for claim in owner.claims if claim.connector == "clickhouse")
    held = (claim.guard_id, claim.connector, claim.service_id, claim.physical_subject_sha256)
    activation = fresh_ledger.active(domains=[held, *fresh_ledger.enroll(1)])
    assert dict(activation.guard_epochs)[claim.guard_id] == 2
    install.audit(fresh_ledger.connect, fresh_ledger.settings)


def test_a_qualification_operation_is_a_blocker_and_never_an_execution_operation(fresh_ledger: LiveLedger) -> None:
    owner = qualification(fresh_ledger)
    operation = QualificationOperation(
        owner_key=owner.owner_key,
        owner_subject_sha256=owner.sha256,
        qualification_run_id=owner.qualification_run_id,
        grant_sha256=owner.grant_sha256,
        fixture_plan_sha256=owner.fixture_plan_sha256,
        qualification_plan_sha256=owner.qualification_plan_sha256,
        work_item_id="заказ/\\☃ x",
        work_item_sha256=make.sha("item"),
        action="fixture_seed",
        runner_invocation_id=str(uuid.uuid4()),
        try_number=1,
        guard_epochs=tuple((claim.guard_id, 1) for claim in owner.claims),
    )
    fresh_ledger.rows(LOCKED.format(work=STATE.format(state="ACTIVE")), owner.owner_key)
    parameters = [owner.owner_key, operation.sha256, owner.sha256, operation.invocation_key, operation.document()]
    guards = [guard for guard, _ in operation.guard_epochs]
    fresh_ledger.rows(LOCKED.format(work=OPERATION + SCOPE * len(guards)), *parameters, *guards)

    blockers = fresh_ledger.attempts.blockers(guards)
    assert {(blocker.operation_key, blocker.operation_family) for blocker in blockers} == {
        (operation.sha256, "qualification")
    }
    assert len(blockers) == 3
    assert fresh_ledger.attempts.read_exact(operation.sha256) is None
    assert fresh_ledger.attempts.unresolved() == ()
    assert fresh_ledger.activations.read(owner.qualification_run_id) is None
    assert fresh_ledger.active().state == "ACTIVE"
    install.audit(fresh_ledger.connect, fresh_ledger.settings)
