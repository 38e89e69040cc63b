"""What is asked of the ledger in one batch, and what its answer means.

A question that stands alone is sent together with the begin and the audit of its transaction. Inside of a transaction
that somebody else began it is one batch of that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")

#: A statement of ``ledger/sql`` with its parameters; several make one batch.
Part = tuple[str, Sequence[Any]]

Results = list[list[tuple[Any, ...]]]


class Transaction(Protocol):
    def run(self, *parts: Part) -> Results:
        """Send the parts as one batch and return their result sets."""


@dataclass(frozen=True, slots=True)
class Question(Generic[T_co]):
    """The parts of one batch, and the function that turns their result sets into an answer or a refusal."""

    parts: tuple[Part, ...]
    answer: Callable[[Results], T_co]

    def __call__(self, transaction: Transaction) -> T_co:
        return self.answer(transaction.run(*self.parts))

    def then(self, judge: Callable[[T_co], U]) -> Question[U]:
        """The same question, whose answer is judged further."""
        return Question(self.parts, lambda results: judge(self.answer(results)))
