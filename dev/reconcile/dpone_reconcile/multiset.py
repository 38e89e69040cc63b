"""Row multisets of typed values: equal only if every row occurs equally often with the same types and values.

A value's text carries its type, so 1, '1' and 1.0 differ; decimals keep their scale; a timestamp keeps its digits.
"""

from __future__ import annotations

import datetime
import hashlib
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal


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
            return f"text:{value}"
    raise TypeError(f"no canonical form for {type(value).__name__}")


def compare(source: Iterable[Sequence[object]], target: Iterable[Sequence[object]]) -> Comparison:
    """Compare two row streams. Memory grows with 16 bytes of hash a distinct row, not with the rows themselves."""
    counts: Counter[bytes] = Counter()
    source_rows = target_rows = 0
    for row in source:
        counts[_hash(row)] += 1
        source_rows += 1
    sample = ""
    for row in target:
        key = _hash(row)
        counts[key] -= 1
        target_rows += 1
        if counts[key] < 0 and not sample:
            sample = ", ".join(canonical(value) for value in row)
    missing = sum(count for count in counts.values() if count > 0)
    extra = -sum(count for count in counts.values() if count < 0)
    return Comparison(source_rows, target_rows, missing, extra, sample)


def _hash(row: Sequence[object]) -> bytes:
    text = "\x1f".join(canonical(value) for value in row)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
