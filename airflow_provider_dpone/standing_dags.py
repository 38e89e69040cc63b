"""DAGs beside those of the constituents: the parent that triggers them, and two for operators. None has a schedule."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, chain

from airflow_provider_dpone.hooks.roles import GuardRoles
from airflow_provider_dpone.operators.reconcile import ReconcileUnknown
from airflow_provider_dpone.operators.sweep import SweepAttempts
from airflow_provider_dpone.sensors.activation import ActivationSensor


def parent_dag(
    dag_id: str,
    constituents: Sequence[str],
    *,
    patience: timedelta = timedelta(minutes=10),
    release_root: str | None = None,
    roles: GuardRoles | None = None,
    **dag: Any,
) -> DAG:
    """The composition as one run: its constituents' DAGs, in order, each awaited without a worker slot.

    A child's run carries the parent's run id, so that its attempts can be found from the parent.

    :param patience: how long to wait for the activation to be ACTIVE.
    :param release_root: the folder of activated releases; default is the setting ``[dpone] release_root``.
    :param dag: further arguments of the DAG.
    """
    from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator

    with DAG(dag_id, schedule=None, catchup=False, max_active_runs=1, **dag) as parent:
        active = ActivationSensor(
            task_id="active",
            interval=timedelta(seconds=5),
            patience=patience,
            release_root=release_root,
            roles=roles,
        )
        runs = [
            TriggerDagRunOperator(
                task_id=constituent,
                trigger_dag_id=constituent,
                trigger_run_id="{{ run_id }}",
                wait_for_completion=True,
                deferrable=True,
                poke_interval=2,
                allowed_states=["success"],
                failed_states=["failed"],
            )
            for constituent in constituents
        ]
        chain(active, *runs)
    return parent


def maintenance_dag(dag_id: str = "dpone_maintenance", *, roles: GuardRoles | None = None, **dag: Any) -> DAG:
    """Settles what dead tries left, where Airflow itself says that they are over."""
    with DAG(dag_id, schedule=None, catchup=False, max_active_runs=1, **dag) as maintenance:
        SweepAttempts(task_id="sweep", roles=roles)
    return maintenance


def reconciliation_dag(dag_id: str = "dpone_reconcile", *, roles: GuardRoles | None = None, **dag: Any) -> DAG:
    """For an operator: triggered with ``{"attempt_sha256": "sha256:..."}``, it observes one unknown outcome again."""
    from airflow.sdk import Param

    params = {"attempt_sha256": Param(type="string", pattern="^sha256:[0-9a-f]{64}$", title="Attempt")}
    with DAG(dag_id, schedule=None, catchup=False, params=params, **dag) as reconciliation:
        ReconcileUnknown(task_id="reconcile", attempt_sha256="{{ params.attempt_sha256 }}", roles=roles)
    return reconciliation
