"""Fixtures: ``clickhouse_server`` (one server a test session) and ``clickhouse_endpoint`` (where it answers)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpone_embedded.clickhouse.server import ClickHouseServer, Endpoint


@pytest.fixture(scope="session")
def clickhouse_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseServer]:
    server = ClickHouseServer(tmp_path_factory.mktemp("clickhouse"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def clickhouse_endpoint(clickhouse_server: ClickHouseServer) -> Endpoint:
    return clickhouse_server.endpoint()
