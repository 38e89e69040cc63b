"""A whole attempt whose n-th control commit is lost, on the way there or on the way back, for every n."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from airflow_provider_dpone.attempts import GuardedAttempt
from airflow_provider_dpone.contracts.errors import AttemptFailed, ControlUnavailable
from airflow_provider_dpone.drivers import Connect
from airflow_provider_dpone.drivers.mssql import MsSqlDsn, connect_autocommit
from airflow_provider_dpone.gates.mssql import MsSqlLoginGate
from airflow_provider_dpone.ledger import AttemptStore
from tests.support import ledger_records as make
from tests.support.live_gate import LiveGate
from tests.support.lossy_connection import LosingTheCommit
from tests.support.tcp_proxy import Loss, TcpProxy

#: The control commits of one attempt, in order.
COMMITS = (
    "admit",
    "admission-evidence",
    "ready",
    "closing",
    "closed",
    "quiescence",
    "finalize",
)


class LosingOne(LosingTheCommit):
    """Loses the commit with the given number, counted from 0, and no other."""

    def __init__(self, through: Connect, proxy: TcpProxy, loss: Loss, number: int) -> None:
        super().__init__(through, proxy, loss)
        self._before = number

    def commit_is_sent(self) -> None:
        if self._before > 0:
            self._before -= 1
            return
        super().commit_is_sent()


@pytest.fixture
def proxy(live: LiveGate) -> Iterator[TcpProxy]:
    with TcpProxy(live.controller.host, live.controller.port) as running:
        yield running


def attempt_over(live: LiveGate, proxy: TcpProxy, fate: LosingOne, run_id: str) -> GuardedAttempt:
    """The first try, whose every control connection, of all three accounts, has this fate. The target is reached directly."""
    where = make.coordinates(run_id)
    gate = MsSqlLoginGate(
        issuer=fate.over(through(proxy, live.issuer)),
        closer=fate.over(through(proxy, live.closer)),
        controller=live.controller.user,
        settings=live.settings,
    )
    return GuardedAttempt(
        make.attempt(live.activation.request, "w000", live.activation.epochs_of("w000"), where),
        where,
        route=live.route(),
        gates={"mssql": gate},
        ledger=AttemptStore(fate, live.settings),
        quiescence_seconds=30.0,
    )


def through(proxy: TcpProxy, dsn: MsSqlDsn) -> Connect:
    at_proxy = replace(dsn, host="127.0.0.1", port=proxy.port)
    return lambda: connect_autocommit(at_proxy)


def losing(live: LiveGate, proxy: TcpProxy, loss: Loss, name: str) -> LosingOne:
    return LosingOne(through(proxy, live.controller), proxy, loss, COMMITS.index(name))


@pytest.mark.parametrize("name", COMMITS)
def test_a_lost_reply_changes_nothing_about_the_attempt(live: LiveGate, proxy: TcpProxy, name: str) -> None:
    fate = losing(live, proxy, "reply", name)
    operation = attempt_over(live, proxy, fate, live.run_id()).run().operation
    assert fate.lost == 1
    assert operation.state == "SUCCEEDED"
    assert live.effects(operation) == 1
    assert live.logins(operation.principals[0].name) == [(operation.principals[0].sid, True)]


@pytest.mark.parametrize("name", COMMITS)
def test_a_commit_that_never_arrived_is_settled_by_the_next_try(live: LiveGate, proxy: TcpProxy, name: str) -> None:
    run_id = live.run_id()
    fate = losing(live, proxy, "request", name)
    try:
        assert attempt_over(live, proxy, fate, run_id).run().operation.state == "SUCCEEDED"
    except (ControlUnavailable, AttemptFailed) as err:
        assert "control_commit_lost" in f"{err} {err.__cause__}"
    assert fate.lost == 1
    assert live.attempt(run_id, 2).run().operation.state == "SUCCEEDED"
    found = live.attempts.find("dag", run_id, "load", -1)
    assert [operation.coordinates.try_number for operation in found] == ([2] if name == "admit" else [1, 2])
    for operation in found:
        assert operation.state == ("SUCCEEDED" if live.effects(operation) else "FAILED")
        assert live.sessions(operation.principals[0].sid) == 0
