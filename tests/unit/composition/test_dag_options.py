"""How DAGs run, as composition.yaml says it: what cannot be made is refused before there is a release."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_dpone.composition import release
from airflow_provider_dpone.contracts.errors import ConfigurationError
from tests.support.compositions import COMPOSITION, NATIVE, write_source


@pytest.mark.parametrize(
    ("options", "said"),
    [
        # `d` has a table for SQL Server and one for ClickHouse: no operator does both.
        ("{mapped: load, steps: one_task}", "dag_mapped"),
        ("{mapped: load}", "steps: one_task"),
        ("{mapped: 'a b', steps: one_task}", "mapped"),
        ("{retry_delay_seconds: -1}", "retry_delay_seconds"),
        ("{retry_delay_seconds: 86401}", "retry_delay_seconds"),
        ("{overlap_poll_seconds: 0}", "overlap_poll_seconds"),
        ("{retry_delay_seconds: true}", "retry_delay_seconds"),
        ("{retries: '2'}", "retries"),
    ],
)
def test_what_no_dag_can_be_made_of_is_refused(tmp_path: Path, options: str, said: str) -> None:
    source = write_source(tmp_path / "source", composition=f"{COMPOSITION}dags: {{d: {options}}}\n")
    with pytest.raises(ConfigurationError, match=said):
        release.build(source, tmp_path / "release")
    assert not (tmp_path / "release").exists()


@pytest.mark.parametrize("limit", ["true", "'1000000'", "0", "1.0e+6"])
def test_a_byte_budget_is_a_positive_whole_number(tmp_path: Path, limit: str) -> None:
    native = NATIVE.replace("1000000", limit)
    assert native != NATIVE
    source = write_source(tmp_path / "source", native=native)
    with pytest.raises(ConfigurationError, match="max_source_bytes"):
        release.build(source, tmp_path / "release")
