"""The smallest DAG: shows that the stack runs tasks, before anything guarded is involved."""

from __future__ import annotations

from airflow.sdk import dag, task


@dag(schedule=None, catchup=False, tags=["dpone", "example"])
def dpone_hello() -> None:
    @task
    def say() -> str:
        return "hello"

    say()


dpone_hello()
