"""PostgreSQL values reach a SQL Server column exactly, or are refused by column and reason."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_dpone.contracts.errors import ConfigurationError, ValueRefused
from airflow_provider_dpone.routes.postgres_values import MAX, TargetColumn, conversion


def column(kind: str, **members: Any) -> TargetColumn:
    values: dict[str, Any] = {"length": 0, "precision": 0, "scale": 0, "nullable": False, "identity": False}
    values |= {"computed": False, "code_page": 1252, **members}
    return TargetColumn(name="c", type=kind, **values)


@pytest.mark.parametrize(
    ("source", "target", "value", "stored"),
    [
        ("int8", column("int"), 2**31 - 1, 2**31 - 1),
        ("int2", column("decimal", precision=5, scale=2), 999, Decimal("999.00")),
        ("numeric", column("decimal", precision=5, scale=2), Decimal("1.50"), Decimal("1.50")),
        ("numeric", column("decimal", precision=5, scale=2), Decimal("1.5000"), Decimal("1.50")),
        ("text", column("varchar", length=3), "abc", "abc"),
        ("text", column("nvarchar", length=2), "\U0001f600", "\U0001f600"),
        ("text", column("varchar", length=MAX), "x" * 9000, "x" * 9000),
        ("bytea", column("varbinary", length=2), memoryview(b"ab"), b"ab"),
        ("bool", column("bit"), True, True),
        (
            "timestamp",
            column("datetime2", scale=3),
            datetime.datetime(2024, 4, 14, 21, 25, 42, 74000),
            datetime.datetime(2024, 4, 14, 21, 25, 42, 74000),
        ),
    ],
)
def test_an_exact_value_is_carried(source: str, target: TargetColumn, value: object, stored: object) -> None:
    result = conversion(source, target)(value)

    assert result == stored
    assert type(result) is type(stored)


@pytest.mark.parametrize(
    ("source", "target", "value", "reason"),
    [
        ("int8", column("int"), 2**31, "out_of_range"),
        ("int2", column("tinyint"), -1, "out_of_range"),
        ("numeric", column("decimal", precision=5, scale=2), Decimal("1.239"), "scale"),
        ("numeric", column("decimal", precision=5, scale=2), Decimal("1234.5"), "precision"),
        ("numeric", column("decimal", precision=5, scale=2), Decimal("NaN"), "not_finite"),
        ("numeric", column("decimal", precision=38, scale=0), Decimal("1e40"), "precision"),
        ("float8", column("float"), float("inf"), "not_finite"),
        ("text", column("varchar", length=3), "abcd", "too_long"),
        ("text", column("nvarchar", length=1), "\U0001f600", "too_long"),
        ("text", column("varchar", length=3), "表", "not_in_code_page"),
        ("text", column("nchar", length=3), "ab", "would_be_padded"),
        ("bytea", column("varbinary", length=1), b"ab", "too_long"),
        ("timestamp", column("datetime2", scale=3), datetime.datetime(2024, 1, 1, 0, 0, 0, 1), "fraction"),
        ("int4", column("int"), None, "null_into_not_null"),
    ],
)
def test_a_value_that_would_change_is_refused(source: str, target: TargetColumn, value: object, reason: str) -> None:
    with pytest.raises(ValueRefused) as refused:
        conversion(source, target)(value)

    assert (refused.value.column, refused.value.reason) == ("c", reason)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("float8", column("decimal", precision=5, scale=2)),
        ("float8", column("real")),
        ("timestamp", column("datetime")),
        ("timestamptz", column("datetime2", scale=7)),
        ("json", column("nvarchar", length=MAX)),
        ("int4", column("int", computed=True)),
        ("int4", column("int", identity=True)),
    ],
)
def test_types_that_do_not_fit_are_refused_before_any_row(source: str, target: TargetColumn) -> None:
    with pytest.raises(ConfigurationError, match="column_types"):
        conversion(source, target)
