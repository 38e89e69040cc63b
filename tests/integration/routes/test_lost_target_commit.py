"""The COMMIT of the target transaction is lost, on its way or on its way back: the marker alone tells what happened.

The worker reaches SQL Server through a proxy process that loses that one message. Everything else of the attempt (the
gate, the ledger, the outcome reader) reaches it directly, as another host would.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_dpone.attempts.settlement import Settlement
from airflow_provider_dpone.contracts.errors import AttemptFailed, ControlUnavailable, Overlap
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.drivers import Secret
from airflow_provider_dpone.drivers.mssql import connect
from airflow_provider_dpone.gates import target_fence
from airflow_provider_dpone.routes.postgres_to_mssql import PostgresToMsSqlPlan, PostgresToMsSqlRoute
from tests.support.live_routes import LiveTransfer
from tests.support.tcp_proxy import Ending, Fate, Loss, ProxyProcess

ROWS = [(number, f"N{number}", Decimal("1.50")) for number in range(1, 8)]
OLD = [(0, "old", None)]
#: How much of the message arrives (-1: all but its last byte), and how the connection ends then.
LOSSES: list[tuple[int, Ending]] = [(0, "reset"), (1, "close"), (7, "cut"), (-1, "reset")]


@pytest.fixture
def proxy(transfer: LiveTransfer) -> Iterator[ProxyProcess]:
    with ProxyProcess(transfer.gate.controller.host, transfer.gate.controller.port) as running:
        yield running


@pytest.fixture
def plan(transfer: LiveTransfer, proxy: ProxyProcess) -> PostgresToMsSqlPlan:
    """Seven rows to come and one old row, both in tables of one new name; the writer goes through the proxy."""
    name = f"lost_{secrets.token_hex(3)}"
    transfer.as_owner(f"CREATE TABLE {name} (id int NOT NULL, tail text NOT NULL, speed numeric)")
    transfer.as_owner(f"INSERT INTO {name} VALUES (%s, %s, %s)", ROWS)
    transfer.in_target(
        f"CREATE TABLE [raw].[{name}] ([id] int NOT NULL, [tail] nvarchar(10) NOT NULL, [speed] decimal(9, 2) NULL);"
        f" INSERT INTO [raw].[{name}] VALUES (0, N'old', NULL);"
    )
    direct = transfer.plan(name)
    return replace(direct, target=replace(direct.target, host="127.0.0.1", port=proxy.port))


def at_the_commit(monkeypatch: pytest.MonkeyPatch, proxy: ProxyProcess, fate: Fate) -> None:
    """Arm the proxy when the marker is written: the next message on that connection is the COMMIT."""
    mark = target_fence.mark

    def marking(*arguments: Any) -> None:
        mark(*arguments)
        proxy.arm(fate)

    monkeypatch.setattr(target_fence, "mark", marking)


def first_of(transfer: LiveTransfer, run_id: str) -> Operation:
    return transfer.gate.attempts.find("dag", run_id, "load", -1)[0]


def retried(transfer: LiveTransfer, plan: PostgresToMsSqlPlan, run_id: str) -> None:
    """A second try, over a connection that works, ends as if nothing had been."""
    direct = transfer.plan(plan.source_table)
    second = transfer.gate.attempt(run_id, 2, route=transfer.route(direct)).run().operation
    assert second.state == "SUCCEEDED"
    assert transfer.rows(plan.target_table) == ROWS
    assert not [name for name in transfer.tables() if name.startswith(f"{plan.target_table}__dpone_")]
    assert transfer.gone(second)


@pytest.mark.parametrize(("passing", "ending"), LOSSES)
def test_a_commit_whose_reply_is_lost_is_succeeded_by_its_marker(
    transfer: LiveTransfer,
    proxy: ProxyProcess,
    plan: PostgresToMsSqlPlan,
    monkeypatch: pytest.MonkeyPatch,
    passing: int,
    ending: Ending,
) -> None:
    at_the_commit(monkeypatch, proxy, Fate(loss="reply", passing=passing, ending=ending))
    run_id = transfer.gate.run_id()

    result = transfer.gate.attempt(run_id, route=transfer.route(plan)).run()

    assert result.report is None, "the work itself ended with an error"
    assert result.operation.state == "SUCCEEDED"
    assert transfer.rows(plan.target_table) == ROWS
    assert transfer.gone(result.operation)
    monkeypatch.undo()
    retried(transfer, plan, run_id)
    assert first_of(transfer, run_id).state == "SUCCEEDED"


@pytest.mark.parametrize(("passing", "ending"), LOSSES)
def test_a_commit_that_never_arrived_whole_is_failed_without_an_effect(
    transfer: LiveTransfer,
    proxy: ProxyProcess,
    plan: PostgresToMsSqlPlan,
    monkeypatch: pytest.MonkeyPatch,
    passing: int,
    ending: Ending,
) -> None:
    at_the_commit(monkeypatch, proxy, Fate(loss="request", passing=passing, ending=ending))
    run_id = transfer.gate.run_id()

    with pytest.raises(AttemptFailed) as ended:
        transfer.gate.attempt(run_id, route=transfer.route(plan)).run()

    assert ended.value.__cause__ is not None
    first = first_of(transfer, run_id)
    assert first.state == "FAILED"
    assert transfer.rows(plan.target_table) == OLD
    assert transfer.gone(first)
    monkeypatch.undo()
    retried(transfer, plan, run_id)
    assert first_of(transfer, run_id).state == "FAILED"


@pytest.mark.parametrize(("moment", "before"), [("_closed", True), ("_closed", False), ("_resolved", False)])
def test_a_commit_that_arrives_late_decides_the_verdict_or_finds_its_session_gone(
    transfer: LiveTransfer,
    proxy: ProxyProcess,
    plan: PostgresToMsSqlPlan,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
    before: bool,
) -> None:
    at_the_commit(monkeypatch, proxy, Fate(loss="request", ending="cut"))
    step = getattr(Settlement, moment)

    def delivered(settlement: Settlement) -> Any:
        if before:
            proxy.deliver()
        result = step(settlement)
        proxy.deliver()
        return result

    monkeypatch.setattr(Settlement, moment, delivered)
    run_id = transfer.gate.run_id()
    try:
        state = transfer.gate.attempt(run_id, route=transfer.route(plan)).run().operation.state
    except AttemptFailed:
        state = "FAILED"
    first = first_of(transfer, run_id)
    assert first.state == state
    assert transfer.rows(plan.target_table) == (ROWS if state == "SUCCEEDED" else OLD)
    if not before:
        assert state == "FAILED", "a closed session commits nothing"
    assert transfer.gone(first)
    monkeypatch.undo()
    retried(transfer, plan, run_id)


@pytest.mark.parametrize(("loss", "verdict"), [("reply", "SUCCEEDED"), ("request", "FAILED")])
def test_a_lost_commit_whose_marker_cannot_be_read_blocks_until_it_can(
    transfer: LiveTransfer,
    proxy: ProxyProcess,
    plan: PostgresToMsSqlPlan,
    monkeypatch: pytest.MonkeyPatch,
    loss: Loss,
    verdict: str,
) -> None:
    at_the_commit(monkeypatch, proxy, Fate(loss=loss))
    run_id = transfer.gate.run_id()
    nobody = replace(transfer.gate.observer, password=Secret("not its password"))
    seen = PostgresToMsSqlRoute.admission_record
    blind = PostgresToMsSqlRoute(plan, lambda: connect(nobody))
    monkeypatch.setattr(blind, "admission_record", lambda ctx: seen(transfer.route(plan), ctx))

    with pytest.raises(ControlUnavailable, match="no session"):
        transfer.gate.attempt(run_id, route=blind).run()

    first = first_of(transfer, run_id)
    assert first.state == "RUNNING"
    assert transfer.gone(first), "whoever may read nothing can still close"
    with pytest.raises(Overlap):
        transfer.gate.attempt(transfer.gate.run_id(), route=transfer.route(plan)).run()
    monkeypatch.undo()
    retried(transfer, plan, run_id)
    assert first_of(transfer, run_id).state == verdict
