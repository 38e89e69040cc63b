"""The witness sees a vanished, a repeated and a changed row, and a changed type."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest
from dpone_reconcile.multiset import canonical, compare, multiset

ROWS = [(1, "a", Decimal("1.50")), (1, "a", Decimal("1.50")), (2, None, Decimal("0.00"))]


def test_order_does_not_matter() -> None:
    assert compare(multiset(ROWS), multiset(list(reversed(ROWS)))).equal


@pytest.mark.parametrize(
    ("target", "missing", "extra"),
    [
        (ROWS[1:], 1, 0),
        ([*ROWS, ROWS[2]], 0, 1),
        ([*ROWS[:2], (2, "", Decimal("0.00"))], 1, 1),
        ([*ROWS[:2], (2, None, Decimal("0.0"))], 1, 1),
        ([*ROWS[:2], ("2", None, Decimal("0.00"))], 1, 1),
    ],
)
def test_a_difference_is_counted(target: list[tuple[object, ...]], missing: int, extra: int) -> None:
    comparison = compare(multiset(ROWS), multiset(target))

    assert (comparison.missing, comparison.extra, comparison.equal) == (missing, extra, False)


def test_a_type_that_the_demo_does_not_have_is_an_error() -> None:
    assert canonical(datetime.datetime(2013, 1, 1)) != canonical(datetime.date(2013, 1, 1))
    with pytest.raises(TypeError):
        canonical(1.5)


def test_text_that_holds_what_stands_between_values_is_another_row() -> None:
    one, other = multiset([("a\x1ftext:b", "c")]), multiset([("a", "b\x1ftext:c")])
    assert not compare(one, other).equal
    assert not compare(multiset([("\x1f",)]), multiset([("\\x1f",)])).equal
