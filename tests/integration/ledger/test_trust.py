"""The nine cases of the profile `trust`: what the storage of nonproduction policies holds to, on a real endpoint.

The policies are inert documents. No signature is verified here, no grant is consumed and no work is admitted.
"""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_dpone.contracts.canonical import sha256_text
from airflow_provider_dpone.contracts.errors import (
    AuthorityRefused,
    ConfigurationError,
    ControlUnavailable,
    LedgerTampered,
)
from airflow_provider_dpone.drivers import drain
from airflow_provider_dpone.ledger import group_install, groups
from airflow_provider_dpone.ledger.statements import LedgerSql
from airflow_provider_dpone.ledger.transaction import ControlLedger, ControlTransaction
from airflow_provider_dpone.ledger.trust import TrustRevision, TrustStore, require_revision
from tests.integration.ledger.conftest import fresh_database
from tests.support import nonproduction as make
from tests.support.ledger_records import CLICKHOUSE, sha
from tests.support.live_ledger import LiveLedger, connecting, open_ledger
from tests.support.lossy_connection import LosingTheCommit
from tests.support.nonproduction import Authority, literal, open_authority, standing_login, under_the_lock
from tests.support.tcp_proxy import TcpProxy


@pytest.fixture(scope="module")
def trusting(tsql_server: Any) -> LiveLedger:
    """A ledger with both groups, shared by the cases of this file; each case has an environment of its own."""
    return open_authority(open_ledger(fresh_database(tsql_server)))


@pytest.fixture
def case(trusting: LiveLedger) -> Authority:
    return Authority(trusting)


@pytest.fixture
def proxy(trusting: LiveLedger) -> Iterator[TcpProxy]:
    with TcpProxy(trusting.dsn.host, trusting.dsn.port) as running:
        yield running


def insert(case: Authority, revision: int, **changes: Any) -> str:
    """A direct insert of a revision that the store would make, with single columns changed."""
    policy = make.policy(case.environment_id)
    row: dict[str, Any] = {
        "environment_id": case.environment_id,
        "revision": revision,
        "policy_sha256": policy.sha256,
        "policy_document": policy.document(),
        "trust_root_sha256": policy.signer.trust_root_sha256,
        "trust_root_document": make.TRUST_ROOT,
        "revocation_epoch": policy.revocation_epoch,
    } | changes
    values = ", ".join(literal(value) for value in row.values())
    return (
        f"INSERT INTO dpone_trust.policy_revisions ({', '.join(row)}, recorded_at) VALUES ({values}, SYSUTCDATETIME())"
    )


def refused_by(case: Authority, statement: str, rule: str) -> None:
    """A direct write under the lock is refused by this rule of the database, and nothing is changed."""
    before = case.policies()
    with pytest.raises(Exception, match=rule):
        case.ledger.rows(under_the_lock(statement))
    assert case.policies() == before


def test_a_policy_and_its_trust_root_are_stored_byte_for_byte_and_read_back_independently(case: Authority) -> None:
    with pytest.raises(AuthorityRefused) as refused:
        case.trust().read(case.environment_id)
    assert refused.value.reason == "policy_absent"

    revision = case.append()

    policy = make.policy(case.environment_id)
    assert (revision.revision, revision.policy, revision.trust_root) == (1, policy, make.TRUST_ROOT)
    assert case.policies() == [
        (1, policy.sha256, policy.document(), sha256_text(make.TRUST_ROOT), make.TRUST_ROOT, 0),
    ]
    [(size, digest)] = case.ledger.rows(
        "SELECT CONVERT(int, DATALENGTH(policy_document)), HASHBYTES('SHA2_256', policy_document) "
        "FROM dpone_trust.policy_revisions WHERE environment_id = ?",
        case.environment_id,
    )
    assert (size, digest) == (len(policy.document()), hashlib.sha256(policy.document()).digest())
    assert case.trust().read(case.environment_id) == revision
    other = TrustStore(case.ledger.connect, replace(case.ledger.settings, service_id=CLICKHOUSE))
    with pytest.raises(ConfigurationError) as foreign:
        other.read(case.environment_id)
    assert foreign.value.reason == "ledger_service_id"


