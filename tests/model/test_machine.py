"""Hypothesis drives the real attempt code, over the in-memory engines, against the promises of the protocol."""

from __future__ import annotations

import contextlib

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from airflow_provider_dpone.attempts import GuardedAttempt, Settlement, sweep
from airflow_provider_dpone.contracts.errors import ControlUnavailable, GuardError
from airflow_provider_dpone.contracts.operation import Operation
from tests.support import ledger_records as records
from tests.unit.attempts.doubles import MemoryRoute
from tests.unit.attempts.test_faults import EPOCHS, PARENT, Killed, Points, Traced, World, raising

TASKS = ("load", "other")


class Life(RuleBasedStateMachine):
    """Tries of two task instances on the same data, faults anywhere, sweeps and reconciliations in any order."""

    @initialize()
    def begin(self) -> None:
        self.world = World()
        self.route = MemoryRoute(self.world.gate)
        self.route.target = self.world.target

    def attempt(self, task_id: str, try_number: int, points: Points) -> GuardedAttempt:
        where = records.coordinates(task_id=task_id, try_number=try_number)
        return GuardedAttempt(
            records.attempt(PARENT, "w000", EPOCHS, where),
            where,
            route=Traced(self.route, "route", points),
            gates={"clickhouse": Traced(self.world.gate, "gate", points)},
            ledger=Traced(self.world.ledger, "ledger", points),
            quiescence_seconds=0.0,
        )

    def settlement(self, operation: Operation) -> Settlement:
        return Settlement(operation, route=self.route, gates={"clickhouse": self.world.gate}, ledger=self.world.ledger)

    @rule(
        task_id=st.sampled_from(TASKS),
        try_number=st.integers(1, 5),
        at=st.integers(0, 60),
        fault=st.sampled_from(["none", "error", "death"]),
    )
    def deliver(self, task_id: str, try_number: int, at: int, fault: str) -> None:
        """Airflow starts a try, any try, maybe again; something may happen at one of its points."""
        act = {"none": lambda: None, "error": raising(ControlUnavailable("lost")), "death": raising(Killed())}[fault]
        with contextlib.suppress(GuardError, Killed):
            result = self.attempt(task_id, try_number, Points(at, act)).run()
            assert result.operation.state == "SUCCEEDED"
            assert result.operation.attempt_sha256 in self.world.target

    @rule()
    def sweep(self) -> None:
        """Every process of this machine has ended when a rule ends, so every try is over."""
        sweep(self.world.ledger, is_over=lambda _: True, settlement_of=self.settlement)

    @rule(seen=st.booleans())
    def observe(self, seen: bool) -> None:
        """Targets can be read, or cannot."""
        self.route.observable = seen

    @rule(looks=st.integers(0, 2))
    def linger(self, looks: int) -> None:
        """Closed writers need a while to be gone."""
        self.world.gate.busy_looks = looks

    @rule()
    def reconcile(self) -> None:
        for operation in self.world.ledger.unresolved():
            if operation.state == "COMMIT_UNKNOWN":
                with contextlib.suppress(GuardError):
                    self.settlement(operation).reconcile()

    @invariant()
    def settled_operations_are_true_and_closed(self) -> None:
        world = self.world
        for operation in world.ledger.operations.values():
            if operation.settled:
                assert (operation.state == "SUCCEEDED") == (operation.attempt_sha256 in world.target)
                assert all(world.gate.state[p.principal_id] == "closed" for p in operation.principals)

    @invariant()
    def one_unresolved_operation_at_most(self) -> None:
        assert len(self.world.ledger.unresolved()) <= 1

    @invariant()
    def tries_were_admitted_in_order(self) -> None:
        for task_id in TASKS:
            admitted = [
                o.coordinates.try_number
                for o in self.world.ledger.operations.values()
                if o.coordinates.task_id == task_id
            ]
            assert admitted == sorted(set(admitted))

    def teardown(self) -> None:
        """Whatever was left, an operator gets everything settled."""
        if not hasattr(self, "world"):
            return
        self.route.observable, self.world.gate.busy_looks = True, 0
        self.sweep()
        self.reconcile()
        assert self.world.ledger.unresolved() == ()
        self.settled_operations_are_true_and_closed()


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=150, stateful_step_count=15, deadline=None)
