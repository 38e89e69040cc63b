"""Guarded attempts: admitted once, written with a credential of their own, closed, proven gone, and resolved."""

from airflow_provider_dpone.attempts.context import Gates
from airflow_provider_dpone.attempts.guarded import QUIESCENCE_SECONDS, AttemptResult, GuardedAttempt
from airflow_provider_dpone.attempts.ports import AttemptLedger
from airflow_provider_dpone.attempts.settlement import Settlement, require_succeeded
from airflow_provider_dpone.attempts.sweep import Swept, sweep

__all__ = [
    "QUIESCENCE_SECONDS",
    "AttemptLedger",
    "AttemptResult",
    "Gates",
    "GuardedAttempt",
    "Settlement",
    "Swept",
    "require_succeeded",
    "sweep",
]
