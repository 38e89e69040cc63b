#!/bin/bash
# Two databases, each owned by a role of its own name.
set -euo pipefail
psql -v ON_ERROR_STOP=1 -v password="$AIRFLOW_DB_PASSWORD" -U postgres <<'SQL'
CREATE ROLE airflow LOGIN PASSWORD :'password';
CREATE DATABASE airflow OWNER airflow;
CREATE DATABASE flights_ops;
SQL
