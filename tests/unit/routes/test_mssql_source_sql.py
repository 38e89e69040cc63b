"""The statements that read the source are T-SQL to Microsoft's own parser."""

from __future__ import annotations

import pytest

from airflow_provider_dpone.drivers import load_sql
from tests.support.tsql_parser import parse_error

SQL = load_sql("airflow_provider_dpone.routes", "sql/mssql_source.sql")
FRAGMENTS = ("plain", "bit", "money", "days", "ticks", "datetime_ticks", "guid", "time_text", "offset_text")


@pytest.mark.parametrize("fragment", FRAGMENTS)
def test_every_form_of_a_column_parses(fragment: str) -> None:
    column = SQL.text(fragment, column="[a column]").strip()
    assert parse_error(SQL.text("rows", columns=f"{column} AS [a column]", table="[marts].[t]")) is None


def test_the_other_statements_parse() -> None:
    counted = SQL.text("column_bytes", column="[c]").strip()
    assert parse_error(SQL.text("measure", bytes=f"{counted} + {counted}", table="[marts].[t]")) is None
    for name in ("snapshot_allowed", "begin_snapshot"):
        assert parse_error(SQL.text(name)) is None
    assert parse_error(SQL.text("columns").replace("?", "N'[marts].[t]'")) is None
