"""Ledgers on the endpoint: one that tests share with domains of their own, and a fresh one for those that break it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_dpone.drivers.mssql import MsSqlDsn
from tests.support.live_ledger import LiveLedger, control_dsn, open_ledger


def fresh_database(server: Any) -> MsSqlDsn:
    name = f"control_{secrets.token_hex(6)}"
    connection = server.connect()
    try:
        connection.execute(f"CREATE DATABASE [{name}]")
    finally:
        connection.close()
    return control_dsn(server.host, server.port, server.sa, server.sa_password, name)


def drop_database(server: Any, dsn: MsSqlDsn) -> None:
    connection = server.connect()
    try:
        connection.execute(f"DROP DATABASE [{dsn.database}]")
    finally:
        connection.close()


@pytest.fixture
def empty_database(tsql_server: Any) -> Iterator[MsSqlDsn]:
    dsn = fresh_database(tsql_server)
    yield dsn
    drop_database(tsql_server, dsn)


@pytest.fixture
def fresh_ledger(empty_database: MsSqlDsn) -> LiveLedger:
    return open_ledger(empty_database)


@pytest.fixture(scope="session")
def ledger(tsql_server: Any) -> LiveLedger:
    return open_ledger(fresh_database(tsql_server))
