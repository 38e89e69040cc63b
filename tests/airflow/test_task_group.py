"""One guarded workload as a task group."""

from __future__ import annotations

from datetime import timedelta

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
        guarded_attempt("load", operator=GuardedDbtRun, workload_id="warehouse", retries=2, overlap="defer")
    return dag


def test_the_steps_stand_in_order_and_finalize_is_the_leaf(dag: DAG) -> None:
    order = ["outer.load.work", "outer.load.close_gate", "outer.load.prove_quiescence", "outer.load.finalize"]
    assert [task.task_id for task in dag.topological_sort()] == order
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
        assert dag.get_task(f"outer.load.{task_id}").work_task_id == "outer.load.work"


def test_arguments_reach_the_work_and_only_the_work(dag: DAG) -> None:
    assert dag.get_task("outer.load.work").retries == 2
    assert dag.get_task("outer.load.work").overlap == "defer"
    assert dag.get_task("outer.load.work").mode == "work"
    assert dag.get_task("outer.load.finalize").retries == 0


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
    for task in dag.tasks:
        assert task.roles is roles
        assert task.release_root == "/r"
