"""The protocol keeps its promises in every state; each of its rules is needed."""

from __future__ import annotations

import time

import pytest

from tests.model.protocol import GUARDS, explore


def test_no_state_breaks_a_promise() -> None:
    started = time.perf_counter()
    explored = explore()
    assert explored.broken is None, explored.path
    assert explored.states > 5_000
    # Reported, not asserted tightly: machines differ.
    assert time.perf_counter() - started < 30


@pytest.mark.parametrize("rule", GUARDS)
def test_without_this_rule_a_promise_breaks(rule: str) -> None:
    explored = explore(frozenset(GUARDS) - {rule})
    assert explored.broken is not None, f"{rule} forbids nothing that another rule does not forbid"
    assert explored.path


def test_a_counterexample_is_a_path_that_a_reader_can_follow() -> None:
    explored = explore(frozenset(GUARDS) - {"logging_in"})
    assert explored.broken == "a session after the quiescence proof"
    assert explored.path[0].startswith("Airflow starts")
