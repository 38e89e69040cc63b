"""Connections that say what they are about to send: what counting and losing batches have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from airflow_provider_dpone.drivers import Cursor

#: Called with each batch right before it is sent.
Watch = Callable[[str], None]


class WatchedConnection:
    """Passes everything through to a connection."""

    def __init__(self, connection: Any, watch: Watch) -> None:
        self._connection = connection
        self._watch = watch

    def setautocommit(self, value: bool) -> None:
        self._connection.setautocommit(value)

    def cursor(self) -> Cursor:
        return WatchedCursor(self._connection.cursor(), self._watch)

    def commit(self) -> None:
        self._connection.commit()

    def rollback(self) -> None:
        self._connection.rollback()

    def close(self) -> None:
        self._connection.close()


class WatchedCursor:
    def __init__(self, cursor: Any, watch: Watch) -> None:
        self._cursor = cursor
        self._watch = watch

    @property
    def description(self) -> Any:
        return self._cursor.description

    @property
    def rowcount(self) -> int:
        return int(self._cursor.rowcount)

    def execute(self, operation: str, /, *parameters: Any) -> Any:
        self._watch(operation)
        return self._cursor.execute(operation, *parameters)

    def fetchone(self) -> Any:
        return self._cursor.fetchone()

    def fetchall(self) -> Sequence[Any]:
        return list(self._cursor.fetchall())

    def nextset(self) -> bool | None:
        return bool(self._cursor.nextset())

    def close(self) -> None:
        self._cursor.close()
