from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tsqldev.pytest_plugin import TsqlServer
from tsqldev.wire import TdsServer

sys.path.insert(0, str(Path(__file__).parent))
from double import PASSWORD, Double


@pytest.fixture
def engine() -> Double:
    return Double()


@pytest.fixture
def wire(engine: Double) -> Iterator[TsqlServer]:
    """A listener on the double: what it answers is about TDS only."""
    with TdsServer(engine) as server:
        yield TsqlServer(server.host, server.port, PASSWORD)
