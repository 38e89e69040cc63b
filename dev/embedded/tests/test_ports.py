"""A port that is promised to a server stays free until the server listens, however many connections are made meanwhile."""

from __future__ import annotations

import socket

from dpone_embedded.ports import LOOPBACK, free_port


def test_a_promised_port_is_given_to_no_outgoing_connection() -> None:
    promised = {free_port() for _ in range(30)}
    with socket.create_server((LOOPBACK, 0), backlog=500) as server:
        clients = [socket.create_connection(server.getsockname()) for _ in range(400)]
        outgoing = {client.getsockname()[1] for client in clients}
        accepted = [server.accept()[0] for _ in clients]
    low, high = min(outgoing), max(outgoing)
    for end in (*clients, *accepted):
        end.close()
    assert not [port for port in promised if low <= port <= high]
