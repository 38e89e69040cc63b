"""Triggers: coordinates and connection ids only, never a secret."""

from airflow_provider_dpone.triggers.quiescence import QuiescenceTrigger
from airflow_provider_dpone.triggers.waiting import PauseTrigger

__all__ = ["PauseTrigger", "QuiescenceTrigger"]
