"""Native dbt through whole attempts: a build, one that fails, one whose worker dies, and where the secret is not."""

from __future__ import annotations

import logging
import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_provider_dpone.attempts import Settlement
from airflow_provider_dpone.contracts.errors import AttemptFailed, Fenced, OutcomeUnknown
from airflow_provider_dpone.routes.dbt import DbtBuildFailed, DbtRoute
from airflow_provider_dpone.routes.dbt_process import DbtProcess
from tests.support.dbt_project import project, until
from tests.support.live_gate import LiveGate
from tests.support.live_routes import LiveTransfer, reached, start_worker

GOOD = "select cast(1 as int) as id"
BAD = "select cast('x' as int) as id from {{ ref('first') }}"


def test_a_build_succeeds_and_its_exit_code_is_not_asked(
    live: LiveGate, transfer: LiveTransfer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = DbtProcess.wait

    def killed_when_it_was_done(process: DbtProcess, log: logging.Logger) -> int:
        wait(process, log)
        return -9

    monkeypatch.setattr(DbtProcess, "wait", killed_when_it_was_done)
    mine = project(live, tmp_path, {"first": (GOOD, {}), "second": ("select id from {{ ref('first') }}", {})})
    result = live.attempt(live.run_id(), route=mine.route()).run()
    assert result.operation.state == "SUCCEEDED"
    assert result.report is not None and result.report.details["exit_code"] == -9
    assert set(mine.models) <= transfer.tables()
    assert transfer.gone(result.operation)
    assert set(mine.evidence(result.operation)["changes"].values()) == {"created"}


def test_a_model_that_fails_is_a_failed_attempt_with_its_effects_named(
    live: LiveGate, transfer: LiveTransfer, tmp_path: Path
) -> None:
    mine = project(live, tmp_path, {"first": (GOOD, {}), "second": (BAD, {})})
    run_id = live.run_id()
    with pytest.raises(AttemptFailed) as ended:
        live.attempt(run_id, route=mine.route()).run()
    assert isinstance(ended.value.__cause__, DbtBuildFailed)
    (operation,) = mine.operations(run_id)
    first, second = mine.models
    assert operation.state == "FAILED"
    changes = mine.evidence(operation)["changes"]
    assert changes[f"raw.{first}"] == "created"
    assert f"raw.{second}" not in changes
    assert transfer.gone(operation)
    assert second not in transfer.tables()


def test_an_append_without_a_key_stops_for_the_operator(live: LiveGate, transfer: LiveTransfer, tmp_path: Path) -> None:
    append = {"materialized": "incremental", "incremental_strategy": "append"}
    mine = project(live, tmp_path, {"first": (GOOD, append), "second": (BAD, {})})
    run_id = live.run_id()
    with pytest.raises(OutcomeUnknown):
        live.attempt(run_id, route=mine.route()).run()
    (operation,) = mine.operations(run_id)
    assert operation.state == "COMMIT_UNKNOWN"
    assert transfer.gone(operation)
    with pytest.raises(OutcomeUnknown):
        live.attempt(run_id, 2, route=mine.route()).run()
    assert len(mine.operations(run_id)) == 1, "a retry was admitted although its predecessor is not resolved"
    settlement = Settlement(operation, route=mine.route(), gates={"mssql": live.gate}, ledger=live.attempts)
    assert settlement.reconcile(verdict="FAILED", operator="t", statement="looked").state == "FAILED"


def test_a_fence_that_moved_on_refuses_the_marker(
    live: LiveGate, transfer: LiveTransfer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = project(live, tmp_path, {"first": (GOOD, {})})
    mark = DbtRoute._mark

    def moved_on(*args: Any) -> None:
        transfer.take_fence()
        mark(*args)

    monkeypatch.setattr(DbtRoute, "_mark", moved_on)
    run_id = live.run_id()
    with pytest.raises(AttemptFailed) as ended:
        live.attempt(run_id, route=mine.route()).run()
    assert isinstance(ended.value.__cause__, Fenced), repr(ended.value.__cause__)
    assert mine.operations(run_id)[0].state == "FAILED"


@pytest.mark.parametrize(("step", "state"), [("issued", "FAILED"), ("built", "FAILED"), ("reported", "SUCCEEDED")])
def test_a_worker_that_dies_beside_dbt_is_settled_by_the_marker(
    live: LiveGate, transfer: LiveTransfer, tmp_path: Path, step: str, state: str
) -> None:
    mine = project(live, tmp_path, {"first": (GOOD, {})})
    run_id = live.run_id()
    worker = start_worker(live, run_id, step, mine.document())
    try:
        assert reached(worker) == step
    finally:
        worker.kill()
        worker.wait()
    assert live.attempt(run_id, 2, route=mine.route()).run().operation.state == "SUCCEEDED"
    first, _ = mine.operations(run_id)
    assert first.state == state
    assert transfer.gone(first)


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_fifty_models_by_eight_threads_end_as_one_attempt(
    live: LiveGate, transfer: LiveTransfer, tmp_path: Path
) -> None:
    """Users of the adapter met deadlocks in the catalog with more than one thread."""
    models = {f"m{number:02}": (f"select cast({number} as int) as id", {}) for number in range(50)}
    mine = project(live, tmp_path, models)
    route = mine.route()
    result = live.attempt(live.run_id(), route=DbtRoute(replace(route._plan, threads=8), live.observe)).run()
    assert result.operation.state == "SUCCEEDED"
    assert set(mine.models) <= transfer.tables()
    assert set(mine.evidence(result.operation)["changes"].values()) == {"created"}
    assert transfer.gone(result.operation)


def test_a_worker_killed_in_the_middle_of_a_build(live: LiveGate, transfer: LiveTransfer, tmp_path: Path) -> None:
    """The first model is committed, the second one is under way; dbt dies too, its secret was nowhere to be read."""
    released = f"released_{secrets.token_hex(3)}"
    transfer.in_target(f"CREATE TABLE [raw].[{released}] ([a] int NOT NULL);")
    wait = f"IF NOT EXISTS (SELECT 1 FROM raw.{released}) WAITFOR DELAY '00:03:00'"
    second = ("select id from {{ ref('first') }}", {"pre_hook": wait})
    mine = project(live, tmp_path, {"first": (GOOD, {}), "second": second})
    run_id, secret = live.run_id(), "Aa9-" + secrets.token_urlsafe(30)
    worker = start_worker(live, run_id, "", mine.document(), secret=secret)
    try:
        first, last = mine.models
        until(lambda: first in transfer.tables(), 90)
        (dbt,) = psutil.Process(worker.pid).children()
        theirs = [each.pid for each in dbt.children(recursive=True)]
        assert theirs, "dbt keeps a process of its own, which inherits its environment"
        pids = (dbt.pid, worker.pid, *theirs)
        readable = [Path(f"/proc/{pid}/{name}") for pid in pids for name in ("environ", "cmdline")]
        readable += [path for path in tmp_path.rglob("*") if path.is_file()]
        assert len(readable) > 8, "dbt has written no files yet: nothing was looked at"
        assert [path for path in readable if secret.encode() in path.read_bytes()] == []
        assert "Max core file size        0" in Path(f"/proc/{dbt.pid}/limits").read_text()
    finally:
        worker.kill()
        worker.wait()
    until(lambda: not dbt.is_running(), 10)
    transfer.in_target(f"INSERT INTO [raw].[{released}] VALUES (1);")
    retry = live.attempt(run_id, 2, route=mine.route()).run().operation
    dead, _ = mine.operations(run_id)
    assert (dead.state, retry.state) == ("FAILED", "SUCCEEDED")
    changes = mine.evidence(dead)["changes"]
    assert changes[f"raw.{first}"] == "created"
    assert f"raw.{last}" not in changes
    assert transfer.gone(dead)
    assert {first, last} <= transfer.tables()
    assert not [name for name in transfer.tables() if name.startswith(last) and name != last], "helpers were left"
