"""One deployment for the tests of a file: a server has one LOGON trigger, and files share a server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import live_gate
from tests.support.live_gate import LiveGate
from tests.support.live_ledger import control_dsn


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
