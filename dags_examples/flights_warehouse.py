"""The warehouse: one `dbt build` on SQL Server as a guarded attempt, with every step a task of its own."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import dag

from airflow_provider_dpone.operators import GuardedDbtRun
from airflow_provider_dpone.task_groups import guarded_attempt


@dag(schedule=None, catchup=False, max_active_runs=1, tags=["dpone", "flights"])
def flights_warehouse() -> None:
    guarded_attempt(
        "warehouse",
        operator=GuardedDbtRun,
        workload_id="warehouse",
        overlap="defer",
        overlap_poll=timedelta(seconds=2),
        retries=1,
        retry_delay=timedelta(seconds=2),
    )


flights_warehouse()
