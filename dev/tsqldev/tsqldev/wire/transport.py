"""Packets of TDS over a socket, with TLS where it was negotiated (MS-TDS 2.2.3, 3.2.5.2).

The TLS handshake travels inside PRELOGIN packets; afterwards TLS carries whole TDS packets. An `SSLObject` with two
memory buffers is used instead of a wrapped socket, because one thread reads while another writes.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from dataclasses import dataclass

SQL_BATCH, RPC, RESPONSE, ATTENTION, BULK_LOAD = 1, 3, 4, 6, 7
TRANSACTION_MANAGER, LOGIN7, PRELOGIN = 14, 16, 18

END_OF_MESSAGE, IGNORE = 0x01, 0x02
RESET_CONNECTION, RESET_CONNECTION_KEEP_TRANSACTION = 0x08, 0x10

HEADER = struct.Struct(">BBHHBB")
_TLS_RECORD = 16384
_SEND_AT_ONCE = 64 * 1024


class ProtocolError(Exception):
    """What came from the client is not TDS. The connection ends; nothing that was not complete has run."""


class ConnectionGone(Exception):
    """The client closed the connection, or was disconnected."""


@dataclass(frozen=True, slots=True)
class Packet:
    type: int
    status: int
    payload: bytes

    @property
    def last(self) -> bool:
        return bool(self.status & END_OF_MESSAGE)


class Transport:
    """One client's socket. One thread may call `receive` while one other sends."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._received = bytearray()
        self._tls: ssl.SSLObject | None = None
        self._tls_lock = threading.Lock()
        self._to_tls = ssl.MemoryBIO()
        self._from_tls = ssl.MemoryBIO()
        self.packet_size = 4096
        self.spid = 0

    # ---- receive

    def receive(self) -> Packet:
        """The next packet; blocks. Raises ConnectionGone at the end, ProtocolError for what cannot be a packet."""
        header = self._take(HEADER.size)
        kind, status, length, _, _, _ = HEADER.unpack(header)
        if length < HEADER.size:
            raise ProtocolError(f"packet of {length} bytes")
        return Packet(kind, status, self._take(length - HEADER.size))

    def _take(self, size: int) -> bytes:
        while len(self._received) < size:
            self._fill()
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken

    def _fill(self) -> None:
        data = self._recv()
        if self._tls is None:
            self._received += data
            return
        try:
            with self._tls_lock:
                self._to_tls.write(data)
                while chunk := self._tls.read(65536):
                    self._received += chunk
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            raise ProtocolError(f"TLS: {error.reason}") from error
        raise ConnectionGone("the client ended TLS")

    def _recv(self) -> bytes:
        try:
            data = self._socket.recv(65536)
        except TimeoutError as error:
            raise ProtocolError("the client did not log in in time") from error
        except OSError as error:
            raise ConnectionGone(str(error)) from error
        if not data:
            raise ConnectionGone("closed by the client")
        return data

    # ---- send

    def send(self, kind: int, payload: bytes | bytearray | memoryview, *, last: bool, first_id: int = 1) -> int:
        """Send `payload` as whole packets; returns the id for the next packet of the same message."""
        body = self.packet_size - HEADER.size
        view = memoryview(payload)
        packets: list[bytes | memoryview] = []
        sizes: list[int] = []
        identifier = first_id
        for start in range(0, len(view), body) if len(view) else (0,):
            part = view[start : start + body]
            status = END_OF_MESSAGE if last and start + body >= len(view) else 0
            packets.append(HEADER.pack(kind, status, HEADER.size + len(part), self.spid, identifier & 0xFF, 0))
            packets.append(part)
            sizes.append(HEADER.size + len(part))
            identifier += 1
        data = b"".join(packets)
        if self._tls is not None:
            data = self._encrypt(data, sizes)
        self._sendall(data)
        return identifier

    def _encrypt(self, data: bytes, sizes: list[int]) -> bytes:
        """As many packets in one TLS record as fit: Microsoft's clients want no packet split over two."""
        assert self._tls is not None
        view = memoryview(data)
        start = end = 0
        with self._tls_lock:
            try:
                for size in sizes:
                    if end + size - start > _TLS_RECORD:
                        self._tls.write(view[start:end])
                        start = end
                    end += size
                self._tls.write(view[start:end])
            except ssl.SSLError as error:
                raise ConnectionGone(f"TLS: {error.reason}") from error
            return self._from_tls.read()

    def _sendall(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise ConnectionGone(str(error)) from error

    # ---- TLS

    def start_tls(self, context: ssl.SSLContext) -> None:
        """The handshake, each flight inside PRELOGIN packets."""
        tls = context.wrap_bio(self._to_tls, self._from_tls, server_side=True)
        while True:
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                self._send_handshake()
                packet = self.receive()
                if packet.type != PRELOGIN:
                    raise ProtocolError(f"packet type {packet.type} within the TLS handshake") from None
                self._to_tls.write(packet.payload)
            except ssl.SSLError as error:
                self._send_handshake()
                raise ProtocolError(f"TLS handshake: {error.reason}") from error
            else:
                break
        self._send_handshake()
        if self._received:
            raise ProtocolError("data before the end of the TLS handshake")
        self._tls = tls

    def _send_handshake(self) -> None:
        if data := self._from_tls.read():
            self.send(PRELOGIN, data, last=True)

    def stop_tls(self) -> None:
        """Only the login was to be encrypted; from here on, both sides speak in the clear."""
        self._tls = None

    # ---- life

    def limit_patience(self, seconds: float | None) -> None:
        self._socket.settimeout(seconds)

    def disconnect(self) -> None:
        """Cut the connection; from any thread, at any time."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it is gone already

    def close(self, *, gently: bool = False) -> None:
        """`gently` lets the client read what was sent last: closing with unread input would throw it away."""
        if gently:
            try:
                self._socket.shutdown(socket.SHUT_WR)
                self._socket.settimeout(1.0)
                while self._socket.recv(65536):
                    continue
            except OSError:
                pass  # a client that is gone reads nothing more
        self.disconnect()  # close() alone would not wake a reader that waits in another thread
        self._socket.close()


class MessageWriter:
    """One response message: gathers tokens and sends them as full packets, many at a time."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._pending = bytearray()
        self._next_id = 1
        body = transport.packet_size - HEADER.size
        self._threshold = max(1, _SEND_AT_ONCE // body) * body

    def write(self, data: bytes) -> None:
        self._pending += data
        if len(self._pending) > self._threshold:
            # One byte at least stays, because the last packet of a message must not have been sent as another.
            whole = (len(self._pending) - 1) // self._threshold * self._threshold
            self._next_id = self._transport.send(
                RESPONSE, memoryview(bytes(self._pending[:whole])), last=False, first_id=self._next_id
            )
            del self._pending[:whole]

    def finish(self) -> None:
        self._transport.send(RESPONSE, bytes(self._pending), last=True, first_id=self._next_id)
        self._pending.clear()
