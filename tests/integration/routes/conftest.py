"""A PostgreSQL source for the tests of the routes that write SQL Server."""

from __future__ import annotations

import pytest

from tests.support.live_gate import LiveGate
from tests.support.live_postgres import LivePostgres
from tests.support.live_routes import LiveTransfer


@pytest.fixture
def transfer(live: LiveGate, postgres: LivePostgres) -> LiveTransfer:
    live.others["postgres"] = postgres.gate()
    return LiveTransfer(gate=live, postgres=postgres)
