"""Tokens of a response, as bytes (MS-TDS 2.2.7)."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tsqldev.errors import SqlError
from tsqldev.interfaces import Column
from tsqldev.types import SqlType
from tsqldev.wire.collations import collation_bytes
from tsqldev.wire.encode import wire_type

DONE, DONE_PROCEDURE, DONE_IN_PROCEDURE = 0xFD, 0xFE, 0xFF
DONE_MORE, DONE_ERROR, DONE_COUNT, DONE_ATTENTION = 0x01, 0x02, 0x10, 0x20

ENV_DATABASE, ENV_LANGUAGE, ENV_PACKET_SIZE, ENV_COLLATION = 1, 2, 4, 7
ENV_BEGIN, ENV_COMMIT, ENV_ROLLBACK, ENV_RESET_DONE = 8, 9, 10, 18

_COMMANDS = {"SELECT": 0xC1, "INSERT": 0xC3, "DELETE": 0xC4, "UPDATE": 0xC5, "MERGE": 0x117}
_USER_TYPES = {"rowversion": 80}
_CASE_SENSITIVE = ("_CS", "_BIN")


def done(kind: int, status: int, count: int = 0, command: str = "") -> bytes:
    return struct.pack("<BHHQ", kind, status, _COMMANDS.get(command.upper(), 0), count)


def return_status(status: int) -> bytes:
    return struct.pack("<Bi", 0x79, status)


def _b_varchar(text: str) -> bytes:
    data = text.encode("utf-16-le", "replace")
    return bytes([len(data) // 2]) + data


def _us_varchar(text: str) -> bytes:
    data = text.encode("utf-16-le", "replace")[: 2 * 0x7000]
    return struct.pack("<H", len(data) // 2) + data


def message(
    number: int, text: str, *, state: int, severity: int, server: str, procedure: str, line: int, error: bool
) -> bytes:
    body = (
        struct.pack("<iBB", number, state & 0xFF, severity & 0xFF)
        + _us_varchar(text)
        + _b_varchar(server)
        + _b_varchar(procedure[:128])
        + struct.pack("<i", line)
    )
    return struct.pack("<BH", 0xAA if error else 0xAB, len(body)) + body


def error_message(error: SqlError, server: str) -> bytes:
    return message(
        error.number,
        error.message,
        state=error.state,
        severity=error.severity,
        server=server,
        procedure=error.procedure,
        line=error.line,
        error=True,
    )


def _environment(kind: int, new: bytes, old: bytes) -> bytes:
    return struct.pack("<BHB", 0xE3, 1 + len(new) + len(old), kind) + new + old


def environment_text(kind: int, new: str, old: str) -> bytes:
    return _environment(kind, _b_varchar(new), _b_varchar(old))


def environment_collation() -> bytes:
    return _environment(ENV_COLLATION, b"\x05" + collation_bytes(None), b"\x00")


def environment_transaction(kind: int, descriptor: int) -> bytes:
    held = b"\x08" + struct.pack("<Q", descriptor & 0xFFFFFFFFFFFFFFFF)
    return _environment(kind, held, b"\x00") if kind == ENV_BEGIN else _environment(kind, b"\x00", held)


def reset_done() -> bytes:
    return _environment(ENV_RESET_DONE, b"\x00", b"\x00")


def login_acknowledged(tds_version: int, version: tuple[int, int, int]) -> bytes:
    body = b"\x01" + struct.pack(">I", tds_version) + _b_varchar("Microsoft SQL Server") + struct.pack(">BBH", *version)
    return struct.pack("<BH", 0xAD, len(body)) + body


def no_features() -> bytes:
    """The answer to a client that offers extensions: none is used."""
    return b"\xae\xff"


def _flags(column: Column) -> int:
    type = column.type
    sensitive = type.collation is not None and any(part in type.collation for part in _CASE_SENSITIVE)
    return (
        (0x0001 if type.nullable else 0)
        | (0x0002 if sensitive else 0)
        | (0x0008 if not (column.identity or column.computed) else 0)
        | (0x0010 if column.identity else 0)
        | (0x0020 if column.computed else 0)
    )


def column_metadata(columns: Sequence[Column]) -> bytes:
    parts = [struct.pack("<BH", 0x81, len(columns))]
    for column in columns:
        parts.append(struct.pack("<IH", _USER_TYPES.get(column.type.name, 0), _flags(column)))
        parts.append(wire_type(column.type)[0])
        parts.append(_b_varchar(column.name[:128]))
    return b"".join(parts)


def return_value(ordinal: int, name: str, type: SqlType, value: object) -> bytes:
    info, encode = wire_type(type)
    user_type = _USER_TYPES.get(type.name, 0)
    return b"".join(
        (
            struct.pack("<BH", 0xAC, ordinal),
            _b_varchar(name[:128]),
            struct.pack("<BIH", 0x01, user_type, 0x0001),
            info,
            encode(value),
        )
    )
