"""One client: handshake, login, then one request after the other until it goes (MS-TDS 3.3).

Two threads: this one serves; a reader takes packets off the socket, so that an attention or the client's end is seen
while a request runs, and hands them over.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace

from tsqldev.errors import SqlError
from tsqldev.interfaces import Engine, Session
from tsqldev.wire import requests, tokens
from tsqldev.wire import transport as wire
from tsqldev.wire.bulk import BulkStream
from tsqldev.wire.response import Response
from tsqldev.wire.transport import ConnectionGone, MessageWriter, Packet, ProtocolError, Transport

log = logging.getLogger(__name__)

_LOGIN_SECONDS = 30.0
_MESSAGE_LIMIT = 1 << 30
_PACKETS_AHEAD = 256


class _Interrupted(Exception):
    """The client gave its message up before it was complete, by an attention or by the ignore bit."""

    def __init__(self, *, attention: bool) -> None:
        super().__init__("the client gave up its message")
        self.attention = attention


class Connection:
    def __init__(self, transport: Transport, engine: Engine, tls: ssl.SSLContext, server_name: str) -> None:
        self._transport = transport
        self._engine = engine
        self._tls = tls
        self._server_name = server_name
        self._session: Session | None = None
        # Packets as the reader took them; None stands for the end of the connection.
        self._inbox: queue.Queue[Packet | None] = queue.Queue(_PACKETS_AHEAD)
        self._state = threading.Lock()
        self._busy = False
        self._attentions = 0  # seen by the reader and not yet acknowledged
        self._gone = threading.Event()

    # ---- life

    def serve(self) -> None:
        """Serve the client to its end. Never raises: a bug ends this connection, and is logged."""
        gently = False
        try:
            gently = self._serve()
        except ConnectionGone as reason:
            log.debug("connection %s: %s", self._transport.spid, reason)
        except ProtocolError as reason:
            log.info("connection %s ended for a protocol error: %s", self._transport.spid, reason)
        except Exception:  # the rule: a bug ends one connection, not the server
            log.exception("connection %s ended by an internal error", self._transport.spid)
        finally:
            self._gone.set()
            try:
                if self._session is not None:
                    self._session.close()
            except Exception:  # the same rule
                log.exception("session %s could not be closed", self._transport.spid)
            finally:
                self._transport.close(gently=gently)

    def _serve(self) -> bool:
        self._transport.limit_patience(_LOGIN_SECONDS)
        encryption = self._negotiate()
        if not self._login(encryption):
            return True
        self._transport.limit_patience(None)
        threading.Thread(target=self._read, name=f"tds-reader-{self._transport.spid}", daemon=True).start()
        while True:
            packet = self._next()
            if packet.type == wire.ATTENTION:
                self._acknowledge()
            elif not self._request(packet):
                return True

    def disconnect(self) -> None:
        """End the connection from any thread (KILL, shutdown)."""
        self._transport.disconnect()

    # ---- handshake

    def _receive_whole(self, kind: int, first: Packet | None = None) -> bytes:
        packet = first or self._transport.receive()
        parts = []
        while True:
            if packet.type != kind:
                raise ProtocolError(f"packet type {packet.type} instead of {kind}")
            parts.append(packet.payload)
            if packet.last:
                return b"".join(parts)
            if len(parts) > 64:
                raise ProtocolError("a login without end")
            packet = self._transport.receive()

    def _negotiate(self) -> int:
        """PRELOGIN, and the TLS handshake where either side wants it. Returns what was agreed."""
        wanted = requests.prelogin_encryption(self._receive_whole(wire.PRELOGIN))
        agreed = {
            requests.ENCRYPT_OFF: requests.ENCRYPT_OFF,
            requests.ENCRYPT_ON: requests.ENCRYPT_ON,
            requests.ENCRYPT_REQUIRED: requests.ENCRYPT_ON,
        }.get(wanted, requests.ENCRYPT_NOT_SUPPORTED)
        answer = requests.prelogin_answer(self._engine.version(), agreed)
        self._transport.send(wire.RESPONSE, answer, last=True)
        if agreed != requests.ENCRYPT_NOT_SUPPORTED:
            self._transport.start_tls(self._tls)
        return agreed

    def _login(self, encryption: int) -> bool:
        login = requests.parse_login(self._receive_whole(wire.LOGIN7))
        if encryption == requests.ENCRYPT_OFF:
            self._transport.stop_tls()
        # Microsoft's clients read a TLS record of at most 16 KiB at a time, and want a whole packet in it.
        largest = 16383 if encryption == requests.ENCRYPT_ON else 32767
        size = min(max(login.request.packet_size or 4096, 512), largest)
        try:
            if login.tds_version < requests.TDS_7_3:
                raise SqlError(17809, "The emulation speaks TDS 7.3 and 7.4 only.", severity=20)
            if login.integrated:
                raise SqlError(18452, "Login failed. Integrated authentication is not emulated.", severity=14)
            if login.changes_password:
                raise SqlError(18488, "Login failed. Changing a password at login is not emulated.", severity=14)
            session, infos = self._engine.login(
                replace(login.request, encrypted=encryption == requests.ENCRYPT_ON), self.disconnect
            )
        except SqlError as error:
            writer = MessageWriter(self._transport)
            writer.write(tokens.error_message(error, self._server_name))
            writer.write(tokens.done(tokens.DONE, tokens.DONE_ERROR))
            writer.finish()
            return False
        self._session = session
        self._transport.spid = session.spid & 0xFFFF
        self._welcome(login, session, infos, size)
        return True

    def _welcome(self, login: requests.Login, session: Session, infos: list[tuple[int, str]], size: int) -> None:
        writer = MessageWriter(self._transport)
        texts = {
            5701: f"Changed database context to '{session.database}'.",
            5703: "Changed language setting to us_english.",
            **dict(infos),
        }
        writer.write(tokens.environment_text(tokens.ENV_DATABASE, session.database, "master"))
        writer.write(self._info(5701, texts.pop(5701)))
        writer.write(tokens.environment_collation())
        writer.write(tokens.environment_text(tokens.ENV_LANGUAGE, "us_english", ""))
        writer.write(self._info(5703, texts.pop(5703)))
        for number, text in texts.items():
            writer.write(self._info(number, text))
        version = min(login.tds_version, requests.TDS_7_4)
        writer.write(tokens.login_acknowledged(version, self._engine.version()))
        writer.write(tokens.environment_text(tokens.ENV_PACKET_SIZE, str(size), str(login.request.packet_size or 4096)))
        if login.wants_features:
            writer.write(tokens.no_features())
        writer.write(tokens.done(tokens.DONE, 0))
        writer.finish()
        self._transport.packet_size = size

    def _info(self, number: int, text: str) -> bytes:
        name = self._server_name
        return tokens.message(number, text, state=2, severity=0, server=name, procedure="", line=1, error=False)

    # ---- the reader

    def _read(self) -> None:
        try:
            while True:
                packet = self._transport.receive()
                if packet.type == wire.ATTENTION:
                    self._interrupt(acknowledge=True)
                self._hand_over(packet)
        except ConnectionGone:
            pass
        except ProtocolError as reason:
            log.info("connection %s ended for a protocol error: %s", self._transport.spid, reason)
        self._interrupt(acknowledge=False)
        self._hand_over(None)

    def _interrupt(self, *, acknowledge: bool) -> None:
        """Stop what runs: the client asked for it, or is gone."""
        with self._state:
            if acknowledge:
                self._attentions += 1
            running = self._session if self._busy else None
            if running is not None:
                running.attention()

    def _hand_over(self, packet: Packet | None) -> None:
        while not self._gone.is_set():
            with contextlib.suppress(queue.Full):
                self._inbox.put(packet, timeout=1)
                return

    def _next(self) -> Packet:
        packet = self._inbox.get()
        if packet is None:
            raise ConnectionGone("closed by the client")
        return packet

    # ---- requests

    def _acknowledge(self) -> None:
        """An attention without a request: what it was meant for ended just before."""
        with self._state:
            self._attentions = max(0, self._attentions - 1)
        self._response().finish(attention=True)

    def _response(self) -> Response:
        return Response(MessageWriter(self._transport), self._server_name, lambda: self._attentions > 0)

    def _payloads(self, first: Packet) -> Iterator[bytes]:
        """The payloads of one message, as they arrive."""
        packet = first
        while True:
            if packet.type == wire.ATTENTION:
                raise _Interrupted(attention=True)
            if packet.type != first.type:
                raise ProtocolError(f"packet type {packet.type} within a message of type {first.type}")
            if packet.status & wire.IGNORE:
                raise _Interrupted(attention=False)
            yield packet.payload
            if packet.last:
                return
            packet = self._next()

    def _whole(self, first: Packet) -> bytes:
        parts, size = [], 0
        for payload in self._payloads(first):
            parts.append(payload)
            size += len(payload)
            if size > _MESSAGE_LIMIT:
                raise ProtocolError(f"a message of more than {_MESSAGE_LIMIT} bytes")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _request(self, first: Packet) -> bool:
        """Serve one message; false when the connection is to end after the response."""
        payloads: Iterator[bytes] = iter(())
        try:
            if first.type == wire.BULK_LOAD:
                payloads = self._payloads(first)
                payload = b""
            elif first.type in (wire.SQL_BATCH, wire.RPC, wire.TRANSACTION_MANAGER):
                payload = self._whole(first)
            else:
                raise ProtocolError(f"packet type {first.type}")
        except _Interrupted as reason:
            self._give_up(reason)
            return True
        response = self._response()
        with self._state:
            # With an attention waiting in the inbox already, nothing is run.
            self._busy = run = self._attentions == 0
        try:
            if run:
                self._run(first, payload, payloads, response)
        except SqlError as error:
            response.error(error)
        except _Interrupted as reason:
            self._give_up(reason)
            return True
        except (ConnectionGone, ProtocolError):
            raise
        except Exception as bug:  # the rule: a bug ends one connection, not the server, and the client is told
            log.exception("connection %s ended by an internal error", self._transport.spid)
            text = f"Internal error of the emulation ({type(bug).__name__}); the connection is closed. See its log."
            response.error(SqlError(40000, text, severity=20))
        finally:
            with self._state:
                self._busy = False
                interrupted = self._attentions > 0
        response.finish(attention=interrupted, failed=interrupted)
        if interrupted:
            # Acknowledged within its response: its packet, the next to come, is done with.
            while self._next().type != wire.ATTENTION:
                continue
            with self._state:
                self._attentions -= 1
        return not response.fatal

    def _give_up(self, reason: _Interrupted) -> None:
        if reason.attention:
            self._acknowledge()
        else:
            self._response().finish(attention=False, failed=True)

    def _run(self, first: Packet, payload: bytes, payloads: Iterator[bytes], response: Response) -> None:
        session = self._session
        assert session is not None
        if first.status & (wire.RESET_CONNECTION | wire.RESET_CONNECTION_KEEP_TRANSACTION):
            session.reset(bool(first.status & wire.RESET_CONNECTION_KEEP_TRANSACTION))
            response.reset_done()
        if first.type == wire.SQL_BATCH:
            session.batch(requests.parse_batch(payload), response)
        elif first.type == wire.RPC:
            self._run_calls(session, payload, response)
        elif first.type == wire.TRANSACTION_MANAGER:
            self._run_transaction(session, requests.parse_transaction_request(payload), response)
        else:
            self._run_bulk(session, payloads, response)

    def _run_calls(self, session: Session, payload: bytes, response: Response) -> None:
        for call in requests.parse_calls(payload):
            if self._attentions:
                return
            response.begin_call(call.parameters)
            status = -6
            try:
                status = session.rpc(call.procedure, call.parameters, response)
            except SqlError as error:
                response.error(error)
            response.end_call(status)

    def _run_transaction(self, session: Session, request: requests.TransactionRequest, response: Response) -> None:
        if request.kind == requests.TM_BEGIN:
            session.begin_transaction(request.name, request.isolation, response)
        elif request.kind == requests.TM_COMMIT:
            session.commit_transaction(request.name, request.begin_again, request.isolation, response)
        elif request.kind == requests.TM_ROLLBACK:
            session.rollback_transaction(request.name, request.begin_again, request.isolation, response)
        else:
            session.save_transaction(request.name, response)

    def _run_bulk(self, session: Session, payloads: Iterator[bytes], response: Response) -> None:
        """Whatever becomes of the load, the rest of its message is read before the answer."""
        stream = BulkStream(payloads)
        try:
            stream.read_columns()
            session.bulk_load(stream.columns, stream.rows(), response)
        except SqlError as error:
            response.error(error)
        for _ in payloads:
            continue
