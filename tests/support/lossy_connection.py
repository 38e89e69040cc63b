"""Control connections that break: at the commit, in the two ways that look the same to the client, or at any moment."""

from __future__ import annotations

from typing import Literal

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


#: When a transaction loses its connection: no session comes to be; the begin does not arrive; the begin's answer is lost,
#: and the server has taken the lock; the commit does not arrive; its acknowledgement is lost; the same, and nothing can
#: be reached any more.
Moment = Literal["connect", "begin", "begun", "commit", "reply", "silence"]

_LOSS: dict[Moment, Loss] = {
    "begin": "request",
    "begun": "reply",
    "commit": "request",
    "reply": "reply",
    "silence": "reply",
}


class BreakingAt:
    """Wraps a connection factory that goes through a proxy: the first transaction meets the moment, later ones do not."""

    def __init__(self, connect: Connect, proxy: TcpProxy, moment: Moment) -> None:
        self._connect = connect
        self._proxy = proxy
        self._moment = moment
        self._mark = "BEGIN TRANSACTION;" if moment in ("begin", "begun") else "COMMIT TRANSACTION;"
        self.met = False

    def __call__(self) -> Connection:
        if self._moment == "connect" or (self.met and self._moment == "silence"):
            self.met = True
            raise ConnectionRefusedError("nobody listens")
        return WatchedConnection(self._connect(), self._sees)

    def _sees(self, batch: str) -> None:
        if self._mark in batch and not self.met:
            self.met = True
            self._proxy.lose(_LOSS[self._moment])
