"""The part of HTTP/1.1 that a streaming proxy needs: heads, body framing, and bytes passed on as they arrive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

PIECE = 65536
HEAD_LIMIT = 262144


class ConnectionLost(Exception):
    """The other side ended the connection in the middle of a message."""


@dataclass
class Head:
    """A start line and its headers, names in lower case, in order."""

    line: str
    headers: list[tuple[str, str]]

    def get(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)

    def without(self, *names: str) -> list[tuple[str, str]]:
        return [(key, value) for key, value in self.headers if key not in names]

    def encode(self) -> bytes:
        text = self.line + "\r\n" + "".join(f"{key}: {value}\r\n" for key, value in self.headers) + "\r\n"
        return text.encode("latin-1")


class Wire:
    """One side of a connection, with push-back so that the end of the stream can be noticed without losing bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._held = bytearray()

    async def _more(self) -> bool:
        piece = await self._reader.read(PIECE)
        self._held += piece
        return bool(piece)

    async def ended(self) -> None:
        """Return when the other side has ended the stream (never when it sends more than a held buffer's worth)."""
        while len(self._held) < HEAD_LIMIT:
            if not await self._more():
                return
        await asyncio.Event().wait()

    async def line(self) -> bytes:
        while (end := self._held.find(b"\r\n")) < 0:
            if len(self._held) > HEAD_LIMIT or not await self._more():
                raise ConnectionLost("a line did not end")
        taken = bytes(self._held[: end + 2])
        del self._held[: end + 2]
        return taken

    async def head(self) -> Head | None:
        """The next head, or None when the stream ended before its first byte."""
        while not self._held:
            if not await self._more():
                return None
        while (end := self._held.find(b"\r\n\r\n")) < 0:
            if len(self._held) > HEAD_LIMIT or not await self._more():
                raise ConnectionLost("a head did not end")
        text = bytes(self._held[:end]).decode("latin-1")
        del self._held[: end + 4]
        line, *rest = text.split("\r\n")
        pairs = (entry.partition(":") for entry in rest)
        return Head(line, [(name.strip().lower(), value.strip()) for name, _, value in pairs])

    async def exactly(self, count: int) -> AsyncIterator[bytes]:
        while count:
            if not self._held and not await self._more():
                raise ConnectionLost("a body did not end")
            piece = bytes(self._held[: min(count, PIECE)])
            del self._held[: len(piece)]
            count -= len(piece)
            yield piece

    async def body(self, head: Head) -> AsyncIterator[bytes]:
        """The payload that ``head`` announces, without its framing, piece by piece."""
        if (head.get("transfer-encoding") or "").lower() == "chunked":
            while size := int((await self.line()).split(b";")[0], 16):
                async for piece in self.exactly(size):
                    yield piece
                await self.line()
            while await self.line() != b"\r\n":
                continue
        elif (length := head.get("content-length")) is not None:
            async for piece in self.exactly(int(length)):
                yield piece

    async def to_the_end(self) -> AsyncIterator[bytes]:
        while self._held or await self._more():
            piece = bytes(self._held)
            self._held.clear()
            yield piece

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def send_chunk(self, piece: bytes) -> None:
        if piece:
            await self.send(b"%x\r\n" % len(piece) + piece + b"\r\n")

    def abort(self) -> None:
        self.writer.transport.abort()
