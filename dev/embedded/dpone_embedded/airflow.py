"""Airflow 3.3: metadata in PostgreSQL, LocalExecutor, four components, one admin of the simple auth manager.

Every setting is in one 0600 airflow.cfg, so that no password stands in an environment or on a command line.
"""

from __future__ import annotations

import base64
import configparser
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Event

import httpx

from dpone_embedded import addresses
from dpone_embedded.children import Child, child_environment
from dpone_embedded.errors import Interrupted, StackError
from dpone_embedded.ports import LOOPBACK, accepts, require_free
from dpone_embedded.statedir import StateDir

ADMIN = "admin"
COMPONENTS: Mapping[str, tuple[str, ...]] = {
    # The log servers of scheduler and triggerer would listen on every interface; the API server reads the same folder.
    "api-server": ("api-server",),
    "dag-processor": ("dag-processor",),
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "triggerer": ("triggerer", "--skip-serve-logs"),
}


class AirflowService:
    """Migrates the metadata database, starts the components, and waits until each of them has reported a heartbeat."""

    name = "airflow"

    def __init__(
        self,
        state: StateDir,
        *,
        dags_folder: Path,
        metadata: Callable[[Event], addresses.Postgres],
        port: int = 0,
        settings: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self._state = state
        self._dags_folder = dags_folder
        self._metadata = metadata
        self._port = require_free(port, "the Airflow API server")
        self._settings = settings or {}
        self._children: dict[str, Child] = {}
        self.home = state.data("airflow")
        self.address = addresses.Airflow(
            url=f"http://{LOOPBACK}:{self._port}",
            user=ADMIN,
            password=state.secret("airflow_admin"),
            home=str(self.home),
            dags_folder=str(dags_folder),
        )

    def start(self, stop: Event) -> None:
        self.home.mkdir(exist_ok=True)
        self.home.chmod(0o700)
        self._write_passwords()
        # The configuration names the metadata server, whose port is known only now.
        self._write_configuration(self._metadata(stop))
        migrate = self._spawn("db migrate", ("db", "migrate"), "airflow-migrate")
        try:
            migrate.finish(stop, timeout=180)
        finally:
            migrate.stop(grace=2)
        for component in COMPONENTS:
            self._run(component)
        self._wait_healthy(stop, timeout=300)

    def check(self) -> None:
        for child in self._children.values():
            if not child.running():
                raise child.died()

    def stop(self) -> None:
        # The scheduler first: it starts no more tasks, and its executor would wait for those that run.
        for name in ("scheduler", "triggerer", "dag-processor", "api-server"):
            if name in self._children:
                self._children[name].process.terminate()
        for name in ("scheduler", "triggerer", "dag-processor", "api-server"):
            if name in self._children:
                self._children.pop(name).stop(grace=5)

    def _run(self, component: str) -> None:
        self._children[component] = self._spawn(component, COMPONENTS[component], f"airflow-{component}")

    def _spawn(self, name: str, arguments: tuple[str, ...], log: str) -> Child:
        # `-m airflow`, not the script: a script's first line breaks when the interpreter's path has a blank in it.
        return Child(
            f"airflow {name}",
            [sys.executable, "-m", "airflow", *arguments],
            log=self._state.log(log),
            environment=child_environment(self._state.path, {"AIRFLOW_HOME": str(self.home)}),
            cwd=self.home,
        )

    def _wait_healthy(self, stop: Event, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        waiting: set[str] = {"metadatabase", "scheduler", "dag_processor", "triggerer"}
        warmed = False
        with httpx.Client(base_url=self.address.url, timeout=30, trust_env=False) as client:
            while waiting or not warmed:
                if stop.is_set():
                    raise Interrupted("Airflow was interrupted while it started")
                if time.monotonic() > deadline:
                    raise StackError(
                        f"Airflow did not become healthy within {timeout:.0f} s; no word from: "
                        f"{', '.join(sorted(waiting)) or 'the execution API'}. Logs are in {self._state.logs}."
                    )
                self.check()
                if accepts(self._port):
                    # No answer in time, on a machine that has other work, is no word yet: the deadline decides.
                    with suppress(httpx.TransportError):
                        if not warmed:
                            # The first request to a cold execution API takes seconds, and a task's first call would pay.
                            warmed = client.get("/execution/health").is_success
                        response = client.get("/api/v2/monitor/health")
                        if response.is_success:
                            waiting = {name for name, info in response.json().items() if info["status"] != "healthy"}
                time.sleep(0.2)

    def _write_passwords(self) -> None:
        path = self.home / "passwords.json"
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            json.dump({ADMIN: self.address.password}, out)

    def _write_configuration(self, metadata: addresses.Postgres) -> None:
        database = metadata.databases["airflow"]
        connection = (
            f"postgresql+psycopg://{metadata.user}:{metadata.password}@{metadata.host}:{metadata.port}/{database}"
        )
        fernet = base64.urlsafe_b64encode(hashlib.sha256(self._state.secret("airflow_fernet").encode()).digest())
        sections: dict[str, dict[str, str]] = {
            "core": {
                "executor": "LocalExecutor",
                "parallelism": "4",
                "max_active_tasks_per_dag": "4",
                "dags_folder": str(self._dags_folder),
                "plugins_folder": str(self.home / "plugins"),
                "load_examples": "False",
                "dags_are_paused_at_creation": "False",
                "fernet_key": fernet.decode(),
                "auth_manager": "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager",
                "simple_auth_manager_users": f"{ADMIN}:admin",
                "simple_auth_manager_passwords_file": str(self.home / "passwords.json"),
                "execution_api_server_url": f"{self.address.url}/execution/",
            },
            "database": {
                # psycopg 3 serves both: SQLAlchemy picks its asynchronous half for the second.
                "sql_alchemy_conn": connection,
                "sql_alchemy_conn_async": connection,
                "sql_alchemy_pool_size": "4",
                "load_default_connections": "False",
            },
            "api": {
                "host": LOOPBACK,
                "port": str(self._port),
                "workers": "1",
                "base_url": self.address.url,
                "secret_key": self._state.secret("airflow_api"),
                "worker_timeout": "60",
            },
            "api_auth": {"jwt_secret": self._state.secret("airflow_jwt") + self._state.secret("airflow_jwt_2")},
            "workers": {"execution_api_timeout": "60"},
            # Idle loops of the scheduler cost a tenth of a core at 0.1 s; at 0.25 s a task waits as long for its turn.
            "scheduler": {"scheduler_idle_sleep_time": "0.25", "enable_health_check": "False"},
            "dag_processor": {"parsing_processes": "1", "refresh_interval": "60", "min_file_process_interval": "30"},
            "logging": {
                "base_log_folder": str(self._state.logs / "tasks"),
                "dag_processor_child_process_log_directory": str(self._state.logs / "dag_processor"),
                "colored_console_log": "False",
            },
            "usage_data_collection": {"enabled": "False"},
        }
        for section, options in self._settings.items():
            sections.setdefault(section, {}).update(options)
        parser = configparser.RawConfigParser()
        for section, options in sections.items():
            parser[section] = {name: value.replace("%", "%%") for name, value in options.items()}
        handle = os.open(self.home / "airflow.cfg", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            parser.write(out)
