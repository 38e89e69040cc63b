"""Hooks: from Airflow connections to the accounts of the protocol's roles."""

from airflow_provider_dpone.hooks.clickhouse import DponeClickHouseHook
from airflow_provider_dpone.hooks.ledger import DponeLedgerHook
from airflow_provider_dpone.hooks.mssql import DponeMsSqlHook
from airflow_provider_dpone.hooks.postgres import DponePostgresHook
from airflow_provider_dpone.hooks.roles import GuardRoles

__all__ = ["DponeClickHouseHook", "DponeLedgerHook", "DponeMsSqlHook", "DponePostgresHook", "GuardRoles"]
