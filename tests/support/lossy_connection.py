"""A control connection that breaks at the commit, in one of the two ways that look the same to the client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider_dpone.drivers import Connect, Connection, Cursor
from tests.support.tcp_proxy import Loss, TcpProxy


class LosingTheCommit:
    """Wraps a connection factory that goes through a proxy; the first commit that is sent is lost, later ones are not."""

    def __init__(self, connect: Connect, proxy: TcpProxy, loss: Loss) -> None:
        self._connect = connect
        self._proxy = proxy
        self._loss: Loss | None = loss
        self.lost = 0

    def __call__(self) -> Connection:
        return _LossyConnection(self._connect(), self)

    def over(self, connect: Connect) -> Connect:
        """The connections of another account through the same proxy, which share this fate."""
        return lambda: _LossyConnection(connect(), self)

    def commit_is_sent(self) -> None:
        if self._loss is not None:
            self._proxy.lose(self._loss)
            self._loss = None
            self.lost += 1


class _LossyConnection:
    def __init__(self, connection: Any, fate: LosingTheCommit) -> None:
        self._connection = connection
        self._fate = fate

    def setautocommit(self, value: bool) -> None:
        self._connection.setautocommit(value)

    def cursor(self) -> Cursor:
        return _LossyCursor(self._connection.cursor(), self._fate)

    def commit(self) -> None:
        self._connection.commit()

    def rollback(self) -> None:
        self._connection.rollback()

    def close(self) -> None:
        self._connection.close()


class _LossyCursor:
    def __init__(self, cursor: Any, fate: LosingTheCommit) -> None:
        self._cursor = cursor
        self._fate = fate

    @property
    def description(self) -> Any:
        return self._cursor.description

    @property
    def rowcount(self) -> int:
        return int(self._cursor.rowcount)

    def execute(self, operation: str, /, *parameters: Any) -> Any:
        if "COMMIT TRANSACTION;" in operation:
            self._fate.commit_is_sent()
        return self._cursor.execute(operation, *parameters)

    def fetchone(self) -> Any:
        return self._cursor.fetchone()

    def fetchall(self) -> Sequence[Any]:
        return list(self._cursor.fetchall())

    def nextset(self) -> bool | None:
        return bool(self._cursor.nextset())

    def close(self) -> None:
        self._cursor.close()
