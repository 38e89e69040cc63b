"""Walking every state of a model to its end.

A model is the steps that may follow a state under a set of rules, and the promises that hold in every state. The walk
is breadth first, so the first broken promise has the shortest path.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

S = TypeVar("S", bound=Hashable)

#: What is done, the state after it, and the promise that doing it breaks, if any.
Step = tuple[str, S, str | None]


class Explored(NamedTuple):
    """How many states there are, and the shortest counterexample: what broke, and the steps to it."""

    states: int
    broken: str | None
    path: tuple[str, ...]


@dataclass(frozen=True)
class Model(Generic[S]):
    """``guards`` names each rule of the protocol, and what it forbids."""

    guards: Mapping[str, str]
    start: S
    steps: Callable[[S, frozenset[str]], Iterator[Step[S]]]
    #: The promise that a state breaks.
    broken: Callable[[S], str | None]
    #: Whether an operator can bring everything to its end from here, whoever else never moves again.
    can_be_ended: Callable[[S, frozenset[str]], bool]

    def explore(self, without: str | None = None) -> Explored:
        """Every state, under all rules or all but one."""
        assert without is None or without in self.guards
        rules = frozenset(self.guards) - {without}
        came_from: dict[S, tuple[S, str] | None] = {self.start: None}
        queue = deque([self.start])
        while queue:
            state = queue.popleft()
            for label, after, broken in self.steps(state, rules):
                if after not in came_from:
                    came_from[after] = (state, label)
                    queue.append(after)
                    broken = broken or self.broken(after)
                    if broken is None and not self.can_be_ended(after, rules):
                        broken = "something that nobody can end"
                if broken is not None:
                    return Explored(len(came_from), broken, (*_path(came_from, state), label))
        return Explored(len(came_from), None, ())


def _path(came_from: dict[S, tuple[S, str] | None], state: S) -> tuple[str, ...]:
    labels: list[str] = []
    step = came_from[state]
    while step is not None:
        labels.append(step[1])
        step = came_from[step[0]]
    return tuple(reversed(labels))
