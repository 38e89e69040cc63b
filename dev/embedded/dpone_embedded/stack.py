"""The handle by which people and programs start and stop the stack."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from dpone_embedded.addresses import Addresses
from dpone_embedded.children import child_environment
from dpone_embedded.errors import StackError
from dpone_embedded.service import SERVICES, STAY
from dpone_embedded.statedir import StateDir, default_path

CHECKOUT = Path(__file__).resolve().parents[3]


class Stack:
    """One stack in one state folder.

    After `start` it ends with this process, however that ends, unless `detach` was called. `stop` ends it from any
    process.
    """

    def __init__(
        self,
        state_dir: str | Path | None = None,
        *,
        services: Sequence[str] = SERVICES,
        dags_folder: str | Path | None = None,
        airflow_port: int = 0,
        airflow_settings: Mapping[str, Mapping[str, str]] | None = None,
        sql_traces: str | Path | None = None,
    ) -> None:
        """`airflow_settings` are further options of airflow.cfg by section, e.g. `{"dpone": {"release_root": ...}}`.

        In `sql_traces`, a folder, the SQL Server endpoint keeps every batch that it is sent.
        """
        if unknown := sorted(set(services) - set(SERVICES)):
            raise StackError(f"No such service: {', '.join(unknown)}. There are: {', '.join(SERVICES)}.")
        self.state = StateDir(Path(state_dir) if state_dir else default_path(CHECKOUT))
        self._order = {
            "state_dir": str(self.state.path),
            "services": list(services),
            "dags_folder": str(Path(dags_folder).absolute() if dags_folder else CHECKOUT / "dags_examples"),
            "airflow_port": airflow_port,
            "sql_traces": None if sql_traces is None else str(Path(sql_traces).absolute()),
            "airflow_settings": {section: dict(options) for section, options in (airflow_settings or {}).items()},
        }
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._addresses: Addresses | None = None

    @property
    def addresses(self) -> Addresses:
        """Where the services listen, with their logins. Of this handle's start, or of a running stack's folder."""
        if self._addresses is None:
            status = self.status()
            if status["phase"] != "ready":
                raise StackError(f"The stack in {self.state.path} is not running ({status['phase']}).")
            self._addresses = Addresses.from_document(status["addresses"])
        return self._addresses

    def start(self, *, timeout: float = 420, progress: Callable[[Mapping[str, Any]], None] | None = None) -> Addresses:
        """Start every service and return when all answer. On any failure or interrupt nothing stays behind.

        `progress` gets the status document whenever it changed.
        """
        self.state.create()
        self._require_unlocked()
        (self.state.path / "stack.json").unlink(missing_ok=True)
        try:
            self._spawn()
            status = self._await_ready(time.monotonic() + timeout, progress)
        except BaseException:
            self.stop()
            raise
        self._addresses = Addresses.from_document(status["addresses"])
        return self._addresses

    def detach(self) -> None:
        """Let the stack live on when this process ends."""
        if self._supervisor is not None and self._supervisor.stdin is not None:
            self._supervisor.stdin.write(STAY)
            self._supervisor.stdin.close()
            self._supervisor = None

    def stop(self, *, timeout: float = 120) -> None:
        """End every service and wait until the supervisor is gone. Does nothing when none runs."""
        self._addresses = None
        own, self._supervisor = self._supervisor, None
        if own is not None:
            own.terminate()
            _wait_through_interrupts(own, timeout)
            return
        if not self.state.locked():
            return
        pid = (self.state.read("stack.json") or {}).get("pid")
        if pid is None:
            raise StackError(f"A process holds {self.state.path / 'lock'} but has not said which. Nothing was stopped.")
        try:
            supervisor = psutil.Process(pid)
            supervisor.terminate()
            supervisor.wait(timeout)
        except psutil.NoSuchProcess:
            pass
        except psutil.TimeoutExpired as err:
            raise StackError(f"The supervisor (process {pid}) did not end within {timeout:.0f} s.") from err

    def erase(self) -> None:
        """Remove all that earlier starts left in the state folder: data, logs, passwords. Refused while a stack runs."""
        self._require_unlocked()
        path = self.state.path
        if not path.exists():
            return
        if not (path / "lock").exists() and any(path.iterdir()):
            raise StackError(f"{path} is not the state folder of a stack: it holds no lock. Nothing was removed.")
        try:
            # The folder itself stays: who drives the stack has it locked. The lock that makes it a stack's goes last.
            for each in sorted(path.iterdir(), key=lambda each: each.name == "lock"):
                if each.is_dir() and not each.is_symlink():
                    shutil.rmtree(each)
                else:
                    each.unlink()
        except OSError as err:
            raise StackError(f"The state folder {path} could not be emptied: {err}.") from err

    def status(self) -> dict[str, Any]:
        """The document that the supervisor keeps: phase (starting ready stopping stopped failed) and services."""
        status = self.state.read("stack.json") or {"phase": "stopped", "services": {}}
        supervised = self.state.locked() or (self._supervisor is not None and self._supervisor.poll() is None)
        if status["phase"] in ("starting", "ready", "stopping") and not supervised:
            return {"phase": "stopped", "services": {}, "error": "The supervisor was killed."}
        return status

    def __enter__(self) -> Stack:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _require_unlocked(self) -> None:
        """A supervisor that is stopping gets the time for it, and one that was killed the moment to be gone."""
        began = time.monotonic()
        while self.state.locked():
            phase = (self.state.read("stack.json") or {}).get("phase")
            if time.monotonic() - began > (30 if phase in ("stopping", "failed", "stopped") else 1.5):
                raise StackError(
                    f"A stack is already running in {self.state.path}. Nothing was started. "
                    f"Use it, or stop it first: {self.state.command('down')}"
                )
            time.sleep(0.1)

    def _spawn(self) -> None:
        log = self.state.log("supervisor")
        with open(log, "ab") as out:
            self._supervisor = subprocess.Popen(
                [sys.executable, "-m", "dpone_embedded.supervisor"],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self.state.path,
                env=_without_mark(child_environment(self.state.path)),
                # Ctrl-C in a terminal goes to its whole process group: the supervisor hears it from us alone.
                start_new_session=True,
            )
        assert self._supervisor.stdin is not None
        self._supervisor.stdin.write(json.dumps(self._order).encode() + b"\n")
        self._supervisor.stdin.flush()

    def _await_ready(self, deadline: float, progress: Callable[[Mapping[str, Any]], None] | None) -> dict[str, Any]:
        assert self._supervisor is not None
        shown: dict[str, Any] | None = None
        while True:
            code = self._supervisor.poll()
            status = self.state.read("stack.json")
            if status is not None and status != shown:
                shown = status
                if progress is not None:
                    progress(status)
            if code is not None or (status is not None and status["phase"] == "failed"):
                if status is not None and "error" in status:
                    raise StackError(status["error"])
                raise StackError(
                    f"The supervisor ended with exit code {code}. Its log is {self.state.log('supervisor')}."
                )
            if status is not None and status["phase"] == "ready":
                return status
            if time.monotonic() > deadline:
                raise StackError(f"The stack was not ready in time. Logs are in {self.state.logs}.")
            time.sleep(0.1)


def _without_mark(environment: dict[str, str]) -> dict[str, str]:
    from dpone_embedded.children import MARK

    return {name: value for name, value in environment.items() if name != MARK}


def _wait_through_interrupts(process: subprocess.Popen[bytes], timeout: float) -> None:
    """A second Ctrl-C must not leave a half-stopped stack: go on waiting, and kill only at the deadline."""
    deadline = time.monotonic() + timeout
    while process.poll() is None:
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
        except KeyboardInterrupt:
            continue
    if process.stdin is not None:
        process.stdin.close()
