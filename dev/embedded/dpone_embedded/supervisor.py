"""The process that owns a running stack.

It starts every service in a thread of its own (PostgreSQL, ClickHouse and the SQL Server endpoint at once; Airflow
joins as soon as its metadata server answers), writes `stack.json` as it goes, watches, and ends all of them when

- it gets SIGTERM or SIGINT, or
- the pipe from its owner closes without the word that it may live on (the owner ended or was killed), or
- a service fails to start, or ends.

Runs as `python -m dpone_embedded.supervisor`, with its order as JSON on standard input, which is the pipe.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from dpone_embedded import children
from dpone_embedded.addresses import Addresses
from dpone_embedded.airflow import AirflowService
from dpone_embedded.errors import Interrupted, StackError
from dpone_embedded.postgres import PostgresService
from dpone_embedded.preflight import require_machine
from dpone_embedded.service import SERVICES, STAY, Service
from dpone_embedded.sqlserver import SqlServerService
from dpone_embedded.statedir import StateDir

log = logging.getLogger("dpone_embedded")


class Supervisor:
    """One run of one state folder."""

    def __init__(self, state: StateDir, order: dict[str, Any]) -> None:
        self._state = state
        self._order = order
        self._stop = threading.Event()
        self._finish = {name: threading.Event() for name in SERVICES}
        self._changed = threading.Lock()
        self._failure: str | None = None
        self._began = time.monotonic()
        self._status: dict[str, Any] = {"phase": "starting", "pid": os.getpid(), "services": {}}
        self._services: dict[str, Service] = {}

    def run(self) -> int:
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        self._state.lock()
        try:
            children.adopt_orphans()
            for left in children.end_marked(self._state.path):
                log.warning("ended a process that an earlier stack left behind: %s", left)
            self._publish()
            threading.Thread(target=self._watch_owner, name="owner", daemon=True).start()
            try:
                require_machine(self._order["services"])
                self._services = self._build()
            except StackError as err:
                self._fail(str(err))
            except Exception as err:
                log.exception("the services could not be set up")
                self._fail(f"{type(err).__name__}: {err}. Details are in {self._state.log('supervisor')}.")
            threads = {
                name: threading.Thread(target=self._live, args=(service,), name=name, daemon=True)
                for name, service in self._services.items()
            }
            for thread in threads.values():
                thread.start()
            self._wait()
            self._end(threads)
        finally:
            self._status["phase"] = "failed" if self._failure else "stopped"
            self._publish()
            self._state.unlock()
        return 1 if self._failure else 0

    def _build(self) -> dict[str, Service]:
        wanted = self._order["services"]
        services: dict[str, Service] = {}
        postgres = PostgresService(self._state) if {"postgres", "airflow"} & set(wanted) else None
        if postgres is not None:
            services["postgres"] = postgres
        if "sqlserver" in wanted:
            services["sqlserver"] = SqlServerService(self._state, traces=self._order["sql_traces"])
        if "clickhouse" in wanted:
            from dpone_embedded.clickhouse_service import ClickHouseService

            services["clickhouse"] = ClickHouseService(self._state)
        if "airflow" in wanted:
            assert postgres is not None
            server = postgres

            def metadata(stop: threading.Event) -> Any:
                while not server.ready.wait(0.1):
                    if stop.is_set():
                        raise Interrupted("Airflow was interrupted while it waited for its metadata server")
                return server.as_role("airflow")

            services["airflow"] = AirflowService(
                self._state,
                dags_folder=Path(self._order["dags_folder"]),
                metadata=metadata,
                port=self._order["airflow_port"],
                settings=self._order["airflow_settings"],
            )
        return services

    def _live(self, service: Service) -> None:
        """The whole life of one service, in the thread that its processes are tied to."""
        began = time.monotonic()
        entry = self._status["services"].setdefault(service.name, {})
        entry["state"] = "starting"
        try:
            service.start(self._stop)
            entry |= {"state": "ready", "seconds": round(time.monotonic() - began, 1)}
            log.info("%s is ready after %.1f s", service.name, time.monotonic() - began)
            self._publish()
            while not self._finish[service.name].wait(0.5):
                service.check()
        except Interrupted:
            pass
        except StackError as err:
            entry["state"] = "failed"
            self._fail(str(err))
        except Exception as err:  # a fault of ours must end the stack too, not only its thread
            log.exception("%s", service.name)
            entry["state"] = "failed"
            self._fail(f"{service.name}: {type(err).__name__}: {err}. Details are in {self._state.log('supervisor')}.")
        finally:
            # Whatever it depends on ends after it; see `_end`.
            self._finish[service.name].wait()
            service.stop()
            if entry["state"] != "failed":
                entry["state"] = "stopped"

    def _wait(self) -> None:
        while not self._stop.wait(0.2):
            if self._status["phase"] == "starting" and all(
                self._status["services"].get(name, {}).get("state") == "ready" for name in self._services
            ):
                self._status |= {
                    "phase": "ready",
                    "seconds": round(time.monotonic() - self._began, 1),
                    "addresses": Addresses(
                        **{name: getattr(service, "address") for name, service in self._services.items()}  # noqa: B009
                    ).to_document(),
                }
                log.info("the stack is ready after %.1f s", time.monotonic() - self._began)
                self._publish()

    def _end(self, threads: dict[str, threading.Thread]) -> None:
        if self._status["phase"] != "failed":
            self._status["phase"] = "stopping"
        self._publish()
        for group in (("airflow",), ("clickhouse", "sqlserver"), ("postgres",)):
            for name in group:
                self._finish[name].set()
            for name in group:
                if name in threads:
                    threads[name].join(60)
        for left in children.end_descendants():
            log.warning("ended a process that outlived its service: %s", left)

    def _watch_owner(self) -> None:
        """Standard input is a pipe from the owner. Its end without STAY means: the owner is gone, so shall we be."""
        received = b""
        while chunk := os.read(0, 256):
            received += chunk
        if received != STAY:
            log.info("the owner ended")
            self._stop.set()

    def _on_signal(self, number: int, _frame: object) -> None:
        log.info("got %s", signal.Signals(number).name)
        self._stop.set()

    def _fail(self, text: str) -> None:
        with self._changed:
            if self._failure is None:
                self._failure = text
                self._status |= {"phase": "failed", "error": text}
                log.error("%s", text)
        self._stop.set()

    def _publish(self) -> None:
        with self._changed:
            self._state.write("stack.json", self._status)


def main() -> int:
    order = json.loads(sys.stdin.buffer.readline())
    state = StateDir(Path(order["state_dir"]))
    state.create()
    logging.basicConfig(
        filename=state.log("supervisor"), level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        return Supervisor(state, order).run()
    except StackError as err:
        print(err, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
