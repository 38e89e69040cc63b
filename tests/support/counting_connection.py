"""Connections whose batches are counted: what a call costs in round trips, which no machine's load can change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider_dpone.drivers import Connect, Connection, Cursor


class Counting:
    """A connection factory that keeps every batch that was sent through it."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self.batches: list[str] = []
        self.connections = 0

    def __call__(self) -> Connection:
        self.connections += 1
        return _CountedConnection(self._connect(), self.batches)


class _CountedConnection:
    def __init__(self, connection: Any, batches: list[str]) -> None:
        self._connection = connection
        self._batches = batches

    def setautocommit(self, value: bool) -> None:
        self._connection.setautocommit(value)

    def cursor(self) -> Cursor:
        return _CountedCursor(self._connection.cursor(), self._batches)

    def commit(self) -> None:
        self._connection.commit()

    def rollback(self) -> None:
        self._connection.rollback()

    def close(self) -> None:
        self._connection.close()


class _CountedCursor:
    def __init__(self, cursor: Any, batches: list[str]) -> None:
        self._cursor = cursor
        self._batches = batches

    @property
    def description(self) -> Any:
        return self._cursor.description

    @property
    def rowcount(self) -> int:
        return int(self._cursor.rowcount)

    def execute(self, operation: str, /, *parameters: Any) -> Any:
        self._batches.append(operation)
        return self._cursor.execute(operation, *parameters)

    def fetchone(self) -> Any:
        return self._cursor.fetchone()

    def fetchall(self) -> Sequence[Any]:
        return list(self._cursor.fetchall())

    def nextset(self) -> bool | None:
        return bool(self._cursor.nextset())

    def close(self) -> None:
        self._cursor.close()
