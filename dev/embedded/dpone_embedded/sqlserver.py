"""The SQL Server emulation, through its one way in: `tsqldev serve`."""

from __future__ import annotations

import os
import sys
import time
from threading import Event

from dpone_embedded import addresses
from dpone_embedded.children import Child, child_environment
from dpone_embedded.errors import Interrupted, StackError
from dpone_embedded.ports import LOOPBACK, accepts
from dpone_embedded.statedir import StateDir


class SqlServerService:
    """Started with a port of the server's choice, which it writes to a file when it listens."""

    name = "sqlserver"

    def __init__(self, state: StateDir, *, traces: str | None = None) -> None:
        """In `traces`, a folder, every batch that the server is sent is kept."""
        self._state = state
        self._traces = traces
        self._child: Child | None = None
        self._port: int | None = None

    def start(self, stop: Event) -> None:
        data = self._state.data("sqlserver")
        data.mkdir(exist_ok=True)
        port_file = self._state.path / "sqlserver.port"
        port_file.unlink(missing_ok=True)
        password_file = self._state.path / "sqlserver.password"
        handle = os.open(password_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as out:
            out.write(self._state.secret("sqlserver_sa"))
        command = [sys.executable, "-m", "tsqldev", "serve", "--data", str(data), "--port", "0"]
        command += ["--port-file", str(port_file), "--password-file", str(password_file)]
        self._child = Child(
            "the SQL Server endpoint",
            command,
            log=self._state.log(self.name),
            environment=child_environment(
                self._state.path, {} if self._traces is None else {"TSQLDEV_TRACES": self._traces}
            ),
            cwd=data,
        )
        deadline = time.monotonic() + 120
        while self._port is None:
            if stop.is_set():
                raise Interrupted("The SQL Server endpoint was interrupted while it started")
            self.check()
            text = port_file.read_text().strip() if port_file.exists() else ""
            if text.isdigit() and accepts(int(text)):
                self._port = int(text)
            elif time.monotonic() > deadline:
                raise StackError(f"The SQL Server endpoint did not listen within 120 s. {self._child.last_words()}")
            else:
                time.sleep(0.05)

    @property
    def address(self) -> addresses.SqlServer:
        if self._port is None:
            raise StackError("The SQL Server endpoint has not started.")
        return addresses.SqlServer(host=LOOPBACK, port=self._port, password=self._state.secret("sqlserver_sa"))

    def check(self) -> None:
        if self._child is not None and not self._child.running():
            raise self._child.died()

    def stop(self) -> None:
        if self._child is not None:
            # It stops its own PostgreSQL, with a checkpoint.
            self._child.stop(grace=30)
            self._child = None
