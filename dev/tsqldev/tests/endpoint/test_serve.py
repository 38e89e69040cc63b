"""`tsqldev serve` as a process: how it starts, ends, and survives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymssql
import pytest

PASSWORD = "Pa$$ 'wörd\"1"


class Served:
    def __init__(self, folder: Path, *options: str, **popen: Any) -> None:
        self.port_file = folder / "port"
        command = [sys.executable, "-m", "tsqldev", "serve", "--data", str(folder / "data ä"), "--port", "0"]
        command += ["--port-file", str(self.port_file), "--password-env", "SA_PASSWORD", *options]
        environment = {**os.environ, "SA_PASSWORD": PASSWORD}
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, **popen)
        assert self.process.stdout is not None
        self.ready = self.process.stdout.readline()
        self.port = int(self.port_file.read_text())

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        connection = pymssql.connect(
            server="127.0.0.1", port=str(self.port), user="sa", password=PASSWORD, autocommit=True
        )
        try:
            cursor = connection.cursor()
            cursor.execute(sql)
            return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        code = self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@pytest.fixture
def started() -> Iterator[list[Served]]:
    servers: list[Served] = []
    yield servers
    for server in servers:
        if server.process.poll() is None:
            server.end(signal.SIGKILL)


def _pids_in(folder: Path) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").samefile(folder):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_it_says_where_it_listens_ends_on_sigterm_and_keeps_its_data(tmp_path: Path, started: list[Served]) -> None:
    first = Served(tmp_path)
    started.append(first)
    assert first.ready == f"tsqldev: ready on 127.0.0.1:{first.port}\n"
    first.query("CREATE DATABASE kept")
    first.query("CREATE TABLE kept.dbo.t (a int); INSERT INTO kept.dbo.t VALUES (1)")
    assert first.end(signal.SIGTERM) == 0
    assert not first.port_file.exists()
    assert _pids_in(tmp_path / "data ä" / "pgdata") == []
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
    while _pids_in(tmp_path / "data ä" / "pgdata") and time.monotonic() < end:
        time.sleep(0.05)
    assert _pids_in(tmp_path / "data ä" / "pgdata") == []
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
