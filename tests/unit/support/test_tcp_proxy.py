"""The proxy that loses what a test says: when it is gone, nothing of it is left."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.support.tcp_proxy import ProxyProcess, TcpProxy


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that repeats what it is told."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with client:
                while data := client.recv(100):
                    client.sendall(data)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(10)


def said(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(b"hello")
        return client.recv(100)


def refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.parametrize("kind", [TcpProxy, ProxyProcess])
def test_a_proxy_that_ended_leaves_no_port_and_no_thread(echo: int, kind: type[TcpProxy] | type[ProxyProcess]) -> None:
    before = set(threading.enumerate())
    with kind("127.0.0.1", echo) as proxy:
        assert said(proxy.port) == b"hello"
    assert refused(proxy.port)
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
    assert set(threading.enumerate()) <= before


def test_a_server_that_is_not_there_ends_the_client_and_not_the_proxy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = closed.getsockname()[1]
    with TcpProxy("127.0.0.1", nobody) as proxy:
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as client:
                assert client.recv(1) == b""
