"""One comparison of the reconciliation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison and its result, for the report."""

    name: str
    passed: bool
    detail: str


def unless(problems: Sequence[str], *, name: str, good: str) -> Check:
    """Passed where no problem was found; `good` is what is said then."""
    return Check(name, not problems, "; ".join(problems) or good)
