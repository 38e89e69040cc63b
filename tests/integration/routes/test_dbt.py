"""Native dbt through whole attempts: a build, one that fails, one whose worker dies, and where the secret is not."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_provider_dpone.attempts import Settlement
from airflow_provider_dpone.contracts.errors import AttemptFailed, Fenced, OutcomeUnknown
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.routes.dbt import DbtBuildFailed, DbtRoute
from tests.support.live_gate import LiveGate
from tests.support.live_routes import LiveTransfer, dbt_document, dbt_plan, reached, start_worker

GOOD = "select cast(1 as int) as id"
BAD = "select cast('x' as int) as id from {{ ref('first') }}"


@dataclass(frozen=True, kw_only=True)
class Project:
    """A project of models with names of their own, from a folder whose name some quoting forgets."""

    gate: LiveGate
    project: Path
    work_root: Path
    models: Mapping[str, Mapping[str, Any]]

    def route(self) -> DbtRoute:
        return DbtRoute(dbt_plan(self.gate, self.project, self.work_root, self.models), self.gate.observe)

    def document(self) -> dict[str, Any]:
        return dbt_document(self.project, self.work_root, self.models)

    def operations(self, run_id: str) -> list[Operation]:
        return list(self.gate.attempts.find("dag", run_id, "load", -1))

    def evidence(self, operation: Operation) -> Mapping[str, Any]:
        found = self.gate.attempts.evidence(operation.attempt_sha256, "outcome")
        assert found is not None
        return found


def project(live: LiveGate, root: Path, models: Mapping[str, tuple[str, Mapping[str, Any]]]) -> Project:
    """Write a project. In the models' texts `first` and `second` stand for names with a suffix of this test."""
    suffix = secrets.token_hex(3)
    folder = root / "prøject 'x' %"
    (folder / "models").mkdir(parents=True)
    (folder / "dbt_project.yml").write_text("name: shop\nversion: '1.0.0'\nprofile: shop\n", encoding="utf-8")
    configs: dict[str, Mapping[str, Any]] = {}
    for name, (text, config) in models.items():
        config = {"materialized": "table", "as_columnstore": False, **config}
        members = ", ".join(f"{key}={value!r}" for key, value in config.items())
        for other in models:
            text = text.replace(f"ref('{other}')", f"ref('{other}_{suffix}')")
        full = f"{name}_{suffix}"
        (folder / "models" / f"{full}.sql").write_text("{{ config(" + members + ") }}\n" + text, encoding="utf-8")
        configs[full] = config
    return Project(gate=live, project=folder, work_root=root / "attempts", models=configs)


def test_a_build_succeeds_and_leaves_its_models(live: LiveGate, transfer: LiveTransfer, tmp_path: Path) -> None:
    mine = project(live, tmp_path, {"first": (GOOD, {}), "second": ("select id from {{ ref('first') }}", {})})
    result = live.attempt(live.run_id(), route=mine.route()).run()
    assert result.operation.state == "SUCCEEDED"
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
        readable = [Path(f"/proc/{pid}/{name}") for pid in (dbt.pid, worker.pid) for name in ("environ", "cmdline")]
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


def until(true: Any, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.2)
