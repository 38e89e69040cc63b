"""All that a release root needs in Airflow: the DAGs of the composition in force, and two DAGs for its operators.

They stand in one file, so that the DAGs of a first release are found at once: a campaign asks the DAG processor to parse
every file that has a DAG of this provider.
"""

from __future__ import annotations

from airflow_provider_dpone.dags import load_compositions, maintenance_dag, reconciliation_dag

load_compositions(globals())
maintenance = maintenance_dag(tags=["dpone", "operations"])
reconciliation = reconciliation_dag(tags=["dpone", "operations"])
