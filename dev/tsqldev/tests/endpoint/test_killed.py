"""kill -9 of the endpoint or of its PostgreSQL, again and again, while clients commit."""

from __future__ import annotations

import itertools
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pymssql
import pytest

from .served import PASSWORD, Served, pids_in

ROUNDS = 10


class Writer:
    """Commits pairs of rows, and remembers the pairs whose COMMIT was acknowledged."""

    def __init__(self, first: int, *, in_one_batch: bool) -> None:
        self.acknowledged: set[int] = set()
        self.failures = 0
        self.port = 0
        self._numbers = itertools.count(first)
        self._in_one_batch = in_one_batch
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.stopping.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _work(self) -> None:
        while not self.stopping.is_set():
            try:
                connection = pymssql.connect(
                    server="127.0.0.1", port=str(self.port), user="sa", password=PASSWORD, database="kept",
                    login_timeout=5, timeout=20, autocommit=self._in_one_batch,
                )  # fmt: skip
                try:
                    self._commit_pairs(connection)
                finally:
                    connection.close()
            # A login whose first statement finds the session gone: that one pymssql does not translate.
            except (pymssql.Error, pymssql._mssql.MSSQLException):
                self.failures += 1
                self.stopping.wait(0.05)

    def _commit_pairs(self, connection: pymssql.Connection) -> None:
        cursor = connection.cursor()
        while not self.stopping.is_set():
            number = next(self._numbers)
            if self._in_one_batch:
                cursor.execute(
                    "BEGIN TRAN; INSERT pairs VALUES (%d, 1); INSERT pairs VALUES (%d, 2); COMMIT", (number, number)
                )
            else:
                cursor.execute("INSERT pairs VALUES (%d, 1)", (number,))
                cursor.execute("INSERT pairs VALUES (%d, 2)", (number,))
                connection.commit()
            self.acknowledged.add(number)


@pytest.fixture
def writers() -> Iterator[list[Writer]]:
    found = [Writer(1, in_one_batch=False), Writer(10_000_000, in_one_batch=True)]
    yield found
    for writer in found:
        writer.stopping.set()


def kill_postgres(data: Path) -> None:
    """SIGKILL the first process of the server: the others end when they see it gone."""
    postmaster = int((data / "pgdata" / "postmaster.pid").read_text().split("\n", 1)[0])
    os.kill(postmaster, signal.SIGKILL)


@pytest.mark.parametrize("victim", ["endpoint", "postgres"])
def test_every_acknowledged_commit_is_there_after_kill_9(tmp_path: Path, victim: str, writers: list[Writer]) -> None:
    chance = random.Random(20261129)
    server = Served(tmp_path)
    try:
        server.query("CREATE DATABASE kept")
        server.query("CREATE TABLE kept.dbo.pairs (n int, half int, PRIMARY KEY (n, half))")
        for writer in writers:
            writer.port = server.port
            writer.start()
        for _ in range(ROUNDS):
            before = [len(writer.acknowledged) for writer in writers]
            end = time.monotonic() + 60
            # Every writer gets to work again before the next kill, which then comes at any moment.
            while any(len(writer.acknowledged) <= count for writer, count in zip(writers, before, strict=True)):
                assert time.monotonic() < end, "a writer does not come back"
                time.sleep(0.01)
            time.sleep(chance.random() * 0.7)
            if victim == "postgres":
                kill_postgres(tmp_path / "data ä")
                time.sleep(chance.random() * 0.3)
            server.end(signal.SIGKILL)
            end = time.monotonic() + 30
            while pids_in(tmp_path / "data ä" / "pgdata") and time.monotonic() < end:
                time.sleep(0.02)
            acknowledged = [set(writer.acknowledged) for writer in writers]
            server = Served(tmp_path)
            for writer in writers:
                writer.port = server.port
            # Read while the writers go on: whole pairs only, because a reader waits for what is not committed.
            rows = server.query("SELECT n, COUNT(*) FROM kept.dbo.pairs GROUP BY n")
            assert {count for _, count in rows} <= {2}
            assert set().union(*acknowledged) <= {n for n, _ in rows}
        for writer in writers:
            writer.stop()
        assert all(writer.failures for writer in writers)
        rows = server.query("SELECT n, COUNT(*) FROM kept.dbo.pairs GROUP BY n")
        assert {count for _, count in rows} == {2}
        assert writers[0].acknowledged | writers[1].acknowledged <= {n for n, _ in rows}
    finally:
        if server.process.poll() is None:
            server.end(signal.SIGKILL)
