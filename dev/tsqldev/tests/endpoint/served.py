"""`tsqldev serve` as a process of its own, to start, ask and end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pymssql

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


def pids_in(folder: Path) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").samefile(folder):
                found.append(int(entry.name))
        except OSError:
            continue
    return found
