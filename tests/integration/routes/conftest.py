"""A PostgreSQL source for the tests of the routes that write SQL Server."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql
from tsqldev.pgserver import PostgresProcess

from airflow_provider_dpone.drivers import Secret
from airflow_provider_dpone.drivers.postgres import PostgresDsn
from tests.support.live_gate import LiveGate
from tests.support.live_routes import LiveTransfer

#: Names and a password with everything that some quoting forgets.
SOURCE_DATABASE = "flüge ]'\";%--"
READER = "re'ad\"er ]%"
READER_PASSWORD = "p}{;'\"&*%$\\ =ß"


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresProcess]:
    with PostgresProcess(tmp_path_factory.mktemp("source"), settings={"fsync": "off"}, tcp=True) as server:
        with psycopg.connect(server.conninfo(), autocommit=True) as connection:
            role, database = sql.Identifier(READER), sql.Identifier(SOURCE_DATABASE)
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(role, sql.Literal(READER_PASSWORD)))
            connection.execute(sql.SQL("CREATE DATABASE {}").format(database))
        with psycopg.connect(server.conninfo(SOURCE_DATABASE), autocommit=True) as connection:
            connection.execute(sql.SQL("ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO {}").format(role))
        yield server


@pytest.fixture
def transfer(live: LiveGate, postgres: PostgresProcess) -> LiveTransfer:
    assert postgres.port is not None
    return LiveTransfer(
        gate=live,
        source=PostgresDsn(
            host="127.0.0.1",
            port=postgres.port,
            database=SOURCE_DATABASE,
            user=READER,
            password=Secret(READER_PASSWORD),
        ),
        owner=postgres.conninfo(SOURCE_DATABASE),
    )
