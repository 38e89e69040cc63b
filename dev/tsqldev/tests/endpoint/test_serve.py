"""`tsqldev serve` as a process: how it starts, ends, and survives."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .served import Served, pids_in


@pytest.fixture
def started() -> Iterator[list[Served]]:
    servers: list[Served] = []
    yield servers
    for server in servers:
        if server.process.poll() is None:
            server.end(signal.SIGKILL)


def test_it_says_where_it_listens_ends_on_sigterm_and_keeps_its_data(tmp_path: Path, started: list[Served]) -> None:
    first = Served(tmp_path)
    started.append(first)
    assert first.ready == f"tsqldev: ready on 127.0.0.1:{first.port}\n"
    first.query("CREATE DATABASE kept")
    first.query("CREATE TABLE kept.dbo.t (a int); INSERT INTO kept.dbo.t VALUES (1)")
    assert first.end(signal.SIGTERM) == 0
    assert not first.port_file.exists()
    assert pids_in(tmp_path / "data ä" / "pgdata") == []
    second = Served(tmp_path)
    started.append(second)
    assert second.query("SELECT a FROM kept.dbo.t") == [(1,)]


def test_after_kill_9_nothing_is_left_running_and_committed_rows_are_there(
    tmp_path: Path, started: list[Served]
) -> None:
    first = Served(tmp_path)
    started.append(first)
    first.query("CREATE DATABASE kept")
    first.query("CREATE TABLE kept.dbo.t (a int); INSERT INTO kept.dbo.t VALUES (1)")
    first.end(signal.SIGKILL)
    end = time.monotonic() + 20
    while pids_in(tmp_path / "data ä" / "pgdata") and time.monotonic() < end:
        time.sleep(0.05)
    assert pids_in(tmp_path / "data ä" / "pgdata") == []
    second = Served(tmp_path)
    started.append(second)
    assert second.query("SELECT a FROM kept.dbo.t") == [(1,)]


def test_with_parent_it_ends_when_its_input_does(tmp_path: Path, started: list[Served]) -> None:
    server = Served(tmp_path, "--with-parent", stdin=subprocess.PIPE)
    started.append(server)
    assert server.process.stdin is not None
    server.process.stdin.close()
    assert server.process.wait(30) == 0


def test_a_missing_password_is_refused_before_anything_starts(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tsqldev", "serve", "--data", str(tmp_path / "data"), "--password-env", "NOT_SET"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "NOT_SET" in done.stderr
    assert not (tmp_path / "data").exists()
