"""Row multisets of typed values: equal only if every row occurs equally often with the same types and values.

A value's text carries its type, so 1, '1' and 1.0 differ; decimals keep their scale; a timestamp keeps its digits.
"""

from __future__ import annotations

import datetime
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

Multiset = Counter[str]


@dataclass(frozen=True, slots=True)
class Comparison:
    """`missing` rows stand in the source only, `extra` rows in the target only; both count repetitions."""

    source_rows: int
    target_rows: int
    missing: int
    extra: int
    sample: str

    @property
    def equal(self) -> bool:
        return self.missing == 0 and self.extra == 0


def multiset(rows: Iterable[Sequence[object]]) -> Multiset:
    """Count each row by its typed text."""
    return Counter("\x1f".join(map(canonical, row)) for row in rows)


def compare(source: Multiset, target: Multiset) -> Comparison:
    """What has vanished and what has come, with one row of it as a sample."""
    missing, extra = source - target, target - source
    sample = next(iter(extra or missing), "")
    return Comparison(source.total(), target.total(), missing.total(), extra.total(), sample.replace("\x1f", ", "))


def canonical(value: object) -> str:
    """The typed text of one value. A type that no column of the demo has is an error, not a guess."""
    match value:
        case None:
            return "null"
        case bool():
            return f"bit:{int(value)}"
        case int():
            return f"int:{value}"
        case Decimal():
            return f"dec:{value:f}"
        case uuid.UUID():
            return f"guid:{value}"
        case datetime.datetime():
            return f"time:{value.isoformat(timespec='microseconds')}"
        case datetime.date():
            return f"date:{value.isoformat()}"
        case str():
            # Text may hold what stands between the values of a row.
            return "text:" + value.replace("\\", r"\\").replace("\x1f", r"\x1f")
    raise TypeError(f"no canonical form for {type(value).__name__}")
