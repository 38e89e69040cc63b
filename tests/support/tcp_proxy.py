"""A TCP proxy on loopback that can lose what a test says it loses.

It sees bytes only. Where they are TLS, a test arms it from the outside, right before the client sends the message whose
fate is to be decided; connections that are opened later are not touched then. Where they are plain text, a `needle`
marks the messages, on every connection from the start.

`ProxyProcess` is the same in a process of its own, for clients that hold this interpreter's lock while they wait for
the server (the bulk copy of mssql-python): a proxy in their process could never forward what they wait for.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal

Loss = Literal["reply", "request"]
#: How the connection ends: both sides are reset, both are closed, or only the client is told and the server keeps a
#: session whose client is gone (a cable that was cut); or it does not, and the client waits.
Ending = Literal["reset", "close", "cut", "wait"]

_RESET = struct.pack("ii", 1, 0)
_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, kw_only=True)
class Fate:
    """What becomes of a request that holds the needle, or of its reply: its first `passing` bytes arrive.

    A negative number counts from the end. Every message holds the empty needle.
    """

    loss: Loss
    passing: int = 0
    ending: Ending = "reset"
    needle: str = ""


class _Pair:
    """One client connection and its server connection."""

    def __init__(self, client: socket.socket, server: socket.socket, fate: Fate | None, count: Callable[[], bool]):
        self.client = client
        self.server = server
        self.fate = fate
        self._count = count
        self._broken: Fate | None = None
        #: Set when the loss has happened: the request, or the reply, had come as far as here.
        self.broken = threading.Event()
        self._held = b""

    def run(self) -> None:
        threading.Thread(target=self._to_server, daemon=True).start()
        threading.Thread(target=self._to_client, daemon=True).start()

    def _to_server(self) -> None:
        with contextlib.suppress(OSError):
            while data := self.client.recv(65536):
                fate = self.fate
                if fate is not None and fate.needle.encode() in data and self._count():
                    self._broken = fate
                    if fate.loss == "request":
                        return self._break(fate, data, self.server)
                self.server.sendall(data)
        return self._ended()

    def _to_client(self) -> None:
        with contextlib.suppress(OSError):
            while data := self.server.recv(65536):
                if self._broken is not None and self._broken.loss == "reply":
                    return self._break(self._broken, data, self.client)
                self.client.sendall(data)
        return self._ended()

    def _break(self, fate: Fate, data: bytes, sink: socket.socket) -> None:
        part = data[: fate.passing]
        sink.sendall(part)
        self._held = data[len(part) :]
        self.broken.set()
        if fate.ending != "wait":
            self.end_by(fate.ending)

    def _ended(self) -> None:
        """One side went away by itself; so does the other, unless the cable was cut."""
        if self._broken is None or self._broken.ending != "cut":
            self.end()

    def end_by(self, ending: Ending) -> None:
        if ending == "reset":
            self.end()
        elif ending == "close":
            self._close(self.client, self.server)
        else:
            self._close(self.client)

    def deliver(self) -> None:
        """Send the server what was held back, after the client was told that its connection is gone."""
        with contextlib.suppress(OSError):
            self.server.sendall(self._held)

    def end(self) -> None:
        """Reset both sides: the client sees a broken connection, the server a client that vanished."""
        for side in (self.client, self.server):
            with contextlib.suppress(OSError):
                side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._close(self.client, self.server)

    @staticmethod
    def _close(*sides: socket.socket) -> None:
        for side in sides:
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
            side.close()


class TcpProxy:
    """Forwards connections to one server: ``with TcpProxy(host, port) as proxy: connect to proxy.port``.

    `fate` awaits every connection, at most `times` times; `met` counts the requests that it was meant for.
    """

    def __init__(self, host: str, port: int, fate: Fate | None = None, times: int = 1_000_000) -> None:
        self._target = (host, port)
        self._fate = fate
        self._times = times
        self._counting = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._accepting: threading.Thread | None = None
        self._pairs: list[_Pair] = []
        self.met = 0
        self.port: int = self._listener.getsockname()[1]

    def lose(self, loss: Loss) -> None:
        """From now on the open connections break at their next message: before it arrives, or before its reply does."""
        self.arm(Fate(loss=loss))

    def arm(self, fate: Fate) -> None:
        """The same, with everything that can be said about the loss."""
        for pair in self._pairs:
            pair.fate = fate

    def arm_next(self, fate: Fate) -> None:
        """The same for the connections that are opened from now on, until one of them has met it."""
        self._fate, self._times = fate, self.met + 1

    def break_all(self, ending: Ending) -> None:
        """The open connections are lost now, whatever is on its way on them."""
        for pair in list(self._pairs):
            pair.end_by(ending)

    @property
    def has_lost(self) -> bool:
        """Whether a message was lost on some connection."""
        return any(pair.broken.is_set() for pair in list(self._pairs))

    @property
    def opened(self) -> int:
        """How many connections were opened so far."""
        return len(self._pairs)

    def deliver(self) -> None:
        """Let the lost requests arrive late, where the server's side of the connection is still there (`cut`)."""
        for pair in self._pairs:
            pair.deliver()

    def __enter__(self) -> TcpProxy:
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Closing alone would leave the port open until the thread that waits for a client got one.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        if self._accepting is not None:
            self._accepting.join()
        for pair in self._pairs:
            pair.end()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target)
            except OSError:
                # To the client as to one that asks the server itself: nobody is there.
                client.close()
                continue
            for side in (client, server):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pair = _Pair(client, server, self._fate, self._count)
            self._pairs.append(pair)
            pair.run()

    def _count(self) -> bool:
        with self._counting:
            self.met += 1
            return self.met <= self._times


class ProxyProcess:
    """A TcpProxy in another process. Its methods return when they are done there."""

    def __init__(self, host: str, port: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.tcp_proxy", host, str(port)],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.port = int(self._answer())

    def arm(self, fate: Fate) -> None:
        self._say({"arm": asdict(fate)})

    def deliver(self) -> None:
        self._say({"deliver": None})

    def __enter__(self) -> ProxyProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def _say(self, command: dict[str, object]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        assert self._answer() == "done"

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def main() -> None:
    """Obeys one JSON command a line, until its input ends."""
    host, port = sys.argv[1], int(sys.argv[2])
    with TcpProxy(host, port) as proxy:
        print(proxy.port, flush=True)
        for line in sys.stdin:
            command = json.loads(line)
            if "arm" in command:
                proxy.arm(Fate(**command["arm"]))
            else:
                proxy.deliver()
            print("done", flush=True)


if __name__ == "__main__":
    main()
