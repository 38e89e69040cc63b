"""Two sessions on a fresh database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tsqldev.pytest_plugin import TsqlServer

from .session_client import Client, Connect


@pytest.fixture
def connect(tsql_server: TsqlServer, tsql_database: str) -> Iterator[Connect]:
    """Open sessions on the test's database; they are closed at the end."""
    opened: list[Client] = []

    def make(**options: Any) -> Client:
        options.setdefault("database", tsql_database)
        client = Client(tsql_server.connect("python-tds", **options))
        opened.append(client)
        return client

    yield make
    for client in opened:
        client.close()


@pytest.fixture
def one(connect: Connect) -> Client:
    return connect()


@pytest.fixture
def two(connect: Connect) -> Client:
    return connect()
