"""What a DAG file calls: the DAGs of the release in force, and those that every composition needs beside them."""

from __future__ import annotations

from airflow_provider_dpone.dag_loading import load_compositions
from airflow_provider_dpone.standing_dags import maintenance_dag, parent_dag, reconciliation_dag

__all__ = ["load_compositions", "maintenance_dag", "parent_dag", "reconciliation_dag"]
