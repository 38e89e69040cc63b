"""Runs dbt as a child process that holds the attempt's secret in its memory and nowhere else."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from airflow_provider_dpone.drivers import Secret
from airflow_provider_dpone.drivers.mssql import MsSqlDsn
from airflow_provider_dpone.gates.interface import Credential
from airflow_provider_dpone.routes.dbt_child import SECRET_VARIABLE
from airflow_provider_dpone.routes.dbt_results import INVOCATION_VARIABLE
from airflow_provider_dpone.routes.dbt_workspace import Workspace
from airflow_provider_dpone.routes.os_user import OsUser

#: The child's program: its user must be able to read it.
CHILD = Path(__file__).with_name("dbt_child.py")

#: How long dbt may take to end by itself after SIGINT, before its whole process group is killed. Airflow kills its
#: own task process five seconds after SIGTERM.
INTERRUPT_GRACE_SECONDS = 3.0

#: How long its output is read after it ended, and the longest line that is kept whole.
_PIPE_GRACE_SECONDS = 2.0
_POLL_MILLISECONDS = 200
_LINE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class DbtInvocation:
    """One `dbt build`. `workspace` is new for every attempt; `nonce` comes back in the artifacts that it writes.

    Without a `user` the child runs as the user of this process.
    """

    workspace: Workspace
    nonce: str
    profile: str
    target: MsSqlDsn
    schema: str
    threads: int
    user: OsUser | None


class DbtProcess:
    """A started dbt. `wait` streams its log and returns the exit code; `interrupt` may come from another thread."""

    def __init__(self, invocation: DbtInvocation, credential: Credential) -> None:
        self._secret = credential.secret
        _write_profile(invocation, credential.username)
        user = invocation.user
        invocation.workspace.hand_over(user)
        read_end, write_end = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", str(CHILD), str(read_end), str(os.getpid()), "--", *_arguments(invocation)],
                cwd=invocation.workspace.child,
                env=_environment(invocation),
                pass_fds=(read_end,),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # Between fork and exec: nothing of dbt ever runs with the rights of this process.
                user=user.uid if user else None,
                group=user.gid if user else None,
                extra_groups=[] if user else None,
            )
        except BaseException:
            os.close(write_end)
            raise
        finally:
            os.close(read_end)
        self._ended = threading.Event()
        self._reaping = threading.Lock()
        threading.Thread(target=self._watch, daemon=True).start()
        # A child that died before it read leaves a broken pipe: what it reports tells, not this write.
        with contextlib.suppress(BrokenPipeError), os.fdopen(write_end, "w", encoding="utf-8") as pipe:
            pipe.write(credential.secret.reveal())

    def wait(self, log: logging.Logger | logging.LoggerAdapter[Any]) -> int:
        """Log every line that dbt prints, scrubbed, until it ends. Nothing of its process group is left then."""
        assert self._process.stdout is not None
        try:
            for line in self._lines(self._process.stdout.fileno()):
                log.info("dbt: %s", scrub(line.decode("utf-8", "replace").rstrip(), self._secret))
        finally:
            self.kill()
            self._process.stdout.close()
        return self._process.returncode

    def interrupt(self) -> None:
        """Ask dbt to end; kill its process group when it does not. Its statements end when the login is closed."""
        if self._ended.is_set():
            return
        self._signal(signal.SIGINT)
        threading.Timer(INTERRUPT_GRACE_SECONDS, self.kill).start()

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self._ended.wait()
        with self._reaping:
            self._process.wait()

    def _watch(self) -> None:
        """When dbt itself ends, so does what it started. Before it is reaped: nobody else has its number until then."""
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        self._signal(signal.SIGKILL)
        self._ended.set()

    def _signal(self, number: int) -> None:
        with self._reaping, contextlib.suppress(ProcessLookupError):
            if self._process.returncode is None:
                os.killpg(self._process.pid, number)

    def _lines(self, descriptor: int) -> Iterator[bytes]:
        """What is printed, line by line. A process that left the group and holds the pipe is not waited for."""
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        pending, last = b"", float("inf")
        while time.monotonic() < last:
            if self._ended.is_set() and last == float("inf"):
                last = time.monotonic() + _PIPE_GRACE_SECONDS
            if not poll.poll(_POLL_MILLISECONDS):
                continue
            chunk = os.read(descriptor, _LINE_BYTES)
            if not chunk:
                break
            *lines, pending = (pending + chunk).split(b"\n")
            yield from lines
            if len(pending) > _LINE_BYTES:
                yield pending
                pending = b""
        if pending:
            yield pending


def scrub(text: str, secret: Secret) -> str:
    """Text without the secret, should a driver's message repeat it."""
    return text.replace(secret.reveal(), "***")


def _arguments(invocation: DbtInvocation) -> Sequence[str]:
    workspace = invocation.workspace
    return [
        *("--no-use-colors", "--no-version-check", "--log-path", str(workspace.logs)),
        *("build", "--project-dir", str(workspace.project), "--profiles-dir", str(workspace.child)),
        *("--target-path", str(workspace.target), "--threads", str(invocation.threads), "--no-partial-parse"),
    ]


def inherited_environment() -> dict[str, str]:
    """What the child has of this process's environment."""
    names = ("PATH", "TZ", "SSL_CERT_FILE", "LD_LIBRARY_PATH")
    return {name: os.environ[name] for name in names if name in os.environ}


def _environment(invocation: DbtInvocation) -> dict[str, str]:
    """The only variables that dbt sees. HOME is the child's folder, so nothing of the user's is read or written."""
    return {
        **inherited_environment(),
        "HOME": str(invocation.workspace.child),
        "LANG": "C.UTF-8",
        "DO_NOT_TRACK": "1",
        "PYTHONUNBUFFERED": "1",
        INVOCATION_VARIABLE: invocation.nonce,
    }


def _write_profile(invocation: DbtInvocation, user: str) -> None:
    dsn = invocation.target
    output = {
        "type": "sqlserver",
        "backend": "mssql-python",
        "host": dsn.host,
        "port": dsn.port,
        "database": dsn.database,
        "schema": invocation.schema,
        "user": user,
        "password": "{{ env_var('" + SECRET_VARIABLE + "') }}",
        "encrypt": dsn.encrypt != "no",
        "trust_cert": dsn.trust_server_certificate,
        "login_timeout": dsn.login_timeout_seconds,
        "threads": invocation.threads,
        # A repeat inside dbt would be a second execution that nobody admitted.
        "retries": 0,
    }
    profiles = {invocation.profile: {"target": "attempt", "outputs": {"attempt": output}}}
    path = invocation.workspace.profiles
    path.write_text(yaml.safe_dump(profiles), encoding="utf-8")
    path.chmod(0o600)
