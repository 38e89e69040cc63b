"""Guarded attempts for Apache Airflow: writers that are admitted once, closed irreversibly and proven gone."""

__version__ = "0.1.0"
