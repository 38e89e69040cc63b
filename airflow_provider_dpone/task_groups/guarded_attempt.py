"""One guarded workload as a task group: work, close its gate, prove that it is gone, finalize.

    work ──> close_gate ──> prove_quiescence ──> finalize
             all_done       all_done             all_done

The last three run whatever became of the work, and ``finalize`` fails unless the attempt SUCCEEDED: it is the leaf, so
a failed work never makes a green run. They are plain tasks without a setup link: a teardown is skipped when a run times
out. Safety does not depend on them: the next try, a sweep and the next admission can each close what was left.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import TaskGroup

from airflow_provider_dpone.hooks.roles import GuardRoles
from airflow_provider_dpone.operators.closing import CloseGate, FinalizeAttempt
from airflow_provider_dpone.operators.guarded import GuardedOperator
from airflow_provider_dpone.sensors.quiescence import QuiescenceSensor


def guarded_attempt(
    group_id: str,
    *,
    operator: type[GuardedOperator],
    workload_id: str,
    release_root: str | None = None,
    roles: GuardRoles | None = None,
    **work: Any,
) -> TaskGroup:
    """The group; chain it like a task. Call it inside a DAG.

    :param operator: the operator of the workload's cell, e.g. ``GuardedDbtRun``.
    :param work: further arguments of the work task: ``retries``, ``overlap``, ``execution_timeout``, ...
    """
    with TaskGroup(group_id) as group:
        common: dict[str, Any] = {"release_root": release_root, "roles": roles}
        first = operator(task_id="work", workload_id=workload_id, mode="work", **common, **work)
        after = common | {"work_task_id": first.task_id, "trigger_rule": "all_done"}
        close = CloseGate(task_id="close_gate", **after)
        prove = QuiescenceSensor(task_id="prove_quiescence", **after)
        finalize = FinalizeAttempt(task_id="finalize", **after)
        first >> close >> prove >> finalize
    return group
