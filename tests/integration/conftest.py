"""One deployment for the tests of a file: a server has one LOGON trigger, and files share a server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tsqldev.pgserver import PostgresProcess

from tests.support import live_gate, live_postgres
from tests.support.live_gate import LiveGate
from tests.support.live_ledger import control_dsn
from tests.support.live_postgres import LivePostgres


@pytest.fixture(scope="module")
def deployment(tsql_server: Any) -> Iterator[LiveGate]:
    """Ledger, gate and a target on the test server, taken off it again after the file."""
    server = tsql_server
    dba = control_dsn(server.host, server.port, server.sa, server.sa_password, "master")
    deployed = live_gate.provision(dba)
    yield deployed
    live_gate.deprovision(deployed)


@pytest.fixture
def live(deployment: LiveGate) -> Iterator[LiveGate]:
    """The deployment for one test, which leaves it without an unresolved operation."""
    yield deployment
    deployment.settle_everything()


@pytest.fixture(scope="session")
def source_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresProcess]:
    """A PostgreSQL whose log holds every statement, for the tests that read one."""
    settings = {"fsync": "off", "log_statement": "all", "log_connections": "all", "max_prepared_transactions": 2}
    with PostgresProcess(tmp_path_factory.mktemp("source"), settings=settings, tcp=True) as server:
        yield server


@pytest.fixture(scope="session")
def postgres(source_server: PostgresProcess) -> LivePostgres:
    """The same with its standing accounts. Roles and tables of one test have names that no other test has."""
    return live_postgres.provision(source_server)
