"""Every trigger point of an attempt, crossed with everything that can happen there.

An attempt is run in one call, which stores its proofs with its end, or in steps, as the tasks of a group do, each of
which stores its own. A trigger point stands before and after each call to the ledger, the gate and the target. At each one, in turn, the
process gets an error, dies, is doubled, or hangs while the next try overtakes it and wakes up later. Whatever happens,
every operation ends as what is true, nothing writes after its end, and the next try reaches its goal.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_dpone.attempts import GuardedAttempt, require_succeeded
from airflow_provider_dpone.contracts.errors import ControlUnavailable, Duplicate, GuardError
from airflow_provider_dpone.contracts.operation import Operation
from tests.support import ledger_records as records
from tests.unit.attempts.doubles import MemoryGate, MemoryLedger, MemoryRoute

PARENT = records.request([records.domain("target", "clickhouse"), records.domain("other")])
EPOCHS = tuple((resource.guard_id, 1) for resource in PARENT.resources if resource.connector == "clickhouse")


class Killed(BaseException):
    """SIGKILL: nothing of the process runs any more."""


class Points:
    """Counts trigger points and acts at one of them."""

    def __init__(self, act_at: int | None = None, act: Callable[[], None] = lambda: None) -> None:
        self.names: list[str] = []
        self._act_at = act_at
        self._act = act
        self._dead = False

    def reach(self, name: str) -> None:
        if self._dead:
            raise Killed
        self.names.append(name)
        if len(self.names) - 1 == self._act_at:
            try:
                self._act()
            except Killed:
                self._dead = True
                raise


class Traced:
    """Passes every call through, with a trigger point before and after it."""

    def __init__(self, inner: Any, name: str, points: Points) -> None:
        self._inner, self._name, self._points = inner, name, points

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(self._inner, attribute)
        if not callable(value) or attribute == "new_principal":
            return value

        def traced(*args: Any, **kwargs: Any) -> Any:
            self._points.reach(f"before {self._name}.{attribute}")
            answer = value(*args, **kwargs)
            self._points.reach(f"after {self._name}.{attribute}")
            return answer

        return traced


class World:
    """A ledger, a gate and a target that outlive every process."""

    def __init__(self) -> None:
        self.ledger, self.gate = MemoryLedger(), MemoryGate()
        self.target: set[str] = set()

    def attempt(self, try_number: int, points: Points | None = None) -> GuardedAttempt:
        points = points or Points()
        route = MemoryRoute(self.gate)
        route.target = self.target
        where = records.coordinates(try_number=try_number)
        return GuardedAttempt(
            records.attempt(PARENT, "w000", EPOCHS, where),
            where,
            route=Traced(route, "route", points),
            gates={"clickhouse": Traced(self.gate, "gate", points)},
            ledger=Traced(self.ledger, "ledger", points),
            quiescence_seconds=2.0,
        )

    def check(self) -> None:
        """Every settled operation is what the target shows, and none of its principals is open."""
        for operation in self.ledger.operations.values():
            effect = operation.attempt_sha256 in self.target
            assert operation.state == ("SUCCEEDED" if effect else "FAILED")
            assert all(self.gate.state[p.principal_id] == "closed" for p in operation.principals)

    def recover(self) -> None:
        """The next try settles and works; it must always get there."""
        assert self.attempt(2).run().operation.state == "SUCCEEDED"
        self.check()


def at_once(attempt: GuardedAttempt) -> Operation:
    return attempt.run().operation


def in_steps(attempt: GuardedAttempt) -> Operation:
    settlement = attempt.resume(attempt.admit_and_work().operation)
    settlement.close()
    settlement.prove_quiescence()
    settlement.resolve_outcome()
    return require_succeeded(settlement.finalize())


Way = Callable[[GuardedAttempt], Operation]


def point_names(way: Way) -> list[str]:
    points = Points()
    way(World().attempt(1, points))
    return points.names


NAMES = {way: point_names(way) for way in (at_once, in_steps)}
POINTS = [
    pytest.param(way, number, id=f"{way.__name__}-{number:02}-{name.replace(' ', '-')}")
    for way, names in NAMES.items()
    for number, name in enumerate(names)
]
at_any_point = pytest.mark.parametrize(("way", "number"), POINTS)


@pytest.fixture
def world() -> World:
    return World()


def test_there_are_enough_trigger_points() -> None:
    assert [len(names) for names in NAMES.values()] == [26, 40]
    for names in NAMES.values():
        assert {"before ledger.admit_once", "after gate.issue", "after route.work", "after ledger.finalize"} <= set(
            names
        )


def raising(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


@at_any_point
def test_an_error_at_any_point(world: World, way: Way, number: int) -> None:
    """An exception, also after the call took effect: a lost acknowledgement."""
    with contextlib.suppress(GuardError):  # the next try has to cope with whatever was left
        assert way(world.attempt(1, Points(number, raising(ControlUnavailable("lost"))))).state == "SUCCEEDED"
    world.recover()


@at_any_point
def test_death_at_any_point(world: World, way: Way, number: int) -> None:
    with pytest.raises(Killed):
        way(world.attempt(1, Points(number, raising(Killed()))))
    world.recover()


@at_any_point
def test_a_second_delivery_at_any_point(world: World, way: Way, number: int) -> None:
    """The twin is refused wherever its sibling stands, or is the one that works; there is one effect."""
    outcomes: list[str] = []

    def twin() -> None:
        try:
            world.attempt(1).run()
            outcomes.append("worked")
        except Duplicate:
            outcomes.append("duplicate")

    try:
        way(world.attempt(1, Points(number, twin)))
        outcomes.append("worked")
    except Duplicate:
        outcomes.append("duplicate")
    assert sorted(outcomes) == ["duplicate", "worked"]
    assert len(world.target) == 1
    world.check()


@at_any_point
def test_hanging_at_any_point_while_the_next_try_overtakes(world: World, way: Way, number: int) -> None:
    """The old try wakes up after its successor is done; it must not write any more and must not lie."""
    hanging, wake = threading.Event(), threading.Event()

    def hang() -> None:
        hanging.set()
        assert wake.wait(20)

    ended: list[str] = []

    def old_try() -> None:
        try:
            way(world.attempt(1, Points(number, hang)))
            ended.append("succeeded")
        except GuardError as err:
            ended.append(err.code)
        except PermissionError:
            ended.append("its login is closed")  # in steps, the error of the work ends the try

    thread = threading.Thread(target=old_try)
    thread.start()
    assert hanging.wait(20)
    assert world.attempt(2).run().operation.state == "SUCCEEDED"
    before = set(world.target)
    world.check()
    wake.set()
    thread.join(20)
    assert world.target == before, "a try wrote after its successor was done"
    world.check()
    if ended == ["succeeded"]:
        (first,) = [o for o in world.ledger.operations.values() if o.coordinates.try_number == 1]
        assert first.state == "SUCCEEDED"
