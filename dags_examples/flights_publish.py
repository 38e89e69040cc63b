"""Publishing to ClickHouse: the mart and the flights, each staged, checked and put in place by one EXCHANGE."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import dag

from airflow_provider_dpone.operators import MsSqlToClickHouse
from airflow_provider_dpone.task_groups import guarded_attempt


@dag(schedule=None, catchup=False, max_active_runs=1, tags=["dpone", "flights"])
def flights_publish() -> None:
    delays, flights = (
        guarded_attempt(
            workload_id,
            operator=MsSqlToClickHouse,
            workload_id=workload_id,
            overlap="defer",
            overlap_poll=timedelta(seconds=2),
            retries=1,
            retry_delay=timedelta(seconds=2),
        )
        for workload_id in ("publish_daily_delays", "publish_flights")
    )
    delays >> flights


flights_publish()
