"""Airflow's own ways to go wrong, with its own supervisor and task processes: signals, marks, clears, twins, zombies.

The tasks are those of the demo's DAGs, the engines are real, and each test compares three things with what was written
down beforehand: the ledger, the rows of the target, and what is left of the writers.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner

from airflow_provider_dpone.cli.main import cli
from tests.support import blows
from tests.support.blows import BLOWS, PHASES, Cell
from tests.support.flights import Flights, run_id
from tests.support.task_processes import TaskProcesses

REFERENCE, LOAD, AIRLINES = "flights_reference", "load", 0
PUBLISH, DELAYS = "flights_publish", "publish_daily_delays"
OLD = [("ZZ", "old")]

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def configuration(flights: Flights, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return flights.write_configuration(tmp_path_factory.mktemp("dponectl"))


@pytest.fixture
def airlines(flights: Flights) -> Any:
    """The target of the load, with one old row; answers what it holds."""
    flights.as_dba("DELETE FROM [raw].[airlines]; INSERT INTO [raw].[airlines] VALUES ('ZZ', N'old');")
    return lambda: sorted(flights.as_dba("SELECT [carrier], [name] FROM [raw].[airlines];"))


@pytest.fixture
def new_rows(flights: Flights) -> list[tuple[Any, ...]]:
    return sorted(flights.in_postgres("SELECT carrier, name FROM public.airlines"))


@pytest.fixture(autouse=True)
def nothing_unknown(tasks: TaskProcesses) -> Any:
    """Every question of a task was one that the stand-in for Airflow's server understands."""
    yield
    assert tasks.api.unknown == []


def sweep(configuration: Path, dag_id: str, run: str) -> None:
    """The command of docs/ledger.md for what no retry will settle."""
    arguments = ["attempts", "sweep", "--dag-id", dag_id, "--run-id", run, "--tries-are-over", "the test ended them"]
    said = CliRunner().invoke(cli, ["--config", str(configuration), *arguments])
    assert said.exit_code == 0, said.output


def require_nothing_left(flights: Flights, run: str) -> None:
    for operation in flights.attempts.find(REFERENCE, run, LOAD, AIRLINES):
        assert operation.settled
        assert flights.writers_left(operation) == []
    sql = "SELECT [name] FROM sys.tables WHERE [name] LIKE 'airlines[_][_]dpone%';"
    assert flights.as_dba(sql) == [], "the last try that succeeded drops what others staged"


def strike(flights: Flights, tasks: TaskProcesses, configuration: Path, airlines: Any, new: Any, cell: Cell) -> None:
    run = run_id()
    task = tasks.start(REFERENCE, LOAD, run, map_index=AIRLINES, wait_at=PHASES[cell.phase][0])
    process = task.reached()

    BLOWS[cell.blow].strike(task, process)
    if BLOWS[cell.blow].ends:
        psutil.wait_procs([process], timeout=30)
    else:
        time.sleep(0.05)  # the signal is delivered before the step goes on
        task.go()
        psutil.wait_procs([process], timeout=60)
    assert not process.is_running(), task.words()
    assert task.ended() == cell.told, task.words()

    def of_run() -> list[tuple[int, str]]:
        return flights.tries(REFERENCE, run, LOAD, AIRLINES)

    assert of_run() == [(1, cell.left)], task.words()
    effect = new if cell.verdict == "SUCCEEDED" else OLD
    assert airlines() == effect
    if cell.then == "sweep":
        sweep(configuration, REFERENCE, run)
        assert of_run() == [(1, cell.verdict)]
        assert airlines() == effect
    else:
        said, second = tasks.run(REFERENCE, LOAD, run, map_index=AIRLINES, try_number=2)
        assert said == "success", second.words()
        assert of_run() == [(1, cell.verdict), (2, "SUCCEEDED")]
        assert airlines() == new
        require_nothing_left(flights, run)
    (first, *_) = flights.attempts.find(REFERENCE, run, LOAD, AIRLINES)
    assert flights.writers_left(first) == []


