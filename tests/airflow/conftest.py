"""Airflow without a database: a folder of its own, and a metadata address that would fail if anything used it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

# Before anything imports Airflow: it writes its configuration into AIRFLOW_HOME at import.
os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="dpone-airflow-")
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ["AIRFLOW__CORE__UNIT_TEST_MODE"] = "False"

import pytest

if TYPE_CHECKING:
    from tests.support.flights import Flights
    from tests.support.task_processes import TaskProcesses

DAGS = Path(__file__).resolve().parents[2] / "dags_examples"


@pytest.fixture(scope="session")
def flights() -> Iterator[Flights]:
    """Three engines with the demo's composition in force."""
    from tests.support import flights as of

    with of.deployed() as deployed:
        yield deployed


@pytest.fixture(scope="session")
def tasks(flights: Flights, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TaskProcesses]:
    """Real task processes of the demo's DAGs, whose connections Airflow's server serves."""
    from tests.support.execution_api import ExecutionApi
    from tests.support.task_processes import TaskProcesses

    api = ExecutionApi(flights.connections())
    started = TaskProcesses(
        tmp_path_factory.mktemp("airflow") / "tasks",
        api,
        dags=DAGS,
        settings={"AIRFLOW__DPONE__RELEASE_ROOT": str(flights.root)},
    )
    yield started
    started.close()
    api.close()
