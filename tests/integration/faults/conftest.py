"""One ground for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from dpone_embedded.clickhouse.pytest_plugin import clickhouse_server
from dpone_embedded.clickhouse.server import ClickHouseServer

from tests.faults.ground import Ground
from tests.support.live_ledger import control_dsn
from tests.support.live_postgres import LivePostgres

__all__ = ["clickhouse_server"]


@pytest.fixture(scope="module")
def ground(
    tsql_server: Any,
    postgres: LivePostgres,
    clickhouse_server: ClickHouseServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Ground]:
    dba = control_dsn(tsql_server.host, tsql_server.port, tsql_server.sa, tsql_server.sa_password, "master")
    made = Ground(tmp_path_factory.mktemp("ground"), dba, postgres, clickhouse_server)
    yield made
    made.close()