@pytest.mark.parametrize("cell", blows.DAILY, ids=str)
def test_a_blow_in_a_phase_ends_as_written_down(
    flights: Flights, tasks: TaskProcesses, configuration: Path, airlines: Any, new_rows: Any, cell: Cell
) -> None:
    strike(flights, tasks, configuration, airlines, new_rows, cell)


@pytest.mark.campaign
@pytest.mark.parametrize("cell", blows.EVERY, ids=str)
def test_every_blow_in_every_phase_ends_as_written_down(
    flights: Flights, tasks: TaskProcesses, configuration: Path, airlines: Any, new_rows: Any, cell: Cell
) -> None:
    strike(flights, tasks, configuration, airlines, new_rows, cell)


def test_eleven_starts_of_one_try_are_one_attempt(
    flights: Flights, tasks: TaskProcesses, airlines: Any, new_rows: Any
) -> None:
    """All have looked and found nothing, and ask to be admitted at once."""
    run = run_id()
    twins = [tasks.start(REFERENCE, LOAD, run, map_index=AIRLINES, wait_at="admitting") for _ in range(11)]
    for twin in twins:
        twin.reached()
    for twin in twins:
        twin.go()
    told = [twin.ended() for twin in twins]

    assert sorted(told) == ["failed"] * 10 + ["success"]
    for twin, state in zip(twins, told, strict=True):
        words = twin.log.read_text()
        assert ("DPONE_ATTEMPT_DUPLICATE" in words) == (state == "failed"), twin.words()
        assert ("issued mssql login" in words) == (state == "success")
    assert flights.tries(REFERENCE, run, LOAD, AIRLINES) == [(1, "SUCCEEDED")]
    assert airlines() == new_rows
    require_nothing_left(flights, run)


@pytest.mark.parametrize(
    ("step", "first"),
    [
        ("admitting", None),
        ("admit_once/acknowledged", "FAILED"),
        ("target_commit/before", "FAILED"),
        pytest.param("copying", "FAILED", marks=pytest.mark.campaign),
    ],
)
def test_a_zombie_that_wakes_after_its_successor_changes_nothing(
    flights: Flights, tasks: TaskProcesses, airlines: Any, new_rows: Any, step: str, first: str | None
) -> None:
    run = run_id()
    zombie = tasks.start(REFERENCE, LOAD, run, map_index=AIRLINES, wait_at=step)
    zombie.reached()
    zombie.freeze()
    said, successor = tasks.run(REFERENCE, LOAD, run, map_index=AIRLINES, try_number=2)
    assert said == "success", successor.words()
    expected = [(2, "SUCCEEDED")] if first is None else [(1, first), (2, "SUCCEEDED")]
    assert flights.tries(REFERENCE, run, LOAD, AIRLINES) == expected
    assert airlines() == new_rows
    flights.as_dba("UPDATE [raw].[airlines] SET [name] = N'later' WHERE [carrier] = 'UA';")
    later = airlines()

    zombie.go()
    zombie.thaw()

    assert zombie.ended() == "failed", zombie.words()
    assert flights.tries(REFERENCE, run, LOAD, AIRLINES) == expected
    assert airlines() == later
    require_nothing_left(flights, run)


def publication(flights: Flights) -> tuple[str, int]:
    """The identity of the published table, and its number of rows."""
    ((found,),) = flights.in_clickhouse("SELECT toString(uuid) FROM system.tables WHERE name = 'daily_delays'")
    ((rows,),) = flights.in_clickhouse("SELECT count() FROM flights.daily_delays")
    return str(found), int(rows)


def test_a_zombie_that_wakes_before_its_exchange_publishes_nothing(flights: Flights, tasks: TaskProcesses) -> None:
    run, work = run_id(), f"{DELAYS}.work"
    zombie = tasks.start(PUBLISH, work, run, wait_at="exchange/before")
    zombie.reached()
    zombie.freeze()
    said, successor = tasks.run(PUBLISH, work, run, try_number=2)
    assert said == "success", successor.words()
    said, finalized = tasks.run(PUBLISH, f"{DELAYS}.finalize", run)
    assert said == "success", finalized.words()
    published = publication(flights)
    assert published[1] == 20

    zombie.go()
    zombie.thaw()

    zombie.ended()
    assert publication(flights) == published
    assert flights.tries(PUBLISH, run, work) == [(1, "FAILED"), (2, "SUCCEEDED")]
    for operation in flights.attempts.find(PUBLISH, run, work, -1):
        assert flights.writers_left(operation) == []


