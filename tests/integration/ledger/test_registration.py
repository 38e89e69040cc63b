"""The eighteen cases of the profile `registration`: what the storage of nonproduction grants holds to, on a real endpoint.

The grants are inert and unsigned: no signature is verified here, and a registered grant opens nothing.
"""

from __future__ import annotations

import hashlib
import os
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dpone.contracts.canonical import SIGNATURE_BUNDLE_LIMIT
from airflow_provider_dpone.contracts.errors import (
    AdmissionRefused,
    AuthorityRefused,
    ConfigurationError,
    ControlUnavailable,
    GuardError,
    LedgerTampered,
    OutcomeUnknown,
)
from airflow_provider_dpone.contracts.nonproduction.grants import (
    Grant,
    consumption_subject_sha256,
    signature_subject,
    workload_member_document,
)
from airflow_provider_dpone.contracts.nonproduction.registration import workload_sha256
from airflow_provider_dpone.drivers import Connect, Connection, drain
from airflow_provider_dpone.ledger import group_install, groups, install
from airflow_provider_dpone.ledger.campaigns import Registration
from airflow_provider_dpone.ledger.registration import RegistrationStore
from airflow_provider_dpone.ledger.statements import LedgerSql
from airflow_provider_dpone.ledger.transaction import ControlLedger, driver_errors
from airflow_provider_dpone.ledger.trust import TrustRevision
from tests.integration.ledger.conftest import fresh_database
from tests.support import nonproduction as make
from tests.support.ledger_records import CLICKHOUSE, sha
from tests.support.live_ledger import LiveLedger, connecting, open_ledger
from tests.support.lossy_connection import LosingTheCommit
from tests.support.nonproduction import LOCKED, NOW, Authority, literal, open_authority, standing_login, under_the_lock
from tests.support.tcp_proxy import TcpProxy

GRANTS = "dpone_registration.grants"
MEMBERS = "dpone_registration.memberships"
CEILINGS = "dpone_registration.ceilings"

#: Each changes what a write stores or whether it fails.
OPTIONS = (
    "ANSI_PADDING OFF",
    "ANSI_WARNINGS OFF",
    "ARITHABORT OFF",
    "CONCAT_NULL_YIELDS_NULL OFF",
    "NUMERIC_ROUNDABORT ON",
)


@pytest.fixture(scope="module")
def registering(tsql_server: Any) -> LiveLedger:
    """A ledger with both groups, shared by the cases of this file; each case has a campaign of its own."""
    return open_authority(open_ledger(fresh_database(tsql_server)))


@pytest.fixture
def case(registering: LiveLedger) -> Authority:
    return Authority(registering)


@pytest.fixture
def fresh_case(fresh_ledger: LiveLedger) -> Authority:
    """The same in a ledger of its own, for a case that breaks it."""
    return Authority(open_authority(fresh_ledger))


@pytest.fixture
def proxy(registering: LiveLedger) -> Iterator[TcpProxy]:
    with TcpProxy(registering.dsn.host, registering.dsn.port) as running:
        yield running


def refused(reason: str, use: Callable[[], object], error: type[GuardError] = AuthorityRefused) -> None:
    with pytest.raises(error) as raised:
        use()
    assert raised.value.reason == reason


def row_of(case: Authority, subject: str) -> dict[str, Any]:
    """A stored grant, column by column, as a test's own direct insert would write it."""
    columns = [
        name
        for (name,) in case.ledger.rows(
            "SELECT c.name FROM sys.columns AS c WHERE c.object_id = OBJECT_ID(N'dpone_registration.grants') "
            "AND c.name <> 'registered_at' ORDER BY c.column_id"
        )
    ]
    [values] = case.ledger.rows(
        f"SELECT {', '.join(columns)} FROM {GRANTS} WHERE consumption_subject_sha256 = ?", subject
    )
    return dict(zip(columns, values, strict=True))


def insert(row: dict[str, Any]) -> str:
    values = ", ".join(literal(value) for value in row.values())
    return f"INSERT INTO {GRANTS} ({', '.join(row)}, registered_at) VALUES ({values}, SYSUTCDATETIME())"


def rewrite(case: Authority, table: str, *statements: str) -> None:
    """Change what is immutable, as an owner of the database can: with the trigger off while it happens."""
    trigger = f"dpone_registration.tr_{table.rsplit('.', 1)[-1]}"
    case.ledger.rows(
        f"DISABLE TRIGGER {trigger} ON {table}; {'; '.join(statements)}; ENABLE TRIGGER {trigger} ON {table}"
    )


