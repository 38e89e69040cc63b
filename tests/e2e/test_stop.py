"""The ends of the main job's stack. The last file here: the others look at the stack while it runs."""

from __future__ import annotations

import subprocess
import sys
import time

import psutil
import pytest

from tests.e2e.conftest import MainJob

pytestmark = pytest.mark.timeout(1500)


def test_no_process_of_the_stack_is_left(run: MainJob) -> None:
    def alive() -> list[list[str]]:
        found = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
        return [command for command in found if str(run.state) in " ".join(command)]

    assert alive(), "it was left up"
    run.stop()
    assert alive() == []


@pytest.mark.campaign
def test_a_run_killed_while_its_dags_run_is_settled_by_the_next_one(run: MainJob) -> None:
    command = [sys.executable, "-m", "dpone_demo", "run", "--state-dir", str(run.state)]
    said = run.state / "second-run.log"
    with said.open("wb") as output:
        killed = subprocess.Popen(command, stdout=output, stderr=output)
    known = set((run.state / "logs" / "tasks").rglob("*.log"))

    def issued() -> bool:
        new = set((run.state / "logs" / "tasks").rglob("*.log")) - known
        return any("issued mssql login" in log.read_text(errors="replace") for log in new)

    deadline = time.monotonic() + 900
    while not issued():
        assert killed.poll() is None and time.monotonic() < deadline, said.read_text()[-3000:]
        time.sleep(0.2)
    killed.kill()
    killed.wait()

    third = subprocess.run(command, capture_output=True, text=True, check=False)

    assert third.returncode == 0, f"{third.stdout[-6000:]}\n{third.stderr[-2000:]}"
    assert "left by a run that was killed: " in third.stdout
    assert third.stdout.rstrip().endswith("Reconciled.")
