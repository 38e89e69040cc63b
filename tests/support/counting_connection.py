"""Connections whose batches are counted: what a call costs in round trips, which no machine's load can change."""

from __future__ import annotations

from airflow_provider_dpone.drivers import Connect, Connection
from tests.support.watched_connection import WatchedConnection


class Counting:
    """A connection factory that keeps every batch that was sent through it."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self.batches: list[str] = []
        self.connections = 0

    def __call__(self) -> Connection:
        self.connections += 1
        return WatchedConnection(self._connect(), self.batches.append)