def race(case: Authority, grants: Sequence[Grant], under: TrustRevision) -> list[Registration | str]:
    """Everybody registers at once; the answers, in the order of the grants."""
    together = threading.Barrier(len(grants))

    def contend(grant: Grant) -> Registration | str:
        together.wait(timeout=60)
        try:
            return case.register(grant, under)
        except AdmissionRefused as err:
            return err.reason

    with ThreadPoolExecutor(len(grants)) as pool:
        return list(pool.map(contend, grants))


def test_the_installed_catalog_is_line_by_line_that_of_the_file_and_is_installed_once(fresh_ledger: LiveLedger) -> None:
    settings, connect = fresh_ledger.settings, fresh_ledger.connect
    refused("trust_absent", lambda: group_install.apply(connect, settings, "registration"), ConfigurationError)
    assert group_install.audit(connect, settings) == group_install.GroupsReport(
        policy_revisions=None, registered_grants=None
    )
    open_authority(fresh_ledger)
    for name in ("trust", "registration"):
        differences = ControlLedger(connect, settings).read(
            lambda transaction, name=name: groups.compare(transaction, settings, groups.group(name))  # type: ignore[misc]  # bound now
        )
        assert differences.sentence() == ""
        refused(f"{name}_present", lambda name=name: group_install.apply(connect, settings, name), ConfigurationError)  # type: ignore[misc]  # bound now
    expected = LedgerSql(settings).text("trigger_grants").encode("utf-16-le")
    assert fresh_ledger.rows(
        "SELECT HASHBYTES('SHA2_256', m.definition), CONVERT(int, DATALENGTH(m.definition)) FROM sys.sql_modules AS m "
        "WHERE m.object_id = OBJECT_ID(N'dpone_registration.tr_grants')"
    ) == [(hashlib.sha256(expected).digest(), len(expected))]
    assert group_install.audit(connect, settings) == group_install.GroupsReport(policy_revisions=0, registered_grants=0)
    install.audit(connect, settings)