def test_callbacks_that_run_three_times_at_once_settle_once(flights: Flights, tasks: TaskProcesses) -> None:
    """Close, prove and finalize, three of each, at the same moment, after the work was killed."""
    run, work = run_id(), f"{DELAYS}.work"
    before = publication(flights)
    killed = tasks.start(PUBLISH, work, run, wait_at="exchange/before")
    killed.reached().kill()
    assert killed.ended() == "failed"
    names = ("close_gate", "prove_quiescence", "finalize")
    started = {name: [tasks.start(PUBLISH, f"{DELAYS}.{name}", run) for _ in range(3)] for name in names}
    told = {name: [each.ended() for each in found] for name, found in started.items()}

    assert told["close_gate"] == ["success"] * 3, started["close_gate"][0].words()
    assert set(told["prove_quiescence"]) <= {"success", "deferred"}, started["prove_quiescence"][0].words()
    assert told["finalize"] == ["failed"] * 3, "a killed work is never green"
    operation = flights.operation(PUBLISH, run, work)
    assert operation.state == "FAILED"
    assert sorted(proof.kind for proof in operation.proofs) == ["CLOSED_GATES", "OUTCOME", "QUIESCENCE"]
    assert publication(flights) == before
    assert flights.writers_left(operation) == []


@pytest.mark.parametrize("dag", [REFERENCE, PUBLISH])
def test_work_whose_success_airflow_does_not_take_is_not_failed(
    flights: Flights, tasks: TaskProcesses, airlines: Any, new_rows: Any, dag: str
) -> None:
    """The report of success is answered with 409: the task is killed, failed or cleared for Airflow, and done for us."""
    run = run_id()
    task_id, map_index = (LOAD, AIRLINES) if dag == REFERENCE else (f"{DELAYS}.work", -1)
    task = tasks.start(dag, task_id, run, map_index=map_index, wait_at="admit_once/acknowledged")
    task.reached()
    tasks.api.conflicts[task.instance_id].success = True
    task.go()

    assert task.ended() == "running", "it took no end of it"
    asked = [
        json.loads(body)
        for method, path, body in tasks.api.instances[task.instance_id].asked
        if path.endswith("/state")
    ]
    assert any(each["state"] == "success" for each in asked), asked
    if dag == PUBLISH:
        assert flights.tries(dag, run, task_id, map_index) == [(1, "RUNNING")]
        said, finalized = tasks.run(PUBLISH, f"{DELAYS}.finalize", run)
        assert said == "success", finalized.words()
    else:
        assert airlines() == new_rows
    assert flights.tries(dag, run, task_id, map_index) == [(1, "SUCCEEDED")]
    assert flights.writers_left(flights.operation(dag, run, task_id, map_index)) == []


@pytest.mark.campaign
def test_a_worker_that_stands_still_with_the_ledgers_lock_is_ended_by_the_sweep(
    flights: Flights, tasks: TaskProcesses, configuration: Path, airlines: Any, new_rows: Any
) -> None:
    """Paused in the middle of its admission: the next try waits in vain, and what was begun is undone."""
    run = run_id()
    zombie = tasks.start(REFERENCE, LOAD, run, map_index=AIRLINES, wait_at="admit_once/before")
    zombie.reached()
    zombie.freeze()
    said, waited = tasks.run(REFERENCE, LOAD, run, map_index=AIRLINES, try_number=2)
    assert said == "failed" and "control_lock" in waited.words()
    sweep(configuration, REFERENCE, run)
    said, successor = tasks.run(REFERENCE, LOAD, run, map_index=AIRLINES, try_number=3)
    assert said == "success", successor.words()

    zombie.go()
    zombie.thaw()

    assert zombie.ended() == "failed", zombie.words()
    assert flights.tries(REFERENCE, run, LOAD, AIRLINES) == [(3, "SUCCEEDED")]
    assert airlines() == new_rows
