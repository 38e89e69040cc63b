"""The composition as one run: its constituents, triggered explicitly, in order, and awaited without a worker slot."""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import chain, dag

from airflow_provider_dpone.sensors import ActivationSensor

CONSTITUENTS = ("flights_reference", "flights_warehouse", "flights_publish")


@dag(schedule=None, catchup=False, max_active_runs=1, tags=["dpone", "flights"])
def flights_parent() -> None:
    active = ActivationSensor(task_id="active", interval=timedelta(seconds=5), patience=timedelta(minutes=10))
    runs = [
        TriggerDagRunOperator(
            task_id=constituent,
            trigger_dag_id=constituent,
            # The child's run carries the parent's id: its attempts can be found from here.
            trigger_run_id="{{ run_id }}",
            wait_for_completion=True,
            deferrable=True,
            poke_interval=2,
            allowed_states=["success"],
            failed_states=["failed"],
        )
        for constituent in CONSTITUENTS
    ]
    chain(active, *runs)


flights_parent()
