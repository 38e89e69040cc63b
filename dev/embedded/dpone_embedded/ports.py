"""Loopback ports."""

from __future__ import annotations

import socket

from dpone_embedded.errors import StackError

LOOPBACK = "127.0.0.1"


def free_port() -> int:
    """A port that is free now. Another program may take it before our server does; the server then says so and ends."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def require_free(port: int, purpose: str) -> int:
    """`port` if nothing listens there; 0 picks one."""
    if port == 0:
        return free_port()
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as err:
            raise StackError(
                f"Port {port} on {LOOPBACK}, asked for by {purpose}, cannot be used: {err.strerror}. "
                "Nothing was started. End the program that listens there, or ask for another port (0 picks a free one)."
            ) from err
    return port


def accepts(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((LOOPBACK, port)) == 0
