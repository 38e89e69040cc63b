"""A declared refusal of the target's policy is told apart from a driver operation that is uncertain, by code and cause."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_dpone.contracts.errors import ConfigurationError, ControlUnavailable, GuardError, OutcomeUnknown
from airflow_provider_dpone.drivers import Cursor, load_sql
from airflow_provider_dpone.gates import database_policy
from airflow_provider_dpone.ledger import LedgerSettings, LoginGateStore
from airflow_provider_dpone.ledger.definition import structure_sha256
from tests.support.ledger_records import SERVICE, sha
from tests.support.scripted_connection import Results, ScriptedConnection

SETTINGS = LedgerSettings(service_id=SERVICE)
GUID = "11111111-2222-4333-8444-555555555555"
KEY = sha("operation")
_POLICY = load_sql("airflow_provider_dpone.gates", "sql/database_policy.sql")
#: Every reason that the policy's own statements can answer.
DECLARED = sorted(
    {
        reason
        for name in _POLICY.names
        for reason in re.findall(
            r"SELECT (?:DISTINCT )?'([a-z_]+)'", _POLICY.text(name, **{s: s for s in _POLICY.slots(name)})
        )
    }
)


class Server:
    """A ledger with one journaled gate; ``breaks`` says what the connection does with a batch."""

    def __init__(self, breaks: Callable[[str], Exception | None] = lambda batch: None) -> None:
        self.breaks = breaks
        self.gone = False
        self.commits = 0

    def connect(self) -> ScriptedConnection:
        if self.gone:
            raise OSError("connection refused")
        return ScriptedConnection(self.answer)

    def answer(self, batch: str, parameters: tuple[Any, ...]) -> Results:
        if (error := self.breaks(batch)) is not None:
            raise error
        if "sp_getapplock" in batch:
            audit: Results = [
                [(0, 1, 1, 7)],
                [(2, SERVICE)],
                [(2, GUID, GUID, "2026-11-29T00:00:00", sha("checks"))],
                [(GUID, GUID, "2026-11-29T00:00:00", 1, 0)],
                [(structure_sha256(SETTINGS),)],
                [(sha("checks"),)],
            ]
            return audit
        if "COMMIT TRANSACTION" in batch:
            self.commits += 1
            return [[(0,)]]
        if "login_gates" in batch:
            return [[(KEY, b"\x01" * 16, "login", "JOURNALED", None, "RUNNING")], [], [(1, 1, 7)]]
        return [[(1, 1, 7)]]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)


def issue(server: Server, create: Callable[[Cursor], None]) -> GuardError:
    with pytest.raises(GuardError) as refused:
        LoginGateStore(server.connect, SETTINGS, role="issuer").to_ready(KEY, create)
    return refused.value


def test_the_policy_declares_its_reasons() -> None:
    assert {"owner", "trustworthy", "chaining", "role_owner", "ambient_grant", "writer_scope", "assembly"} <= set(
        DECLARED
    )


@pytest.mark.parametrize("reason", DECLARED)
def test_a_declared_refusal_is_never_an_uncertain_operation(reason: str) -> None:
    server = Server()
    err = issue(server, lambda cursor: database_policy.require_none([(reason, "dw")]))
    assert type(err) is ConfigurationError
    assert (err.code, err.reason) == ("DPONE_CONFIGURATION", f"login_database_policy_{reason}")
    assert not err.state_may_have_changed
    assert err.__cause__ is None
    assert server.commits == 0


def test_a_driver_that_fails_before_the_commit_is_unavailable_with_its_cause() -> None:
    lost = OSError("connection reset")

    def create(cursor: Cursor) -> None:
        raise lost

    server = Server()
    err = issue(server, create)
    assert type(err) is ControlUnavailable
    assert (err.reason, err.__cause__, err.state_may_have_changed) == ("control_operation", lost, False)
    assert server.commits == 0


def test_a_commit_that_can_be_read_nowhere_is_unknown_with_its_cause() -> None:
    lost = OSError("connection reset")

    def breaks(batch: str) -> Exception | None:
        server.gone = server.gone or "COMMIT TRANSACTION" in batch
        return lost if server.gone else None

    server = Server(breaks)
    err = issue(server, lambda cursor: None)
    assert type(err) is OutcomeUnknown
    assert (err.code, err.reason, err.__cause__) == ("DPONE_OUTCOME_UNKNOWN", "control_operation_unknown", lost)
    assert err.state_may_have_changed and err.recovery_required
    assert not any(err.reason == f"login_database_policy_{reason}" for reason in DECLARED)
