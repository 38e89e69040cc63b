"""A campaign: a release put in force, run by explicit triggers, reconciled by somebody else, and retired, with evidence."""

from airflow_provider_dpone.campaign.airflow_api import AirflowApi
from airflow_provider_dpone.campaign.evidence import EvidenceFolder
from airflow_provider_dpone.campaign.run import Campaign

__all__ = ["AirflowApi", "Campaign", "EvidenceFolder"]
