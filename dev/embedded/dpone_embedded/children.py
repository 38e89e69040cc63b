"""Child processes that cannot outlive the supervisor, and finding those that tried.

Three nets, each for what slips through the one before: the kernel signals a child when the thread that started it ends
(PR_SET_PDEATHSIG); orphans of our children become ours (PR_SET_CHILD_SUBREAPER) and are ended on stop; and every
process carries a mark in its environment by which the next start finds what a `kill -9` of everything but it left.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event

import psutil

from dpone_embedded.errors import Interrupted, StackError

MARK = "DPONE_EMBEDDED_STACK"
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Make orphaned descendants children of this process, so that a stop can find them."""
    if _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise StackError(f"prctl(PR_SET_CHILD_SUBREAPER) failed: {os.strerror(ctypes.get_errno())}")


def die_with_parent() -> None:
    """Runs in the child between fork and exec: end with the thread that started it."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def child_environment(state_dir: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """A short environment: no proxy settings, no AIRFLOW_*, no credentials of the person who types the command."""
    kept = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "TERM", "TMPDIR", "TZ", "USER")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    environment.setdefault("LANG", "C.UTF-8")
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment.get('PATH', os.defpath)}"
    environment["PYTHONUNBUFFERED"] = "1"
    environment["NO_PROXY"] = "127.0.0.1,localhost"
    environment[MARK] = str(state_dir)
    return environment | dict(extra or {})


class Child:
    """One process in a process group of its own, writing to one log file."""

    def __init__(
        self, name: str, command: Sequence[str], *, log: Path, environment: Mapping[str, str], cwd: Path
    ) -> None:
        self.name = name
        self.log = log
        with open(log, "ab") as out:
            self._start_of_log = out.tell()
            self.process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env=dict(environment),
                process_group=0,
                preexec_fn=die_with_parent,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def running(self) -> bool:
        return self.process.poll() is None

    def finish(self, stop: Event, timeout: float) -> None:
        """Wait for a command that ends by itself; its failure, a stop or the timeout raise."""
        deadline = time.monotonic() + timeout
        while (code := self.process.poll()) is None:
            if stop.is_set():
                self.stop(grace=2)
                raise Interrupted(f"{self.name} was interrupted")
            if time.monotonic() > deadline:
                self.stop(grace=2)
                raise StackError(f"{self.name} did not end within {timeout:.0f} s. {self.last_words()}")
            time.sleep(0.05)
        if code != 0:
            raise StackError(f"{self.name} failed with exit code {code}. {self.last_words()}")

    def died(self) -> StackError:
        return StackError(f"{self.name} ended with exit code {self.process.poll()}. {self.last_words()}")

    def last_words(self, lines: int = 15) -> str:
        """The end of what this process wrote, for an error text."""
        with open(self.log, "rb") as out:
            out.seek(0, os.SEEK_END)
            out.seek(max(self._start_of_log, out.tell() - 8192))
            text = out.read().decode("utf-8", "replace").strip()
        tail = "\n    ".join(text.splitlines()[-lines:])
        return f"Its log is {self.log}; the end of it:\n    {tail}" if tail else f"Its log {self.log} is empty."

    def stop(self, grace: float) -> None:
        """SIGTERM to the process, then after `grace` seconds SIGKILL to its whole group."""
        if self.running():
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(grace)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def end_descendants(grace: float = 3.0) -> list[str]:
    """End every remaining descendant of this process, adopted orphans included. Returns what there was, for the log."""
    return _end(psutil.Process().children(recursive=True), grace)


def end_marked(state_dir: Path, grace: float = 5.0) -> list[str]:
    """End processes which an earlier supervisor of this folder left behind. The caller holds the folder's lock."""
    mark = str(state_dir)
    ours = {os.getpid(), os.getppid()}
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid not in ours and process.environ().get(MARK) == mark:
                found.append(process)
        except (psutil.AccessDenied, psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    return _end(found, grace)


def _end(processes: list[psutil.Process], grace: float) -> list[str]:
    names = []
    for process in processes:
        try:
            if process.status() != psutil.STATUS_ZOMBIE:
                names.append(f"{process.pid} {process.name()}")
            process.terminate()
        except psutil.NoSuchProcess:
            continue
    _, alive = psutil.wait_procs(processes, timeout=grace)
    for process in alive:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(alive, timeout=grace)
    return names
