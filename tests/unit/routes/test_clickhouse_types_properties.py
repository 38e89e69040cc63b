"""For any value: it arrives exactly, or it is refused. Nothing in between."""

from __future__ import annotations

from decimal import Decimal
from random import Random

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_dpone.contracts.errors import ValueRefused
from airflow_provider_dpone.routes.content import Content
from airflow_provider_dpone.routes.types import NARROW_DAYS, WIDE_DAYS, SourceColumn, carry

Row = tuple[int | None, str | None]
TICKS = st.integers(-621_355_968_000_000_000, 2_534_023_007_999_999_999)


def column(kind: str, precision: int = 0, scale: int = 0) -> SourceColumn:
    return SourceColumn(name="c", type=kind, length=8, precision=precision, scale=scale, nullable=True)


# The first call in a process imports Arrow: a deadline would measure that.
@settings(deadline=None)
@given(st.lists(st.none() | TICKS, max_size=5), st.integers(0, 7), st.sampled_from([NARROW_DAYS, WIDE_DAYS]))
def test_moments(ticks: list[int | None], scale: int, days: tuple[int, int]) -> None:
    carrier = carry(column("datetime2", scale=0), f"Nullable(DateTime64({scale}, 'UTC'))", days)
    try:
        sent = carrier.prepare(pa.array(ticks, pa.int64()))
    except ValueRefused as refused:
        outside = any(value is not None and not days[0] <= value // 864_000_000_000 <= days[1] for value in ticks)
        finer = any(value is not None and value % 10 ** (7 - scale) for value in ticks)
        assert {"outside_target_range": outside, "finer_than_target": finer}[refused.reason]
    else:
        assert [None if value is None else int(value.scaleb(7)) for value in sent.to_pylist()] == ticks


@settings(deadline=None)
@given(st.lists(st.none() | st.decimals(-(10**9), 10**9, places=2), max_size=5), st.integers(4, 20))
def test_decimals(values: list[Decimal | None], precision: int) -> None:
    carrier = carry(column("decimal", precision=4, scale=2), f"Nullable(Decimal({precision}, 2))")
    try:
        sent = carrier.prepare(pa.array(values, pa.decimal128(38, 2)))
    except ValueRefused:
        assert any(value is not None and abs(value) >= 10 ** (precision - 2) for value in values)
    else:
        assert sent.to_pylist() == values and sent.type == pa.decimal128(precision, 2)


@settings(deadline=None)
@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=5))
def test_integers_of_a_wider_array_are_never_wrapped(values: list[int | None]) -> None:
    carrier = carry(column("tinyint"), "Nullable(Int16)")
    try:
        assert carrier.prepare(pa.array(values, pa.int64())).to_pylist() == values
    except ValueRefused:
        assert any(value is not None and not -32768 <= value <= 32767 for value in values)


@settings(deadline=None)
@given(st.lists(st.tuples(st.none() | TICKS, st.none() | st.text()), max_size=6), st.randoms())
def test_a_content_depends_on_the_rows_and_not_on_their_order(rows: list[Row], random: Random) -> None:
    text = SourceColumn(name="t", type="nvarchar", length=-1, precision=0, scale=0, nullable=True)
    carriers = (carry(column("bigint"), "Nullable(Int64)"), carry(text, "Nullable(String)"))

    def content(some: list[Row]) -> object:
        found = Content(carriers)
        found.add([pa.array([row[0] for row in some], pa.int64()), pa.array([row[1] for row in some], pa.string())])
        return found.document()

    shuffled = list(rows)
    random.shuffle(shuffled)
    assert content(shuffled) == content(rows)
    if rows:
        assert content(rows[1:]) != content(rows)
        assert content([*rows, rows[0]]) != content(rows)