def test_all_originals_and_a_bundle_of_eight_mebibytes_survive_an_independent_reading(case: Authority) -> None:
    under = case.append()
    grant = case.execution(under)
    bundle = bytes(range(256)) * (SIGNATURE_BUNDLE_LIMIT // 256)

    registered = case.register(grant, under, bundle)

    assert case.store().read(grant) == registered
    assert registered.originals == make.originals(grant, bundle)
    signed, request = signature_subject(grant, under.policy), make.request_of(grant)
    stored = row_of(case, registered.subject)
    for name, document in (
        ("grant", grant.document()),
        ("signature_subject", signed.document()),
        ("request", request.document()),
        ("bundle", bundle),
    ):
        column = "signature_bundle" if name == "bundle" else f"{name}_document"
        assert stored[column] == document
        assert stored[f"{name}_sha256"] == f"sha256:{hashlib.sha256(document).hexdigest()}"
        assert case.ledger.rows(
            f"SELECT CONVERT(int, DATALENGTH({column})), HASHBYTES('SHA2_256', {column}) FROM {GRANTS} "
            "WHERE consumption_subject_sha256 = ?",
            registered.subject,
        ) == [(len(document), hashlib.sha256(document).digest())]
    refused("signature_bundle", lambda: make.originals(case.execution(under), bundle + b"\x00"))
    assert len(case.grants()) == 1


def test_registered_rows_are_append_only_and_no_wrong_row_can_be_inserted(case: Authority) -> None:
    under = case.append()
    registered = case.register(case.execution(under), under)
    subject = registered.subject
    before, stored = case.state(), row_of(case, subject)
    new = stored | {
        "consumption_subject_sha256": sha("another"),
        "registration_id": str(uuid.uuid4()),
        "grant_id": (grant_id := str(uuid.uuid4())),
        "exclusive_id": grant_id,
        "registration_order": 2,
    }
    member = workload_member_document("n_foreign")
    where = f"WHERE consumption_subject_sha256 = '{subject}'"
    for statement, rule in (
        (f"UPDATE {GRANTS} SET grant_sha256 = grant_sha256 {where}", "grant_immutable"),
        (f"DELETE FROM {GRANTS} {where}", "(?i)grant_immutable|REFERENCE"),
        (f"UPDATE {CEILINGS} SET max_attempts = 1 {where}", "ceiling_immutable"),
        (f"DELETE FROM {CEILINGS} {where}", "ceiling_immutable"),
        (f"DELETE FROM {MEMBERS} WHERE first_consumption_subject_sha256 = '{subject}'", "membership_immutable"),
        (insert(stored), "(?i)duplicate|PRIMARY KEY"),
        (insert(new | {"grant_document": b"{}"}), "grant_digest"),
        (insert(new | {"bundle_sha256": sha("another")}), "grant_digest"),
        (insert(new | {"signature_bundle": b""}), "(?i)CHECK"),
        (insert(new | {"signature_subject_document": b"{}"}), "grant_digest"),
        (insert(new | {"request_document": None, "request_sha256": None}), "(?i)CHECK"),
        (insert(new | {"exclusive_id": stored["subject_id"]}), "(?i)CHECK"),
        (insert(new | {"registration_order": 3}), "grant_order"),
        (insert(new | {"trust_revision": 2}), "(?i)FOREIGN KEY"),
        (
            f"INSERT INTO {CEILINGS} SELECT consumption_subject_sha256, 4, workload_sha256, 1, 1, 1, 1, 1, 1 "
            f"FROM {CEILINGS} {where} AND ordinal = 3",
            "ceiling_order",
        ),
        (
            f"INSERT INTO {MEMBERS} VALUES ('{case.environment_id}', '{case.campaign_id}', "
            f"'{workload_sha256('n_foreign')}', {literal(member)}, '{subject}')",
            "membership_grant",
        ),
    ):
        with pytest.raises(Exception, match=rule):
            case.ledger.rows(under_the_lock(statement))
        assert case.state() == before, statement
    too_long = "CONVERT(varbinary(max), REPLICATE(CONVERT(varchar(max), 'x'), 8388609))"
    with pytest.raises(Exception, match=r"(?i)CHECK"):
        case.ledger.rows(under_the_lock(insert(new | {"signature_bundle": 0}).replace(", 0, ", f", {too_long}, ", 1)))
    with pytest.raises(Exception, match="lock_not_held"):
        case.ledger.rows(insert(new))
    assert case.state() == before
    assert case.store().read(registered.originals.grant) == registered


def test_an_execution_grant_answers_the_same_again_and_is_never_bound_to_other_originals(case: Authority) -> None:
    under = case.append()
    grant = case.execution(under)
    first = case.register(grant, under)
    before = case.state()

    assert case.register(grant, under) == first
    refused("registration_rebind", lambda: case.register(grant, under, b"another bundle"))
    changed = replace(grant, deployment_id=sha("another deployment"))
    refused("registration_rebind", lambda: case.register(changed, under))
    refused("registration_rebind", lambda: case.store().read(changed))
    assert case.state() == before

    candidate = case.execution(under, activation_id=grant.activation_id)
    second = case.register(candidate, under)
    assert (case.store().read(grant), case.store().read(candidate)) == (first, second)
    assert (len(case.grants()), len(case.members())) == (2, 3)
    # Registered is not owned, activated or admitted.
    assert case.ledger.count("dpone_control.composition_owners") == 0


def test_a_qualification_grant_is_consumed_once_and_its_run_takes_no_other_grant(case: Authority) -> None:
    under = case.append()
    grant = case.qualification(under)

    registered = case.register(grant, under)

    before = case.state()
    refused("qualification_consumed", lambda: case.register(grant, under))
    refused("qualification_consumed", lambda: case.register(replace(grant, limits=make.limits()), under))
    other = replace(grant, grant_id=str(uuid.uuid4()))
    refused("registration_subject_reuse", lambda: case.register(other, under))
    assert case.state() == before
    assert case.store().read(consumption_subject_sha256(grant)) == registered
    assert case.store().read(other) is None
    stored = row_of(case, registered.subject)
    assert (stored["request_sha256"], stored["request_document"], registered.members) == (None, None, ())


def test_a_campaigns_workload_set_is_complete_and_stays_within_the_tightest_ceiling(case: Authority) -> None:
    under = case.append(limits=make.limits(max_workloads=4))
    case.register(case.execution(under, "n_a", "n_b", "s_c"), under)
    four = case.register(case.execution(under, "n_a", "n_d", "s_c"), under)
    before = case.state()
    assert {member.workload_sha256 for member in four.members} == {
        workload_sha256(name) for name in ("n_a", "n_b", "n_d", "s_c")
    }
    refused("membership_ceiling", lambda: case.register(case.execution(under, "n_e", "s_c"), under))

    under = case.append(after=1, limits=make.limits(max_workloads=5))
    grant = case.execution(under, "n_e", "s_c", limits=make.limits(max_workloads=4))
    refused("membership_ceiling", lambda: case.register(grant, under))
    tight = (make.workload("n_e", max_workloads=4), make.workload("s_c"))
    refused("membership_ceiling", lambda: case.register(case.execution(under, "n_e", "s_c", workloads=tight), under))
    assert case.state()[1:] == before[1:]
    five = case.register(case.execution(under, "n_e", "s_c"), under)
    assert len(five.members) == 5 and set(before[2]) < set(case.members())

    under = case.append(after=2, limits=make.limits(max_workloads=64))
    names = (*(f"n_{number:02}" for number in range(59)), "s_c")
    largest = case.register(case.execution(under, *names), under)
    assert (len(largest.ceilings), len(case.members())) == (61, 64)
    assert case.store().read(largest.originals.grant) == largest
    refused("membership_ceiling", lambda: case.register(case.execution(under, "n_too_many", "s_c"), under))


def test_one_damaged_original_refuses_its_whole_campaign_and_the_audit(fresh_case: Authority) -> None:
    case = fresh_case
    under = case.append()
    first = case.register(case.execution(under), under)
    under = case.append(after=1, limits=make.limits(max_attempts=2))
    last = case.register(case.execution(under), under, b"a later bundle")
    where = f"WHERE consumption_subject_sha256 = '{last.subject}'"
    stored = row_of(case, last.subject)
    loose = stored["grant_document"] + b" "
    damages = (
        ("signature_bundle = 0x00", "registration_bundle"),
        ("grant_document = 0x7B7D", "registration_original"),
        (
            f"grant_document = {literal(loose)}, grant_sha256 = 'sha256:{hashlib.sha256(loose).hexdigest()}'",
            "registration_original",
        ),
        ("request_document = request_document + 0x20", "registration_original"),
        (f"subject_id = '{uuid.uuid4()}'", "registration_original"),
        ("signature_subject_document = 0x7B7D", "registration_signature_subject"),
        (f"trust_revision = 1, policy_sha256 = '{first.trust.policy.sha256}'", "registration_signature_subject"),
        ("registration_order = 3", "registration_campaign"),
    )
    for damage, reason in damages:
        columns = [each.split(" = ", 1)[0] for each in damage.split(", ")]
        back = ", ".join(f"{column} = {literal(stored[column])}" for column in columns)
        rewrite(case, GRANTS, f"UPDATE {GRANTS} SET {damage} {where}")
        for use in (
            lambda: case.store().read(first.originals.grant),
            lambda: group_install.audit(case.ledger.connect, case.ledger.settings),
        ):
            refused(reason, use, LedgerTampered)
        rewrite(case, GRANTS, f"UPDATE {GRANTS} SET {back} {where}")
    rewrite(case, CEILINGS, f"UPDATE {CEILINGS} SET max_attempts = 128 {where} AND ordinal = 0")
    refused("registration_ceilings", lambda: case.store().read(first.originals.grant), LedgerTampered)
    rewrite(case, CEILINGS, f"UPDATE {CEILINGS} SET max_attempts = 2 {where} AND ordinal = 0")
    assert case.store().read(first.originals.grant) == first
    assert group_install.audit(case.ledger.connect, case.ledger.settings).registered_grants == 2


def test_history_stays_readable_after_revocation_expiry_and_another_policy(case: Authority) -> None:
    first = case.append()
    grant, run = case.execution(first), case.qualification(first)
    registered = (case.register(grant, first), case.register(run, first))
    unused = str(uuid.uuid4())
    second = case.append(
        after=1, revocation_epoch=1, revoked_grant_ids=tuple(sorted((grant.grant_id, run.grant_id, unused)))
    )

    refused("trust_revision_changed", lambda: case.register(case.execution(first), first))
    refused("policy", lambda: case.register(case.execution(first), second))
    refused("revoked", lambda: case.register(case.execution(second, grant_id=unused), second))
    refused("revoked", lambda: case.register(case.execution(second, revocation_epoch=0), second))
    case.clock = lambda: NOW + timedelta(hours=2)
    refused("validity", lambda: case.register(case.execution(second), second))
    assert (case.store().read(grant), case.store().read(run)) == registered
    assert [each.trust.revision for each in registered] == [1, 1]
    assert len(case.grants()) == 2


def test_service_environment_revision_and_clock_are_checked_before_anything_is_written(case: Authority) -> None:
    under = case.append()
    grant = case.execution(under)
    other = RegistrationStore(
        case.ledger.connect, replace(case.ledger.settings, service_id=CLICKHOUSE), clock=lambda: NOW
    )
    refused("ledger_service_id", lambda: other.register(make.originals(grant), under=under), ConfigurationError)
    refused("trust_revision_changed", lambda: case.register(grant, replace(under, revision=2)))
    refused("policy_absent", lambda: case.register(grant, replace(under, environment_id=str(uuid.uuid4()))))
    foreign = Authority(case.ledger)
    refused("policy", lambda: case.register(foreign.execution(foreign.append()), under))
    wide = replace(grant, scope=replace(grant.scope, enrollment_sha256=sha("another enrollment")))
    refused("scope", lambda: case.register(wide, under))
    impatient = replace(case.ledger.settings, lock_timeout_seconds=0)
    holder = case.ledger.connect()
    try:
        holder.setautocommit(True)  # type: ignore[attr-defined]  # mssql-python's connection
        drain(holder, LOCKED)
        waiting = RegistrationStore(case.ledger.connect, impatient, clock=lambda: NOW)
        refused("control_lock", lambda: waiting.register(make.originals(grant), under=under), ControlUnavailable)
    finally:
        holder.close()
    times = iter((NOW, NOW - timedelta(seconds=1), NOW, NOW + timedelta(hours=2)))
    case.clock = lambda: next(times)
    refused("registration_clock", lambda: case.register(grant, under))
    refused("validity", lambda: case.register(grant, under))
    assert case.state()[1:] == ([], [])


def test_of_concurrent_qualifications_exactly_one_consumes_the_grant_and_the_run(case: Authority) -> None:
    under = case.append()
    grant = case.qualification(under)
    run = case.qualification(under)
    same_run = [replace(run, grant_id=str(uuid.uuid4())) for _ in range(2)]
    for contenders, reason in (
        ([grant] * 4, "qualification_consumed"),
        (same_run, "registration_subject_reuse"),
    ):
        answers = race(case, contenders, under)
        [winner] = [answer for answer in answers if isinstance(answer, Registration)]
        assert [answer for answer in answers if answer != winner] == [reason] * (len(contenders) - 1)
        assert case.store().read(winner.originals.grant) == winner
    assert (len(case.grants()), case.members()) == (2, [])


def test_concurrent_executions_share_one_registration_and_never_pass_the_ceiling_together(case: Authority) -> None:
    under = case.append(limits=make.limits(max_workloads=4))
    grant = case.execution(under, "n_a", "n_b", "s_c")
    answers = race(case, [grant] * 2, under)
    assert answers[0] == answers[1] == case.store().read(grant)
    assert (len(case.grants()), len(case.members())) == (1, 3)

    left, right = case.execution(under, "n_left", "s_c"), case.execution(under, "n_right", "s_c")
    answers = race(case, [left, right], under)
    [winner] = [answer for answer in answers if isinstance(answer, Registration)]
    assert [answer for answer in answers if answer != winner] == ["membership_ceiling"]
    assert case.store().read(winner.originals.grant) == winner
    assert (len(case.grants()), len(case.members())) == (2, 4)


class _CutBefore:
    """A connection that dies right before the batch that contains a text, and says what its transaction had written."""

    def __init__(self, connect: Connect, text: str, look: str) -> None:
        self._connect = connect
        self._text = text
        self._look = look
        self.seen: list[tuple[Any, ...]] = []

    def __call__(self) -> Connection:
        connection: Any = self._connect()
        original = connection.cursor
        fate = self

        class Cursor:
            def __init__(self) -> None:
                self._cursor = original()

            def execute(self, operation: str, /, *parameters: Any) -> Any:
                if fate._text in operation:
                    self._cursor.execute(fate._look)
                    fate.seen = [tuple(row) for row in self._cursor.fetchall()]
                    connection.close()
                    raise ConnectionResetError("the connection was cut")
                return self._cursor.execute(operation, *parameters)

            def __getattr__(self, name: str) -> Any:
                return getattr(self._cursor, name)

        class Cut:
            def cursor(self) -> Any:
                return Cursor()

            def __getattr__(self, name: str) -> Any:
                return getattr(connection, name)

        cut: Any = Cut()
        return cut  # type: ignore[no-any-return]  # as the driver's connection


def test_a_connection_cut_between_the_grant_and_its_members_leaves_nothing(case: Authority) -> None:
    under = case.append()
    grant = case.execution(under)
    before = case.state()
    look = (
        f"SELECT (SELECT COUNT(*) FROM {GRANTS} WHERE environment_id = '{case.environment_id}'), "
        f"(SELECT COUNT(*) FROM {MEMBERS} WHERE environment_id = '{case.environment_id}')"
    )
    fate = _CutBefore(case.ledger.connect, "INSERT INTO [dpone_registration].[memberships]", look)

    refused("control_operation", lambda: case.register(grant, under, connect=fate), ControlUnavailable)

    assert fate.seen == [(1, 0)]
    assert case.state() == before
    assert case.store().read(grant) is None
    assert case.register(grant, under).order == 1


def test_a_lost_acknowledgement_is_resolved_by_the_exact_originals(case: Authority, proxy: TcpProxy) -> None:
    through = connecting(replace(case.ledger.dsn, host="127.0.0.1", port=proxy.port))
    under = case.append()
    for grant in (case.execution(under), case.qualification(under)):
        fate = LosingTheCommit(through, proxy, "reply")
        registered = case.register(grant, under, connect=fate)
        assert fate.lost == 1
        assert registered.originals == make.originals(grant)
        assert case.store().read(grant) == registered
    assert (len(case.grants()), len(case.members())) == (2, 3)


def test_a_commit_that_never_arrived_or_cannot_be_read_back_is_no_acknowledgement(
    case: Authority, proxy: TcpProxy
) -> None:
    through = connecting(replace(case.ledger.dsn, host="127.0.0.1", port=proxy.port))
    under = case.append()
    grant = case.qualification(under)
    before = case.state()
    fate = LosingTheCommit(through, proxy, "request")
    refused("control_commit_lost", lambda: case.register(grant, under, connect=fate), ControlUnavailable)
    assert (fate.lost, case.state(), case.store().read(grant)) == (1, before, None)

    opened = 0

    def once() -> Connection:
        """The ledger cannot be reached again after the commit was sent."""
        nonlocal opened
        opened += 1
        if opened > 1:
            raise ConnectionRefusedError("nobody listens")
        return fate()

    fate = LosingTheCommit(through, proxy, "reply")
    refused("control_operation_unknown", lambda: case.register(grant, under, connect=once), OutcomeUnknown)
    # It happened. Whoever recovers reads; asking again is refused, never answered as a second consumption.
    recovered = case.store().read(grant)
    assert recovered is not None and recovered.originals == make.originals(grant)
    refused("qualification_consumed", lambda: case.register(grant, under))
    assert len(case.grants()) == 1


def test_a_missing_a_foreign_and_an_additional_member_are_refused(fresh_case: Authority) -> None:
    case = fresh_case
    under = case.append(limits=make.limits(max_workloads=64))
    names = (*(f"n_{number:02}" for number in range(63)), "s_c")
    registered = case.register(case.execution(under, *names), under)
    second = case.register(case.execution(under, "n_00", "s_c"), under)
    before = case.members()
    assert len(before) == 64
    member, document, first = before[0]
    here = f"'{case.environment_id}', '{case.campaign_id}'"
    additional = workload_member_document("n_unapproved")
    damages = (
        (
            f"DELETE FROM {MEMBERS} WHERE workload_sha256 = '{member}'",
            f"INSERT INTO {MEMBERS} VALUES ({here}, '{member}', {literal(document)}, '{first}')",
        ),
        (
            f"UPDATE {MEMBERS} SET first_consumption_subject_sha256 = '{second.subject}' WHERE workload_sha256 = '{member}'",
            f"UPDATE {MEMBERS} SET first_consumption_subject_sha256 = '{first}' WHERE workload_sha256 = '{member}'",
        ),
        (
            f"UPDATE {MEMBERS} SET workload_document = {literal(additional)} WHERE workload_sha256 = '{member}'",
            f"UPDATE {MEMBERS} SET workload_document = {literal(document)} WHERE workload_sha256 = '{member}'",
        ),
        (
            f"INSERT INTO {MEMBERS} VALUES ({here}, '{workload_sha256('n_unapproved')}', {literal(additional)}, '{first}')",
            f"DELETE FROM {MEMBERS} WHERE workload_sha256 = '{workload_sha256('n_unapproved')}'",
        ),
    )
    for damage, back in damages:
        rewrite(case, MEMBERS, damage)
        for use in (
            lambda: case.store().read(registered.originals.grant),
            lambda: case.register(case.execution(under, "n_00", "s_c"), under),
        ):
            refused("registration_membership", use, LedgerTampered)
        rewrite(case, MEMBERS, back)
    assert case.members() == before
    assert case.store().read(registered.originals.grant) == registered
    assert len(case.grants()) == 2


def test_a_changed_catalog_blocks_every_registration_by_name(fresh_case: Authority) -> None:
    case = fresh_case
    under = case.append()
    grant = case.execution(under)
    original = LedgerSql(case.ledger.settings).text("trigger_grants")
    unique = f"ALTER TABLE {GRANTS} ADD CONSTRAINT uq_grants_exclusive UNIQUE NONCLUSTERED"
    bound = "[max_source_rows] >= 1 AND [max_source_rows] <= 100000 AND [max_source_bytes] >= 1"
    check = f"ALTER TABLE {CEILINGS} ADD CONSTRAINT ck_ceilings_source CHECK ({bound} AND [max_source_bytes] <= {{}})"
    drop_check = f"ALTER TABLE {CEILINGS} DROP CONSTRAINT ck_ceilings_source; "
    changes = (
        (
            f"ALTER TABLE {GRANTS} DROP CONSTRAINT uq_grants_exclusive; {unique} (phase, grant_id)",
            f"ALTER TABLE {GRANTS} DROP CONSTRAINT uq_grants_exclusive; {unique} (phase, exclusive_id)",
            "registration_catalog",
        ),
        (
            "DISABLE TRIGGER dpone_registration.tr_memberships ON dpone_registration.memberships",
            "ENABLE TRIGGER dpone_registration.tr_memberships ON dpone_registration.memberships",
            "registration_catalog",
        ),
        (f"ALTER TABLE {GRANTS} ADD note int NULL", f"ALTER TABLE {GRANTS} DROP COLUMN note", "registration_catalog"),
        (drop_check + check.format(2**40), drop_check + check.format(2**30), "registration_catalog_checks"),
        (
            "DISABLE TRIGGER dpone_trust.tr_policy_revisions ON dpone_trust.policy_revisions",
            "ENABLE TRIGGER dpone_trust.tr_policy_revisions ON dpone_trust.policy_revisions",
            "trust_catalog",
        ),
    )
    for change, restore, reason in changes:
        with case.changed(change, restore):
            for use in (lambda: case.register(grant, under), lambda: case.store().read(grant)):
                refused(reason, use, LedgerTampered)
        assert case.store().read(grant) is None
    case.ledger.rows(original.replace("CREATE TRIGGER", "ALTER TRIGGER").replace("grant_immutable", "grant_mutable"))
    refused("registration_catalog", lambda: case.register(grant, under), LedgerTampered)
    case.ledger.rows("DROP TRIGGER dpone_registration.tr_grants")
    case.ledger.rows(original)
    assert case.state()[1:] == ([], [])
    assert case.register(grant, under).order == 1


def test_a_registrar_cannot_go_around_the_storage_nor_import_a_file(
    case: Authority, tsql_server: Any, tmp_path: Path
) -> None:
    """The refusal of the bulk import is evidence only because an administrator imports the very same file first."""
    ledger = case.ledger
    # On another machine's server the file is put there beforehand, and this names it.
    path = os.environ.get("MSSQL_TEST_BULK_FILE")
    if path is None:
        assert tsql_server.emulation, "MSSQL_TEST_BULK_FILE has to name a file of the server with the two bytes '1\\n'"
        file = tmp_path / "integer.txt"
        file.write_bytes(b"1\n")
        path = str(file)
    probe = "dbo.registration_probe"
    bulk = f"BULK INSERT {probe} FROM '{path}' WITH (ROWTERMINATOR = '0x0a')"
    ledger.rows(f"CREATE TABLE {probe} (value int NOT NULL)")
    try:
        assert ledger.rows(
            f"SELECT CONVERT(int, DATALENGTH(f.BulkColumn)), HASHBYTES('SHA2_256', f.BulkColumn) "
            f"FROM OPENROWSET(BULK '{path}', SINGLE_BLOB) AS f"
        ) == [(2, hashlib.sha256(b"1\n").digest())]
        ledger.rows(bulk)
        assert ledger.rows(f"SELECT value FROM {probe}") == [(1,)]
        ledger.rows(f"DELETE FROM {probe}")
        name, own = standing_login(ledger, "registrar")
        ledger.rows(f"GRANT SELECT, INSERT ON OBJECT::{probe} TO [{name}]")

        assert own.rows(
            "SELECT SUSER_SNAME(), USER_NAME(), IS_SRVROLEMEMBER('sysadmin'), IS_MEMBER('db_owner'), "
            "HAS_PERMS_BY_NAME(NULL, NULL, 'CONTROL SERVER'), "
            "HAS_PERMS_BY_NAME(NULL, NULL, 'ADMINISTER BULK OPERATIONS')"
        ) == [(name, name, 0, 0, 0, 0)]
        assert own.rows("SELECT COUNT(*) FROM sys.login_token") >= [(1,)]
        assert own.rows("SELECT COUNT(*) FROM sys.user_token") >= [(1,)]
        with pytest.raises(Exception, match=r"(?i)bulk load statement"):
            own.rows(bulk)
        with pytest.raises(Exception, match=r"(?i)bulk load statement"):
            own.rows(f"SELECT f.BulkColumn FROM OPENROWSET(BULK '{path}', SINGLE_BLOB) AS f")
        own.rows(f"INSERT INTO {probe} VALUES (2)")
        assert ledger.rows(f"SELECT value FROM {probe}") == [(2,)]

        under = case.append()
        before = case.state()
        for statement in (
            f"UPDATE {GRANTS} SET workload_count = 2",
            f"DELETE FROM {MEMBERS}",
            f"ALTER TABLE {GRANTS} ADD forbidden int NULL",
            f"TRUNCATE TABLE {MEMBERS}",
            f"DISABLE TRIGGER dpone_registration.tr_grants ON {GRANTS}",
            "INSERT INTO dpone_trust.policy_revisions (environment_id) VALUES ('x')",
            "INSERT INTO dpone_control.composition_owners (owner_key) VALUES ('x')",
            "SELECT * FROM dpone_control.composition_operations",
            "EXECUTE AS LOGIN = N'sa'",
            f"GRANT CONTROL ON SCHEMA::dpone_registration TO [{name}]",
        ):
            with pytest.raises(Exception, match=r"(?i)permission|does not exist|cannot"):
                own.rows(under_the_lock(statement))
        assert case.state() == before
        grant = case.execution(under)
        registered = case.register(grant, under, connect=own.connect)
        assert case.store(own.connect).read(grant) == registered == case.store().read(grant)
        # Who only reads authority creates none.
        _, reader = standing_login(ledger, "authority-reader")
        assert case.store(reader.connect).read(grant) == registered
        for forbidden in (
            lambda: case.register(case.execution(under), under, connect=reader.connect),
            lambda: case.append(after=1, connect=reader.connect),
            lambda: case.append(after=1, connect=own.connect),
        ):
            refused("role_right_missing", forbidden, ConfigurationError)
        assert (len(case.grants()), len(case.policies())) == (1, 1)
    finally:
        ledger.rows(f"DROP TABLE {probe}")


def test_a_session_with_other_options_writes_nothing_and_reads_what_is_there(case: Authority, tsql_server: Any) -> None:
    """The endpoint decides which options a session may have at all: a server all of them, the emulation fewer."""
    offered = [option for option in OPTIONS if _offers(case.ledger.connect, option)]
    assert "ARITHABORT OFF" in offered
    assert tsql_server.emulation or offered == list(OPTIONS)
    under = case.append()
    registered = case.register(case.execution(under), under)
    before, stored = case.state(), row_of(case, registered.subject)
    run = case.qualification(under)
    new = stored | {
        "consumption_subject_sha256": consumption_subject_sha256(run),
        "registration_id": str(uuid.uuid4()),
        "registration_order": 2,
        "phase": "qualification",
        "grant_id": run.grant_id,
        "subject_id": run.qualification_run_id,
        "exclusive_id": run.qualification_run_id,
        "workload_count": 0,
        "grant_sha256": run.sha256,
        "grant_document": run.document(),
        "signature_subject_sha256": signature_subject(run, under.policy).sha256,
        "signature_subject_document": signature_subject(run, under.policy).document(),
        "request_sha256": None,
        "request_document": None,
    }
    for option in offered:
        with pytest.raises(Exception, match="session_options"):
            case.ledger.rows(under_the_lock(f"SET {option}; {insert(new)}"))
        assert case.state() == before, option
        # A reading does not depend on what the session had been set to.
        connect = _with_option(case.ledger.connect, option)
        assert case.store(connect).read(registered.originals.grant) == registered
    # The very same row is accepted from a sound session, so that it was the option that was refused.
    case.ledger.rows(LOCKED + insert(new) + "; ROLLBACK TRANSACTION;")
    assert case.state() == before
    # The store sets its session itself.
    assert case.register(run, under, connect=_with_option(case.ledger.connect, "ARITHABORT OFF")).order == 2


def _offers(connect: Connect, option: str) -> bool:
    try:
        _with_option(connect, option)().close()
    except driver_errors() as err:
        assert "Not supported by this emulation" in str(err)
        return False
    return True


def _with_option(connect: Connect, option: str) -> Connect:
    def fresh() -> Connection:
        connection = connect()
        connection.setautocommit(True)  # type: ignore[attr-defined]  # mssql-python's connection
        drain(connection, f"SET {option}")
        return connection

    return fresh
