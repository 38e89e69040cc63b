"""Passwords that quoting forgets, and every generated credential, are looked for wherever a run leaves something.

One run of the three routes with the connections from Airflow's server, one with them from the environment, and the ways
in which a login fails; everything that can log does so at DEBUG. The search itself is shown to find a secret in each of
these places, in each form.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import resource
import signal
import subprocess
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from dpone_demo import provisioning

from airflow_provider_dpone.contracts.errors import ControlUnavailable
from airflow_provider_dpone.drivers import Secret
from airflow_provider_dpone.drivers import clickhouse as clickhouse_driver
from airflow_provider_dpone.drivers import mssql as mssql_driver
from airflow_provider_dpone.drivers import postgres as postgres_driver
from tests.support import canaries
from tests.support.flights import CLICKHOUSE_ACCOUNTS, HOSTILE, ROLES, Flights, password_of, run_id
from tests.support.task_processes import TaskProcesses

WRONG = "nobody"
PLANTED = f"Pl4{HOSTILE}f3a9c1d7e5b2"
LEAKY = Path(__file__).resolve().parents[1] / "data" / "leaky" / "leaky.py"

pytestmark = pytest.mark.timeout(600)


def as_json(connection: Mapping[str, Any]) -> str:
    return json.dumps({name: value for name, value in connection.items() if name != "conn_id" and value is not None})


def as_uri(connection: Mapping[str, Any]) -> str:
    """As Airflow documents it: each part percent-encoded, the extra as a query."""
    extra = json.loads(connection["extra"] or "{}")
    query = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in extra.items())
    login, password = (quote(connection[name], safe="") for name in ("login", "password"))
    scheme = connection["conn_type"].replace("_", "-")
    schema = quote(connection["schema"] or "", safe="")
    return f"{scheme}://{login}:{password}@{connection['host']}:{connection['port']}/{schema}?{query}"


@dataclass(frozen=True, kw_only=True)
class Left:
    """What a run left: the places, by name, and the secrets that went through it."""

    places: dict[str, bytes]
    standing: list[str]
    generated: list[str]


REFERENCE = ("flights_reference", ("load",), 0)
WAREHOUSE = ("flights_warehouse", ("warehouse.work", "warehouse.finalize"), -1)
PUBLISH = ("flights_publish", ("publish_daily_delays.work", "publish_daily_delays.finalize"), -1)
Run = tuple[str, tuple[str, ...], int]


@pytest.fixture(scope="module")
def left(flights: Flights, tasks: TaskProcesses) -> Left:
    statements_are_logged(flights)
    with canaries.watched_processes(tasks.pid) as processes:
        for each in (REFERENCE, WAREHOUSE, PUBLISH):
            run(tasks, each, {})
        said, leaky = tasks.run(
            "leaky", "say", run_id(), dag_file=str(LEAKY), environment={"PLANTED": PLANTED}, observed=True
        )
        assert said == "success", leaky.words()
    # Who puts passwords into the worker's environment gives them to whatever Airflow and the drivers start: not watched.
    for form in (as_json, as_uri):
        with connections_from_the_environment(flights, tasks, form) as environment:
            run(tasks, REFERENCE, environment)
            if form is as_uri:
                run(tasks, PUBLISH, environment)
    errors = logins_that_fail(flights, tasks)
    crashed = tasks.start("flights_reference", "load", run_id(), map_index=0, wait_at="copying", observed=True)
    crashed.reached().send_signal(signal.SIGABRT)
    assert crashed.ended() == "failed"
    plant(flights, tasks)
    flights.settle_everything()
    return Left(
        places=places(flights, tasks) | processes | errors,
        standing=[password_of(name) for name in (*ROLES, *CLICKHOUSE_ACCOUNTS, WRONG)],
        generated=tasks.secrets.read_text(encoding="utf-8").split(),
    )


def statements_are_logged(flights: Flights) -> None:
    with psycopg.connect(provisioning._conninfo(flights.stack), autocommit=True) as connection:
        for setting in (b"log_statement = 'all'", b"log_connections = 'all'", b"log_min_messages = 'debug1'"):
            connection.execute(b"ALTER SYSTEM SET " + setting)
        connection.execute(b"SELECT pg_reload_conf()")


def run(tasks: TaskProcesses, of: Run, environment: Mapping[str, str]) -> None:
    dag_id, task_ids, map_index = of
    name = run_id()
    for task_id in task_ids:
        how: dict[str, Any] = {"map_index": map_index, "environment": environment, "observed": True}
        said, task = tasks.run(dag_id, task_id, name, **how)
        assert said == "success", task.words()


@contextlib.contextmanager
def connections_from_the_environment(
    flights: Flights, tasks: TaskProcesses, form: Callable[[Mapping[str, Any]], str]
) -> Iterator[dict[str, str]]:
    """AIRFLOW_CONN_*, and a server that knows no connection."""
    served, tasks.api.connections = tasks.api.connections, {}
    try:
        yield {f"AIRFLOW_CONN_{conn_id.upper()}": form(fields) for conn_id, fields in flights.connections().items()}
    finally:
        tasks.api.connections = served


def logins_that_fail(flights: Flights, tasks: TaskProcesses) -> dict[str, bytes]:
    """Each engine refuses a login of a task, and one of this process: its error, with all that caused it."""
    for conn_id, (dag_id, (task_id, *_), map_index) in (
        ("dpone_controller", REFERENCE),
        ("dpone_postgres_issuer", REFERENCE),
        ("dpone_clickhouse_observer", PUBLISH),
    ):
        served = tasks.api.connections
        tasks.api.connections = {**served, conn_id: {**served[conn_id], "password": password_of(WRONG)}}
        said, task = tasks.run(dag_id, task_id, run_id(), map_index=map_index, observed=True)
        tasks.api.connections = served
        assert said == "failed", task.words()
    wrong, services = Secret(password_of(WRONG)), flights.services
    access, _ = services.require_clickhouse()
    issuer, _ = services.require_postgres()
    connects: dict[str, Callable[[], object]] = {
        "SQL Server": lambda: mssql_driver.connect(replace(services.controller, password=wrong)),
        "PostgreSQL": lambda: postgres_driver.connect(replace(issuer, password=wrong)),
        "ClickHouse": lambda: clickhouse_driver.connect(replace(access, password=wrong)),
    }
    errors = {}
    for name, connect in connects.items():
        with pytest.raises(ControlUnavailable) as refused:
            connect()
        errors[f"error of {name}"] = "".join(traceback.format_exception(refused.value)).encode()
    return errors


def places(flights: Flights, tasks: TaskProcesses) -> dict[str, bytes]:
    """What is left on disk and in the servers: the logs of tasks, supervisors, drivers and engines, dbt's artifacts."""
    state = flights.stack.state
    flights.in_clickhouse("SYSTEM FLUSH LOGS")
    query_log = flights.in_clickhouse("SELECT * FROM system.query_log")
    logs = [path for service in ("sqlserver", "clickhouse") for path in state.data(service).rglob("*.log*")]
    return {
        **canaries.files_below(tasks.folder, flights.root, state.logs, flights.traces),
        **{str(path): path.read_bytes() for path in [*logs, state.log("postgres").resolve()] if path.is_file()},
        "what tasks told Airflow": tasks.api.said().encode(),
        "ClickHouse's query_log": "\n".join(str(value) for row in query_log for value in row).encode(),
    }


