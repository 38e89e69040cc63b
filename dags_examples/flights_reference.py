"""Reference tables from PostgreSQL to SQL Server: one mapped task, one table at a time.

All three tables lie in one database, and an attempt holds the whole database: two at once would only wait.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import dag

from airflow_provider_dpone.operators import PostgresToMsSql


@dag(schedule=None, catchup=False, max_active_runs=1, tags=["dpone", "flights"])
def flights_reference() -> None:
    PostgresToMsSql.partial(
        task_id="load",
        overlap="defer",
        overlap_poll=timedelta(seconds=2),
        retries=1,
        retry_delay=timedelta(seconds=2),
        max_active_tis_per_dagrun=1,
    ).expand(workload_id=["airlines", "airports", "planes"])


flights_reference()
