"""Who waits for whom inside PostgreSQL, by session id: what a circle of waiting sessions may go through."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import psycopg

if TYPE_CHECKING:
    from tsqldev.session.registry import Registry

_WAITING = b"select pid, pg_blocking_pids(pid) from pg_stat_activity where wait_event_type = 'Lock'"


class Waits:
    """Asks over a connection of its own, made when it is first needed."""

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]], registry: Registry) -> None:
        self._connect = connect
        self._registry = registry
        self._connection: psycopg.Connection[Any] | None = None
        self._lock = threading.Lock()

    def edges(self) -> dict[int, set[int]]:
        with self._lock:
            rows = self._rows()
        if not rows:
            return {}
        sessions = {record.backend_pid: record.spid for record in self._registry.listed()}
        return {
            sessions[pid]: {sessions[other] for other in blocking if other in sessions}
            for pid, blocking in rows
            if pid in sessions
        }

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()

    def _rows(self) -> list[Any]:
        try:
            if self._connection is None or self._connection.closed:
                self._connection = self._connect()
            return self._connection.execute(_WAITING).fetchall()
        except psycopg.OperationalError:
            # PostgreSQL is going down: every session will hear of it by itself.
            return []
