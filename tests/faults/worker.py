"""Worker processes of the fault matrix: each runs one try, or one `dponectl` command, with one trigger point armed.

A process that has imported everything forks them, so a worker starts as fast as a task process of Airflow does. Each
has a socket to whoever started it: a job comes in as one JSON line; what it reached and how it ended go out. A worker
whose starter is gone ends.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from pathlib import Path
from types import FrameType
from typing import IO, Any, Literal

ROOT = Path(__file__).resolve().parents[2]

#: What can happen at a point. "reset" and "close" are the starter's: it breaks connections while the worker waits; so is
#: "duplicate", the same try a second time. A worker that awaits a reply hangs, and is killed, while its reply is held back:
#: that is arranged with the starter, too (`on_the_wire`).
Fault = Literal["exception", "hang", "kill", "reset", "close", "duplicate"]

#: How long a worker hangs before its timeout, in seconds: as long as it takes to be sure that it hangs.
HANG_SECONDS = 0.2


class Injected(Exception):
    """What a worker raises at its point."""


class TimedOut(BaseException):
    """What a timeout raises in a task process, wherever it is: no `except Exception` ends it."""


class Conversation:
    """One end of the socket between a worker and its starter."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._reader: IO[str] = end.makefile("r", encoding="utf-8")

    def say(self, message: dict[str, Any]) -> None:
        self._end.sendall(json.dumps(message).encode() + b"\n")

    def hear(self) -> dict[str, Any] | None:
        """None when the other one is gone."""
        try:
            line = self._reader.readline()
        except ConnectionError:
            return None
        return json.loads(line) if line else None

    def close(self) -> None:
        self._reader.close()
        self._end.close()


class ArmedPoint:
    """Meets a fault at the n-th time that a point is reached, counted from 0."""

    def __init__(self, given: dict[str, Any], talk: Conversation) -> None:
        self._point = (given["step"], given["moment"])
        self._fault: Fault = given["fault"]
        self._left: int = given["number"]
        self._on_the_wire: bool = given.get("on_the_wire", False)
        self._talk = talk

    def __call__(self, step: str, moment: str) -> None:
        if (step, moment) != self._point:
            return
        self._left -= 1
        if self._left != -1:
            return
        self._talk.say({"reached": [step, moment]})
        if self._on_the_wire:
            self._wait_for_the_starter()
            return
        if self._fault == "exception":
            raise Injected(f"{moment} of {step}")
        if self._fault == "hang":
            signal.setitimer(signal.ITIMER_REAL, HANG_SECONDS)
            while True:
                time.sleep(60)
        if self._fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        self._wait_for_the_starter()

    def _wait_for_the_starter(self) -> None:
        if self._talk.hear() is None:
            os._exit(1)


def work(job: dict[str, Any], talk: Conversation) -> dict[str, Any]:
    """Run the job; how it ended."""
    from airflow_provider_dpone.contracts.errors import GuardError
    from airflow_provider_dpone.drivers import trigger_points

    hook = ArmedPoint(job["point"], talk) if job.get("point") else (lambda step, moment: None)
    try:
        with trigger_points.armed(hook):
            if "command" in job:
                return _command(job["command"])
            return {"end": _attempt(job)}
    except GuardError as err:
        return {"end": type(err).__name__, "reason": err.reason, "text": str(err)}
    except (Exception, TimedOut) as err:  # whatever ends a worker is what its starter wants to know
        traceback.print_exc()
        return {"end": type(err).__name__, "text": str(err)}


def _attempt(job: dict[str, Any]) -> str:
    from airflow_provider_dpone.cli.configuration import Configuration
    from airflow_provider_dpone.composition import projection
    from airflow_provider_dpone.composition.services import guarded_attempt
    from airflow_provider_dpone.contracts.principal import Coordinates

    configuration = Configuration.read(Path(job["config"]))
    active = projection.load_workload(configuration.release_root, job["workload"])
    return guarded_attempt(configuration.services(), active, Coordinates(**job["coordinates"])).run().operation.state


def _command(arguments: list[str]) -> dict[str, Any]:
    from io import StringIO

    from airflow_provider_dpone.cli import main as command_line

    sys.argv = ["dponectl", *arguments]
    out, err = StringIO(), StringIO()
    code: object = None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            command_line.main()
        except SystemExit as ended:
            code = ended.code
    return {"end": "command", "code": code, "out": out.getvalue(), "err": err.getvalue()}


def _child(end: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, _timed_out)
    talk = Conversation(end)
    talk.say({"pid": os.getpid()})
    job = talk.hear()
    if job is not None:
        talk.say(work(job, talk))


def _timed_out(number: int, frame: FrameType | None) -> None:
    raise TimedOut


def main() -> None:
    """Fork a worker for each socket that arrives, until the starter is gone."""
    _import_everything()
    logging.basicConfig(level=logging.INFO, format="%(process)d %(levelname)s %(message)s")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a worker: its socket says when it is gone
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.sendall(b"r")
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
        if not message:
            return
        (descriptor,) = descriptors
        if os.fork() == 0:
            channel.close()
            try:
                _child(socket.socket(fileno=descriptor))
            finally:
                sys.stderr.flush()
                os._exit(0)
        os.close(descriptor)


def _import_everything() -> None:
    import clickhouse_connect.driver.httputil  # noqa: F401
    import mssql_python  # noqa: F401
    import psycopg  # noqa: F401
    import pyarrow  # noqa: F401

    import airflow_provider_dpone.cli.main
    import airflow_provider_dpone.composition.services  # noqa: F401


class Worker:
    """A worker, as its starter sees it."""

    def __init__(self, end: socket.socket, job: dict[str, Any]) -> None:
        self._talk = Conversation(end)
        self._ended: dict[str, Any] | None = None
        self.reached = False
        end.settimeout(120)
        hello = self._talk.hear()
        assert hello is not None, "the process that forks workers is gone"
        self.pid: int = hello["pid"]
        self._talk.say(job)

    def wait_for_point(self) -> bool:
        """Whether its point was reached, before it ended."""
        while not self.reached and self._ended is None:
            self._next()
        return self.reached

    def go_on(self) -> None:
        self._talk.say({"go": True})

    def end(self) -> dict[str, Any]:
        """How it ended; `killed` when it could not say."""
        while self._ended is None:
            self._next()
        self._talk.close()
        return self._ended

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def time_out(self) -> None:
        """Its timeout raises, wherever it is."""
        self._signal(signal.SIGALRM)

    def _signal(self, number: int) -> None:
        if self._ended is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _next(self) -> None:
        message = self._talk.hear()
        if message is None:
            self._ended = {"end": "killed"}
        elif "reached" in message:
            self.reached = True
        else:
            self._ended = message


class Workers:
    """Starts workers. Their standard error goes to a file."""

    def __init__(self, log: Path) -> None:
        self._channel, theirs = socket.socketpair()
        self._started: list[Worker] = []
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.worker", str(theirs.fileno())],
                cwd=ROOT,
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        theirs.close()
        assert self._channel.recv(1) == b"r", f"the process that forks workers did not start: {log}"

    def start(self, **job: Any) -> Worker:
        mine, theirs = socket.socketpair()
        socket.send_fds(self._channel, [b"w"], [theirs.fileno()])
        theirs.close()
        self._started.append(Worker(mine, job))
        return self._started[-1]

    def kill_all(self) -> None:
        """Those that did not say that they have ended."""
        for worker in self._started:
            worker.kill()
        self._started.clear()

    def close(self) -> None:
        self.kill_all()
        self._channel.close()
        self._process.wait(30)


if __name__ == "__main__":
    main()
