"""The lock table behind sp_getapplock and the keys of tables: modes, owners, waiting, time-outs, deadlocks."""

from __future__ import annotations

import threading
import time
from itertools import product

import pytest
from tsqldev.session import locktable
from tsqldev.session.applocks import Resource
from tsqldev.session.locktable import LockTable, Owner

R = Resource(1, "public", "r")


def never() -> bool:
    return False


def owner(spid: int, transaction: int = 1) -> Owner:
    return Owner(spid, transaction * 100 + spid)


# SQL Server's documented matrix for the modes of sp_getapplock: held, wanted -> granted at once.
COMPATIBLE = {
    ("IS", "IS"), ("IS", "S"), ("IS", "U"), ("IS", "IX"),
    ("S", "IS"), ("S", "S"), ("S", "U"),
    ("U", "IS"), ("U", "S"),
    ("IX", "IS"), ("IX", "IX"),
}  # fmt: skip


@pytest.mark.parametrize(("held", "wanted"), list(product(["IS", "S", "U", "IX", "X"], repeat=2)))
def test_modes_are_compatible_as_documented(held: str, wanted: str) -> None:
    table = LockTable()
    assert table.acquire(R, owner(51), held, 0, never) == locktable.GRANTED
    expected = locktable.GRANTED if (held, wanted) in COMPATIBLE else locktable.TIMEOUT
    assert table.acquire(R, owner(52), wanted, 0, never) == expected


def test_a_lock_taken_twice_is_released_twice() -> None:
    table = LockTable()
    for _ in range(2):
        table.acquire(R, owner(51), "X", 0, never)
    assert table.release(R, owner(51))
    assert table.mode(R, owner(51)) == "X"
    assert table.release(R, owner(51))
    assert table.mode(R, owner(51)) is None
    assert not table.release(R, owner(51))


def test_session_and_transaction_of_one_session_do_not_block_each_other() -> None:
    table = LockTable()
    assert table.acquire(R, Owner(51, 0), "X", 0, never) == locktable.GRANTED
    assert table.acquire(R, Owner(51, 7), "X", 0, never) == locktable.GRANTED
    table.release_owner(Owner(51, 7))
    assert table.mode(R, Owner(51, 0)) == "X"


def test_a_stronger_mode_replaces_the_weaker_one() -> None:
    table = LockTable()
    table.acquire(R, owner(51), "S", 0, never)
    table.acquire(R, owner(51), "X", 0, never)
    assert table.mode(R, owner(51)) == "X"
    assert table.acquire(R, owner(52), "IS", 0, never) == locktable.TIMEOUT


def test_waiting_ends_with_the_release_or_the_time_out() -> None:
    table = LockTable()
    table.acquire(R, owner(51), "X", 0, never)
    started = time.monotonic()
    assert table.acquire(R, owner(52), "X", 100, never) == locktable.TIMEOUT
    assert time.monotonic() - started >= 0.1
    results: list[int] = []
    waiter = threading.Thread(target=lambda: results.append(table.acquire(R, owner(52), "X", 5000, never)))
    waiter.start()
    while not any(lock.status == "WAIT" for lock in table.locks()):
        time.sleep(0.005)
    table.release_owner(owner(51))
    waiter.join(5)
    assert results == [locktable.GRANTED_AFTER_WAIT]


def test_a_waiter_is_not_overtaken() -> None:
    """A shared request after a waiting exclusive one waits too: the exclusive one would starve otherwise."""
    table = LockTable()
    table.acquire(R, owner(51), "S", 0, never)
    waiter = threading.Thread(target=lambda: table.acquire(R, owner(52), "X", 5000, never))
    waiter.start()
    while not any(lock.status == "WAIT" for lock in table.locks()):
        time.sleep(0.005)
    assert table.acquire(R, owner(53), "S", 0, never) == locktable.TIMEOUT
    table.release_owner(owner(51))
    waiter.join(5)
    assert table.mode(R, owner(52)) == "X"


