"""Whoever changes the ledger beside its rules is found by the next transaction, by name, and nothing is changed."""

from __future__ import annotations

import pytest

from airflow_provider_dpone.contracts.errors import ConfigurationError, LedgerTampered
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.ledger import Activation, install
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


CATALOG_CHANGES = [
    ("DISABLE TRIGGER dpone_control.tr_composition_owners ON dpone_control.composition_owners", "catalog"),
    (
        "ALTER TRIGGER dpone_control.tr_composition_proofs ON dpone_control.composition_proofs AFTER INSERT AS RETURN",
        "catalog",
    ),
    ("DROP TRIGGER dpone_control.tr_composition_operations", "catalog"),
    ("ALTER TABLE dpone_control.composition_domains ADD note int NULL", "catalog"),
    ("ALTER TABLE dpone_control.composition_domains DROP CONSTRAINT ck_composition_domains_epoch", "catalog"),
    ("ALTER TABLE dpone_ext.evidence DROP CONSTRAINT uq_evidence_content", "catalog"),
    (
        "ALTER TABLE dpone_control.composition_login_gates DROP CONSTRAINT fk_composition_login_gates_operation",
        "catalog",
    ),
    ("CREATE TABLE dpone_control.another (id int NOT NULL)", "catalog"),
    (
        "ALTER TABLE dpone_control.composition_domains DROP CONSTRAINT ck_composition_domains_epoch; "
        "ALTER TABLE dpone_control.composition_domains ADD CONSTRAINT ck_composition_domains_epoch "
        "CHECK ([fencing_epoch] >= -1)",
        "catalog_checks",
    ),
]


@pytest.mark.parametrize(("change", "reason"), CATALOG_CHANGES)
def test_a_changed_catalog_stops_every_transaction_by_name(fresh_ledger: LiveLedger, change: str, reason: str) -> None:
    activation = fresh_ledger.active()
    fresh_ledger.rows(change)
    for use in (
        lambda: fresh_ledger.admit(activation),
        lambda: fresh_ledger.activations.require_active(activation.request),
        lambda: install.audit(fresh_ledger.connect, fresh_ledger.settings),
    ):
        with pytest.raises(LedgerTampered) as refused:
            use()
        assert refused.value.reason == reason
    assert fresh_ledger.count("dpone_control.composition_operations") == 0


def tamper(ledger: LiveLedger, table: str, change: str) -> None:
    """Change rows as somebody could who may alter the schema, and leave the catalog as it was."""
    name = table.split(".")[1]
    trigger = table.replace(name, f"tr_{name}")
    ledger.rows(f"DISABLE TRIGGER {trigger} ON {table}")
    ledger.rows(change)
    ledger.rows(f"ENABLE TRIGGER {trigger} ON {table}")


ROW_CHANGES = [
    ("owners", "UPDATE {t} SET subject_document = 0x7B7D", "history_owner_original"),
    ("owners", "UPDATE {t} SET state = 'RETIRED'", "history_domain_owner"),
    ("owners", f"UPDATE {{t}} SET subject_sha256 = '{make.sha('other')}'", "history_owner_original"),
    (
        "domains",
        "UPDATE {t} SET fencing_epoch = fencing_epoch + 1 WHERE owner_key IS NOT NULL",
        "history_domain_epochs",
    ),
    ("domains", "UPDATE {t} SET owner_key = NULL", "history_domain_owner"),
    ("operations", "UPDATE {t} SET operation_document = 0x7B7D", "history_operation_original"),
    ("operations", f"UPDATE {{t}} SET owner_subject_sha256 = '{make.sha('other')}'", "history_operation_original"),
    ("operations", "UPDATE {t} SET state = 'FAILED'", "history_operation_proofs"),
    ("operations", f"UPDATE {{t}} SET outcome_proof_sha256 = '{make.sha('other')}'", "history_operation_proofs"),
    ("operation_domains", "DELETE FROM {t}", "history_operation_partition"),
    ("proofs", "DELETE FROM {t} WHERE proof_kind = 'QUIESCENCE'", "history_operation_proofs"),
    ("proofs", "UPDATE {t} SET proof_document = 0x7B7D WHERE proof_kind = 'CLOSED_GATES'", "history_proof_original"),
    ("mssql_gate_evidence", "UPDATE {t} SET evidence_document = 0x7B7D", "history_login_gate"),
]


@pytest.mark.parametrize(("table", "change", "reason"), ROW_CHANGES)
def test_a_changed_row_is_found_by_the_history_before_anything_moves(
    fresh_ledger: LiveLedger, table: str, change: str, reason: str
) -> None:
    activation = fresh_ledger.active()
    fresh_ledger.end(fresh_ledger.admit(activation, principals=fresh_ledger.login()))
    successor = make.request(fresh_ledger.enroll(2))
    name = CONTROL + table
    tamper(fresh_ledger, name, change.format(t=name))

    for use in (
        lambda: fresh_ledger.activations.prepare(successor),
        lambda: fresh_ledger.admit(activation),
        lambda: install.audit(fresh_ledger.connect, fresh_ledger.settings),
    ):
        with pytest.raises(LedgerTampered) as refused:
            use()
        assert refused.value.reason == reason
    assert fresh_ledger.count("dpone_control.composition_owners") == 1


def test_a_missing_gate_is_found_although_its_operation_looks_complete(fresh_ledger: LiveLedger) -> None:
    activation = fresh_ledger.active()
    fresh_ledger.admit(activation, principals=fresh_ledger.login())
    tamper(fresh_ledger, CONTROL + "login_gates", f"DELETE FROM {CONTROL}login_gates")
    with pytest.raises(LedgerTampered) as refused:
        fresh_ledger.admit(activation, "w001")
    assert refused.value.reason == "history_login_gate"


@pytest.mark.parametrize("column", ["database_guid", "recovery_fork_guid"])
def test_a_ledger_that_is_no_longer_in_its_database_is_refused(fresh_ledger: LiveLedger, column: str) -> None:
    activation = fresh_ledger.active()
    tamper(fresh_ledger, "dpone_ext.incarnation", f"UPDATE dpone_ext.incarnation SET {column} = '{make.CLICKHOUSE}'")
    with pytest.raises(LedgerTampered) as refused:
        fresh_ledger.admit(activation)
    assert refused.value.reason == "incarnation"


def test_another_version_is_refused(fresh_ledger: LiveLedger) -> None:
    fresh_ledger.rows(
        "ALTER TABLE dpone_control.composition_authority DROP CONSTRAINT ck_composition_authority_version"
    )
    tamper(fresh_ledger, CONTROL + "authority", f"UPDATE {CONTROL}authority SET schema_version = 3")
    with pytest.raises(ConfigurationError) as refused:
        install.audit(fresh_ledger.connect, fresh_ledger.settings)
    assert refused.value.reason == "ledger_version"