def test_revisions_are_append_only_follow_without_a_gap_and_a_repeated_append_is_the_same_answer(
    case: Authority,
) -> None:
    first = case.append()
    table = "dpone_trust.policy_revisions"
    for statement, rule in (
        (f"UPDATE {table} SET policy_document = 0x7B7D WHERE environment_id = '{case.environment_id}'", "policy_immutable"),
        (f"UPDATE {table} SET revision = 2 WHERE environment_id = '{case.environment_id}'", "policy_immutable"),
        (f"DELETE FROM {table} WHERE environment_id = '{case.environment_id}'", "policy_immutable"),
        (insert(case, 1), "(?i)duplicate|PRIMARY KEY|policy_revision"),
        (insert(case, 0), "(?i)CHECK|policy_revision"),
        (insert(case, 3), "policy_revision"),
    ):  # fmt: skip
        refused_by(case, statement, rule)
    with pytest.raises(Exception, match="lock_not_held"):
        case.ledger.rows(insert(case, 2))

    assert case.append() == first
    second = case.append(after=1, limits=make.limits(max_attempts=3))

    assert case.trust().history(case.environment_id) == (first, second)
    assert [row[0] for row in case.policies()] == [1, 2]


def test_a_decision_compares_the_exact_revision_and_an_equal_policy_again_is_another_one(case: Authority) -> None:
    first = case.append()
    case.append(after=1, limits=make.limits(max_workloads=3))
    third = case.append(after=2)
    assert third.policy == first.policy
    hurried = TrustStore(case.ledger.connect, replace(case.ledger.settings, lock_timeout_seconds=0))

    def decide(transaction: ControlTransaction) -> TrustRevision:
        with pytest.raises(AuthorityRefused) as refused:
            require_revision(transaction, first)
        assert refused.value.reason == "trust_revision_changed"
        found = require_revision(transaction, third)
        with transaction.callback() as cursor:
            cursor.execute("SELECT @@TRANCOUNT, XACT_STATE()")
            assert [tuple(row) for row in cursor.fetchall()] == [(1, 1)]
        # Appending takes part in the same lock: nothing gets in between the comparison and the commit.
        with pytest.raises(ControlUnavailable) as waiting:
            hurried.append(make.policy(case.environment_id), make.TRUST_ROOT, after=3)
        assert waiting.value.reason == "control_lock"
        return found

    answer = ControlLedger(case.ledger.connect, case.ledger.settings).mutate("decide", decide, lambda _: None)

    assert answer == third
    assert [row[0] for row in case.policies()] == [1, 2, 3]


def test_of_two_provisioners_with_the_next_revision_exactly_one_wins(case: Authority) -> None:
    case.append()
    together = threading.Barrier(2)

    def provision(attempts: int) -> TrustRevision | str:
        together.wait(timeout=30)
        try:
            return case.append(after=1, limits=make.limits(max_attempts=attempts))
        except AuthorityRefused as err:
            return err.reason

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(provision, (1, 2)))

    [winner] = [answer for answer in answers if isinstance(answer, TrustRevision)]
    assert [answer for answer in answers if answer != winner] == ["trust_revision"]
    assert case.trust().read(case.environment_id) == winner
    assert [row[0] for row in case.policies()] == [1, 2]


def test_wrong_bytes_and_a_revocation_taken_back_are_refused_by_the_database_and_by_the_store(case: Authority) -> None:
    revoked = str(uuid.uuid4())
    case.append(revocation_epoch=5, revoked_grant_ids=(revoked,))
    for changes, rule in (
        ({"policy_sha256": sha("another")}, "policy_digest"),
        ({"policy_document": b"{}"}, "policy_digest"),
        ({"trust_root_sha256": sha("another")}, "policy_digest"),
        ({"revocation_epoch": 4}, "policy_epoch"),
        ({"revocation_epoch": -1}, "(?i)CHECK"),
        ({"policy_document": b""}, "(?i)CHECK|policy_digest"),
    ):
        refused_by(case, insert(case, 2, **({"revocation_epoch": 5} | changes)), rule)
    before = case.policies()
    for values, reason in (
        ({"revocation_epoch": 4, "revoked_grant_ids": (revoked,)}, "trust_revocation"),
        ({"revocation_epoch": 6}, "trust_revocation"),
    ):
        with pytest.raises(AuthorityRefused) as refused:
            case.append(after=1, **values)
        assert refused.value.reason == reason
    with pytest.raises(AuthorityRefused) as refused:
        case.trust().append(make.policy(case.environment_id), b"another root", after=1)
    assert refused.value.reason == "trust_root"
    assert case.policies() == before
    newer = case.append(after=1, revocation_epoch=6, revoked_grant_ids=(revoked,))
    assert case.trust().read(case.environment_id) == newer

    # Bytes whose digest is right and which are not the exact encoding pass every rule of SQL, and no reading.
    loose = make.policy(case.environment_id, revocation_epoch=6, revoked_grant_ids=(revoked,)).document() + b" "
    case.ledger.rows(
        under_the_lock(
            insert(case, 3, policy_document=loose, policy_sha256=sha256_text(loose), revocation_epoch=6),
        )
    )
    with pytest.raises(LedgerTampered) as tampered:
        case.trust().read(case.environment_id)
    assert tampered.value.reason == "trust_revision"


