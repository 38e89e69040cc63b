"""The client of a standing account is kept, its connections are not."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_dpone.contracts.errors import ControlUnavailable
from airflow_provider_dpone.drivers.clickhouse import StandingAccount
from tests.integration.clickhouse.conftest import World
from tests.support.tcp_proxy import TcpProxy


def test_a_use_sends_nothing_into_a_connection_of_an_earlier_use(world: World) -> None:
    with TcpProxy(world.endpoint.host, world.endpoint.port) as proxy:
        account = StandingAccount(replace(world.access, host="127.0.0.1", port=proxy.port))
        client = account.client()
        client.command("SELECT 1")
        proxy.lose("request")
        assert account.client() is client
        assert client.query("SELECT currentUser()").result_rows == [(world.access.user,)]
        assert proxy.met == 0

        elsewhere: list[Any] = []
        thread = threading.Thread(target=lambda: elsewhere.append(account.client()))
        thread.start()
        thread.join(30)
        assert elsewhere and elsewhere[0] is not client

    with pytest.raises(ControlUnavailable, match="no answer from 127") as refused:
        account.client()
    assert world.access.password.reveal() not in str(refused.value)
