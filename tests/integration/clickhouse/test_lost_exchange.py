"""The EXCHANGE of a whole attempt is lost, on its way or on its way back: the UUIDs alone tell what happened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_dpone.attempts import Settlement
from airflow_provider_dpone.contracts.errors import AttemptFailed
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.drivers.clickhouse import ClickHouseDsn
from airflow_provider_dpone.routes import snapshot
from tests.integration.clickhouse.stage import Stage, where
from tests.support.tcp_proxy import Ending, Fate, TcpProxy

NEEDLE = "EXCHANGE TABLES"
#: How much of the message arrives (-1: all but its last byte), and how the connection ends then.
LOSSES: list[tuple[int, Ending]] = [(0, "reset"), (17, "cut"), (-1, "close")]


def through(stage: Stage, fate: Fate) -> TcpProxy:
    return TcpProxy(stage.world.endpoint.host, stage.world.endpoint.port, fate)


def by(stage: Stage, proxy: TcpProxy) -> ClickHouseDsn:
    """The way of the attempt's own users; the gate and the observer reach the server directly."""
    return replace(stage.world.access, host="127.0.0.1", port=proxy.port)


@pytest.fixture
def run_id(stage: Stage) -> str:
    return f"manual__{stage.world.database}"


def tries(stage: Stage, run_id: str) -> list[Operation]:
    return list(stage.ledger.attempts.find("dag", run_id, "publish.work", -1))


def retried(stage: Stage, run_id: str) -> None:
    """A second try, over a connection that works, ends as if nothing had been."""
    assert stage.attempt(where(run_id, 2)).run().operation.state == "SUCCEEDED"
    assert stage.target_rows() == stage.source_rows()
    for operation in tries(stage, run_id):
        for principal in operation.principals:
            assert stage.world.gate.prove_quiescent(operation, principal)


@pytest.mark.parametrize(("passing", "ending"), LOSSES)
def test_an_exchange_whose_reply_is_lost_is_succeeded_by_its_uuids(
    stage: Stage, run_id: str, passing: int, ending: Ending
) -> None:
    with through(stage, Fate(loss="reply", passing=passing, ending=ending, needle=NEEDLE)) as proxy:
        result = stage.attempt(where(run_id), access=by(stage, proxy)).run()
    assert proxy.met == 1, "an EXCHANGE is sent once"
    assert result.operation.state == "SUCCEEDED"
    assert stage.target_rows() == stage.source_rows()
    retried(stage, run_id)


@pytest.mark.parametrize(("passing", "ending"), LOSSES)
def test_an_exchange_that_never_arrived_whole_is_failed_without_an_effect(
    stage: Stage, run_id: str, passing: int, ending: Ending
) -> None:
    with through(stage, Fate(loss="request", passing=passing, ending=ending, needle=NEEDLE)) as proxy:
        with pytest.raises(AttemptFailed):
            stage.attempt(where(run_id), access=by(stage, proxy)).run()
        assert proxy.met == 1, "an EXCHANGE is sent once"
        assert [operation.state for operation in tries(stage, run_id)] == ["FAILED"]
        assert stage.target_rows() == []
        proxy.deliver()
        retried(stage, run_id)


@pytest.fixture(params=["before the publisher is closed", "before the UUIDs are read"])
def delivered(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[TcpProxy]]:
    """The proxy that is put into the list delivers what it held back at a moment that matters."""
    proxies: list[TcpProxy] = []
    early = request.param == "before the publisher is closed"
    owner, name = (snapshot, "exchange") if early else (Settlement, "_resolved")
    original = getattr(owner, name)

    def delivering(*arguments: Any) -> Any:
        if not early:
            proxies[0].deliver()
        result = original(*arguments)
        proxies[0].deliver()
        return result

    monkeypatch.setattr(owner, name, delivering)
    yield proxies


def test_an_exchange_that_arrives_late_decides_the_verdict_or_is_refused(
    stage: Stage, run_id: str, delivered: list[TcpProxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    with through(stage, Fate(loss="request", passing=-1, ending="cut", needle=NEEDLE)) as proxy:
        delivered.append(proxy)
        try:
            state = stage.attempt(where(run_id), access=by(stage, proxy)).run().operation.state
        except AttemptFailed:
            state = "FAILED"
    assert [operation.state for operation in tries(stage, run_id)] == [state]
    assert stage.target_rows() == (stage.source_rows() if state == "SUCCEEDED" else [])
    monkeypatch.undo()
    retried(stage, run_id)
