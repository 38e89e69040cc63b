"""Kills the running dbt task the hard way: the process that Airflow started for the try, with SIGKILL."""

from __future__ import annotations

from pathlib import Path

import psutil

#: What dbt logs when it begins the largest model: views are built by then, and the fact table is not.
_MIDDLE = "START sql incremental model"


class DbtKiller:
    """Call it about once a second while the DAG runs: it kills once, in the middle of the first build it sees."""

    def __init__(self, state_dir: Path) -> None:
        """Only a dbt whose artifacts lie below `state_dir` is killed: it belongs to this stack."""
        self._root = state_dir
        self.killed: int | None = None

    def __call__(self) -> None:
        if self.killed is not None:
            return
        for process in psutil.process_iter(["cmdline"]):
            command = process.info["cmdline"] or []
            # Not the probe, which is told the name of the child's program as well.
            started = "--log-path" in command and any(part.endswith("dbt_child.py") for part in command)
            if started and self._in_the_middle(command):
                task = process.parent()
                if task is not None:
                    print(f"    chaos: kill -9 of the task process {task.pid}, whose dbt is {process.pid}", flush=True)
                    task.kill()
                    self.killed = task.pid
                    return

    def _in_the_middle(self, command: list[str]) -> bool:
        folder = Path(command[command.index("--log-path") + 1])
        log = folder / "dbt.log"
        return folder.is_relative_to(self._root) and log.exists() and _MIDDLE in log.read_text(errors="replace")
