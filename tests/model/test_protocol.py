"""The protocol keeps its promises in every state; each of its rules is needed."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.model.control import CHANGE
from tests.model.exploration import Model
from tests.model.ownership import OWNERSHIP
from tests.model.protocol import ATTEMPTS
from tests.model.publication import PUBLICATION

#: Each model, and how many states it has at least: one that got stuck early would break no promise either.
MODELS: dict[str, tuple[Model[Any], int]] = {
    "attempts": (ATTEMPTS, 12_000),
    "change": (CHANGE, 15),
    "ownership": (OWNERSHIP, 100),
    "publication": (PUBLICATION, 50),
}
RULES = [(name, guard) for name, (model, _) in MODELS.items() for guard in model.guards]


@pytest.mark.parametrize("name", MODELS)
def test_no_state_breaks_a_promise(name: str) -> None:
    model, least = MODELS[name]
    started = time.perf_counter()
    explored = model.explore()
    assert explored.broken is None, explored.path
    assert explored.states >= least
    # Half a second on the machine where it was written; a busy one may take longer, an explosion takes for ever.
    assert time.perf_counter() - started < 30


@pytest.mark.parametrize(("name", "guard"), RULES, ids=[f"{name}-{guard}" for name, guard in RULES])
def test_without_this_rule_a_promise_breaks(name: str, guard: str) -> None:
    explored = MODELS[name][0].explore(without=guard)
    assert explored.broken is not None, f"{guard} forbids nothing that another rule does not forbid"
    assert explored.path


def test_a_counterexample_is_a_path_that_a_reader_can_follow() -> None:
    explored = ATTEMPTS.explore(without="logging_in")
    assert explored.broken == "a session after the quiescence proof"
    assert explored.path[0].startswith("Airflow starts")
