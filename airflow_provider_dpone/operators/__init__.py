"""Operators. What is heavy (drivers, dbt, the ledger) is imported while a task runs, never while a DAG is parsed."""

from airflow_provider_dpone.operators.admission import AdmissionCheck
from airflow_provider_dpone.operators.closing import CloseGate, FinalizeAttempt
from airflow_provider_dpone.operators.composition import (
    ActivateComposition,
    PrepareComposition,
    ReconcileComposition,
    RetireComposition,
)
from airflow_provider_dpone.operators.guarded import GuardedDbtRun, GuardedOperator, MsSqlToClickHouse, PostgresToMsSql
from airflow_provider_dpone.operators.reconcile import ReconcileUnknown
from airflow_provider_dpone.operators.sweep import SweepAttempts

__all__ = [
    "ActivateComposition",
    "AdmissionCheck",
    "CloseGate",
    "FinalizeAttempt",
    "GuardedDbtRun",
    "GuardedOperator",
    "MsSqlToClickHouse",
    "PostgresToMsSql",
    "PrepareComposition",
    "ReconcileComposition",
    "ReconcileUnknown",
    "RetireComposition",
    "SweepAttempts",
]
