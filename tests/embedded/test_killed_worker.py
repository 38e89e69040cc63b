"""A task that is killed with SIGKILL on its last try, in real Airflow on the whole stack.

Nothing of Airflow runs after such a death: no on_kill, no callback, no closing task of a composite operator. The retry
must settle the first dead try; the maintenance DAG must settle the last one, by Airflow's own word that it is over; and
the tables that only waited for the data must get their turn.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from dpone_demo import loading, provisioning
from dpone_demo.campaign import SOURCE
from dpone_embedded import Stack

from airflow_provider_dpone.campaign.airflow_api import AirflowApi
from airflow_provider_dpone.campaign.loaded_dags import wait_for_dags
from airflow_provider_dpone.composition import release
from airflow_provider_dpone.composition.factory import build_composition_activation
from airflow_provider_dpone.ledger import AttemptStore, GateReceiptStore
from tests.support.gate_receipts import receipt

RUN = "killed"
DAG = "flights_reference"

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    settings = {"dpone": {"release_root": str(tmp_path / "dpone")}}
    stack = Stack(tmp_path, airflow_settings=settings)
    stack.start()
    yield stack
    stack.stop()


def eventually(condition: Callable[[], bool], what: str, seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.2)


def kill_running_tasks(stack: Stack) -> int:
    """SIGKILL to each process that executes a task now; its supervisor, an executor worker, lives on."""
    killed = 0
    for process in psutil.Process(stack.status()["pid"]).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # others come and go meanwhile
            if "LocalExecutor" in " ".join(process.cmdline()):
                for task in process.children():
                    task.kill()
                    killed += 1
    return killed


def test_a_kill_on_the_last_try_is_swept_and_nothing_looks_green(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "dpone"
    services = provisioning.provision(stack, root)
    # The killed DAG reads PostgreSQL only, and 336,776 flights in SQL Server take longer than everything else here.
    monkeypatch.setattr(loading, "load_sql_server", lambda connection: {})
    provisioning.load(stack)
    server = GateReceiptStore(services.control, services.ledger).standing().server
    provisioning.record_receipt(stack, services, receipt(server))
    built = release.build(SOURCE, tmp_path / "release")
    build_composition_activation(root, services).activate(tmp_path / "release")
    airflow = stack.addresses.airflow
    assert airflow is not None
    api = AirflowApi(airflow.url, airflow.user, airflow.password)
    for connection_id, fields in provisioning.airflow_connections(stack).items():
        api.put_connection(connection_id, fields)
    wait_for_dags(api, {DAG: built.release_id, "dpone_maintenance": None})
    ledger = AttemptStore(services.control, services.ledger)

    def tries() -> list[tuple[int, str]]:
        return [(each.coordinates.try_number, each.state) for each in ledger.find(DAG, RUN, "load", 0)]

    def instance() -> Any:
        return next(each for each in api.task_instances(DAG, RUN) if each["map_index"] == 0)

    api.trigger(DAG, RUN, {})
    for number in (1, 2):
        log = stack.state.logs / "tasks" / f"dag_id={DAG}" / f"run_id={RUN}" / "task_id=load" / "map_index=0"
        file = log / f"attempt={number}.log"
        eventually(lambda file=file: file.exists() and "issued mssql login" in file.read_text(), f"try {number} works")  # type: ignore[misc]  # bound now
        assert kill_running_tasks(stack) >= 1
    eventually(lambda: instance()["state"] == "failed", "Airflow gives the task up")

    assert tries() == [(1, "FAILED"), (2, "RUNNING")], "the retry settled try 1; nobody has settled try 2"
    api.trigger("dpone_maintenance", RUN, {})
    assert api.wait_for_run("dpone_maintenance", RUN, timeout=240) == "success"
    assert tries() == [(1, "FAILED"), (2, "FAILED")]

    assert api.wait_for_run(DAG, RUN, timeout=300) == "failed"
    states = {each["map_index"]: each["state"] for each in api.task_instances(DAG, RUN)}
    assert states == {0: "failed", **dict.fromkeys((1, 2, 3), "success")}, "the tables that only waited get their turn"
    assert ledger.unresolved() == ()
