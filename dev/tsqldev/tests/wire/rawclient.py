"""A client of the least: packets as bytes, so that a test can send what no driver would."""

from __future__ import annotations

import socket
import struct

SQL_BATCH, RPC, ATTENTION, BULK_LOAD, TRANSACTION_MANAGER, LOGIN7, PRELOGIN = 1, 3, 6, 7, 14, 16, 18
HEADERS = struct.pack("<IIHQI", 22, 18, 2, 0, 1)


def batch(text: str) -> bytes:
    return HEADERS + text.encode("utf-16-le")


def login7(user: str, password: str, *, version: int = 0x74000004) -> bytes:
    texts = {36: "host", 40: user, 44: password, 48: "raw", 52: "server", 60: "raw", 64: "", 68: "master"}
    fixed = bytearray(94)
    struct.pack_into("<IIIIII", fixed, 0, 0, version, 4096, 0, 77, 0)
    data = b""
    for at, text in texts.items():
        value = text.encode("utf-16-le")
        if at == 44:
            value = bytes((((b & 0x0F) << 4) | (b >> 4)) ^ 0xA5 for b in value)
        struct.pack_into("<HH", fixed, at, 94 + len(data), len(text))
        data += value
    whole = bytes(fixed) + data
    return struct.pack("<I", len(whole)) + whole[4:]


def prelogin(encryption: int = 2) -> bytes:
    return struct.pack(">BHHBHHB", 0, 11, 6, 1, 17, 1, 0xFF) + struct.pack(">BBHH", 16, 0, 0, 0) + bytes([encryption])


class RawClient:
    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)

    def send(self, kind: int, payload: bytes, *, status: int = 1) -> None:
        self.socket.sendall(struct.pack(">BBHHBB", kind, status, len(payload) + 8, 0, 1, 0) + payload)

    def receive(self) -> bytes:
        """One message; empty when the server has closed the connection."""
        message = b""
        while True:
            header = self._take(8)
            if len(header) < 8:
                return b""
            _, status, length, _, _, _ = struct.unpack(">BBHHBB", header)
            message += self._take(length - 8)
            if status & 1:
                return message

    def _take(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                part = self.socket.recv(size - len(data))
            except ConnectionError:
                return data
            if not part:
                return data
            data += part
        return data

    def login(self, password: str) -> bytes:
        self.send(PRELOGIN, prelogin())
        self.receive()
        self.send(LOGIN7, login7("sa", password))
        return self.receive()

    def close(self) -> None:
        self.socket.close()
