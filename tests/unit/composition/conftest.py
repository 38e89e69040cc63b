"""The example composition, built once: parsing a dbt project takes seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_dpone.composition import release

FLIGHTS = Path(__file__).resolve().parents[3] / "examples" / "flights"


@pytest.fixture(scope="session")
def flights_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Read only."""
    folder = tmp_path_factory.mktemp("releases") / "flights é 1"
    release.build(FLIGHTS, folder)
    return folder
