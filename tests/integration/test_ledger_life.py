"""The state machine over the real ledger, as much of it as a test run can bear; the rest is a campaign."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from airflow_provider_dpone.attempts import GuardedAttempt
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.gates import mssql_closer
from airflow_provider_dpone.gates.mssql_closer import LoginCloser
from airflow_provider_dpone.ledger import admission
from airflow_provider_dpone.routes.interface import Outcome
from tests.machine.life import FATES, Ground, LedgerLife, Route
from tests.machine.process import Fate
from tests.support.live_gate import LiveGate

#: What a run has to have met at least once; otherwise it looked at less than it says.
ENDINGS = {"succeeded", "AttemptFailed", "Killed", "Duplicate", "Overlap", "swept", "retired"}
DEATHS: tuple[Fate, ...] = ("dies before", "dies after")


@pytest.fixture(scope="module")
def ground(deployment: LiveGate) -> Iterator[Ground]:
    ground = Ground(deployment)
    yield ground
    ground.close()


def meet(life: LedgerLife, fate: Fate) -> None:
    """A whole example in which an attempt meets this fate with its login's first commit."""
    life.begin()
    life.deliver("load", 1, 3)
    process = life.living(0)
    process.line.fate = fate
    life.advance(process, None)
    life.promises()
    life.teardown()


# A minute or so on two free cores; a busy machine must not turn that into a broken promise.
@pytest.mark.timeout(1200)
def test_whatever_happens_the_ledger_keeps_its_promises(ground: Ground) -> None:
    class Life(LedgerLife):
        pass

    Life.ground = ground
    run_state_machine_as_test(
        Life,
        settings=settings(
            max_examples=50,
            stateful_step_count=30,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert ground.examples >= 50
    assert ENDINGS - set(ground.happened) == set()
    for fate in {*FATES, *DEATHS} - set(ground.happened):
        meet(Life(), fate)
    assert {*FATES, *DEATHS} <= set(ground.happened)
    ground.audit()


def no_overlap_check(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(admission, "_require_no_overlap", lambda blockers: None)


def a_twin_is_closed(patch: pytest.MonkeyPatch) -> None:
    def settle(attempt: GuardedAttempt) -> tuple[Operation, ...]:
        found = attempt._ledger.find(*attempt.coordinates.instance)
        return tuple(attempt.resume(operation).settle() for operation in found)

    patch.setattr(GuardedAttempt, "settle_predecessors", settle)


def no_order_of_tries(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(admission, "_require_first_of_its_try", lambda attempt, coordinates, tries: None)
    patch.setattr(GuardedAttempt, "settle_predecessors", lambda attempt: ())


def no_look_for_sessions(patch: pytest.MonkeyPatch) -> None:
    look = LoginCloser._look
    patch.setattr(mssql_closer, "_ROLLBACK_SECONDS", 0.0)
    patch.setattr(LoginCloser, "_end", lambda *given: None)
    patch.setattr(LoginCloser, "_look", lambda *given: replace(look(*given), ours=[], present=[]))


def the_outcome_is_guessed(patch: pytest.MonkeyPatch) -> None:
    guess = Outcome(state="FAILED", evidence={"schema": "test.outcome.v1", "guessed": True})
    patch.setattr(Route, "outcome", lambda route, ctx: guess)


#: What is taken away, the deliveries that show it (task, try, calls; None: to its end), and the promise that breaks.
SABOTAGE = {
    "overlap": (no_overlap_check, [("load", 1, 5), ("other", 1, None)], "refused_"),
    "twin": (a_twin_is_closed, [("load", 1, 6), ("load", 1, None)], "try 1 of load closes try 1 of load"),
    "order": (no_order_of_tries, [("load", 2, None), ("load", 1, None)], "refused_coordinates_late_try"),
    "sessions": (no_look_for_sessions, [("load", 1, 6), ("load", 2, 6)], "proven quiescent, and"),
    "outcome": (the_outcome_is_guessed, [("load", 1, None)], "FAILED with 1 effects"),
}


@pytest.mark.parametrize("name", SABOTAGE)
def test_a_product_without_one_of_its_rules_is_found_out(
    ground: Ground, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Life(LedgerLife):
        pass

    Life.ground = ground
    sabotage, deliveries, promise = SABOTAGE[name]
    life = Life()
    life.begin()
    with monkeypatch.context() as patch:
        sabotage(patch)
        with pytest.raises(AssertionError, match=promise):
            for task_id, try_number, calls in deliveries:
                life.deliver(task_id, try_number, calls)
                life.promises()
    life.settle()
