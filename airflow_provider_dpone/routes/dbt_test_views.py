"""The views of dbt's tests: there while a test runs, and left for ever by a dbt that was killed meanwhile.

A digest of the SQL and a random number end their names, so they cannot be declared beforehand and are nobody's target.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from airflow_provider_dpone.drivers import quote_mssql

#: What dbt-sqlserver calls the view of a test, and the second one of a unit test for what it expects.
_TEST_VIEW = re.compile(r"(?:testview|expectedview)_[0-9a-f]{32}_[0-9]+", re.IGNORECASE)


def is_test_view(name: str) -> bool:
    """Whether dbt-sqlserver may give this name to the view of a test, anywhere in the database."""
    return _TEST_VIEW.fullmatch(name.rstrip(" ")) is not None


def left_behind(database: str, found: Sequence[tuple[str, str]]) -> str | None:
    """What to say of the views of tests among the relations of a database that no dbt of ours is writing to now.

    They are named and not dropped: a person may be running the tests of a project there by hand.
    """
    views = [quote_mssql(database, schema, name) for schema, name in found if is_test_view(name)]
    if not views:
        return None
    return (
        f"{len(views)} views of tests that a killed dbt left, which nothing reads or writes any more: {', '.join(views)}."
        " Drop them when nobody runs dbt there by hand."
    )
