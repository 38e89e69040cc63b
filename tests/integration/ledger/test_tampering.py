"""The database itself refuses writes beside the rules. What gets around it is found: test_tampering_matrix.py."""

from __future__ import annotations

import pytest

from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.ledger import Activation
from tests.support import ledger_records as make
from tests.support.live_ledger import LiveLedger

CONTROL = "dpone_control.composition_"

#: Direct writes, each of which some trigger has to refuse without the lock.
DIRECT_WRITES = [
    f"UPDATE {CONTROL}authority SET schema_version = schema_version",
    f"UPDATE {CONTROL}owners SET state = 'ACTIVE' WHERE state = 'PREPARED'",
    f"DELETE FROM {CONTROL}owner_domains",
    f"UPDATE {CONTROL}domains SET fencing_epoch = fencing_epoch + 1",
    f"UPDATE {CONTROL}operations SET state = 'RUNNING'",
    f"DELETE FROM {CONTROL}operation_domains",
    f"DELETE FROM {CONTROL}issued_authorities",
    f"DELETE FROM {CONTROL}proofs",
    f"DELETE FROM {CONTROL}login_gates",
    f"DELETE FROM {CONTROL}mssql_gate_evidence",
    f"DELETE FROM {CONTROL}mssql_enrollments",
    f"DELETE FROM {CONTROL}mssql_managed_schemas",
    "UPDATE dpone_ext.incarnation SET installed_on = 'elsewhere'",
    "DELETE FROM dpone_ext.evidence",
    "UPDATE dpone_ext.attempt_coordinates SET dag_id = 'x'",
    "DELETE FROM dpone_ext.snapshot_records",
    "DELETE FROM dpone_ext.source_charges",
    "DELETE FROM dpone_ext.gate_receipts",
]

LOCK = (
    "SET XACT_ABORT ON; BEGIN TRANSACTION; DECLARE @r int; EXEC @r = sys.sp_getapplock "
    "@Resource = N'dpone:composition-control:v1', @LockMode = N'{mode}', @LockOwner = N'{owner}', @LockTimeout = 5000; "
)


@pytest.mark.parametrize("write", DIRECT_WRITES)
def test_a_write_without_the_lock_is_refused(ledger: LiveLedger, write: str) -> None:
    """By the trigger, or before it by a constraint: a server checks those before AFTER triggers fire."""
    for batch in (write, f"BEGIN TRANSACTION; {write}; COMMIT TRANSACTION;"):
        with pytest.raises(Exception, match=r"lock_not_held|conflicted with the (REFERENCE|CHECK) constraint"):
            ledger.rows(batch)


@pytest.mark.parametrize(
    ("mode", "owner"), [("Shared", "Transaction"), ("Exclusive", "Session"), ("Update", "Transaction")]
)
def test_another_lock_than_the_exclusive_one_of_the_transaction_does_not_help(
    ledger: LiveLedger, mode: str, owner: str
) -> None:
    with pytest.raises(Exception, match="lock_not_held"):
        ledger.rows(LOCK.format(mode=mode, owner=owner) + DIRECT_WRITES[1] + "; COMMIT TRANSACTION;")


LOCKED_WRITES = [
    (f"UPDATE {CONTROL}authority SET schema_version = 2", "authority_immutable"),
    (f"UPDATE {CONTROL}owners SET subject_document = 0x7B7D WHERE owner_key = '{{owner}}'", "owner_immutable"),
    (f"DELETE FROM {CONTROL}owners WHERE owner_key = '{{other}}'", "owner_immutable|REFERENCE|conflicted"),
    (f"UPDATE {CONTROL}owners SET state = 'RETIRED' WHERE owner_key = '{{owner}}'", "owner_transition"),
    (f"UPDATE {CONTROL}owners SET state = 'PREPARED' WHERE owner_key = '{{owner}}'", "owner_transition"),
    (f"UPDATE {CONTROL}owners SET state = state WHERE owner_key = '{{owner}}'", "owner_transition"),
    (f"UPDATE {CONTROL}domains SET fencing_epoch = fencing_epoch + 1 WHERE guard_id = '{{guard}}'", "domain_epoch"),
    (f"UPDATE {CONTROL}domains SET fencing_epoch = fencing_epoch - 1 WHERE guard_id = '{{guard}}'", "domain_epoch"),
    (f"UPDATE {CONTROL}domains SET owner_key = NULL WHERE guard_id = '{{guard}}'", "domain_still_owned"),
    (f"UPDATE {CONTROL}domains SET service_id = '{make.SERVICE}' WHERE guard_id = '{{guard}}'", "domain_immutable"),
    (f"UPDATE {CONTROL}owner_domains SET fencing_epoch = 9 WHERE owner_key = '{{owner}}'", "owner_domain_immutable|REFERENCE"),
    (f"UPDATE {CONTROL}operations SET state = 'COMMIT_UNKNOWN' WHERE operation_key = '{{operation}}'", "operation_|CHECK"),
    (f"UPDATE {CONTROL}operations SET operation_document = 0x7B7D WHERE operation_key = '{{operation}}'", "operation_immutable"),
    (f"UPDATE {CONTROL}operation_domains SET fencing_epoch = 2 WHERE operation_key = '{{operation}}'", "operation_domain|REFERENCE|FOREIGN"),
    (f"UPDATE {CONTROL}issued_authorities SET purpose = 'build' WHERE operation_key = '{{operation}}'", "authority_journal|UNIQUE|duplicate"),
    (f"DELETE FROM {CONTROL}proofs WHERE operation_key = '{{operation}}'", "proof_immutable"),
    ("DELETE FROM dpone_ext.evidence WHERE operation_key = '{operation}'", "evidence_immutable"),
    ("DELETE FROM dpone_ext.attempt_coordinates WHERE operation_key = '{operation}'", "coordinates_immutable"),
    ("DELETE FROM dpone_ext.gate_receipts", "receipt_immutable"),
    ("UPDATE dpone_ext.gate_receipts SET product_version = N'9'", "receipt_immutable"),
    (f"INSERT INTO dpone_ext.gate_receipts VALUES ('{make.sha('x')}', N'e', N'16', N'1', 0x7B7D, SYSUTCDATETIME())", "receipt_digest"),
]  # fmt: skip


def ended(ledger: LiveLedger) -> tuple[Activation, Operation]:
    activation = ledger.active()
    return activation, ledger.end(ledger.admit(activation))


@pytest.mark.parametrize(("write", "rule"), LOCKED_WRITES)
def test_the_lock_alone_does_not_open_what_is_immutable(ledger: LiveLedger, write: str, rule: str) -> None:
    activation, operation = ended(ledger)
    other = ledger.activations.prepare(make.request(ledger.enroll(2)))
    text = write.format(
        owner=activation.owner_key,
        other=other.owner_key,
        guard=operation.attempt.guard_ids[0],
        operation=operation.attempt_sha256,
    )
    with pytest.raises(Exception, match=rule):
        ledger.rows(LOCK.format(mode="Exclusive", owner="Transaction") + text + "; COMMIT TRANSACTION;")
    assert ledger.attempts.read_exact(operation.attempt) == operation
    assert ledger.activations.read(activation.activation_id) == activation
