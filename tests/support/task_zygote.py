"""Starts Airflow tasks as its LocalExecutor does: forks that run the task SDK's own supervisor, which forks the task.

One JSON line on standard input is one order; its answer, on the descriptor that the argument names (standard output is
the logs'), is the supervisor's process id. What a task process needs is
imported here once, before any fork. An order may name a place where the task waits until a file says go on: everything
else is Airflow's and the product's own.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import clickhouse_connect
import mssql_python
import psycopg
import pyarrow
from airflow.dag_processing import dagbag
from airflow.dag_processing.bundles import manager
from airflow.sdk.api.datamodels._generated import BundleInfo, TaskInstance
from airflow.sdk.execution_time import supervisor, task_runner

from airflow_provider_dpone import operators, sensors
from airflow_provider_dpone.attempts.guarded import GuardedAttempt
from airflow_provider_dpone.composition import services
from airflow_provider_dpone.drivers import Secret, trigger_points
from airflow_provider_dpone.routes.postgres_to_mssql import SourceRows

PRELOADED = (
    clickhouse_connect,
    dagbag,
    manager,
    mssql_python,
    operators,
    psycopg,
    pyarrow,
    sensors,
    services,
    task_runner,
)

#: What stays entered until this process ends.
KEPT = contextlib.ExitStack()

#: Where a task can wait that is no trigger point: what is called there, and whether it waits before or after that call.
PLACES: dict[str, tuple[Any, str, str]] = {
    "admitting": (GuardedAttempt, "admit", "before"),
    "copying": (SourceRows, "_counted", "after"),
}


def wait_at(where: str, folder: Path) -> None:
    """Wait at a trigger point (`step/moment`) or at one of the places, the first time that the task comes there."""
    step, _, moment = where.partition("/")

    def wait() -> None:
        if not (folder / "reached").exists():
            (folder / "reached").write_text(str(os.getpid()))
            while not (folder / "go").exists():
                time.sleep(0.01)

    if moment:
        KEPT.enter_context(trigger_points.armed(lambda at, when: wait() if (at, when) == (step, moment) else None))
        return
    owner, name, when = PLACES[where]
    original: Callable[..., Any] = getattr(owner, name)

    def waiting(*args: Any, **kwargs: Any) -> Any:
        if when == "before":
            wait()
        result = original(*args, **kwargs)
        if when == "after":
            wait()
        return result

    setattr(owner, name, waiting)


def note_secrets(path: Path) -> None:
    """Every generated credential is noted, for a test that looks for it elsewhere."""
    generate = Secret.generate

    def noted() -> Secret:
        secret = generate()
        with path.open("a", encoding="utf-8") as out:
            out.write(secret.reveal() + "\n")
        return secret

    Secret.generate = staticmethod(noted)  # type: ignore[assignment,method-assign]  # the same, and noted


def observe(folder: Path) -> None:
    """Let everything be written down that can be: the driver's own log, what the operator holds, and memory if we crash."""
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    mssql_python.setup_logging(log_file_path=str(folder / "driver.log"))
    execute = task_runner._execute_task

    def noted(context: Any, ti: Any, log: Any) -> Any:
        with (folder / "operator").open("a", encoding="utf-8") as out:
            out.writelines(f"before {text}\n" for text in texts_of(ti.task))
            try:
                return execute(context, ti, log)
            finally:
                out.writelines(f"after {text}\n" for text in texts_of(ti.task))

    task_runner._execute_task = noted


def texts_of(thing: Any, depth: int = 8) -> Iterator[str]:
    """Every text that an operator holds, also inside what it holds of the product's own."""
    if isinstance(thing, str | bytes):
        yield str(thing)
    elif isinstance(thing, Secret):
        yield thing.reveal()
    elif depth == 0:
        return
    elif isinstance(thing, Mapping):
        for each in (*thing.keys(), *thing.values()):
            yield from texts_of(each, depth - 1)
    elif isinstance(thing, list | tuple | set | frozenset):
        for each in thing:
            yield from texts_of(each, depth - 1)
    elif depth == 8 or type(thing).__module__.startswith("airflow_provider_dpone"):
        names = {*getattr(thing, "__dict__", ()), *getattr(type(thing), "__slots__", ())}
        for name in sorted(names - {"dag", "_dag"}):
            yield from texts_of(getattr(thing, name, None), depth - 1)


def run(order: dict[str, Any]) -> int:
    folder = Path(order["folder"])
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    out = os.open(folder / "supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for descriptor in (1, 2):
        os.dup2(out, descriptor)
    os.environ.update(order["environment"])
    if order["wait_at"]:
        wait_at(order["wait_at"], folder)
    note_secrets(Path(order["secrets"]))
    if order["observed"]:
        observe(folder)
    return supervisor.supervise_task(
        ti=TaskInstance(**order["instance"]),
        bundle_info=BundleInfo(name="dags-folder"),
        dag_rel_path=order["dag_file"],
        token="none",
        server=order["server"],
        log_path=order["log"],
    )


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # what ended is not waited for: nobody reads these exit codes
    answers = os.fdopen(int(sys.argv[1]), "w")
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.close(0)
                os.close(answers.fileno())
                code = run(order)
            finally:
                os._exit(code)
        print(pid, file=answers, flush=True)


if __name__ == "__main__":
    main()
