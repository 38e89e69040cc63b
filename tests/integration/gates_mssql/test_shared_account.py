"""A small installation whose one account admits, issues and closes: said in the grants, and the protocol is the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import live_gate
from tests.support.live_gate import LiveGate
from tests.support.live_ledger import control_dsn


@pytest.fixture(scope="module")
def shared(tsql_server: Any) -> Iterator[LiveGate]:
    server = tsql_server
    dba = control_dsn(server.host, server.port, server.sa, server.sa_password, "master")
    live = live_gate.provision(dba, one_account=True)
    yield live
    live_gate.deprovision(live)


def test_one_account_runs_a_whole_life(shared: LiveGate) -> None:
    assert len({shared.controller.user, shared.issuer.user, shared.closer.user}) == 1
    operation = shared.attempt(shared.run_id()).run().operation
    assert operation.state == "SUCCEEDED"
    assert shared.logins(operation.principals[0].name) == [(operation.principals[0].sid, True)]


def test_one_account_settles_what_was_never_issued(shared: LiveGate) -> None:
    operation = shared.attempt(shared.run_id()).admit()
    assert shared.settlement(operation).settle().state == "FAILED"
