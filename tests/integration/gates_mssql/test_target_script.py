"""The script of a target database, run as a DBA would: every batch works, whoever serves which role."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_dpone.drivers import Secret, drain, go_batches, quote_mssql
from airflow_provider_dpone.drivers.mssql import connect
from airflow_provider_dpone.drivers.mssql_password import hashed_password
from airflow_provider_dpone.gates.target_database import TargetDatabase, provision_script
from tests.support.live_gate import autocommit
from tests.support.live_ledger import control_dsn


@pytest.mark.parametrize("accounts", ["c i r s", "c i r r", "c r r r", "c c r s", "c c c c"])
def test_it_runs_whole_and_the_readers_read(tsql_server: Any, accounts: str) -> None:
    server, suffix = tsql_server, secrets.token_hex(4)
    dba = control_dsn(server.host, server.port, server.sa, server.sa_password, "master")
    controller, issuer, outcome_reader, source_reader = (f"{name} ]' é_{suffix}" for name in accounts.split())
    logins, secret = {controller, issuer, outcome_reader, source_reader}, Secret.generate()
    database = f"target ]' {suffix}"
    target = TargetDatabase(
        database=database,
        writer_role="writer ]'",
        managed_schemas=("raw ]'", "marts"),
        controller=controller,
        issuer=issuer,
        outcome_reader=outcome_reader,
        source_reader=source_reader,
        published_schemas=("marts",),
    )
    with autocommit(dba) as connection:
        drain(connection, f"CREATE DATABASE {quote_mssql(database)} COLLATE SQL_Latin1_General_CP1_CI_AS;")
        for login in logins:
            drain(connection, f"CREATE LOGIN {quote_mssql(login)} WITH PASSWORD = {hashed_password(secret)} HASHED;")
    try:
        with autocommit(replace(dba, database=database)) as connection:
            for batch in go_batches(provision_script(target)):
                drain(connection, batch)
            for schema in target.managed_schemas:
                drain(connection, f"CREATE TABLE {quote_mssql(schema, 't')} ([a] int NOT NULL);")
        for login, schemas in ((outcome_reader, target.managed_schemas), (source_reader, target.published_schemas)):
            reader = connect(replace(dba, database=database, user=login, password=secret))
            for schema in schemas:
                assert drain(reader, f"SELECT COUNT(*) FROM {quote_mssql(schema, 't')};") == [[(0,)]]
            reader.close()
    finally:
        with autocommit(dba) as connection:
            drain(connection, f"DROP DATABASE {quote_mssql(database)};")
            for login in logins:
                drain(connection, f"DROP LOGIN {quote_mssql(login)};")
