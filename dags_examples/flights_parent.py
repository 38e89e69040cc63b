"""The composition as one run: the three DAGs beside this one, triggered explicitly and in order."""

from __future__ import annotations

from airflow_provider_dpone.dags import parent_dag

dag = parent_dag(
    "flights_parent",
    ["flights_reference", "flights_warehouse", "flights_publish"],
    tags=["dpone", "flights"],
)
