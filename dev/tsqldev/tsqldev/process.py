"""The endpoint as a process of its own, for tests, campaigns and measurements."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Served:
    """A running endpoint: the port it listens on, its process id, and the file of its log."""

    port: int
    pid: int
    log: Path


@contextlib.contextmanager
def served(folder: Path, password: str, *, trace: Path | None = None) -> Iterator[Served]:
    """Serve from `folder` until the end of the block, or of this process.

    A process of its own: a client that holds the interpreter's lock while it waits would stop an endpoint in a thread.
    """
    password_file, port_file, log = folder / "password", folder / "port", folder / "log"
    password_file.touch(mode=0o600)
    password_file.write_text(password, encoding="utf-8")
    command = [sys.executable, "-m", "tsqldev", "serve", "--data", str(folder / "data"), "--with-parent"]
    command += ["--port-file", str(port_file), "--password-file", str(password_file)]
    if trace is not None:
        command += ["--trace", str(trace)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output)
    try:
        while not port_file.exists():
            if process.poll() is not None:
                raise RuntimeError(f"The endpoint did not start:\n{log.read_text(errors='replace')[-4000:]}")
            time.sleep(0.02)
        password_file.unlink()
        yield Served(int(port_file.read_text()), process.pid, log)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
