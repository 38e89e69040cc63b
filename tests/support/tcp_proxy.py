"""A TCP proxy on loopback that can lose what a test says it loses.

It sees bytes only (they may be TLS), so a test arms it from the outside, right before the client sends the message whose
fate is to be decided. Connections that are opened later are not touched.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from types import TracebackType
from typing import Literal

Loss = Literal["reply", "request"]

_RESET = struct.pack("ii", 1, 0)


class _Pair:
    """One client connection and its server connection."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.loss: Loss | None = None

    def run(self) -> None:
        threading.Thread(target=self._to_server, daemon=True).start()
        threading.Thread(target=self._to_client, daemon=True).start()

    def _to_server(self) -> None:
        with contextlib.suppress(OSError):
            while data := self.client.recv(65536):
                if self.loss == "request":
                    break
                self.server.sendall(data)
        self.end()

    def _to_client(self) -> None:
        with contextlib.suppress(OSError):
            while data := self.server.recv(65536):
                if self.loss == "reply":
                    break
                self.client.sendall(data)
        self.end()

    def end(self) -> None:
        """Reset both sides: the client sees a broken connection, the server a client that vanished."""
        for side in (self.client, self.server):
            with contextlib.suppress(OSError):
                side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
            side.close()


class TcpProxy:
    """Forwards connections to one server: ``with TcpProxy(host, port) as proxy: connect to proxy.port``."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: list[_Pair] = []
        self.port: int = self._listener.getsockname()[1]

    def lose(self, loss: Loss) -> None:
        """From now on the open connections break at their next message: before it arrives, or before its reply does."""
        for pair in self._pairs:
            pair.loss = loss

    def __enter__(self) -> TcpProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        for pair in self._pairs:
            pair.end()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            for side in (client, server):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pair = _Pair(client, server)
            self._pairs.append(pair)
            pair.run()
