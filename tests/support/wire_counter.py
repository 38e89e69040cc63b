"""What really crosses the network between clients and a server, counted where it crosses: on a TCP proxy.

A driver sends more than it is told to: session options, prepared handles, its own commits. So requests are counted by
their heads on the wire (MS-TDS 2.2.3, HTTP/1.1), not by calls. What is encrypted cannot be read: a SQL Server connection
must end its encryption with the login (``encrypt="no"``), and a connection whose requests cannot be read is an error.
"""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol

#: TDS messages that the server answers: SQL batch, procedure call, bulk load, transaction request.
_REQUESTS = {1: "batch", 3: "call", 7: "bulk load", 14: "transaction"}
_PRELOGIN, _LOGIN, _ATTENTION = 18, 16, 6
_TLS_RECORDS = range(0x14, 0x18)
_END_OF_MESSAGE = 0x01

_HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"(?im)^content-length: *(\d+)\r?$")
_CHUNKED = re.compile(rb"(?im)^transfer-encoding: *chunked\r?$")


@dataclass(slots=True)
class Traffic:
    """Sessions that were opened, and the round trips on them: each request by its kind, in the order of arrival."""

    sessions: int = 0
    requests: list[str] = field(default_factory=list)

    @property
    def round_trips(self) -> int:
        return len(self.requests)


class _Reader(Protocol):
    def feed(self, data: bytes) -> None:
        """The next bytes that a client sent."""


class WireCounter:
    """Forwards to one server and counts: ``with WireCounter(host, port, Tds) as counter: connect to counter.port``."""

    def __init__(self, host: str, port: int, reader: Callable[[WireCounter], _Reader]) -> None:
        self._target = (host, port)
        self._reader = reader
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._traffic = Traffic()
        self.port: int = self._listener.getsockname()[1]

    def take(self) -> Traffic:
        """What was seen since the last time."""
        with self._lock:
            taken, self._traffic = self._traffic, Traffic()
        return taken

    def session(self) -> None:
        with self._lock:
            self._traffic.sessions += 1

    def request(self, kind: str) -> None:
        with self._lock:
            self._traffic.requests.append(kind)

    def __enter__(self) -> WireCounter:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
            except OSError:
                return
            for side in (client, server):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets += [client, server]
            threading.Thread(target=_forward, args=(client, server, self._reader(self)), daemon=True).start()
            threading.Thread(target=_forward, args=(server, client, None), daemon=True).start()


def _forward(source: socket.socket, sink: socket.socket, reader: _Reader | None) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            if reader is not None:
                # Counted before it is sent on: who has the answer finds it counted.
                reader.feed(data)
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_RDWR)


class Tds:
    """Puts the packets of one SQL Server client together to messages."""

    def __init__(self, counter: WireCounter) -> None:
        self._counter = counter
        self._data = b""
        self._logged_in = False

    def feed(self, data: bytes) -> None:
        self._data += data
        while len(self._data) >= 8:
            kind, status, length = struct.unpack_from(">BBH", self._data)
            if kind in _TLS_RECORDS:
                # An encrypted login is one TLS record outside of TDS; so would be everything on an encrypted session.
                kind, status, length = _LOGIN, _END_OF_MESSAGE, struct.unpack_from(">H", self._data, 3)[0] + 5
            if len(self._data) < length:
                return
            self._data = self._data[length:]
            if status & _END_OF_MESSAGE:
                self._message(kind)

    def _message(self, kind: int) -> None:
        if kind == _LOGIN:
            if self._logged_in:
                raise ValueError("the session is encrypted: its requests cannot be counted")
            self._logged_in = True
            self._counter.session()
        elif kind in _REQUESTS:
            self._counter.request(_REQUESTS[kind])
        elif kind not in (_PRELOGIN, _ATTENTION):
            raise ValueError(f"a TDS message of kind {kind}")


class Http:
    """Finds the requests of one HTTP client, whatever their bodies hold."""

    def __init__(self, counter: WireCounter) -> None:
        self._counter = counter
        self._data = b""
        self._left = 0
        self._chunks = False
        counter.session()

    def feed(self, data: bytes) -> None:
        self._data += data
        while self._data and self._step():
            pass

    def _step(self) -> bool:
        if self._left:
            taken = min(self._left, len(self._data))
            self._data, self._left = self._data[taken:], self._left - taken
            return True
        if self._chunks:
            size, found, rest = self._data.partition(b"\r\n")
            if not found:
                return False
            self._left = int(size.split(b";")[0], 16) + 2
            self._chunks = self._left > 2
            self._data = rest
            return True
        head, found, rest = self._data.partition(_HEAD_END)
        if not found:
            return False
        length = _LENGTH.search(head)
        self._left = int(length[1]) if length else 0
        self._chunks = _CHUNKED.search(head) is not None
        self._data = rest
        self._counter.request(head.split(b" ", 1)[0].decode("ascii", "replace"))
        return True
