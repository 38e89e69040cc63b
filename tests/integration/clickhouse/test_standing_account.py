"""The client of a standing account is kept, its connections are not."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest
from clickhouse_connect.driver.exceptions import ClickHouseError

from airflow_provider_dpone.contracts.errors import ControlUnavailable
from airflow_provider_dpone.drivers.clickhouse import StandingAccount
from tests.integration.clickhouse.conftest import World
from tests.support.tcp_proxy import Fate, TcpProxy


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


def test_a_reply_that_is_cut_is_an_error_wherever_it_is_cut_and_never_an_empty_one(world: World) -> None:
    """Among its headers too: the proof of an absence reads what is not there."""
    question, answers = "SELECT 'sought' FROM numbers(2)", set()
    with TcpProxy(world.endpoint.host, world.endpoint.port) as proxy:
        account = StandingAccount(replace(world.access, host="127.0.0.1", port=proxy.port))
        for passing in range(16, 800, 8):
            client = account.client()
            proxy.arm(Fate(loss="reply", passing=passing, ending="close", needle="sought"))
            try:
                answers.add(str(client.query(question).result_rows))
            except ClickHouseError:
                answers.add("an error")
    assert answers - {str([("sought",)] * 2)} == {"an error"}
