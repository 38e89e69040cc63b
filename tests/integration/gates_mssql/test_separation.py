"""Accounts that try the work of another role, and a settlement without the issuer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_dpone.contracts.errors import ConfigurationError, GuardError
from airflow_provider_dpone.drivers import Secret, drain, quote_mssql
from airflow_provider_dpone.drivers.mssql import MsSqlDsn, connect
from airflow_provider_dpone.gates.interface import MsSqlWriterGrant
from airflow_provider_dpone.gates.mssql import MsSqlLoginGate
from airflow_provider_dpone.routes.interface import AttemptContext
from tests.support.live_gate import LiveGate, autocommit


def gate_with(live: LiveGate, *, issuer: MsSqlDsn, closer: MsSqlDsn) -> MsSqlLoginGate:
    return MsSqlLoginGate(
        issuer=lambda: connect(issuer),
        closer=lambda: connect(closer),
        controller=live.controller.user,
        settings=live.settings,
    )


@pytest.mark.parametrize(
    ("account", "reason"),
    [
        ("closer", "role_right_missing"),
        # It owns the target and could do the target's part; the policy finds the other account's rights before that.
        ("controller", "login_database_policy_other_writer"),
    ],
)
def test_who_is_not_the_issuer_cannot_issue(live: LiveGate, account: str, reason: str) -> None:
    operation = live.attempt(live.run_id()).admit()
    principal = operation.principals[0]
    wrong = gate_with(live, issuer=getattr(live, account), closer=live.closer)
    with pytest.raises(ConfigurationError) as refused:
        wrong.issue(operation, principal, MsSqlWriterGrant(database=live.target))
    assert refused.value.reason == reason
    if reason == "role_right_missing":
        assert "role issuer" in str(refused.value) and "docs/roles.md" in refused.value.check
    assert live.logins(principal.name) == []
    gate = live.gates.read(operation.attempt_sha256)
    assert gate is not None and gate.state == "JOURNALED"
    live.gate.issue(operation, principal, MsSqlWriterGrant(database=live.target))


@pytest.mark.parametrize("account", ["controller", "issuer"])
def test_who_is_not_the_closer_can_close_no_gate(live: LiveGate, account: str) -> None:
    operation = live.attempt(live.run_id()).admit()
    principal = operation.principals[0]
    live.gate.issue(operation, principal, MsSqlWriterGrant(database=live.target))
    wrong = gate_with(live, issuer=live.issuer, closer=getattr(live, account))
    with pytest.raises(ConfigurationError, match="role_right_missing") as refused:
        wrong.close(operation, principal)
    assert "role closer" in str(refused.value) and "docs/roles.md" in refused.value.check
    with pytest.raises(GuardError):
        wrong.prove_quiescent(operation, principal)
    gate = live.gates.read(operation.attempt_sha256)
    assert gate is not None and gate.state != "CLOSED"
    assert live.gates.gate_evidence(operation.attempt_sha256, "CLOSED_GATES") is None
    assert live.settlement(operation).settle().state == "FAILED"


def test_an_issuer_cannot_end_the_session_of_a_writer(live: LiveGate) -> None:
    """Even when it got as far as the KILL: the refusal is an error that names the role, not a quiet log line."""
    run_id, route = live.run_id(), live.route()
    wrong = gate_with(live, issuer=live.issuer, closer=live.issuer)
    refused: list[str] = []

    def close_it(ctx: AttemptContext, _: object) -> None:
        live.as_dba(f"GRANT {live.sees_sessions_by} TO [{live.issuer.user}];", database="master")
        try:
            with pytest.raises(ConfigurationError, match="role_right_missing") as error:
                wrong.close(ctx.operation, ctx.operation.principals[0])
            refused.append(error.value.happened)
            assert live.sessions(ctx.operation.principals[0].sid) == 1
        finally:
            live.as_dba(f"REVOKE {live.sees_sessions_by} FROM [{live.issuer.user}];", database="master")

    route.before_commit = close_it
    operation = live.attempt(run_id, route=route).run().operation
    assert "ending session" in refused[0]
    # What it did was safe: the login was disabled, the transaction that was under way committed, and the closer closed.
    assert operation.state == "SUCCEEDED"


def test_closer_and_controller_settle_everything_after_the_issuer_was_disabled(live: LiveGate) -> None:
    issued = live.attempt(live.run_id()).admit()
    live.gate.issue(issued, issued.principals[0], MsSqlWriterGrant(database=live.target))
    live.as_dba(f"ALTER LOGIN [{live.issuer.user}] DISABLE;", database="master")
    try:
        settled = live.settlement(issued).settle()
        assert settled.state == "FAILED"
        assert live.logins(issued.principals[0].name) == [(issued.principals[0].sid, True)]
        without = live.attempt(live.run_id(), task_id="other")
        operation = without.admit()
        with pytest.raises(GuardError):
            live.gate.issue(operation, operation.principals[0], MsSqlWriterGrant(database=live.target))
        assert live.settlement(operation).settle().state == "FAILED"
        assert live.logins(operation.principals[0].name) == [(operation.principals[0].sid, True)]
    finally:
        live.as_dba(f"ALTER LOGIN [{live.issuer.user}] ENABLE;", database="master")
    assert live.attempt(live.run_id()).run().operation.state == "SUCCEEDED"


@pytest.mark.parametrize("account", ["issuer", "closer"])
def test_a_closed_login_is_usable_to_nobody_whoever_enables_it(live: LiveGate, account: str) -> None:
    """Both may alter logins, a running attempt's too (docs/roles.md). What is closed stays closed all the same."""
    operation = live.attempt(live.run_id()).admit()
    principal, secret = operation.principals[0], Secret.generate()
    live.gate.issue(operation, principal, MsSqlWriterGrant(database=live.target))
    settled = live.settlement(operation).settle()
    login = quote_mssql(principal.name)
    with autocommit(replace(getattr(live, account), database="master")) as connection:
        drain(connection, f"ALTER LOGIN {login} WITH PASSWORD = N'{secret.reveal()}';")
        drain(connection, f"ALTER LOGIN {login} ENABLE;")
        try:
            with pytest.raises(Exception, match="trigger"):
                connect(replace(live.controller, database=live.target).for_login(principal.name, secret))
            assert live.attempts.read_exact(operation.attempt_sha256) == settled
        finally:
            drain(connection, f"ALTER LOGIN {login} DISABLE;")
