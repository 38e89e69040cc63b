"""Requests as the proxy takes them apart, and answers as it passes them on."""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from dpone_embedded.clickhouse.http import Head, Wire
from dpone_embedded.clickhouse.statements import Refused


@dataclass
class Request:
    """A client's request: its head split up, its credentials taken out, its body still on the wire."""

    head: Head
    parameters: dict[str, str]
    user: str
    password: str
    path: str

    @property
    def database(self) -> str:
        return self.parameters.get("database") or self.head.get("x-clickhouse-database") or "default"


async def pass_answer(client: Wire, upstream: Wire, reply: Head, method: str, cut: bool) -> bool:
    framed = reply.get("content-length") is not None or method == "HEAD" or reply.line.split()[1] in ("204", "304")
    reply.headers = reply.without("connection", "keep-alive", "transfer-encoding")
    close = cut
    if not framed:
        reply.headers.append(("transfer-encoding", "chunked"))
    if close:
        reply.headers.append(("connection", "close"))
    await client.send(reply.encode())
    if method == "HEAD":
        return not close
    if framed:
        async for piece in upstream.body(reply):
            await client.send(piece)
        return not close
    original = Head(reply.line, [("transfer-encoding", "chunked")])
    async for piece in upstream.body(original):
        await client.send_chunk(piece)
    await client.send(b"0\r\n\r\n")
    return not close


async def nothing() -> AsyncIterator[bytes]:
    return
    yield b""


async def chain(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if first:
        yield first
    async for piece in rest:
        yield piece


async def take(body: AsyncIterator[bytes], limit: int) -> bytes:
    """Bytes from the front of ``body`` until ``limit`` is reached or it ends; the iterator can be read on."""
    taken = bytearray()
    while len(taken) < limit:
        try:
            taken += await anext(body)
        except StopAsyncIteration:
            break
    return bytes(taken)


def peer(client: Wire) -> str:
    return str(client.writer.get_extra_info("peername")[0])


def read_request(head: Head) -> Request:
    method, target, _ = head.line.split(" ", 2)
    if method not in ("GET", "POST", "HEAD"):
        raise Refused(48, "NOT_IMPLEMENTED", f"The access proxy knows GET, POST and HEAD, not {method}", 501)
    parts = urlsplit(target)
    parameters = dict(parse_qsl(parts.query, keep_blank_values=True, errors="surrogateescape"))
    user = parameters.pop("user", None)
    password = parameters.pop("password", None)
    user = user or head.get("x-clickhouse-user")
    password = password if password is not None else head.get("x-clickhouse-key")
    authorization = head.get("authorization") or ""
    if authorization.lower().startswith("basic "):
        try:
            user, _, password = base64.b64decode(authorization[6:]).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError) as err:
            raise Refused(516, "AUTHENTICATION_FAILED", "Invalid authentication header", 403) from err
    return Request(head, parameters, user or "default", password or "", parts.path)


async def refuse(client: Wire, refusal: Refused) -> None:
    """Send an exception in ClickHouse's form and end the connection, because the request's body may not have been
    read.
    """
    text = (
        f"Code: {refusal.code}. DB::Exception: {refusal.text}. ({refusal.name}) (access proxy of the embedded server)\n"
    )
    body = text.encode()
    await client.send(
        f"HTTP/1.1 {refusal.status} Refused\r\nContent-Type: text/plain; charset=UTF-8\r\nConnection: close\r\n"
        f"X-ClickHouse-Exception-Code: {refusal.code}\r\nContent-Length: {len(body)}\r\n\r\n".encode("latin-1")
        + body
    )
