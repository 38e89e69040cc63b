"""The tasks after the work: they go by the ledger, repeat safely, and never let a failure look green."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from airflow_provider_dpone.attempts import Settlement
from airflow_provider_dpone.composition import services as composition_services
from airflow_provider_dpone.contracts.errors import ControlUnavailable, GateTampered, NotQuiescent
from airflow_provider_dpone.hooks import DponeLedgerHook, GuardRoles
from airflow_provider_dpone.operators import CloseGate, FinalizeAttempt
from airflow_provider_dpone.sensors import QuiescenceSensor
from airflow_provider_dpone.triggers import QuiescenceTrigger

CONTEXT: Any = {"ti": SimpleNamespace(dag_id="flights", run_id="r", task_id="group.finalize", map_index=-1)}
ARGUMENTS: dict[str, Any] = {"work_task_id": "group.work", "release_root": "/releases"}


def operation(number: int, state: str) -> Any:
    return SimpleNamespace(
        attempt_sha256=f"sha256:{number}",
        state=state,
        settled=state in ("SUCCEEDED", "FAILED"),
        digest_prefix=str(number),
        coordinates=SimpleNamespace(try_number=number),
    )


@dataclass
class World:
    """The ledger as the tasks see it, and what they did. `becomes` is what settling an open operation ends in."""

    operations: list[Any] = field(default_factory=list)
    becomes: str = "SUCCEEDED"
    busy: int = 0
    error: Exception | None = None
    done: list[str] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)

    def find(self, *instance: Any) -> tuple[Any, ...]:
        self.asked.append(instance)
        return tuple(self.operations)

    def resume(self, _services: Any, _root: Any, found: Any, **_: Any) -> Any:
        def step(name: str) -> Any:
            if self.error is not None:
                raise self.error
            self.done.append(f"{name} {found.digest_prefix}")

        def prove() -> None:
            if self.busy > 0:
                self.busy -= 1
                raise NotQuiescent(sessions=[{"session_id": 51}])
            step("prove")

        def settle() -> Any:
            step("settle")
            return operation(found.coordinates.try_number, self.becomes)

        return SimpleNamespace(close=lambda: step("close"), prove_quiescence=prove, settle=settle)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    monkeypatch.setattr(DponeLedgerHook, "attempts", lambda _self: world)
    monkeypatch.setattr(GuardRoles, "services", lambda _self: None)
    monkeypatch.setattr(composition_services, "resume_attempt", world.resume)
    return world


def test_the_stand_in_has_the_methods_of_the_real_one() -> None:
    for name in ("close", "prove_quiescence", "settle"):
        assert callable(getattr(Settlement, name))


def test_attempts_are_found_by_the_coordinates_of_the_work(world: World) -> None:
    CloseGate(task_id="close_gate", **ARGUMENTS).execute(CONTEXT)
    assert world.asked == [("flights", "r", "group.work", -1)]


def test_closing_takes_every_open_attempt_and_no_settled_one(world: World) -> None:
    world.operations = [operation(1, "FAILED"), operation(2, "RUNNING"), operation(3, "COMMIT_UNKNOWN")]
    assert CloseGate(task_id="close_gate", **ARGUMENTS).execute(CONTEXT) == ["sha256:2", "sha256:3"]
    assert world.done == ["close 2", "close 3"]


def test_nothing_to_close_is_fine(world: World) -> None:
    assert CloseGate(task_id="close_gate", **ARGUMENTS).execute(CONTEXT) == []


def test_the_sensor_looks_once_and_then_waits_without_a_worker(world: World) -> None:
    world.operations = [operation(1, "RUNNING")]
    sensor = QuiescenceSensor(task_id="prove", **ARGUMENTS)
    assert sensor.execute(CONTEXT) == ["sha256:1"]
    world.busy = 1
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute(CONTEXT)
    assert isinstance(deferred.value.trigger, QuiescenceTrigger)
    assert deferred.value.trigger.instance == ("flights", "r", "group.work", -1)
    assert deferred.value.timeout is not None


def test_the_trigger_says_nothing_while_a_writer_is_seen_or_the_ledger_is_away(world: World) -> None:
    world.operations = [operation(1, "RUNNING")]
    world.busy = 2
    trigger = QuiescenceTrigger(("flights", "r", "group.work", -1), GuardRoles().to_document(), "/releases", 1)
    assert trigger.probe() is None
    assert trigger.probe() is None
    world.error = ControlUnavailable("mssql_connect")
    assert trigger.probe() is None
    world.error = None
    assert trigger.probe() == {"quiescent": "yes"}


def test_a_sensor_fails_without_a_retry_when_the_trigger_met_something_worse(world: World) -> None:
    world.operations = [operation(1, "RUNNING")]
    world.error = GateTampered("login")
    trigger = QuiescenceTrigger(("flights", "r", "group.work", -1), GuardRoles().to_document(), "/releases", 1)
    event = trigger.probe()
    assert event is not None
    with pytest.raises(AirflowFailException, match="DPONE_GATE_TAMPERED: login"):
        QuiescenceSensor(task_id="prove", **ARGUMENTS).execute_complete(CONTEXT, event)


def test_finalize_is_green_only_for_success(world: World) -> None:
    world.operations = [operation(1, "FAILED"), operation(2, "RUNNING")]
    answer = FinalizeAttempt(task_id="finalize", **ARGUMENTS).execute(CONTEXT)
    assert answer == {"attempt_sha256": "sha256:2", "state": "SUCCEEDED"}
    assert world.done == ["settle 2"]


@pytest.mark.parametrize("state", ["FAILED", "COMMIT_UNKNOWN"])
def test_finalize_fails_without_a_retry_for_anything_else(world: World, state: str) -> None:
    world.operations = [operation(1, "SUCCEEDED"), operation(2, "RUNNING")]
    world.becomes = state
    with pytest.raises(AirflowFailException) as failed:
        FinalizeAttempt(task_id="finalize", **ARGUMENTS).execute(CONTEXT)
    assert ("dponectl attempts reconcile sha256:2" in str(failed.value)) == (state == "COMMIT_UNKNOWN")


def test_finalize_fails_when_no_attempt_was_ever_admitted(world: World) -> None:
    with pytest.raises(AirflowFailException, match="no_attempt"):
        FinalizeAttempt(task_id="finalize", **ARGUMENTS).execute(CONTEXT)


def test_a_ledger_that_is_away_is_left_to_the_retries(world: World) -> None:
    world.operations = [operation(1, "RUNNING")]
    world.error = ControlUnavailable("mssql_connect")
    task = FinalizeAttempt(task_id="finalize", **ARGUMENTS)
    with pytest.raises(ControlUnavailable):
        task.execute(CONTEXT)
    assert task.retries == 2
