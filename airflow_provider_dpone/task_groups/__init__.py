"""Task groups."""

from airflow_provider_dpone.task_groups.guarded_attempt import guarded_attempt

__all__ = ["guarded_attempt"]
