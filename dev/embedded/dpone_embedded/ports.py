"""Loopback ports."""

from __future__ import annotations

import random
import socket
from pathlib import Path

from dpone_embedded.errors import StackError

LOOPBACK = "127.0.0.1"
_LOWEST = 12_000


def free_port() -> int:
    """A port that is free now. Another program may take it before our server does; the server then says so and ends.

    Not one of the ports that the kernel gives to outgoing connections: Airflow listens many seconds after it was told
    where, and until then any connection of any program could be given the same port.
    """
    below = _first_outgoing()
    for _ in range(100):
        port = random.randrange(_LOWEST, below) if below > _LOWEST else 0  # not a secret
        with socket.socket() as probe:
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise StackError(f"No port below {below} is free on {LOOPBACK}. Nothing was started.")


def _first_outgoing() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0


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
