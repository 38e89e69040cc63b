"""A PostgreSQL with a bootstrapped catalog, shared by the tests of this room; each test runs in a transaction."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tsqldev.catalog import bootstrap
from tsqldev.pgserver import PostgresProcess

SA_PASSWORD = "S3cret-of-sa"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresProcess]:
    folder: Path = tmp_path_factory.mktemp("catalog")
    with PostgresProcess(folder) as process:
        with psycopg.connect(process.conninfo()) as connection:
            bootstrap(connection, SA_PASSWORD)
        yield process


@pytest.fixture
def connection(server: PostgresProcess) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(server.conninfo()) as connection:
        yield connection
        connection.rollback()
