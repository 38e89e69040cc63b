"""A TCP proxy that passes everything on, and closes the connection instead of answering one kind of statement."""

from __future__ import annotations

import socket
import threading


class ReplyDropper:
    """``needle`` marks the requests whose answers are lost; ``forwarded`` counts them. ``times`` bounds the losses."""

    def __init__(self, host: str, port: int, needle: bytes, times: int = 1_000_000) -> None:
        self._upstream = (host, port)
        self._needle = needle
        self._times = times
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.forwarded = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        dropping = threading.Event()
        with client, socket.create_connection(self._upstream) as upstream:
            answers = threading.Thread(target=_answers, args=(upstream, client, dropping), daemon=True)
            answers.start()
            try:
                while data := client.recv(65536):
                    if self._needle in data:
                        self.forwarded += 1
                        if self.forwarded <= self._times:
                            dropping.set()
                    upstream.sendall(data)
                upstream.shutdown(socket.SHUT_WR)
            except OSError:
                return
            answers.join(5)

    def close(self) -> None:
        self._listener.close()


def _answers(upstream: socket.socket, client: socket.socket, dropping: threading.Event) -> None:
    try:
        while data := upstream.recv(65536):
            if dropping.is_set():
                client.shutdown(socket.SHUT_RDWR)
                return
            client.sendall(data)
    except OSError:
        return