def test_a_changed_trigger_column_or_check_refuses_every_reading_by_name(fresh_ledger: LiveLedger) -> None:
    with pytest.raises(ConfigurationError) as absent:
        Authority(fresh_ledger).append()
    assert absent.value.reason == "trust_absent"
    group_install.apply(fresh_ledger.connect, fresh_ledger.settings, "trust")
    with pytest.raises(ConfigurationError) as present:
        group_install.apply(fresh_ledger.connect, fresh_ledger.settings, "trust")
    assert present.value.reason == "trust_present"
    case = Authority(fresh_ledger)
    revision = case.append()
    trigger, table = "dpone_trust.tr_policy_revisions", "dpone_trust.policy_revisions"
    original = LedgerSql(fresh_ledger.settings).text("trigger_policy_revisions")
    check = "[ck_policy_revisions_numbers] CHECK"
    uses: list[Callable[[], object]] = [lambda: case.trust().read(case.environment_id), lambda: case.append(after=1)]
    for change, restore, reason in (
        (f"DISABLE TRIGGER {trigger} ON {table}", f"ENABLE TRIGGER {trigger} ON {table}", "trust_catalog"),
        (original.replace("CREATE TRIGGER", "ALTER TRIGGER") + "\n-- changed", f"DROP TRIGGER {trigger}", "trust_catalog"),
        (f"ALTER TABLE {table} ADD note int NULL", f"ALTER TABLE {table} DROP COLUMN note", "trust_catalog"),
        (
            f"ALTER TABLE {table} DROP CONSTRAINT ck_policy_revisions_numbers; "
            f"ALTER TABLE {table} ADD CONSTRAINT {check} ([revision] >= 0)",
            f"ALTER TABLE {table} DROP CONSTRAINT ck_policy_revisions_numbers; "
            f"ALTER TABLE {table} ADD CONSTRAINT {check} ([revision] >= 1 AND [revocation_epoch] >= 0)",
            "trust_catalog_checks",
        ),
    ):  # fmt: skip
        with case.changed(change, restore):
            for use in uses:
                with pytest.raises(LedgerTampered) as refused:
                    use()
                assert refused.value.reason == reason
        if restore.startswith("DROP TRIGGER"):
            fresh_ledger.rows(original)
        assert case.trust().read(case.environment_id) == revision
    fresh_ledger.rows("DROP TABLE dpone_trust.trust_version")
    with pytest.raises(ConfigurationError) as partial:
        case.trust().read(case.environment_id)
    assert partial.value.reason == "trust_partial"
    with pytest.raises(ConfigurationError) as partial:
        group_install.apply(fresh_ledger.connect, fresh_ledger.settings, "trust")
    assert partial.value.reason == "trust_partial"
    assert len(case.policies()) == 1


def test_without_the_exclusive_lock_of_a_healthy_transaction_no_revision_is_trusted(case: Authority) -> None:
    revision = case.append()
    sql = LedgerSql(case.ledger.settings)
    take = (
        "DECLARE @locked int; EXEC @locked = sys.sp_getapplock @Resource = N'dpone:composition-control:v1', "
        "@LockMode = N'{mode}', @LockOwner = N'{owner}', @LockTimeout = 5000"
    )
    exclusive = "BEGIN TRANSACTION; " + take.format(mode="Exclusive", owner="Transaction")
    doomed = "SET XACT_ABORT ON; BEGIN TRY SELECT CONVERT(int, 'no number') END TRY BEGIN CATCH SELECT XACT_STATE() END CATCH"
    states = (
        ("SELECT 1", "", "transaction_identity"),
        ("BEGIN TRANSACTION", "", "trust_lock"),
        ("BEGIN TRANSACTION; " + take.format(mode="Shared", owner="Transaction"), "", "trust_lock"),
        ("BEGIN TRANSACTION; " + take.format(mode="Exclusive", owner="Session"), "", "trust_lock"),
        ("BEGIN TRANSACTION; " + exclusive, "", "trust_lock"),
        (exclusive, "ROLLBACK TRANSACTION; BEGIN TRANSACTION", "transaction_identity"),
        (exclusive, doomed, "transaction_identity"),
    )
    for state, then, reason in states:
        connection = case.ledger.connect()
        try:
            connection.setautocommit(True)  # type: ignore[attr-defined]  # mssql-python's connection
            drain(connection, state)
            [[identity]] = drain(connection, sql.text("identity"))
            # The server ends a doomed transaction with its batch, and says so.
            with pytest.raises(Exception, match="Uncommittable") if then == doomed else nullcontext():
                drain(connection, then or "SELECT 1")
            with pytest.raises(ControlUnavailable) as refused:
                require_revision(ControlTransaction(connection, sql, tuple(identity)), revision)
            assert refused.value.reason == reason, state
        finally:
            connection.close()
    with pytest.raises(ControlUnavailable) as refused:
        ControlLedger(case.ledger.connect, case.ledger.settings).read(
            lambda transaction: require_revision(transaction, revision)
        )
    assert refused.value.reason == "trust_lock"
    assert case.trust().read(case.environment_id) == revision


