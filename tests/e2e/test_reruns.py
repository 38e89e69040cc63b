"""What a user clicks in Airflow's UI, on the main job's running stack: clear one mapped task, mark running ones.

After the pages, which look at the main job's own run, and before the stack is stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from dpone_demo import provisioning
from dpone_embedded import Stack

from airflow_provider_dpone.campaign.airflow_api import AirflowApi
from airflow_provider_dpone.ledger import AttemptStore
from tests.e2e.conftest import MainJob

REFERENCE, LOAD = "flights_reference", "load"
TABLES = ("airlines", "airports", "planes")

pytestmark = pytest.mark.timeout(1500)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Airflow as its UI speaks to it, and the ledger behind it."""

    api: AirflowApi
    stack: Stack
    ledger: AttemptStore
    run_id: str

    def post(self, method: str, path: str, body: dict[str, Any]) -> None:
        answer = self.api._client.request(method, f"/api/v2/dags/{REFERENCE}{path}", json=body)
        assert answer.is_success, answer.text

    def clear(self, run_id: str, map_index: int) -> None:
        body = {"dry_run": False, "dag_run_id": run_id, "only_failed": False, "task_ids": [[LOAD, map_index]]}
        self.post("POST", "/clearTaskInstances", body)

    def sweep(self, name: str) -> None:
        self.api.trigger("dpone_maintenance", f"sweep_{name}", {})
        assert self.api.wait_for_run("dpone_maintenance", f"sweep_{name}", timeout=240) == "success"

    def tries(self, run_id: str, map_index: int) -> list[tuple[int, str]]:
        found = self.ledger.find(REFERENCE, run_id, LOAD, map_index)
        return [(each.coordinates.try_number, each.state) for each in found]

    def state(self, run_id: str, map_index: int) -> Any:
        found = self.api.task_instances(REFERENCE, run_id)
        return {each["map_index"]: each["state"] for each in found if each["task_id"] == LOAD}.get(map_index)


def until(condition: Callable[[], Any], seconds: float = 240) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.2)
    return found


@pytest.fixture(scope="module")
def stage(run: MainJob) -> Stage:
    stack = Stack(run.state)
    services = provisioning.guard_services(stack, run.state / "dpone")
    (run_id,) = {
        attempt["coordinates"][1] for attempt in run.report()["attempts"] if attempt["coordinates"][0] == REFERENCE
    }
    return Stage(
        api=AirflowApi(*run.airflow()),
        stack=stack,
        ledger=AttemptStore(services.control, services.ledger),
        run_id=run_id,
    )


def test_a_cleared_map_index_leaves_its_siblings_alone(stage: Stage) -> None:
    siblings = [stage.ledger.find(REFERENCE, stage.run_id, LOAD, index) for index in (0, 2)]
    assert all(siblings)

    stage.clear(stage.run_id, 1)

    until(lambda: stage.tries(stage.run_id, 1) == [(1, "SUCCEEDED"), (2, "SUCCEEDED")])
    assert stage.api.wait_for_run(REFERENCE, stage.run_id, timeout=120) == "success"
    assert [stage.ledger.find(REFERENCE, stage.run_id, LOAD, index) for index in (0, 2)] == siblings


@contextmanager
def sources_locked(stage: Stage) -> Iterator[psycopg.Connection[Any]]:
    """Every extraction waits until the block ends, or the lock is given up in it."""
    with psycopg.connect(provisioning._conninfo(stage.stack)) as connection:
        connection.execute(f"LOCK TABLE {', '.join(f'public.{table}' for table in TABLES)}".encode())
        yield connection


@pytest.mark.campaign
def test_running_tasks_that_are_marked_or_cleared_are_settled_and_nothing_is_green_by_itself(stage: Stage) -> None:
    """One mapped task after the other waits for its source, and meets its user."""
    run_id = f"marked_{int(time.time())}"

    def working() -> int | None:
        found = [index for index in range(3) if stage.tries(run_id, index)[-1:] == [(1, "RUNNING")]]
        waiting = "SELECT 1 FROM pg_stat_activity WHERE usename LIKE 'dpone_a_%' AND wait_event_type = 'Lock'"
        with psycopg.connect(provisioning._conninfo(stage.stack)) as connection:
            return found[0] if found and connection.execute(waiting.encode()).fetchone() else None

    def index_at_work() -> int:
        return int(until(lambda: (index := working()) is not None and index + 1)) - 1

    with sources_locked(stage) as locked:
        stage.api.trigger(REFERENCE, run_id, {})
        for state in ("failed", "success"):
            index = index_at_work()
            stage.post("PATCH", f"/dagRuns/{run_id}/taskInstances/{LOAD}/{index}", {"new_state": state})
            # By Airflow's own word the try is over, whether its process is gone or not yet.
            stage.sweep(f"{run_id}_{state}")
            assert stage.state(run_id, index) == state, "Airflow keeps the user's word"
            assert stage.tries(run_id, index) == [(1, "FAILED")], "and the ledger its own"
        last = index_at_work()
        stage.clear(run_id, last)
        until(lambda: stage.tries(run_id, last)[0][1] != "RUNNING")
        locked.rollback()
    until(lambda: stage.tries(run_id, last) == [(1, "FAILED"), (2, "SUCCEEDED")])
    # The fourth table is not locked, and has its turn when the others are over.
    stage.api.wait_for_run(REFERENCE, run_id, timeout=240)
    stage.sweep(run_id)
    assert stage.ledger.unresolved() == ()
