"""The gate and the attempt on a server: a whole life, and what may come in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_dpone.attempts import GuardedAttempt
from airflow_provider_dpone.contracts.errors import (
    AttemptFailed,
    ControlUnavailable,
    Duplicate,
    GateTampered,
    NotQuiescent,
)
from airflow_provider_dpone.drivers import Connection, drain
from airflow_provider_dpone.drivers.mssql import connect
from airflow_provider_dpone.gates.interface import Credential, MsSqlWriterGrant
from airflow_provider_dpone.routes.interface import AttemptContext
from tests.support.live_gate import LiveGate

ROOT = Path(__file__).parents[3]


def in_threads(calls: Sequence[Callable[[], object]]) -> None:
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_whole_life_leaves_a_disabled_login_and_three_proofs(live: LiveGate) -> None:
    result = live.attempt(live.run_id()).run()
    operation, (principal,) = result.operation, result.operation.principals
    assert operation.state == "SUCCEEDED"
    assert [proof.kind for proof in operation.proofs] == ["CLOSED_GATES", "QUIESCENCE", "OUTCOME"]
    assert operation.gate is not None
    assert operation.gate.state == "CLOSED"
    assert live.logins(principal.name) == [(principal.sid, True)]
    assert live.sessions(principal.sid) == 0
    assert live.effects(operation) == 1
    closed = live.gates.gate_evidence(operation.attempt_sha256, "CLOSED_GATES")
    quiet = live.gates.gate_evidence(operation.attempt_sha256, "QUIESCENCE")
    assert closed is not None and closed["login_sid"] == principal.sid.hex()
    assert quiet is not None and (quiet["sessions"], quiet["transactions"]) == (0, 0)


def test_two_deliveries_of_one_try_make_one_effect(live: LiveGate) -> None:
    run_id = live.run_id()
    outcomes: list[object] = []

    def deliver() -> None:
        try:
            outcomes.append(live.attempt(run_id).run().operation.state)
        except Duplicate as refused:
            outcomes.append(type(refused))

    in_threads([deliver] * 4)
    assert sorted(map(str, outcomes)) == sorted(["SUCCEEDED", *[str(Duplicate)] * 3])
    (operation,) = live.attempts.find("dag", run_id, "load", -1)
    assert live.effects(operation) == 1


def test_an_open_transaction_is_rolled_back_by_the_closing(live: LiveGate) -> None:
    run_id, route = live.run_id(), live.route()

    def closed_by_somebody_else(ctx: AttemptContext, connection: Connection) -> None:
        live.settlement(ctx.operation).prove_quiescence()

    route.before_commit = closed_by_somebody_else
    with pytest.raises(AttemptFailed):
        live.attempt(run_id, route=route).run()
    (operation,) = live.attempts.find("dag", run_id, "load", -1)
    assert operation.state == "FAILED"
    assert live.effects(operation) == 0


def test_an_error_after_the_commit_is_still_a_success(live: LiveGate) -> None:
    route = live.route()

    def fail(ctx: AttemptContext) -> None:
        raise ConnectionResetError("the supervisor is gone")

    route.after_commit = fail
    result = live.attempt(live.run_id(), route=route).run()
    assert (result.operation.state, result.report) == ("SUCCEEDED", None)


def test_kill_9_in_the_middle_is_settled_by_the_next_try(live: LiveGate) -> None:
    run_id = live.run_id()
    worker = start_worker(live, run_id)
    assert worker.stdout is not None
    assert worker.stdout.readline().strip() == "writing"
    (killed,) = live.attempts.find("dag", run_id, "load", -1)
    assert live.sessions(killed.principals[0].sid) == 1
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    result = live.attempt(run_id, 2).run()
    first, second = live.attempts.find("dag", run_id, "load", -1)
    assert (first.state, second.state) == ("FAILED", "SUCCEEDED")
    assert result.operation.attempt_sha256 == second.attempt_sha256
    assert (live.effects(first), live.effects(second)) == (0, 1)
    assert live.sessions(first.principals[0].sid) == 0


def test_a_living_worker_that_is_overtaken_loses_its_transaction(live: LiveGate) -> None:
    run_id = live.run_id()
    worker = start_worker(live, run_id)
    assert worker.stdout is not None
    assert worker.stdout.readline().strip() == "writing"
    assert live.attempt(run_id, 2).run().operation.state == "SUCCEEDED"
    worker.kill()
    worker.wait()
    first, second = live.attempts.find("dag", run_id, "load", -1)
    assert (first.state, second.state) == ("FAILED", "SUCCEEDED")
    assert live.effects(first) == 0


def start_worker(live: LiveGate, run_id: str) -> subprocess.Popen[str]:
    """A process that admits, issues, logs in, writes one row and then waits inside its transaction."""
    worker = subprocess.Popen(
        [sys.executable, "-m", "tests.support.gate_worker"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdin is not None
    worker.stdin.write(json.dumps({**live.to_document(), "run_id": run_id}) + "\n")
    worker.stdin.flush()
    return worker


def issued(live: LiveGate) -> tuple[GuardedAttempt, Credential]:
    """An admitted attempt and the credential of its login."""
    attempt = live.attempt(live.run_id())
    operation = attempt.admit()
    credential = live.gate.issue(operation, operation.principals[0], MsSqlWriterGrant(database=live.target))
    return attempt, credential


def test_reconnects_that_race_the_closing_never_win(live: LiveGate) -> None:
    attempt, credential = issued(live)
    (operation,) = live.attempts.find("dag", attempt.coordinates.run_id, "load", -1)
    principal = operation.principals[0]
    target = live.route().target.for_login(credential.username, credential.secret)
    closed = threading.Event()
    stop = threading.Event()
    logins: list[bool] = []

    def reconnect() -> None:
        while not stop.is_set():
            began_after_closing = closed.is_set()
            try:
                connection = connect(target)
            except ControlUnavailable:
                continue
            logins.append(began_after_closing)
            time.sleep(0.05)
            connection.close()

    threads = [threading.Thread(target=reconnect) for _ in range(3)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 20
    while not logins and time.monotonic() < deadline:
        time.sleep(0.05)
    try:
        live.gate.close(operation, principal)
        closed.set()
        settlement = live.settlement(operation)
        settlement.prove_quiescence()
        time.sleep(1.0)
        assert live.sessions(principal.sid) == 0
    finally:
        # Threads that go on for ever would keep the whole test process from ending.
        stop.set()
        for thread in threads:
            thread.join()
    assert False in logins, "no reconnect succeeded before the closing: the race was never run"
    assert True not in logins
    assert settlement.finalize().state == "FAILED"


def test_a_login_that_was_never_created_leaves_a_disabled_tombstone(live: LiveGate) -> None:
    operation = live.attempt(live.run_id()).admit()
    principal = operation.principals[0]
    assert live.logins(principal.name) == []
    assert live.settlement(operation).settle().state == "FAILED"
    assert live.logins(principal.name) == [(principal.sid, True)]
    with pytest.raises(GateTampered, match="gate_not_journaled"):
        live.gate.issue(operation, principal, MsSqlWriterGrant(database=live.target))
    assert live.logins(principal.name) == [(principal.sid, True)]


def test_closing_three_times_at_once_leaves_one_proof_of_each_kind(live: LiveGate) -> None:
    operation = live.attempt(live.run_id()).admit_and_work().operation
    in_threads([live.settlement(operation).finalize] * 3)
    stored = live.attempts.read_exact(operation.attempt_sha256)
    assert stored is not None
    assert stored.state == "SUCCEEDED"
    kinds = [proof.kind for proof in stored.proofs]
    assert sorted(kinds) == ["CLOSED_GATES", "OUTCOME", "QUIESCENCE"]


def test_an_impersonating_session_counts_as_present(live: LiveGate) -> None:
    """EXECUTE AS shows the original login of whoever impersonates; a closed login that is impersonated is not gone."""
    _, credential = issued(live)
    (operation,) = live.attempts.unresolved()
    principal = operation.principals[0]
    live.gate.close(operation, principal)
    connection = connect(replace(live.dba, database=live.target))
    try:
        drain(connection, f"EXECUTE AS LOGIN = N'{credential.username}';")
        with pytest.raises(NotQuiescent) as busy:
            live.gate.prove_quiescent(operation, principal)
        assert any("session_id" in session for session in busy.value.sessions)
        drain(connection, "REVERT;")
    finally:
        connection.close()
    assert live.settlement(operation).settle().state == "FAILED"


def test_an_attempts_login_may_write_its_schema_and_nothing_of_the_ledger(live: LiveGate) -> None:
    _, credential = issued(live)
    dsn = live.route().target.for_login(credential.username, credential.secret)
    connection = connect(dsn)
    try:
        drain(connection, "CREATE TABLE [raw].[mine] ([a] int NOT NULL);")
        drain(connection, "DROP TABLE [raw].[mine];")
        connection.commit()
        for forbidden in (
            "CREATE TABLE [dbo].[mine] ([a] int NOT NULL);",
            "UPDATE [dpone_fence].[fence] SET [operation_key] = NULL;",
            "DELETE FROM [dpone_fence].[markers];",
            "EXEC [dpone_fence].[advance] @operation_key = 'x', @login_name = N'x';",
            f"SELECT * FROM [{live.controller.database}].[dpone_control].[composition_login_gates];",
            "CREATE USER [somebody] WITHOUT LOGIN;",
        ):
            with pytest.raises(Exception, match=r"(?i)permission|denied|not able|cannot|does not exist"):
                drain(connection, forbidden)
            connection.rollback()
    finally:
        connection.close()


def test_the_clear_password_is_in_no_statement(live: LiveGate, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    _, credential = issued(live)
    assert credential.secret.reveal() not in caplog.text
    assert credential.secret.reveal() not in repr(credential)
