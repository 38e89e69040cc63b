"""The order and the error words of a control transaction, against a scripted server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mssql_python
import pytest

from airflow_provider_dpone.contracts.errors import (
    ConfigurationError,
    ControlUnavailable,
    GuardError,
    LedgerTampered,
    OutcomeUnknown,
)
from airflow_provider_dpone.ledger import LedgerSettings
from airflow_provider_dpone.ledger.definition import structure_sha256
from airflow_provider_dpone.ledger.questions import Question
from airflow_provider_dpone.ledger.transaction import ControlLedger, ControlTransaction
from tests.support.ledger_records import SERVICE, sha
from tests.support.scripted_connection import Results, ScriptedConnection

SETTINGS = LedgerSettings(service_id=SERVICE)
GUID = "11111111-2222-4333-8444-555555555555"
AUDIT: Results = [
    [(2, SERVICE)],
    [(2, GUID, GUID, "2026-11-29T00:00:00", sha("checks"))],
    [(GUID, GUID, "2026-11-29T00:00:00", 1, 0)],
    [(structure_sha256(SETTINGS),)],
    [(sha("checks"),)],
]


class Server:
    """A ledger server with one row, whose batches can be made to fail before or after they took effect."""

    def __init__(self) -> None:
        self.row: str | None = None
        self.pending: str | None = None
        self.transaction_id = 0
        self.lock_result = 0
        self.audit: Results = AUDIT
        self.identity_change = False
        self.fail: Callable[[str], Exception | None] = lambda step: None
        self.connections: list[ScriptedConnection] = []

    def connect(self) -> ScriptedConnection:
        self._may_fail("connect")
        connection = ScriptedConnection(self.answer)
        self.connections.append(connection)
        return connection

    def _may_fail(self, step: str) -> None:
        error = self.fail(step)
        if error is not None:
            raise error

    def answer(self, batch: str, parameters: tuple[Any, ...]) -> Results:
        results: list[Sequence[tuple[Any, ...]]] = []
        if "sp_getapplock" in batch or "ISOLATION LEVEL SNAPSHOT" in batch:
            self._may_fail("begin")
            self.pending = None
            self.transaction_id += 1
            results += [[(self.lock_result, 1, 1, self.transaction_id)]]
            results += self.audit if self.lock_result >= 0 else []
        if batch.startswith("SELECT c.[line]"):
            return [[("an unexpected line",)]]
        if "write" in parameters:
            self._may_fail("write")
            self.pending = "written"
        if "COMMIT TRANSACTION" in batch:
            assert parameters[0] == self.transaction_id
            if self.identity_change:
                raise RuntimeError("[SQL Server]DPONE_LEDGER: transaction_identity")
            self._may_fail("before commit")
            self.row, self.pending = self.pending or self.row, None
            self._may_fail("after commit")
            return [[(0,)]]
        if "read" in parameters and (not results or self.audit):
            self._may_fail("read")
            results += [[(self.row,)]]
        return [*results, [self._identity()]] if parameters and (not results or self.audit) else results

    def _identity(self) -> tuple[int, int, int]:
        return (1, 1, self.transaction_id + (1 if self.identity_change else 0))


def work(change: ControlTransaction) -> None:
    change.write(("evidence_digests", ["write"]))


readback: Question[str | None] = Question((("evidence_digests", ["read"]),), lambda results: results[0][0][0])


def in_batches(change: ControlTransaction) -> str | None:
    """The same of a reader that begins first and then asks."""
    return readback(change)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)


def mutate(server: Server) -> str:
    return ControlLedger(server.connect, SETTINGS).mutate("step", work, readback)


def test_a_mutation_commits_once_and_is_read_back_on_another_connection() -> None:
    server = Server()
    assert mutate(server) == "written"
    assert len(server.connections) == 2
    assert all(connection.closed and connection.autocommit for connection in server.connections)
    assert [sum("COMMIT TRANSACTION" in batch for batch in c.batches) for c in server.connections] == [1, 0]
    assert [len(connection.batches) for connection in server.connections] == [2, 1]


def test_a_reader_of_several_batches_reads_back_in_the_transaction_that_it_began() -> None:
    server = Server()
    assert ControlLedger(server.connect, SETTINGS).mutate("step", work, in_batches) == "written"
    assert [len(connection.batches) for connection in server.connections] == [2, 2]


def test_an_answer_without_a_change_commits_nothing() -> None:
    server = Server()
    assert ControlLedger(server.connect, SETTINGS).mutate("step", lambda change: "already", readback) == "already"
    assert not any("COMMIT TRANSACTION" in batch for batch in server.connections[0].batches)


@pytest.mark.parametrize("step", ["connect", "begin", "write"])
def test_before_the_commit_every_failure_means_that_nothing_was_changed(step: str) -> None:
    server = Server()
    server.fail = lambda found: OSError("connection reset") if found == step else None
    with pytest.raises(ControlUnavailable) as refused:
        mutate(server)
    assert not refused.value.state_may_have_changed
    assert server.row is None
    assert all(connection.closed for connection in server.connections)


def victims(times: int) -> Callable[[str], Exception | None]:
    """The server ends the write as a deadlock victim so many times."""
    left = [mssql_python.OperationalError("Serialization failure", "deadlock victim") for _ in range(times)]
    return lambda found: left.pop() if found == "write" and left else None


def test_a_deadlock_victim_is_begun_again_in_a_transaction_of_its_own() -> None:
    server = Server()
    server.fail = victims(2)
    assert mutate(server) == "written"
    assert [sum("COMMIT TRANSACTION" in batch for batch in c.batches) for c in server.connections] == [1, 1, 1, 0]


def test_a_victim_for_the_fourth_time_is_reported_with_nothing_committed() -> None:
    server = Server()
    server.fail = victims(4)
    with pytest.raises(ControlUnavailable) as refused:
        mutate(server)
    assert refused.value.reason == "control_deadlock"
    assert server.row is None
    assert len(server.connections) == 4


def failing_once(step: str) -> Callable[[str], Exception | None]:
    left = [OSError("connection reset")]
    return lambda found: left.pop() if found == step and left else None


def test_a_commit_whose_acknowledgement_is_lost_is_found_by_reading() -> None:
    server = Server()
    server.fail = failing_once("after commit")
    assert mutate(server) == "written"
    assert sum("COMMIT TRANSACTION" in batch for c in server.connections for batch in c.batches) == 1


def test_a_commit_that_never_arrived_is_proven_absent_under_the_exclusive_lock() -> None:
    server = Server()
    server.fail = failing_once("before commit")
    with pytest.raises(ControlUnavailable) as refused:
        mutate(server)
    assert refused.value.reason == "control_commit_lost"
    assert server.row is None
    assert "sp_getapplock" in server.connections[-1].batches[0]


def test_a_commit_that_can_never_be_read_again_stays_unknown() -> None:
    server = Server()
    committed = False

    def fail(step: str) -> Exception | None:
        nonlocal committed
        committed = committed or step == "after commit"
        return OSError("connection reset") if committed else None

    server.fail = fail
    with pytest.raises(OutcomeUnknown) as refused:
        mutate(server)
    assert refused.value.reason == "control_operation_unknown"
    assert refused.value.state_may_have_changed
    assert refused.value.recovery_required
    assert isinstance(refused.value.__cause__, OSError)


def test_an_acknowledged_commit_that_nobody_sees_is_tampering() -> None:
    server = Server()
    with pytest.raises(LedgerTampered) as refused:
        ControlLedger(server.connect, SETTINGS).mutate("step", work, lambda change: None)
    assert refused.value.reason == "readback"


def looks_before_it_writes(change: ControlTransaction) -> None:
    readback(change)
    work(change)


def steps_aside_before_it_writes(change: ControlTransaction) -> None:
    with change.callback() as cursor:
        cursor.execute("SELECT 1", "other")
    work(change)


@pytest.mark.parametrize("changing", [work, looks_before_it_writes, steps_aside_before_it_writes])
def test_a_changed_transaction_identity_is_never_continued(changing: Callable[[ControlTransaction], None]) -> None:
    server = Server()
    server.identity_change = True
    with pytest.raises(ControlUnavailable) as refused:
        ControlLedger(server.connect, SETTINGS).mutate("step", changing, readback)
    assert refused.value.reason == "transaction_identity"
    assert server.row is None


@pytest.mark.parametrize("query", [readback, in_batches])
def test_rows_of_another_transaction_are_not_believed(query: Callable[[ControlTransaction], str | None]) -> None:
    server = Server()
    server.identity_change = True
    with pytest.raises(ControlUnavailable) as refused:
        ControlLedger(server.connect, SETTINGS).read(query)
    assert refused.value.reason == "transaction_identity"


def test_after_a_step_of_someone_else_the_next_batch_observes_the_identity_first() -> None:
    server = Server()

    def aside(change: ControlTransaction) -> None:
        with change.callback() as cursor:
            cursor.execute("SELECT 1", "other")
        readback(change)

    ControlLedger(server.connect, SETTINGS).mutate("step", aside, lambda change: "done")
    assert server.connections[0].batches[2].startswith("DECLARE @transaction_id bigint = ?;")


def test_a_question_that_fails_is_explained_by_the_audit_where_the_catalog_is_damaged() -> None:
    server = Server()
    server.audit = changed(3, [(sha("other"),)])
    server.fail = lambda step: RuntimeError("Invalid column name 'state'.") if step == "read" else None
    with pytest.raises(LedgerTampered) as refused:
        ControlLedger(server.connect, SETTINGS).read(readback)
    assert refused.value.reason == "catalog"
    server.audit = AUDIT
    with pytest.raises(ControlUnavailable) as unread:
        ControlLedger(server.connect, SETTINGS).read(readback)
    assert unread.value.reason == "control_read"


@pytest.mark.parametrize("result", [-1, -2, -3, -999])
def test_a_lock_that_is_not_granted_is_a_return_code_and_not_an_error(result: int) -> None:
    server = Server()
    server.lock_result = result
    with pytest.raises(ControlUnavailable) as refused:
        mutate(server)
    assert refused.value.reason == "control_lock"
    assert refused.value.details == {"lock_result": result}


def test_a_rule_of_the_ledger_itself_is_told_apart_from_a_lost_server() -> None:
    server = Server()
    server.fail = lambda step: RuntimeError("[SQL Server]DPONE_LEDGER: owner_immutable") if step == "write" else None
    with pytest.raises(LedgerTampered) as refused:
        mutate(server)
    assert refused.value.reason == "refused_owner_immutable"


def test_a_mistake_of_the_program_is_not_called_an_unavailable_server() -> None:
    def mistaken(change: ControlTransaction) -> None:
        raise KeyError("mistake")

    server = Server()
    with pytest.raises(KeyError):
        ControlLedger(server.connect, SETTINGS).mutate("step", mistaken, readback)
    assert server.connections[0].closed


def changed(index: int, rows: list[tuple[Any, ...]]) -> Results:
    return [*AUDIT[:index], rows, *AUDIT[index + 1 :]]


@pytest.mark.parametrize(
    ("audit", "error", "reason"),
    [
        ([], ConfigurationError, "ledger_absent"),
        (changed(0, []), LedgerTampered, "authority"),
        (changed(0, [(2, SERVICE), (2, SERVICE)]), LedgerTampered, "authority"),
        (changed(0, [(1, SERVICE)]), ConfigurationError, "ledger_version"),
        (changed(0, [(2, GUID)]), ConfigurationError, "ledger_service_id"),
        (changed(1, []), LedgerTampered, "incarnation"),
        (changed(1, [(1, *AUDIT[1][0][1:])]), ConfigurationError, "ledger_extension_version"),
        (changed(2, [(None, None, "x", 1)]), ConfigurationError, "ledger_incarnation_visibility"),
        (changed(2, []), ConfigurationError, "ledger_incarnation_visibility"),
        (changed(2, [(SERVICE, GUID, "2026-11-29T00:00:00", 1, 0)]), LedgerTampered, "incarnation"),
        (changed(2, [(GUID, SERVICE, "2026-11-29T00:00:00", 1, 0)]), LedgerTampered, "incarnation"),
        (changed(2, [(GUID, GUID, "2026-11-30T00:00:00", 1, 0)]), LedgerTampered, "incarnation"),
        (changed(2, [(GUID, GUID, "2026-11-29T00:00:00", 1, 1)]), ConfigurationError, "ledger_durability"),
        (changed(2, [(GUID, GUID, "2026-11-29T00:00:00", 1, 2)]), ConfigurationError, "ledger_durability"),
        (changed(3, [(sha("other"),)]), LedgerTampered, "catalog"),
        (changed(3, [(None,)]), LedgerTampered, "catalog"),
        (changed(4, [(sha("other"),)]), LedgerTampered, "catalog_checks"),
    ],
)
@pytest.mark.parametrize("kind", ["mutate", "read", "read in batches"])
def test_every_transaction_is_audited(kind: str, audit: Results, error: type[GuardError], reason: str) -> None:
    server = Server()
    server.audit = audit
    ledger = ControlLedger(server.connect, SETTINGS)
    with pytest.raises(error) as refused:
        if kind == "mutate":
            ledger.mutate("step", work, readback)
        else:
            ledger.read(readback if kind == "read" else in_batches)
    assert refused.value.reason == reason
    assert server.row is None
