"""The content check: order does not matter; any changed, moved, lost or doubled value does."""

from __future__ import annotations

import random
from decimal import Decimal

import pyarrow as pa
import pytest

from airflow_provider_dpone.routes.content import Content
from airflow_provider_dpone.routes.types import Carrier, Kind

Row = tuple[object, ...]


def carriers() -> tuple[Carrier, ...]:
    kinds: tuple[tuple[str, Kind], ...] = (
        ("n", "integer"), ("d", "decimal"), ("f", "float"), ("s", "bytes"), ("g", "text_lower"), ("t", "ticks")
    )  # fmt: skip
    return tuple(
        Carrier(name=name, read="plain", back="plain", kind=kind, nullable=True, prepare=lambda array: array)
        for name, kind in kinds
    )


TYPES = (pa.int32(), pa.decimal128(10, 2), pa.float64(), pa.string(), pa.string(), pa.int64())
ROWS: list[Row] = [
    (1, Decimal("1.10"), 1.5, "a", "6F9619FF-8B86-D011-B42D-00C04FC964FF", 5),
    (2, Decimal("-1.10"), -0.0, "", None, -1),
    (None, None, None, None, None, None),
    (2, Decimal("99999999.99"), 1e300, "ä", "6f9619ff-8b86-d011-b42d-00c04fc964fe", 0),
]


def content(rows: list[Row], split: int = 1000) -> dict[str, object]:
    found = Content(carriers())
    for start in range(0, len(rows), split):
        part = rows[start : start + split]
        found.add([pa.array([row[i] for row in part], kind) for i, kind in enumerate(TYPES)])
    return dict(found.document())


def test_order_and_batching_do_not_matter() -> None:
    shuffled = random.Random(7).sample(ROWS, len(ROWS))
    assert content(ROWS) == content(shuffled) == content(ROWS, split=1)


@pytest.mark.parametrize("index", range(6))
def test_one_changed_value_in_any_column_is_found(index: int) -> None:
    changed = {0: 9, 1: Decimal("1.11"), 2: 1.25, 3: "b", 4: "6F9619FF-8B86-D011-B42D-00C04FC964FE", 5: 6}
    first = list(ROWS[0])
    first[index] = changed[index]
    assert content([tuple(first), *ROWS[1:]]) != content(ROWS)


def test_values_that_change_places_between_rows_are_found() -> None:
    left, right = ROWS[0], ROWS[3]
    moved = [(left[0], *right[1:]), ROWS[1], ROWS[2], (right[0], *left[1:])]
    assert content(moved) != content(ROWS)


def test_values_that_change_places_between_columns_are_found() -> None:
    assert content([(1, None, None, "x", "y", None)]) != content([(1, None, None, "y", "x", None)])


def test_a_lost_and_a_doubled_row_are_found() -> None:
    assert content(ROWS[:-1]) != content(ROWS)
    assert content([ROWS[0], ROWS[0], *ROWS[2:]]) != content(ROWS)


def test_null_is_not_zero_and_not_the_empty_text() -> None:
    nothing: Row = (None, None, None, None, None, None)
    zero: Row = (0, Decimal("0.00"), 0.0, "", "", 0)
    for index in range(6):
        row = list(nothing)
        row[index] = zero[index]
        assert content([tuple(row)]) != content([nothing])


def test_the_case_of_a_guid_does_not_matter_and_the_case_of_text_does() -> None:
    upper: Row = (1, None, None, "A", "ABCD", None)
    assert content([upper]) == content([(1, None, None, "A", "abcd", None)])
    assert content([upper]) != content([(1, None, None, "a", "ABCD", None)])


def test_no_rows_is_a_content_too() -> None:
    assert content([])["rows"] == 0
