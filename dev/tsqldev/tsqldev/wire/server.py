"""The listener of the endpoint: loopback only, one thread a connection."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from types import TracebackType
from typing import Self

from tsqldev.interfaces import Engine
from tsqldev.wire.certificate import make_tls
from tsqldev.wire.connection import Connection
from tsqldev.wire.transport import Transport

log = logging.getLogger(__name__)


class TdsServer:
    """Serves `engine` on 127.0.0.1. `certificate` is the PEM text that a client may verify the server with."""

    def __init__(self, engine: Engine, *, port: int = 0, server_name: str = "tsqldev") -> None:
        self._engine = engine
        self._server_name = server_name
        self._tls, self.certificate = make_tls()
        self._listener = socket.create_server(("127.0.0.1", port), backlog=128)
        self.host = "127.0.0.1"
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._open: dict[threading.Thread, Connection] = {}
        self._stopping = False
        self._acceptor = threading.Thread(target=self._accept, name="tds-listener", daemon=True)

    def start(self) -> None:
        self._acceptor.start()

    def stop(self, timeout: float = 20) -> None:
        """Take no new client, cut the others, and wait until their sessions are closed."""
        self._stopping = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        if self._acceptor.is_alive():
            self._acceptor.join(timeout)
        with self._lock:
            threads = list(self._open.items())
        for _, connection in threads:
            connection.disconnect()
        for thread, _ in threads:
            thread.join(timeout)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _accept(self) -> None:
        while not self._stopping:
            try:
                client, _ = self._listener.accept()
            except OSError as error:
                if not self._stopping:
                    log.warning("accept failed: %s", error)
                    threading.Event().wait(0.1)
                continue
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(Transport(client), self._engine, self._tls, self._server_name)
            thread = threading.Thread(target=self._serve, args=(connection,), name="tds", daemon=True)
            with self._lock:
                self._open[thread] = connection
            thread.start()

    def _serve(self, connection: Connection) -> None:
        try:
            connection.serve()
        finally:
            with self._lock:
                self._open.pop(threading.current_thread(), None)
