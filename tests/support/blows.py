"""What can happen to a task's processes, where, and what the protocol allows the ledger to say afterwards.

The table is written down before anything runs. A task that is hit either ends at once, and leaves its attempt RUNNING
for a retry or a sweep; or goes on, and settles it by itself. What evidence then says depends on one thing alone:
whether the target's transaction was committed.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from tests.support.task_processes import RunningTask

#: Phase -> where the task waits when it is hit, and whether its work is in the target by then.
PHASES = {
    "admitted": ("admit_once/acknowledged", False),
    "issued": ("to_ready/acknowledged", False),
    "working": ("copying", False),
    "committing": ("target_commit/before", False),
    "closing": ("disable_login/applied", True),
    "quiescent": ("put_quiescence/acknowledged", True),
    "finalizing": ("finalize/before", True),
    "finalized": ("finalize/acknowledged", True),
}
#: What leaves nothing to be settled: the ledger was told before the blow.
SETTLED = ("finalized",)


@dataclass(frozen=True, kw_only=True)
class Blow:
    """How a task is hit. `told`: what Airflow knows of it then, by whether its work was in the target."""

    strike: Callable[[RunningTask, psutil.Process], None]
    #: The task process ends without another step of its own.
    ends: bool
    #: A task that goes on was told to stop, and stops its work if that is still possible.
    asks: bool = False
    told: tuple[str, str] = ("failed", "failed")


def _mark(state: str) -> Callable[[RunningTask, psutil.Process], None]:
    """A user marks the task instance, or clears it: the next heartbeat says that it is not to run any more."""

    def strike(task: RunningTask, process: psutil.Process) -> None:
        task.api.conflicts[task.instance_id].heartbeat = state

    return strike


BLOWS = {
    "SIGKILL of the task": Blow(strike=lambda task, process: process.kill(), ends=True),
    # Airflow gives its task process the default action back.
    "SIGINT of the task": Blow(strike=lambda task, process: process.send_signal(signal.SIGINT), ends=True),
    "SIGTERM of the task": Blow(
        strike=lambda task, process: process.terminate(), ends=False, asks=True, told=("failed", "success")
    ),
    "SIGINT of the supervisor": Blow(
        strike=lambda task, process: task.supervisor.send_signal(signal.SIGINT), ends=True
    ),
    "SIGTERM of the supervisor": Blow(
        strike=lambda task, process: task.supervisor.terminate(), ends=False, asks=True, told=("failed", "success")
    ),
    # Nobody hears from the task any more, and it goes on to its end.
    "SIGKILL of the supervisor": Blow(
        strike=lambda task, process: task.supervisor.kill(), ends=False, told=("running", "running")
    ),
    # The supervisor's SIGTERM is not enough for a task that stands still, so SIGKILL follows after five seconds.
    "marked failed": Blow(strike=_mark("failed"), ends=True, told=("running", "running")),
    "marked success": Blow(strike=_mark("success"), ends=True, told=("running", "running")),
    "cleared": Blow(strike=_mark("restarting"), ends=True, told=("running", "running")),
}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One phase and one blow, with what must be found: before anybody settles, and after a sweep or a retry did."""

    phase: str
    blow: str
    then: str

    @property
    def left(self) -> str:
        """The attempt's state when both processes are gone."""
        blow = BLOWS[self.blow]
        if self.phase in SETTLED:
            return "SUCCEEDED"
        return "RUNNING" if blow.ends else self.verdict

    @property
    def verdict(self) -> str:
        blow = BLOWS[self.blow]
        went_on = not blow.ends and not blow.asks
        return "SUCCEEDED" if PHASES[self.phase][1] or went_on else "FAILED"

    @property
    def told(self) -> str:
        return BLOWS[self.blow].told[PHASES[self.phase][1]]

    def __str__(self) -> str:
        return f"{self.phase}, {self.blow}, {self.then}"


EVERY = [Cell(phase=phase, blow=blow, then=then) for phase in PHASES for blow in BLOWS for then in ("sweep", "retry")]

#: Each phase and each kind of blow once.
DAILY = [
    Cell(phase="admitted", blow="SIGKILL of the task", then="retry"),
    Cell(phase="issued", blow="SIGINT of the supervisor", then="sweep"),
    Cell(phase="working", blow="SIGTERM of the task", then="retry"),
    Cell(phase="committing", blow="marked success", then="sweep"),
    Cell(phase="closing", blow="SIGKILL of the task", then="sweep"),
    Cell(phase="quiescent", blow="SIGKILL of the supervisor", then="retry"),
    Cell(phase="finalizing", blow="SIGTERM of the supervisor", then="sweep"),
]
