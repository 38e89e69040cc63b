"""A session that holds the ledger's lock and stands still is ended; one that works, or has just begun, is not."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_dpone.contracts.errors import ConfigurationError, ControlUnavailable
from airflow_provider_dpone.drivers import drain
from airflow_provider_dpone.drivers.mssql import connect_autocommit
from airflow_provider_dpone.gates import control_lock
from airflow_provider_dpone.gates.control_lock import end_silent_holder
from airflow_provider_dpone.ledger import AttemptStore
from tests.support.live_gate import LiveGate, autocommit

HOLD = (
    "BEGIN TRANSACTION; DECLARE @r int; EXEC @r = sys.sp_getapplock @Resource = N'dpone:composition-control:v1', "
    "@LockMode = N'Exclusive', @LockOwner = N'Transaction', @LockTimeout = 5000; SELECT @r;"
)


@contextmanager
def held(live: LiveGate) -> Iterator[Any]:
    """A worker that stands still between two batches."""
    with autocommit(live.controller) as connection:
        assert drain(connection, HOLD) == [[(0,)]]
        yield connection


def end(live: LiveGate, *, patience: int = 0, role: str = "closer") -> Any:
    settings = replace(live.settings, lock_timeout_seconds=patience)
    return end_silent_holder(lambda: connect_autocommit(getattr(live, role)), settings)


def admit(live: LiveGate) -> str:
    """What everybody else wants to do meanwhile."""
    attempt = live.attempt(live.run_id())
    attempt._ledger = AttemptStore(live.control, replace(live.settings, lock_timeout_seconds=1))
    return attempt.admit().state


def test_a_silent_holder_stops_everybody_until_it_is_ended(live: LiveGate) -> None:
    with held(live) as paused:
        with pytest.raises(ControlUnavailable, match="dponectl ledger unlock") as refused:
            admit(live)
        assert refused.value.reason == "control_lock"
        time.sleep(1.1)  # the server counts whole seconds
        ended = end(live)
        assert (ended.login, ended.seconds >= 1) == (live.controller.user, True)
        assert admit(live) == "RUNNING"
        with pytest.raises(Exception, match=r"(?i)connection|communication|session"):
            drain(paused, "COMMIT TRANSACTION;")
    assert end(live) is None


def test_a_holder_that_was_heard_of_a_moment_ago_is_left_alone(live: LiveGate) -> None:
    with held(live) as holder:
        assert end(live, patience=30) is None
        assert drain(holder, "SELECT @@TRANCOUNT;") == [[(1,)]]


def test_a_holder_that_works_is_left_alone_however_long(live: LiveGate) -> None:
    with held(live) as holder:
        working = threading.Thread(target=drain, args=(holder, "WAITFOR DELAY '00:00:03';"))
        working.start()
        time.sleep(1.5)
        assert end(live) is None
        working.join()
        assert drain(holder, "SELECT @@TRANCOUNT;") == [[(1,)]]


def test_an_account_that_cannot_see_or_end_sessions_is_named(live: LiveGate) -> None:
    with held(live), pytest.raises(ConfigurationError, match="role_right_missing"):
        time.sleep(1.1)
        end(live, role="issuer")


@pytest.mark.parametrize(
    "name",
    [
        "dpone:composition-control:v10",
        "dpone:composition-control:v1 ",
        "dpone:composition-control:V1",
        "x dpone:composition-control:v1",
        "dpone:composition-control:v1]:(",
        "dpone:composition-control:v1]:(a",
    ],
)
def test_who_holds_a_lock_of_another_name_is_left_alone(live: LiveGate, name: str) -> None:
    with autocommit(live.controller) as other:
        assert drain(other, HOLD.replace("dpone:composition-control:v1", name)) == [[(0,)]]
        time.sleep(1.1)
        assert end(live) is None
        assert drain(other, "SELECT @@TRANCOUNT;") == [[(1,)]]


def test_who_holds_the_lock_of_another_database_or_for_a_session_is_left_alone(live: LiveGate) -> None:
    elsewhere = replace(live.controller, database=live.target)
    for_itself = HOLD.replace("BEGIN TRANSACTION; ", "").replace("N'Transaction'", "N'Session'")
    for dsn, statement in ((elsewhere, HOLD), (live.controller, for_itself)):
        with autocommit(dsn) as other:
            assert drain(other, statement) == [[(0,)]]
            time.sleep(1.1)
            assert end(live) is None
            assert drain(other, "SELECT 1;") == [[(1,)]]


def test_a_holder_that_wakes_between_the_look_and_its_end_is_left_alone(
    live: LiveGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    with held(live) as paused:
        time.sleep(1.1)

        def woken(session: Any, text: str, *given: object) -> Any:
            if "KILL" in text:
                assert drain(paused, "SELECT @@TRANCOUNT;") == [[(1,)]]
            return drain(session, text, *given)

        with monkeypatch.context() as patched:
            patched.setattr(control_lock, "drain", woken)
            assert end(live) is None
        assert drain(paused, "SELECT @@TRANCOUNT;") == [[(1,)]]


def test_a_session_that_ended_and_left_its_number_to_another_is_not_named_as_ended(
    live: LiveGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    with held(live) as paused:
        time.sleep(1.1)

        def gone(session: Any, text: str, *given: object) -> Any:
            if "KILL" in text:
                paused.close()
            return drain(session, text, *given)

        with monkeypatch.context() as patched:
            patched.setattr(control_lock, "drain", gone)
            assert end(live) is None


def test_two_closers_at_once_end_it_once(live: LiveGate) -> None:
    with held(live):
        time.sleep(1.1)
        with ThreadPoolExecutor(4) as pool:
            ended = [each for each in pool.map(lambda _: end(live), range(4)) if each is not None]
    assert len({each.session_id for each in ended}) == 1
    assert end(live) is None


def test_a_look_that_is_lost_says_so(live: LiveGate) -> None:
    lost = connect_autocommit(live.closer)
    [[(number,)]] = drain(lost, "SELECT CONVERT(int, @@SPID);")
    live.as_dba(f"KILL {number};")
    with pytest.raises(ControlUnavailable, match="control_lock_look"):
        end_silent_holder(lambda: lost, live.settings)
