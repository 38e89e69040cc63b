"""One deployment for the tests of a file (a server has one LOGON trigger); each test leaves it without an unresolved operation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_dpone.drivers import Secret
from airflow_provider_dpone.drivers.mssql import MsSqlDsn
from tests.support import live_gate
from tests.support.live_gate import LiveGate


@pytest.fixture(scope="module")
def deployment(tsql_server: Any) -> Iterator[LiveGate]:
    dba = MsSqlDsn(
        host=tsql_server.host,
        port=tsql_server.port,
        database="master",
        user=tsql_server.sa,
        password=Secret(tsql_server.sa_password),
        trust_server_certificate=True,
    )
    live = live_gate.provision(dba)
    yield live
    live_gate.deprovision(live)


@pytest.fixture
def live(deployment: LiveGate) -> Iterator[LiveGate]:
    yield deployment
    deployment.settle_everything()
