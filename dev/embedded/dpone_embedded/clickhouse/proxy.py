"""The access proxy: HTTP in front of the engine, where SQL users exist.

Standing accounts are the engine's own and their credentials are passed on. An SQL user is authenticated here and
its statements go to the engine under a pool user. A request body is passed on as it arrives; its last chunk is held
until the user's rights have been looked at again, and an access change ends every request of that user whose body
is not complete.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import urlencode

from dpone_embedded.clickhouse.access import AccessBook, SqlUser
from dpone_embedded.clickhouse.config import Secrets
from dpone_embedded.clickhouse.http import ConnectionLost, Head, Wire
from dpone_embedded.clickhouse.messages import (
    Request,
    chain,
    nothing,
    pass_answer,
    peer,
    read_request,
    refuse,
    take,
)
from dpone_embedded.clickhouse.rewrite import rewrite
from dpone_embedded.clickhouse.statements import AccessStatement, Needs, Refused, denied, needs, not_known, parse_access
from dpone_embedded.clickhouse.tokens import Cursor, SqlTextError, literal

STATEMENT_LIMIT = 4 * 1024 * 1024
HEAD_OF_INSERT = 65536
SETTLE_SECONDS = 10.0
OWN_HEADERS = (
    "host",
    "authorization",
    "x-clickhouse-user",
    "x-clickhouse-key",
    "content-length",
    "transfer-encoding",
    "expect",
    "connection",
    "content-type",
)
"""What the proxy sets itself; everything else is passed on."""

log = logging.getLogger("dpone_embedded.clickhouse.proxy")


@dataclass(eq=False)
class Flight:
    """One request of an SQL user that the engine may not have seen whole."""

    user: str
    query_id: str
    needed: Needs
    client: Wire
    upstream: Wire
    complete: bool = False
    answered: bool = False
    revoked: bool = False


class AccessProxy:
    """Serves one engine. All state is touched by one event loop only."""

    def __init__(self, book: AccessBook, secrets: Secrets, engine_port: int, administrator: str) -> None:
        self._book = book
        self._secrets = secrets
        self._port = engine_port
        self._administrator = administrator
        self._standing = frozenset(secrets.accounts) | {"default"}
        self._flights: set[Flight] = set()

    async def serve(self, port: int) -> asyncio.Server:
        return await asyncio.start_server(self._client, "127.0.0.1", port)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = Wire(reader, writer)
        try:
            while (head := await client.head()) is not None:
                if not await self._answer(client, head):
                    break
        except (ConnectionLost, ConnectionError, asyncio.IncompleteReadError) as err:
            log.info("connection ended: %s", err)
        except asyncio.CancelledError:
            log.info("connection ended: the server stops")
        finally:
            writer.close()

    async def _answer(self, client: Wire, head: Head) -> bool:
        """Answer one request; True when the connection can carry another."""
        try:
            request = read_request(head)
            if request.path not in ("", "/"):
                return await self._pass_plain(client, request)
            return await self._statement(client, request)
        except Refused as refusal:
            await refuse(client, refusal)
        except SqlTextError as err:
            await refuse(client, Refused(62, "SYNTAX_ERROR", f"Syntax error: {err}", 400))
        return False

    async def _pass_plain(self, client: Wire, request: Request) -> bool:
        if request.path not in ("/ping", "/replicas_status"):
            raise Refused(
                48,
                "NOT_IMPLEMENTED",
                f"The access proxy passes on /, /ping and /replicas_status, not {request.path}",
                404,
            )
        return await self._exchange(client, request, {}, nothing(), None)

    async def _statement(self, client: Wire, request: Request) -> bool:
        if (request.head.get("content-type") or "").startswith("multipart/"):
            raise not_known("multipart requests; send parameters in the address")
        user = self._book.authenticate(request.user, request.password, peer(client))
        if user is None and request.user not in self._secrets.accounts:
            raise Refused(
                516,
                "AUTHENTICATION_FAILED",
                f"{request.user}: Authentication failed: password is incorrect, or there is no user with such name.",
                403,
            )
        if "100-continue" in (request.head.get("expect") or "").lower():
            await client.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = client.body(request.head)
        text = request.parameters.pop("query", "")
        in_address = bool(text.strip())
        encoded = request.head.get("content-encoding") or request.parameters.get("decompress") == "1"
        if not in_address and encoded:
            raise not_known(
                "a compressed statement; compress the data of an INSERT only, with its statement in the address"
            )
        taken = b"" if in_address else await take(body, HEAD_OF_INSERT)
        head_text = text if in_address else taken.decode("utf-8", "surrogateescape")
        first = Cursor(head_text).peek()
        if first is not None and first.is_word("INSERT"):
            return await self._insert(client, request, user, text, chain(taken, body))
        if encoded:
            raise not_known("a compressed body of a statement that is no INSERT")
        rest = taken + await take(body, STATEMENT_LIMIT)
        if len(rest) >= STATEMENT_LIMIT:
            raise Refused(62, "SYNTAX_ERROR", f"A statement that is no INSERT may have {STATEMENT_LIMIT} bytes", 400)
        whole = text + ("\n" if in_address and rest else "") + rest.decode("utf-8")
        access = parse_access(whole, request.database)
        if access is not None:
            return await self._access(client, request, access, user)
        return await self._other(client, request, whole, user)

    async def _insert(
        self, client: Wire, request: Request, user: SqlUser | None, in_address: str, body: AsyncIterator[bytes]
    ) -> bool:
        if user is None:
            return await self._exchange(client, request, {"query": in_address} if in_address else {}, body, None)
        if not in_address:
            held = await take(body, HEAD_OF_INSERT)
            needed = needs(held.decode("utf-8", "surrogateescape"), request.database)
            body = chain(held, body)
        else:
            needed = needs(in_address, request.database)
        self._book.check(user, needed)
        return await self._exchange(client, request, {"query": in_address} if in_address else {}, body, (user, needed))

    async def _other(self, client: Wire, request: Request, text: str, user: SqlUser | None) -> bool:
        needed = needs(text, request.database) if user is not None else Needs((), reads=True)
        if user is not None:
            self._book.check(user, needed)
        rewritten = rewrite(text, self._book, self._secrets.server_id, user)
        if rewritten != text:
            # Room for the names. Never for all requests: an INSERT is invisible until this much of it has arrived.
            request.parameters.setdefault("max_query_size", str(STATEMENT_LIMIT))
        text = rewritten
        return await self._exchange(
            client, request, {}, chain(text.encode(), nothing()), None if user is None else (user, needed)
        )

    async def _access(self, client: Wire, request: Request, access: AccessStatement, user: SqlUser | None) -> bool:
        if (
            user is not None
            or (await self._ask(request.user, request.password, "CHECK GRANT ACCESS MANAGEMENT ON *.*")) != "1"
        ):
            raise denied(request.user, f"{access.verb} USER ON *.*")
        if access.verb == "SHOW GRANTS":
            if access.user in self._standing:
                raise not_known("SHOW GRANTS FOR a standing account")
            found = ", ".join(literal(grant) for grant in self._book.grants_of(access.user))
            text = f"SELECT arrayJoin([{found}]::Array(String)) AS GRANTS {access.rest}"
            return await self._exchange(client, request, {}, chain(text.encode(), nothing()), None)
        self._book.apply(access, self._standing)
        log.info("%s %s", access.verb, access.user)
        if access.verb != "CREATE" and access.verb != "GRANT":
            await self._settle(access.user)
        await client.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=UTF-8\r\nX-ClickHouse-Timezone: UTC\r\n"
            b'X-ClickHouse-Summary: {"read_rows":"0","written_rows":"0"}\r\n'
            + f"X-ClickHouse-Query-Id: {request.parameters.get('query_id') or uuid.uuid4()}\r\n".encode(
                "latin-1", "replace"
            )
            + b"Content-Length: 0\r\n\r\n"
        )
        return True

    async def _settle(self, name: str) -> None:
        """After an access change: end what the engine has not seen whole, and wait until it shows what it has.

        A request whose last byte was passed on a moment ago is in system.processes only when the engine has begun
        it; the acknowledgement of the change waits for that, as a server's own access check would.
        """
        user = self._book.users.get(name)
        waiting = []
        for flight in [flight for flight in self._flights if flight.user == name]:
            if user is not None and all(user.may(need) for need in flight.needed.grants) and not flight.needed.reads:
                continue
            if flight.complete:
                waiting.append(flight)
            else:
                flight.revoked = True
                flight.upstream.abort()
                log.info("ended an incomplete request %s of %s", flight.query_id, name)
        deadline = asyncio.get_running_loop().time() + SETTLE_SECONDS
        while waiting := [flight for flight in waiting if not flight.answered]:
            ids = ", ".join(literal(flight.query_id) for flight in waiting)
            password = self._secrets.accounts[self._administrator]
            shown = await self._ask(
                self._administrator,
                password,
                f"SELECT query_id FROM system.processes WHERE query_id IN ({ids}) FORMAT TSV",
            )
            seen = set(shown.split())
            waiting = [flight for flight in waiting if flight.query_id not in seen]
            if waiting and asyncio.get_running_loop().time() > deadline:
                raise Refused(
                    159, "TIMEOUT_EXCEEDED", "The change is stored, but the engine does not show a request it was given"
                )
            await asyncio.sleep(0.01)

    async def _ask(self, user: str, password: str, text: str) -> str:
        upstream = Wire(*await asyncio.open_connection("127.0.0.1", self._port))
        try:
            data = text.encode()
            head = Head(
                "POST / HTTP/1.1",
                [
                    ("host", "127.0.0.1"),
                    ("connection", "close"),
                    ("x-clickhouse-user", user),
                    ("x-clickhouse-key", password),
                    ("content-length", str(len(data))),
                ],
            )
            await upstream.send(head.encode() + data)
            reply = await upstream.head()
            if reply is None:
                raise ConnectionLost("the engine gave no answer")
            answer = b"".join([piece async for piece in upstream.body(reply)]).decode()
            if " 200 " not in reply.line:
                code = reply.get("x-clickhouse-exception-code") or "0"
                raise Refused(int(code), "REFUSED_BY_ENGINE", answer.strip(), int(reply.line.split()[1]))
            return answer.strip()
        finally:
            upstream.abort()

    async def _exchange(
        self,
        client: Wire,
        request: Request,
        extra: dict[str, str],
        body: AsyncIterator[bytes],
        bound: tuple[SqlUser, Needs] | None,
    ) -> bool:
        """Pass one request on and its answer back."""
        query_id = request.parameters.setdefault("query_id", str(uuid.uuid4()))
        user, password = request.user, request.password
        if bound is not None:
            user = self._book.bind(*bound)
            request.parameters["log_comment"] = bound[0].name
            password = self._secrets.pool[user]
        upstream = Wire(*await asyncio.open_connection("127.0.0.1", self._port))
        flight = None
        if bound is not None:
            flight = Flight(bound[0].name, query_id, bound[1], client, upstream)
            self._flights.add(flight)
        try:
            return await self._relay(client, upstream, request, extra, body, (user, password), flight)
        finally:
            if flight is not None:
                self._flights.discard(flight)
            upstream.abort()

    async def _relay(
        self,
        client: Wire,
        upstream: Wire,
        request: Request,
        extra: dict[str, str],
        body: AsyncIterator[bytes],
        login: tuple[str, str],
        flight: Flight | None,
    ) -> bool:
        method = request.head.line.split()[0]
        kept = request.head.without(*OWN_HEADERS)
        plain = request.path in ("/ping", "/replicas_status")
        parameters = {} if plain else {**request.parameters, **extra}
        headers = [("host", "127.0.0.1"), ("connection", "close"), *kept]
        if not plain:
            headers += [
                ("x-clickhouse-user", login[0]),
                ("x-clickhouse-key", login[1]),
                ("transfer-encoding", "chunked"),
            ]
        path = f"{request.path or '/'}{'?' + urlencode(parameters) if parameters else ''}"
        await upstream.send(Head(f"{method if plain else 'POST'} {path} HTTP/1.1", headers).encode())
        sending = asyncio.create_task(self._send_body(upstream, body, flight, plain))
        answering = asyncio.create_task(upstream.head())
        try:
            await asyncio.wait({sending, answering}, return_when=asyncio.FIRST_COMPLETED)
            if answering.done() and not sending.done():
                # The engine answered before the end of the body: nothing more of it is wanted.
                sending.cancel()
            elif not answering.done():
                sending.result()
                gone = asyncio.create_task(client.ended())
                await asyncio.wait({answering, gone}, return_when=asyncio.FIRST_COMPLETED)
                if not answering.done():
                    raise ConnectionLost("the client left before the answer")
                gone.cancel()
                await asyncio.gather(gone, return_exceptions=True)
            reply = answering.result()
        except (ConnectionLost, ConnectionError):
            if flight is not None and flight.revoked:
                raise denied(flight.user, "that was taken away while the request was being sent") from None
            raise
        finally:
            sending.cancel()
            answering.cancel()
            await asyncio.gather(sending, answering, return_exceptions=True)
        if reply is None:
            if flight is not None and flight.revoked:
                raise denied(flight.user, "that was taken away while the request was being sent")
            raise ConnectionLost("the engine closed the connection without an answer")
        if flight is not None:
            flight.answered = True
        return await pass_answer(client, upstream, reply, method, sending.cancelled())

    async def _send_body(self, upstream: Wire, body: AsyncIterator[bytes], flight: Flight | None, plain: bool) -> None:
        if plain:
            return
        async for piece in body:
            await upstream.send_chunk(piece)
        if flight is not None:
            user = self._book.users.get(flight.user)
            if flight.revoked or user is None or not all(user.may(need) for need in flight.needed.grants):
                flight.revoked = True
                upstream.abort()
                raise ConnectionLost("rights were taken away")
            flight.complete = True
        await upstream.send(b"0\r\n\r\n")
