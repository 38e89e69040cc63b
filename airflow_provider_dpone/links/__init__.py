"""Links from task instances."""

from airflow_provider_dpone.links.attempt import AttemptLink

__all__ = ["AttemptLink"]
