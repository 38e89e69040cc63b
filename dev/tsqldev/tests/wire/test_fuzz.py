"""Whatever bytes come, the server neither crashes nor hangs, and serves the next client."""

from __future__ import annotations

import random
import socket

import pytest
from tsqldev.pytest_plugin import TsqlServer

from .double import Double
from .rawclient import (
    BULK_LOAD,
    HEADERS,
    LOGIN7,
    PRELOGIN,
    RPC,
    SQL_BATCH,
    TRANSACTION_MANAGER,
    RawClient,
    batch,
    login7,
    prelogin,
)

_COLUMN = b"\x81\x01\x00" + bytes(4) + b"\x01\x00" + b"\xe7\xff\xff\x09\x04\xd0\x00\x34" + b"\x01a\x00"
SEEDS: list[tuple[int, bytes]] = [
    (SQL_BATCH, batch("rows 3;count 1")),
    (
        RPC,
        HEADERS
        + b"\xff\xff\x0a\x00\x00\x00"
        + b"\x00\x00"
        + b"\xe7\x40\x1f\x09\x04\xd0\x00\x34"
        + b"\x06\x00a\x00b\x00c\x00",
    ),
    (
        RPC,
        HEADERS
        + b"\x01\x00p\x00\x00\x00"
        + b"\x00\x01\x6a\x09\x12\x04\x09\x01"
        + bytes(8)
        + b"\x00\x00\x2a\x07\x08"
        + bytes(8),
    ),
    (TRANSACTION_MANAGER, HEADERS + b"\x05\x00\x02\x04a\x00b\x00"),
    (TRANSACTION_MANAGER, HEADERS + b"\x07\x00\x00\x01\x02\x00"),
    (
        BULK_LOAD,
        _COLUMN + b"\xd1" + b"\x04" + bytes(7) + b"\x04\x00\x00\x00a\x00b\x00" + bytes(4) + b"\xfd" + bytes(12),
    ),
]


def _mutated(seed: bytes, random_: random.Random) -> bytes:
    data = bytearray(seed)
    for _ in range(random_.randint(1, 6)):
        at = random_.randrange(len(data))
        match random_.randrange(4):
            case 0:
                data[at] = random_.randrange(256)
            case 1:
                data[at] = random_.choice((0, 0xFF, 0xFE, 0x7F, 0x80))
            case 2:
                del data[at : at + random_.randint(1, 8)]
            case _:
                data[at:at] = random_.randbytes(random_.randint(1, 8))
        if not data:
            return b"\x00"
    return bytes(data)


def _still_serves(wire: TsqlServer) -> None:
    client = RawClient(wire.port)
    client.login(wire.sa_password)
    client.send(SQL_BATCH, batch("count 1"))
    assert client.receive()[-13:-12] == b"\xfd"
    client.close()


@pytest.mark.parametrize("number", range(len(SEEDS)))
def test_mutated_requests_are_answered_or_end_the_connection(
    wire: TsqlServer, engine: Double, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    kind, seed = SEEDS[number]
    random_ = random.Random(number)
    client = RawClient(wire.port)
    client.login(wire.sa_password)
    for _ in range(400):
        client.send(kind, _mutated(seed, random_))
        if not client.receive():
            client.close()
            client = RawClient(wire.port)
            client.login(wire.sa_password)
    client.close()
    _still_serves(wire)
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


def test_mutated_handshakes_and_logins_end_the_connection(wire: TsqlServer, caplog: pytest.LogCaptureFixture) -> None:
    random_ = random.Random(1)
    for _ in range(200):
        client = RawClient(wire.port)
        client.send(PRELOGIN, _mutated(prelogin(), random_) if random_.random() < 0.5 else prelogin())
        client.socket.settimeout(0.5)
        try:
            client.receive()
            client.send(LOGIN7, _mutated(login7("sa", wire.sa_password), random_))
            client.receive()
        except OSError:
            pass  # it waits for a TLS handshake, or has gone: both are right
        client.close()
    _still_serves(wire)
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


def test_noise_instead_of_tds_ends_the_connection(wire: TsqlServer, caplog: pytest.LogCaptureFixture) -> None:
    random_ = random.Random(2)
    for _ in range(100):
        with socket.create_connection(("127.0.0.1", wire.port), timeout=5) as client:
            client.sendall(random_.randbytes(random_.randint(1, 400)))
            client.shutdown(socket.SHUT_WR)
            try:
                while client.recv(4096):
                    continue
            except ConnectionError:
                pass  # closed with what it had not read
    _still_serves(wire)
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
