"""Starting and stopping the embedded ClickHouse server: ``ClickHouseServer(state_dir).start() -> Endpoint``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dpone_embedded.clickhouse.config import Layout

START_SECONDS = 60.0
STOP_SECONDS = 15.0


class ClickHouseUnavailable(RuntimeError):
    """The server could not be started; the text says why and where its logs are."""


@dataclass(frozen=True)
class Account:
    """A standing account in the engine's users.xml, with privileges that the engine itself enforces."""

    name: str
    grants: tuple[str, ...]


OBSERVER = Account("dpone_observer", ("GRANT SELECT ON *.*",))


@dataclass(frozen=True, repr=False)
class Endpoint:
    """Where the server answers and who may log in. ``passwords`` holds every standing account, the administrator
    included.
    """

    host: str
    port: int
    admin_user: str
    passwords: dict[str, str]

    @property
    def admin_password(self) -> str:
        return self.passwords[self.admin_user]

    @property
    def observer_user(self) -> str:
        return OBSERVER.name

    @property
    def observer_password(self) -> str:
        return self.passwords[OBSERVER.name]

    def __repr__(self) -> str:
        return f"Endpoint(host={self.host!r}, port={self.port}, admin_user={self.admin_user!r})"


class ClickHouseServer:
    """One server on one state directory; start it again after any death and it recovers what was committed."""

    def __init__(
        self,
        state_dir: Path | str,
        http_port: int = 0,
        accounts: Sequence[Account] = (OBSERVER,),
        outlive: bool = False,
    ) -> None:
        self._layout = Layout(Path(state_dir).absolute())
        self._port = http_port
        self._accounts = {account.name: account.grants for account in accounts}
        self._outlive = outlive
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log_files(self) -> tuple[Path, Path]:
        return self._layout.state / "proxy.log", self._layout.log

    @property
    def process(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ClickHouseUnavailable("The embedded ClickHouse server has not been started.")
        return self._process

    def start(self) -> Endpoint:
        """Start the server and return when it answers. It ends with this process unless ``outlive`` was asked for."""
        self._layout.state.mkdir(parents=True, exist_ok=True)
        # The engine writes tables and query logs with the modes of its umask; nobody else looks into the folder.
        self._layout.state.chmod(0o700)
        self._layout.readiness.unlink(missing_ok=True)
        arguments = {"port": self._port, "accounts": self._accounts, "outlive": self._outlive}
        with open(self._layout.state / "proxy.log", "ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "dpone_embedded.clickhouse", str(self._layout.state), json.dumps(arguments)],
                stdin=subprocess.DEVNULL if self._outlive else subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._layout.readiness.exists():
            if self._process.poll() is not None:
                raise ClickHouseUnavailable(f"The embedded ClickHouse server did not start. {self._last_words()}")
            if time.monotonic() > deadline:
                self.kill()
                raise ClickHouseUnavailable(f"The embedded ClickHouse server gave no answer. {self._last_words()}")
            time.sleep(0.02)
        return self.endpoint()

    def endpoint(self) -> Endpoint:
        found = json.loads(self._layout.readiness.read_text())
        passwords = json.loads(self._layout.secrets.read_text())["accounts"]
        return Endpoint("127.0.0.1", found["port"], found["administrator"], passwords)

    def engine_pid(self) -> int:
        """The process id of the engine behind the proxy, for tests that kill it."""
        return int(json.loads(self._layout.readiness.read_text())["engine_pid"])

    def stop(self) -> None:
        """End the server and its engine. Calling it twice does no harm."""
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._close()

    def kill(self) -> None:
        """End the whole server with SIGKILL, as a crash would."""
        process = self._process
        if process is None:
            return
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            process.poll()
        process.wait()
        self._close()

    def _close(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        self._layout.readiness.unlink(missing_ok=True)
        self._process = None

    def _last_words(self) -> str:
        path = self._layout.state / "proxy.log"
        text = path.read_text(errors="replace").strip().splitlines()[-8:] if path.exists() else []
        return f"Its log is {path}; the end of it:\n    " + "\n    ".join(text)
