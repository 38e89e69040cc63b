"""A control connection that breaks at the commit, in one of the two ways that look the same to the client."""

from __future__ import annotations

from airflow_provider_dpone.drivers import Connect, Connection
from tests.support.tcp_proxy import Loss, TcpProxy
from tests.support.watched_connection import WatchedConnection


class LosingTheCommit:
    """Wraps a connection factory that goes through a proxy; the first commit that is sent is lost, later ones are not."""

    def __init__(self, connect: Connect, proxy: TcpProxy, loss: Loss) -> None:
        self._connect = connect
        self._proxy = proxy
        self._loss: Loss | None = loss
        self.lost = 0

    def __call__(self) -> Connection:
        return WatchedConnection(self._connect(), self._sees)

    def over(self, connect: Connect) -> Connect:
        """The connections of another account through the same proxy, which share this fate."""
        return lambda: WatchedConnection(connect(), self._sees)

    def commit_is_sent(self) -> None:
        if self._loss is not None:
            self._proxy.lose(self._loss)
            self._loss = None
            self.lost += 1

    def _sees(self, batch: str) -> None:
        if "COMMIT TRANSACTION;" in batch:
            self.commit_is_sent()
