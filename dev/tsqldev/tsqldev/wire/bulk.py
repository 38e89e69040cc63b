"""The stream of a bulk load: column metadata, rows, and the end, read while it arrives (MS-TDS 2.2.6.1)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from tsqldev.errors import unsupported
from tsqldev.interfaces import Column
from tsqldev.wire.decode import Decoder, read_type
from tsqldev.wire.transport import ProtocolError

_COLUMNS, _ROW, _ROW_WITH_NULL_BITMAP = 0x81, 0xD1, 0xD2
_ENDS = (0xFD, 0xFE, 0xFF)
_AT_ONCE = 128 * 1024


class BulkStream:
    """Rows of one bulk load message, whose payloads `packets` yields. Holds about one chunk of it in memory."""

    def __init__(self, packets: Iterator[bytes]) -> None:
        self._packets = packets
        self._buffer = b""
        self._position = 0
        self._decoders: list[Decoder] = []
        self.columns: list[Column] = []

    def read_columns(self) -> None:
        """Raises SqlError for a column of a type that is not emulated."""
        wanted = 1
        while not self._read_columns():
            if not self._gather(0, wanted):
                raise ProtocolError("bulk load without column metadata")
            wanted = len(self._buffer)

    def _read_columns(self) -> bool:
        buffer = self._buffer
        self._decoders.clear()
        self.columns.clear()
        try:
            if buffer[0] != _COLUMNS:
                raise ProtocolError(f"token 0x{buffer[0]:02x} at the start of a bulk load")
            (count,) = struct.unpack_from("<H", buffer, 1)
            position = 3
            for _ in range(count):
                (flags,) = struct.unpack_from("<H", buffer, position + 4)
                position += 6
                if buffer[position] in (0x22, 0x23, 0x63):
                    raise unsupported("bulk load into text, ntext and image as such; send the (max) types")
                type, decoder, position = read_type(buffer, position)
                length = 2 * buffer[position]
                name = buffer[position + 1 : position + 1 + length]
                position += 1 + length
                if position > len(buffer):
                    return False
                column = Column(
                    name.decode("utf-16-le"), type.with_nullable(bool(flags & 1)), identity=bool(flags & 0x10)
                )
                self.columns.append(column)
                self._decoders.append(decoder)
        except UnicodeDecodeError as error:
            raise ProtocolError("a column name in a bulk load") from error
        except (IndexError, struct.error):
            return False
        self._position = position
        return True

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Each row once. Raises ProtocolError where the stream is malformed or ends within a row."""
        wanted = _AT_ONCE
        while True:
            rows, finished = self._decode()
            yield from rows
            if finished:
                return
            # A value larger than the chunk is tried again only when twice as much is there.
            wanted = _AT_ONCE if rows else max(_AT_ONCE, 2 * (len(self._buffer) - self._position))
            if not self._gather(self._position, wanted):
                if self._position < len(self._buffer):
                    raise ProtocolError("bulk load that ends within a row")
                return

    def _decode(self) -> tuple[list[tuple[Any, ...]], bool]:
        """The complete rows in the buffer, and whether the end was seen."""
        buffer, decoders = self._buffer, self._decoders
        position, end = self._position, len(self._buffer)
        rows: list[tuple[Any, ...]] = []
        try:
            while position < end:
                token = buffer[position]
                at = position + 1
                row = []
                if token == _ROW:
                    for decode in decoders:
                        value, at = decode(buffer, at)
                        row.append(value)
                elif token == _ROW_WITH_NULL_BITMAP:
                    nulls = int.from_bytes(buffer[at : at + (len(decoders) + 7) // 8], "little")
                    at += (len(decoders) + 7) // 8
                    for number, decode in enumerate(decoders):
                        if nulls >> number & 1:
                            row.append(None)
                        else:
                            value, at = decode(buffer, at)
                            row.append(value)
                elif token in _ENDS:
                    return rows, True
                else:
                    raise ProtocolError(f"token 0x{token:02x} in a bulk load")
                if at > end:
                    break
                rows.append(tuple(row))
                self._position = position = at
        except (IndexError, struct.error):
            return rows, False  # the row goes on in a later packet
        return rows, False

    def _gather(self, keep_from: int, wanted: int) -> bool:
        """Add packets, `wanted` bytes or what is left; false when nothing is left."""
        parts = [self._buffer[keep_from:]]
        size = 0
        for payload in self._packets:
            parts.append(payload)
            size += len(payload)
            if size >= wanted:
                break
        self._buffer, self._position = b"".join(parts), 0
        return size > 0
