"""One run of the main job for all tests here, whose stack stays up until the last of them stops it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True, kw_only=True)
class MainJob:
    """A run as a person at a terminal sees it: what was printed, and the folder with everything that it leaves."""

    finished: subprocess.CompletedProcess[str]
    state: Path

    def report(self) -> dict[str, Any]:
        (path,) = (self.state / "evidence").glob("*/reconciliation.json")
        report: dict[str, Any] = json.loads(path.read_text())
        return report

    def airflow(self) -> tuple[str, str, str]:
        """The address, user and password of Airflow's UI, as they were printed."""
        printed = re.search(r"Airflow: +(\S+)  user (\S+)  password (\S+)", self.finished.stdout)
        assert printed, self.finished.stdout[-3000:]
        url, user, password = printed.groups()
        return url, user, password

    def stop(self) -> None:
        """What was printed to stop it. Safe to repeat."""
        command = [sys.executable, "-m", "dpone_embedded", "down", "--state-dir", str(self.state)]
        subprocess.run(command, capture_output=True, text=True, check=True)


@pytest.fixture(scope="session")
def run() -> Iterator[MainJob]:
    """From nothing, with the dbt task killed in the middle, and the stack left up as `--keep` does."""
    with tempfile.TemporaryDirectory(prefix="dpone-e2e-") as folder:
        state = Path(folder)
        # PostgreSQL runs as another user when we are root, and has to pass.
        state.chmod(0o711)
        command = [sys.executable, "-m", "dpone_demo", "run", "--chaos", "--keep", "--state-dir", str(state)]
        job = MainJob(finished=subprocess.run(command, capture_output=True, text=True, check=False), state=state)
        yield job
        job.stop()