def test_a_cycle_is_a_deadlock_for_the_one_who_closes_it() -> None:
    table = LockTable()
    other = Resource(1, "public", "other")
    table.acquire(R, owner(51), "X", 0, never)
    table.acquire(other, owner(52), "X", 0, never)
    waiter = threading.Thread(target=lambda: table.acquire(other, owner(51), "X", 5000, never))
    waiter.start()
    while not any(lock.status == "WAIT" for lock in table.locks()):
        time.sleep(0.005)
    assert table.acquire(R, owner(52), "X", 5000, never) == locktable.DEADLOCK
    table.release_session(52)
    waiter.join(5)
    assert table.mode(other, owner(51)) == "X"


def test_a_cancelled_wait_says_so() -> None:
    table = LockTable()
    table.acquire(R, owner(51), "X", 0, never)
    cancelled = threading.Event()
    results: list[int] = []
    waiter = threading.Thread(target=lambda: results.append(table.acquire(R, owner(52), "X", -1, cancelled.is_set)))
    waiter.start()
    while not any(lock.status == "WAIT" for lock in table.locks()):
        time.sleep(0.005)
    cancelled.set()
    table.wake()
    waiter.join(5)
    assert results == [locktable.CANCELLED]
    assert all(lock.status == "GRANT" for lock in table.locks())


def test_sixty_four_exclusive_requests_are_served_one_after_the_other() -> None:
    table = LockTable()
    inside = 0
    most = 0
    guard = threading.Lock()

    def work(spid: int) -> None:
        nonlocal inside, most
        assert table.acquire(R, owner(spid), "X", 30000, never) >= 0
        with guard:
            inside += 1
            most = max(most, inside)
        time.sleep(0.001)
        with guard:
            inside -= 1
        table.release_owner(owner(spid))

    threads = [threading.Thread(target=work, args=(spid,)) for spid in range(51, 115)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert most == 1
    assert table.locks() == []


def waiting(table: LockTable) -> None:
    """Until somebody waits."""
    end = time.monotonic() + 10
    while not any(lock.status == "WAIT" for lock in table.locks()):
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_request_that_keeps_nothing_waits_and_holds_up_nobody() -> None:
    table = LockTable()
    table.acquire(R, owner(51), "IX", 0, never)
    results: list[int] = []
    reader = threading.Thread(target=lambda: results.append(table.acquire(R, owner(52), "S", 5000, never, keep=False)))
    reader.start()
    waiting(table)
    assert table.acquire(R, owner(53), "IX", 0, never) == locktable.GRANTED
    table.release_owner(owner(53))
    table.release_owner(owner(51))
    reader.join(5)
    assert results == [locktable.GRANTED_AFTER_WAIT]
    assert table.locks() == []


def test_many_are_taken_at_once_or_none() -> None:
    table = LockTable()
    keys = [Resource(1, "public", str(number)) for number in range(5)]
    table.acquire(keys[3], owner(51), "S", 0, never)
    assert table.hold(keys, owner(52), "IX") == keys[3]
    assert [lock.owner for lock in table.locks()] == [owner(51)]
    table.release_owner(owner(51))
    for _ in range(2):
        assert table.hold(keys, owner(52), "IX") is None
    assert len(table.locks()) == 5
    assert table.others(keys[0], 53) == {"IX"}
    assert table.others(keys[0], 52) == set()
    table.release_owner(owner(52))
    assert table.locks() == []


def test_a_circle_may_go_through_another_kind_of_wait() -> None:
    """Session 51 waits for 52 elsewhere; 52 then waits for 51 here."""
    table = LockTable(lambda: {51: {52}})
    table.acquire(R, owner(51), "X", 0, never)
    started = time.monotonic()
    assert table.acquire(R, owner(52), "S", -1, never) == locktable.DEADLOCK
    assert time.monotonic() - started < 10


def test_a_second_mode_of_one_owner_may_close_a_circle() -> None:
    """Two hold it shared, and both want it exclusively."""
    table = LockTable()
    for spid in (51, 52):
        table.acquire(R, owner(spid), "S", 0, never)
    first = threading.Thread(target=lambda: table.acquire(R, owner(51), "X", 5000, never))
    first.start()
    waiting(table)
    assert table.acquire(R, owner(52), "X", 5000, never) == locktable.DEADLOCK
    table.release_owner(owner(52))
    first.join(5)
    assert table.mode(R, owner(51)) == "X"
