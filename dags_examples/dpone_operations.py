"""For operators of Airflow: settle what dead tries left behind, and reconcile an attempt whose outcome was unknown."""

from __future__ import annotations

from airflow_provider_dpone.dags import maintenance_dag, reconciliation_dag

maintenance = maintenance_dag(tags=["dpone", "operations"])
reconciliation = reconciliation_dag(tags=["dpone", "operations"])
