from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tsqldev.compile.compiler import functions_sql
from tsqldev.pgserver import PostgresProcess

from .compile_double import Double, Session


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with PostgresProcess(tmp_path_factory.mktemp("postgres")) as server:
        conninfo = server.conninfo()
        with psycopg.connect(conninfo, autocommit=True) as connection:
            connection.execute("CREATE SCHEMA data")
            connection.execute(functions_sql().encode())
        yield conninfo


@pytest.fixture
def session(postgres: str) -> Iterator[Session]:
    connection: psycopg.Connection[Any]
    with psycopg.connect(postgres) as connection:
        yield Session(connection, Double())
        connection.rollback()
