from __future__ import annotations

from collections.abc import Iterator

import pytest
from tsqldev.pytest_plugin import TsqlServer
from tsqldev.wire import TdsServer

from .double import PASSWORD, Double


@pytest.fixture
def engine() -> Double:
    return Double()


@pytest.fixture
def wire(engine: Double) -> Iterator[TsqlServer]:
    """A listener on the double: what it answers is about TDS only."""
    with TdsServer(engine) as server:
        yield TsqlServer(server.host, server.port, PASSWORD)
