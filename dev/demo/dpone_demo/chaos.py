"""Kills the running dbt task the hard way: the process that Airflow started for the try, with SIGKILL."""

from __future__ import annotations

import time
from pathlib import Path

import psutil


class DbtKiller:
    """Call it about once a second while the DAG runs: it kills once, a while after dbt has started to build."""

    def __init__(self, state_dir: Path, *, after_seconds: float = 12.0) -> None:
        """Only a dbt whose artifacts lie below `state_dir` is killed: it belongs to this stack."""
        self._root = state_dir
        self._after = after_seconds
        self.killed: int | None = None

    def __call__(self) -> None:
        if self.killed is not None:
            return
        for process in psutil.process_iter(["pid", "cmdline", "create_time"]):
            command = process.info["cmdline"] or []
            ours = any(str(self._root) in argument for argument in command)
            if ours and any(argument.endswith("dbt_child.py") for argument in command):
                if time.time() - process.info["create_time"] < self._after:
                    return
                task = process.parent()
                if task is not None:
                    print(f"    chaos: kill -9 of the task process {task.pid}, whose dbt is {process.pid}", flush=True)
                    task.kill()
                    self.killed = task.pid
                return
