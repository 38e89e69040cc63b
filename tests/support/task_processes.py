"""Tasks of a DAG file in real processes of Airflow's, for tests that do to them what happens to tasks."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.support.execution_api import ExecutionApi

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, kw_only=True)
class RunningTask:
    """A try of a task instance: a supervisor, and the task process that it forked."""

    folder: Path
    api: ExecutionApi
    instance_id: str
    supervisor: psutil.Process
    log: Path

    def reached(self, seconds: float = 60) -> psutil.Process:
        """The task process, once it waits where it was told to."""
        noted, deadline = self.folder / "reached", time.monotonic() + seconds
        while not (noted.exists() and noted.read_text()):
            assert self.alive(), f"ended before:\n{self.words()}"
            assert time.monotonic() < deadline, f"never came there:\n{self.words()}"
            time.sleep(0.01)
        return psutil.Process(int(noted.read_text()))

    def go(self) -> None:
        (self.folder / "go").touch()

    def freeze(self) -> None:
        """As a worker's machine that stands still: neither process runs, and neither knows of it later."""
        for process in [self.supervisor, *self.supervisor.children(recursive=True)]:
            process.suspend()

    def thaw(self) -> None:
        for process in [self.supervisor, *self.supervisor.children(recursive=True)]:
            process.resume()

    def alive(self) -> bool:
        return self.supervisor.is_running() and self.supervisor.status() != psutil.STATUS_ZOMBIE

    def ended(self, seconds: float = 60) -> str:
        """Waits for both processes and answers the state that Airflow was told."""
        try:
            self.supervisor.wait(seconds)
        except psutil.TimeoutExpired as err:
            raise AssertionError(f"still running:\n{self.words()}") from err
        return self.api.state(self.instance_id)

    def words(self) -> str:
        """The end of what both processes wrote, above debugging."""
        paths = [path for path in (self.folder / "supervisor.log", self.log) if path.exists()]
        lines = [line for path in paths for line in path.read_text(errors="replace").splitlines()]
        return "\n".join(line[:2000] for line in lines if "debug" not in line)[-6000:]

    def kill_everything(self) -> None:
        for process in [*_descendants(self.supervisor), self.supervisor]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.children(recursive=True)
    return []


class TaskProcesses:
    """One zygote with Airflow's task side loaded, and the tasks that it started."""

    def __init__(self, folder: Path, api: ExecutionApi, *, dags: Path, settings: Mapping[str, str]) -> None:
        self.folder = folder
        self.api = api
        self.secrets = folder.with_name(folder.name + "-secrets")
        self.started: list[RunningTask] = []
        self._numbers = itertools.count(1)
        (folder / "home").mkdir(parents=True)
        environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        environment |= {
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
            "AIRFLOW_HOME": str(folder / "home"),
            "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(folder / "logs"),
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "DEBUG",
            "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            **settings,
        }
        read_end, write_end = os.pipe()
        self._answers = os.fdopen(read_end)
        with (folder / "zygote.log").open("wb") as log:
            self._zygote = subprocess.Popen(
                [sys.executable, "-m", "tests.support.task_zygote", str(write_end)],
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=(write_end,),
                text=True,
            )
        os.close(write_end)
        assert self._answer() == "ready", (folder / "zygote.log").read_text()[-3000:]

    def start(
        self,
        dag_id: str,
        task_id: str,
        run_id: str,
        *,
        try_number: int = 1,
        map_index: int = -1,
        wait_at: str = "",
        environment: Mapping[str, str] | None = None,
        dag_file: str | None = None,
        observed: bool = False,
    ) -> RunningTask:
        """Start one try. With `wait_at` the task stops there until `go`; `observed` lets it write down all it can."""
        number = next(self._numbers)
        folder = self.folder / f"task-{number}"
        folder.mkdir()
        instance_id = str(uuid.uuid4())
        self.api.expect(instance_id, dag_id, run_id)
        order: dict[str, Any] = {
            "folder": str(folder),
            "server": self.api.url,
            "dag_file": dag_file or "dpone_compositions.py",
            "log": f"task-{number}.log",
            "wait_at": wait_at,
            "secrets": str(self.secrets),
            "observed": observed,
            "environment": dict(environment or {}),
            "instance": {
                "id": instance_id,
                "dag_id": dag_id,
                "task_id": task_id,
                "run_id": run_id,
                "try_number": try_number,
                "map_index": map_index,
                "dag_version_id": str(uuid.uuid4()),
            },
        }
        assert self._zygote.stdin is not None
        self._zygote.stdin.write(json.dumps(order) + "\n")
        self._zygote.stdin.flush()
        task = RunningTask(
            folder=folder,
            api=self.api,
            instance_id=instance_id,
            supervisor=psutil.Process(int(self._answer())),
            log=self.folder / "logs" / f"task-{number}.log",
        )
        self.started.append(task)
        return task

    def run(self, *names: str, **how: Any) -> tuple[str, RunningTask]:
        """Start one try and wait for its end."""
        task = self.start(*names, **how)
        return task.ended(), task

    def close(self) -> None:
        for task in self.started:
            with contextlib.suppress(psutil.NoSuchProcess):
                task.thaw()
            task.kill_everything()
        self._zygote.send_signal(signal.SIGTERM)
        self._zygote.wait(10)

    @property
    def pid(self) -> int:
        """Of the zygote: everything that runs for a task descends from it."""
        return self._zygote.pid

    def _answer(self) -> str:
        return self._answers.readline().strip()
