"""A PostgreSQL with a bootstrapped catalog, shared by the tests of this room; each test runs in a transaction."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tsqldev.catalog import bootstrap
from tsqldev.pgserver import PostgresProcess

from .support import SA_PASSWORD, Session


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresProcess]:
    folder: Path = tmp_path_factory.mktemp("catalog")
    with PostgresProcess(folder) as process:
        with psycopg.connect(process.conninfo()) as connection:
            bootstrap(connection, SA_PASSWORD)
        yield process


@pytest.fixture
def session(postgres: PostgresProcess) -> Iterator[Session]:
    """sa, in a database `Control` of its own; everything is rolled back."""
    with psycopg.connect(postgres.conninfo()) as connection:
        session = Session(connection)
        session.run("CREATE DATABASE Control")
        session.use("Control")
        yield session
        connection.rollback()


@pytest.fixture
def writer(session: Session) -> Session:
    """A login `writer` with a user in Control, in role `writers`; the session is still sa's."""
    session.run("CREATE LOGIN writer WITH PASSWORD = N'Abcdefg1!'")
    session.run("CREATE USER writer FOR LOGIN writer")
    session.run("CREATE ROLE writers AUTHORIZATION dbo")
    session.run("ALTER ROLE writers ADD MEMBER writer")
    return session