def plant(flights: Flights, tasks: TaskProcesses) -> None:
    """The positive control: where the leaky task cannot put its secret, it is put on purpose."""
    flights.in_postgres(f"SELECT $planted${PLANTED}$planted$")
    flights.in_clickhouse("SELECT '" + PLANTED.replace("\\", "\\\\").replace("'", "\\'") + "'")
    flights.as_dba("SELECT N'" + PLANTED.replace("'", "''") + "';")
    crash = tasks.folder / "crash"
    crash.mkdir()
    limits = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    crashing = subprocess.Popen(
        ["sleep", "60"],
        cwd=crash,
        env={"PLANTED": PLANTED, "PATH": os.environ["PATH"]},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, limits),
    )
    crashing.send_signal(signal.SIGABRT)
    crashing.wait()
    (artifacts,) = {path.parent for path in tasks.folder.rglob("run_results.json")}
    (artifacts / "planted").write_text(PLANTED, encoding="utf-8")


def test_no_password_and_no_credential_stands_anywhere(left: Left) -> None:
    assert len(left.generated) >= 12, "three routes, three times, generate credentials"
    assert canaries.places_of([*left.standing, *left.generated], left.places) == {}


@pytest.mark.parametrize(
    "place",
    [
        "/logs/task-",
        "/supervisor.log",
        "/driver.log",
        "/operator",
        "/environ",
        "/cmdline",
        "what tasks told Airflow",
        "ClickHouse's query_log",
        ".trace",
        "postgres",
        "/crash/core",
        "/planted",
    ],
)
def test_the_search_finds_what_was_planted(left: Left, place: str) -> None:
    found = canaries.places_of([PLANTED], left.places)
    assert any(place in name for name in found[PLANTED[-canaries.TAIL :]]), sorted(found[PLANTED[-canaries.TAIL :]])


@pytest.mark.parametrize("name", ["dbt.log", "run_results.json", "manifest.json"])
def test_dbts_artifacts_are_among_the_places(left: Left, name: str) -> None:
    assert any(place.endswith(f"/{name}") and content for place, content in left.places.items())


@pytest.mark.parametrize("form", sorted(canaries.forms(PLANTED)))
def test_every_form_is_found(form: bytes) -> None:
    assert canaries.places_of([PLANTED], {"here": b"before " + form + b" after"}) == {
        PLANTED[-canaries.TAIL :]: ["here"]
    }


def test_base64_is_found_wherever_in_a_text_it_began() -> None:
    for before in ("", "u", "u:", "us:"):
        encoded = base64.b64encode(f"{before}{PLANTED}@host".encode())
        assert canaries.places_of([PLANTED], {"here": encoded}), before
