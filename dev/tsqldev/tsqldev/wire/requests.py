"""What clients ask for: PRELOGIN, LOGIN7, SQL batches, remote procedure calls, transaction requests (MS-TDS 2.2.6)."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from tsqldev.errors import unsupported
from tsqldev.interfaces import LoginRequest, RpcParameter
from tsqldev.wire.decode import read_type
from tsqldev.wire.transport import ProtocolError

ENCRYPT_OFF, ENCRYPT_ON, ENCRYPT_NOT_SUPPORTED, ENCRYPT_REQUIRED = 0, 1, 2, 3
_PRELOGIN_VERSION, _PRELOGIN_ENCRYPTION, _PRELOGIN_INSTANCE, _PRELOGIN_THREAD, _PRELOGIN_MARS = range(5)
_END = 0xFF

TDS_7_3 = 0x730A0003
TDS_7_4 = 0x74000004

_MALFORMED = (IndexError, struct.error, UnicodeDecodeError)


# ---- PRELOGIN


def prelogin_encryption(payload: bytes) -> int:
    """What the client wants of encryption."""
    position = 0
    try:
        while (option := payload[position]) != _END:
            offset, length = struct.unpack_from(">HH", payload, position + 1)
            if option == _PRELOGIN_ENCRYPTION and length:
                return int(payload[offset]) & 0x03
            position += 5
    except _MALFORMED as error:
        raise ProtocolError("PRELOGIN") from error
    return ENCRYPT_NOT_SUPPORTED


def prelogin_answer(version: tuple[int, int, int], encryption: int) -> bytes:
    options = [
        (_PRELOGIN_VERSION, struct.pack(">BBHH", *version, 0)),
        (_PRELOGIN_ENCRYPTION, bytes([encryption])),
        (_PRELOGIN_INSTANCE, b"\x00"),
        (_PRELOGIN_THREAD, b""),
        (_PRELOGIN_MARS, b"\x00"),
    ]
    head, data = b"", b""
    offset = 5 * len(options) + 1
    for option, value in options:
        head += struct.pack(">BHH", option, offset + len(data), len(value))
        data += value
    return head + bytes([_END]) + data


# ---- LOGIN7


@dataclass(frozen=True, slots=True)
class Login:
    request: LoginRequest
    tds_version: int
    integrated: bool
    wants_features: bool
    changes_password: bool


def parse_login(payload: bytes) -> Login:
    try:
        return _parse_login(payload)
    except _MALFORMED as error:
        raise ProtocolError("LOGIN7") from error


def _parse_login(payload: bytes) -> Login:
    length, version, packet_size, _, client_pid, _ = struct.unpack_from("<IIIIII", payload)
    if length > len(payload):
        raise ProtocolError(f"LOGIN7 of {length} bytes in a message of {len(payload)}")
    _, flags2, type_flags, flags3 = payload[24:28]

    def text(at: int) -> str:
        offset, count = struct.unpack_from("<HH", payload, at)
        data = payload[offset : offset + 2 * count]
        if len(data) != 2 * count:
            raise IndexError("LOGIN7")
        return data.decode("utf-16-le")

    offset, count = struct.unpack_from("<HH", payload, 44)
    hidden = payload[offset : offset + 2 * count]
    password = bytes(((byte ^ 0xA5) & 0x0F) << 4 | (byte ^ 0xA5) >> 4 for byte in hidden).decode("utf-16-le")
    changes_password = len(payload) >= 90 and struct.unpack_from("<H", payload, 88)[0] > 0
    request = LoginRequest(
        user=text(40),
        password=password,
        database=text(68),
        application=text(48),
        host=text(36),
        client_library=text(60),
        client_pid=client_pid,
        language=text(64),
        read_only_intent=bool(type_flags & 0x20),
        packet_size=packet_size,
    )
    return Login(request, version, bool(flags2 & 0x80), bool(flags3 & 0x10), changes_password)


# ---- requests of a logged-in client


def _after_headers(payload: bytes) -> int:
    """The position after ALL_HEADERS. Of use in them is the transaction descriptor only, which the session knows."""
    (length,) = struct.unpack_from("<I", payload)
    if not 4 <= length <= len(payload):
        raise ProtocolError(f"headers of {length} bytes")
    return int(length)


def parse_batch(payload: bytes) -> str:
    try:
        return payload[_after_headers(payload) :].decode("utf-16-le", "surrogatepass")
    except _MALFORMED as error:
        raise ProtocolError("SQL batch") from error


@dataclass(slots=True)
class Call:
    procedure: str | int
    parameters: list[RpcParameter] = field(default_factory=list)
    no_metadata: bool = False


def parse_calls(payload: bytes) -> list[Call]:
    """The calls of one RPC message. Raises SqlError for a parameter of a type that is not emulated."""
    try:
        return _parse_calls(payload)
    except _MALFORMED as error:
        raise ProtocolError("RPC") from error


def _parse_calls(payload: bytes) -> list[Call]:
    position = _after_headers(payload)
    end = len(payload)
    calls = []
    while position < end:
        (count,) = struct.unpack_from("<H", payload, position)
        position += 2
        procedure: str | int
        if count == 0xFFFF:
            (procedure,) = struct.unpack_from("<H", payload, position)
            position += 2
        else:
            procedure = _take(payload, position, 2 * count).decode("utf-16-le")
            position += 2 * count
        (options,) = struct.unpack_from("<H", payload, position)
        position += 2
        call = Call(procedure, no_metadata=bool(options & 2))
        while position < end and payload[position] not in (0xFF, 0xFE, 0x80):
            parameter, position = _parse_parameter(payload, position)
            call.parameters.append(parameter)
        calls.append(call)
        if position < end:
            if payload[position] == 0xFE:
                raise unsupported("RPC batches with the NoExec flag")
            position += 1
    if not calls:
        raise ProtocolError("RPC without a call")
    return calls


def _parse_parameter(payload: bytes, position: int) -> tuple[RpcParameter, int]:
    count = payload[position]
    name = _take(payload, position + 1, 2 * count).decode("utf-16-le")
    position += 1 + 2 * count
    status = payload[position]
    if status & 0x08:
        raise unsupported("encrypted parameters (Always Encrypted)")
    type, decode, position = read_type(payload, position + 1)
    value, position = decode(payload, position)
    if position > len(payload):
        raise ProtocolError("RPC parameter")
    return RpcParameter(name, type, value, output=bool(status & 1), default=bool(status & 2)), position


def _take(payload: bytes, position: int, length: int) -> bytes:
    data = payload[position : position + length]
    if len(data) != length:
        raise IndexError("end of message")
    return data


# ---- transaction manager


TM_BEGIN, TM_COMMIT, TM_ROLLBACK, TM_SAVE = 5, 7, 8, 9


@dataclass(frozen=True, slots=True)
class TransactionRequest:
    kind: int
    name: str = ""
    isolation: int = 0
    begin_again: bool = False


def parse_transaction_request(payload: bytes) -> TransactionRequest:
    """Raises SqlError for distributed transactions, which are not emulated."""
    try:
        position = _after_headers(payload)
        (kind,) = struct.unpack_from("<H", payload, position)
        position += 2
        if kind == TM_BEGIN:
            return TransactionRequest(kind, _name(payload, position + 1)[0], payload[position])
        if kind in (TM_COMMIT, TM_ROLLBACK):
            name, position = _name(payload, position)
            flags = payload[position] if position < len(payload) else 0
            isolation = payload[position + 1] if flags & 1 else 0
            return TransactionRequest(kind, name, isolation, bool(flags & 1))
        if kind == TM_SAVE:
            return TransactionRequest(kind, _name(payload, position)[0])
    except _MALFORMED as error:
        raise ProtocolError("transaction request") from error
    raise unsupported(f"transaction manager request {kind} (distributed transactions)")


def _name(payload: bytes, position: int) -> tuple[str, int]:
    length = payload[position]
    return _take(payload, position + 1, length).decode("utf-16-le"), position + 1 + length
