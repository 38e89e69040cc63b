"""The thin edge to the three engines: connections, secrets, identifier quoting and named SQL files.

Nothing here imports a driver before a connection is asked for, so that DAG files parse without them.
"""

from airflow_provider_dpone.drivers.dbapi import Connect, Connection, Cursor, drain, read_all
from airflow_provider_dpone.drivers.quoting import quote_clickhouse, quote_mssql, quote_postgres
from airflow_provider_dpone.drivers.secret import Secret
from airflow_provider_dpone.drivers.sqlfiles import SqlFile, go_batches, load_sql

__all__ = [
    "Connect",
    "Connection",
    "Cursor",
    "Secret",
    "SqlFile",
    "drain",
    "go_batches",
    "load_sql",
    "quote_clickhouse",
    "quote_mssql",
    "quote_postgres",
    "read_all",
]