def test_a_lost_acknowledgement_is_resolved_by_reading_and_a_lost_reading_trusts_nothing(
    case: Authority, proxy: TcpProxy
) -> None:
    through = connecting(replace(case.ledger.dsn, host="127.0.0.1", port=proxy.port))
    fate = LosingTheCommit(through, proxy, "reply")
    first = case.append(connect=fate)
    assert (fate.lost, first.revision, len(case.policies())) == (1, 1, 1)

    fate = LosingTheCommit(through, proxy, "request")
    with pytest.raises(ControlUnavailable) as refused:
        case.append(after=1, connect=fate, limits=make.limits(max_attempts=2))
    assert (fate.lost, refused.value.reason) == (1, "control_commit_lost")
    assert len(case.policies()) == 1

    before = case.policies()

    def lost_while_reading(transaction: ControlTransaction) -> object:
        proxy.lose("reply")
        return transaction.run(("policy_rows", [case.environment_id]))

    with pytest.raises(ControlUnavailable) as unread:
        groups.GroupLedger(through, case.ledger.settings, "trust", role="trust provisioner").read(lost_while_reading)
    assert unread.value.reason == "control_read"
    assert case.policies() == before
    assert case.trust().read(case.environment_id) == first


def test_a_provisioner_appends_and_can_do_nothing_else(case: Authority) -> None:
    ledger = case.ledger
    name, own = standing_login(ledger, "trust-provisioner")
    rights = ", ".join(
        f"HAS_PERMS_BY_NAME(N'dpone_trust.policy_revisions', N'OBJECT', N'{right}')"
        for right in ("SELECT", "INSERT", "UPDATE", "DELETE", "ALTER")
    )
    assert own.rows(f"SELECT {rights}") == [(1, 1, 0, 0, 0)]
    impersonated = ledger.rows(f"EXECUTE AS USER = N'{name}'; SELECT {rights}; REVERT; SELECT {rights}")
    assert impersonated == [(1, 1, 1, 1, 1)]

    revision = case.append(connect=own.connect)

    before = case.policies()
    trigger, table = "dpone_trust.tr_policy_revisions", "dpone_trust.policy_revisions"
    for statement in (
        f"UPDATE {table} SET revision = 2",
        f"DELETE FROM {table}",
        f"TRUNCATE TABLE {table}",
        f"ALTER TABLE {table} ADD forbidden int NULL",
        f"DISABLE TRIGGER {trigger} ON {table}",
        f"DROP TRIGGER {trigger}",
        "CREATE TABLE dpone_trust.mine (id int NOT NULL)",
        "UPDATE dpone_trust.trust_version SET group_version = 1",
        "INSERT INTO dpone_control.composition_authority (singleton, schema_version, service_id) VALUES (1, 2, 'x')",
        "SELECT * FROM dpone_control.composition_owners",
        "SELECT * FROM dpone_registration.grants",
        "EXECUTE AS LOGIN = N'sa'",
    ):
        with pytest.raises(Exception, match=r"(?i)permission|does not exist|cannot"):
            own.rows(under_the_lock(statement))
    with pytest.raises(Exception, match="policy_revision"):
        own.rows(under_the_lock(insert(case, 3)))
    assert case.policies() == before
    assert TrustStore(own.connect, ledger.settings).read(case.environment_id) == revision
