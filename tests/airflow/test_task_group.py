"""One guarded workload as a task group."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.definitions.taskgroup import TaskGroup

from airflow_provider_dpone.hooks import GuardRoles
from airflow_provider_dpone.operators import CloseGate, FinalizeAttempt, GuardedDbtRun
from airflow_provider_dpone.sensors import QuiescenceSensor
from airflow_provider_dpone.task_groups import guarded_attempt


@pytest.fixture
def dag() -> DAG:
    with DAG("guarded", schedule=None) as dag, TaskGroup("outer"):
        guarded_attempt("load", operator=GuardedDbtRun, workload_id="warehouse", retries=5, overlap="defer")
    return dag


def step(dag: DAG, name: str) -> Any:
    return dag.get_task(f"outer.load.{name}")


def test_the_steps_stand_in_order_and_finalize_is_the_leaf(dag: DAG) -> None:
    order = ["outer.load.work", "outer.load.close_gate", "outer.load.prove_quiescence", "outer.load.finalize"]
    assert [task.task_id for task in dag.topological_sort()]  # type: ignore[no-untyped-call]  # Airflow has no annotation here == order
    assert [task.task_id for task in dag.leaves] == ["outer.load.finalize"]
    types = (GuardedDbtRun, CloseGate, QuiescenceSensor, FinalizeAttempt)
    for task_id, kind in zip(order, types, strict=True):
        assert isinstance(dag.get_task(task_id), kind)


def test_what_follows_the_work_runs_whatever_became_of_it(dag: DAG) -> None:
    for task_id in ("close_gate", "prove_quiescence", "finalize"):
        task = dag.get_task(f"outer.load.{task_id}")
        assert task.trigger_rule == "all_done"
        assert not task.is_setup
        # A teardown is skipped when a run times out, and its failure would not fail the run.
        assert not task.is_teardown


def test_the_closing_tasks_look_for_the_attempts_of_the_work(dag: DAG) -> None:
    for task_id in ("close_gate", "prove_quiescence", "finalize"):
        assert step(dag, task_id).work_task_id == "outer.load.work"


def test_arguments_reach_the_work_and_only_the_work(dag: DAG) -> None:
    assert step(dag, "work").retries == 5
    assert step(dag, "work").overlap == "defer"
    assert step(dag, "work").mode == "work"
    assert step(dag, "finalize").retries == 2


def test_roles_and_release_reach_every_step() -> None:
    roles = GuardRoles(controller="other")
    with DAG("guarded", schedule=None) as dag:
        guarded_attempt(
            "load",
            operator=GuardedDbtRun,
            workload_id="w",
            roles=roles,
            release_root="/r",
            execution_timeout=timedelta(1),
        )
    tasks: list[Any] = list(dag.tasks)
    for task in tasks:
        assert task.roles is roles
        assert task.release_root == "/r"
