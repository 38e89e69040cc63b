"""What the whole life of an attempt costs in round trips, counted on the wire: a limit that no release may pass.

The worker's own session is not counted: the life is everything around the work. docs/performance.md has the table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from airflow_provider_dpone.gates.clickhouse import ClickHouseGate
from tests.integration.clickhouse.conftest import World
from tests.support.live_gate import LiveGate
from tests.support.no_op_attempt import no_op_attempt, through
from tests.support.wire_counter import Http, Tds, WireCounter

#: Issue 4: admit, issue, close, quiescence and finalize, every audit of the catalog included.
LIMIT = 40


@pytest.fixture
def sql_server(live: LiveGate) -> Iterator[WireCounter]:
    with WireCounter(live.controller.host, live.controller.port, Tds) as counter:
        yield counter


def test_an_attempt_on_sql_server_takes_at_most_forty_round_trips(live: LiveGate, sql_server: WireCounter) -> None:
    counted = through(live, sql_server.port)
    attempt = no_op_attempt(counted, target=replace(live.controller, database=live.target))
    assert attempt.run().operation.state == "SUCCEEDED"
    seen = sql_server.take()
    assert seen.round_trips <= LIMIT
    # Nothing but batches and calls: no request of the driver's own, and two sessions at most for a mutation.
    assert set(seen.requests) == {"batch", "call"}
    assert (seen.round_trips, seen.sessions) == (38, 21)


def test_a_second_engine_costs_sql_server_no_round_trip(live: LiveGate, world: World, sql_server: WireCounter) -> None:
    with WireCounter(world.access.host, world.access.port, Http) as clickhouse:
        gate = ClickHouseGate(
            service_id=world.service_id,
            access=replace(world.access, host="127.0.0.1", port=clickhouse.port),
            observer=replace(world.observer, host="127.0.0.1", port=clickhouse.port),
        )
        attempt = no_op_attempt(
            through(live, sql_server.port),
            target=replace(live.controller, database=live.target),
            clickhouse=gate,
            clickhouse_database=world.database,
        )
        assert attempt.run().operation.state == "SUCCEEDED"
        seen, requests = sql_server.take(), clickhouse.take()
    assert seen.round_trips <= LIMIT
    assert (seen.round_trips, seen.sessions) == (38, 21)
    assert set(Counter(requests.requests)) <= {"GET", "POST"}
    assert requests.round_trips <= 40
