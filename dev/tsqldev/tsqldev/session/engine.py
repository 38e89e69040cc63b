"""The engine: bootstrap, login with LOGON triggers, and what all sessions share."""

from __future__ import annotations

import base64
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import psycopg
from tsqldev.catalog import Principal, bootstrap
from tsqldev.errors import SqlError, nested_too_deeply
from tsqldev.interfaces import LoginRequest, ModuleInfo
from tsqldev.session import triggers
from tsqldev.session.answers import Answers
from tsqldev.session.backend import Backend
from tsqldev.session.capture import LogSink
from tsqldev.session.definitions import Definitions
from tsqldev.session.frames import Attention, BatchAbort, Caught, Disconnect, LeaveTrigger, ScopeAbort
from tsqldev.session.procedures import Argument
from tsqldev.session.registry import Registry, SessionRecord, now
from tsqldev.session.session import SqlSession
from tsqldev.session.split import Node, split
from tsqldev.session.syntax import check_syntax
from tsqldev.session.trace import Trace, masked
from tsqldev.session.waits import Waits

log = logging.getLogger("tsqldev")

_VERSION = (16, 0, 4135)
_SPLIT_LIMIT = 1000
_SETTINGS = "-c jit=off -c client_min_messages=warning -c plan_cache_mode=force_generic_plan"
_IDLE_BACKENDS = 12


class ConnectionInfo(Protocol):
    def __call__(self, database: str = "postgres", user: str | None = None, **options: str | int) -> str: ...


class SessionEngine:
    """Implements `tsqldev.interfaces.Engine` over one PostgreSQL. `sa_password` becomes the password of `sa`."""

    server_name: str
    version_text: str
    microsoft_version: int
    connections: int

    def __init__(self, conninfo: ConnectionInfo, *, sa_password: str, trace: Path | None = None) -> None:
        self._conninfo = conninfo
        self.registry = Registry()
        self.definitions = Definitions()
        self.server_name = "tsqldev"
        major, minor, build = _VERSION
        self.version_text = (
            f"tsqldev emulation of Microsoft SQL Server 2022 on PostgreSQL - {major}.{minor}.{build}.0 "
            "(development and tests only)"
        )
        self.microsoft_version = (major << 24) | (minor << 16) | build
        self.connections = 0
        self._trace = Trace(trace) if trace is not None else None
        self._splits: OrderedDict[str, list[Node]] = OrderedDict()
        self._splits_lock = threading.Lock()
        self._initial: dict[int, str] = {}
        self._idle: list[Backend] = []
        self._idle_lock = threading.Lock()
        self._closed = False
        self._waits = Waits(self._connect, self.registry)
        self.registry.outside = self._waits.edges
        with self._connect() as connection:
            bootstrap(connection, sa_password)
            self.answers = Answers(connection)

    def version(self) -> tuple[int, int, int]:
        return _VERSION

    def close(self) -> None:
        self._closed = True
        for what, count in sorted(self.registry.refusals().items()):
            log.info("refused %s times: %s", count, what)
        with self._idle_lock:
            for backend in self._idle:
                backend.close()
            self._idle.clear()
        self._waits.close()
        if self._trace is not None:
            self._trace.close()

    # -- login

    def login(self, request: LoginRequest, disconnect: Callable[[], None]) -> tuple[SqlSession, list[tuple[int, str]]]:
        record = self.registry.enter(disconnect)
        record.host_name = request.host
        record.program_name = request.application
        record.client_library = request.client_library
        record.client_pid = request.client_pid
        record.packet_size = request.packet_size
        record.encrypted = request.encrypted
        record.login_name = record.original_login_name = request.user
        self.connections += 1
        try:
            session = SqlSession(self, record, self._backend(), LogSink(request.user))
        except BaseException:
            self.registry.leave(record)
            raise
        try:
            self._authenticate(session, request)
            self._logon_triggers(session)
        except BaseException:
            session.close()
            raise
        record.login_time = now()
        record.status = "sleeping"
        return session, []

    def _authenticate(self, session: SqlSession, request: LoginRequest) -> None:
        try:
            login = session.access.authenticate(request.user, request.password)
        except SqlError as refused:
            log.info("login of %s refused: %s", request.user, refused.message)
            raise
        record = session.record
        record.login_name = record.original_login_name = login.name
        record.security_id = record.original_security_id = login.sid
        principal = session.access.open(login, request.database)
        record.database_id = record.authenticating_database_id = principal.database_id
        record.database_name = principal.database
        self._initial[record.spid] = request.database
        session.opened(login, principal)

    def initial_database(self, record: SessionRecord) -> str:
        return self._initial.get(record.spid, "")

    def _logon_triggers(self, session: SqlSession) -> None:
        """Fire the LOGON triggers in one transaction. One that fails or rolls back refuses the login."""
        found = session.catalog.fact("logon triggers", session.catalog.logon_triggers)
        if not found:
            return
        wanted = session.principal
        session.principal = session.access.enter(session.login.login_id, "master")
        transactions = session.transactions
        try:
            transactions.begin(announce=False)
            transaction = transactions.id
            for module in found:
                self._logon_trigger(session, module)
                if transactions.id != transaction or transactions.doomed:
                    raise SqlError(3609, "The transaction ended in the trigger. The batch has been aborted.")
            transactions.commit()
        except (SqlError, BatchAbort, ScopeAbort, Caught, LeaveTrigger, Disconnect, Attention, psycopg.Error) as failed:
            log.warning("LOGON trigger refused the login of %s: %s", session.login.name, failed)
            transactions.abandon()
            raise SqlError(
                17892,
                f"Logon failed for login '{session.login.name}' due to trigger execution.",
                severity=14,
            ) from failed
        finally:
            session.restore_principal(wanted, 0)
            session.interp.frames.clear()

    def _logon_trigger(self, session: SqlSession, module: ModuleInfo) -> None:
        kept = session.principal
        if module.execute_as is not None and module.execute_as != "CALLER":
            trusted = Principal(1, "sa", kept.database_id, kept.database, 1, "dbo")
            session.principal = session.access.as_login(trusted, module.execute_as)
        try:
            # The trigger itself names whom it runs as; `execute_as` of a server trigger is a login.
            plain = ModuleInfo(
                module.object_id,
                module.database,
                "dbo",
                module.name,
                module.kind,
                module.definition,
                module.body,
                module.body_line,
                owner_id=module.owner_id,
            )
            triggers.run(session.interp, plain, None, frozenset(), event=_event(session))
        finally:
            session.principal = kept

    # -- shared by the sessions

    def split(self, text: str) -> list[Node]:
        """The statements of a text, parsed once."""
        with self._splits_lock:
            found = self._splits.get(text)
            if found is not None:
                self._splits.move_to_end(text)
                return found
        try:
            nodes = split(text)
            check_syntax(nodes)
        except RecursionError as error:
            raise nested_too_deeply() from error
        if len(text) < 100_000:
            with self._splits_lock:
                self._splits[text] = nodes
                if len(self._splits) > _SPLIT_LIMIT:
                    self._splits.popitem(last=False)
        return nodes

    def refused(self, what: str) -> None:
        self.registry.refused(what)
        log.warning("refused: %s", what)
        if self._trace is not None:
            self._trace.write("refused", 0, "", "", "", what)

    def trace(self, kind: str, session: SqlSession, text: str) -> None:
        if log.isEnabledFor(logging.DEBUG):
            log.debug("session %s: %s", session.spid, masked(text))
        if self._trace is not None:
            self._trace.write(
                kind,
                session.spid,
                session.principal.login,
                session.principal.database,
                session.record.program_name,
                text,
                client=session.record.client_pid,
            )

    def trace_call(self, session: SqlSession, procedure: str, arguments: Sequence[Argument]) -> None:
        if self._trace is None:
            return
        texts = {"sp_executesql": 0, "sp_prepare": 2, "sp_prepexec": 2}
        at = texts.get(procedure.lower())
        text = str(arguments[at].value) if at is not None and at < len(arguments) else ""
        if procedure.lower() == "sp_execute" and arguments:
            known = session.prepared.get(int(str(arguments[0].value or 0)))
            text = known.text if known is not None else ""
        self._trace.write(
            "rpc",
            session.spid,
            session.principal.login,
            session.principal.database,
            session.record.program_name,
            text,
            [f"{argument.name} {argument.type}".strip() for argument in arguments],
            procedure,
            session.record.client_pid,
        )

    def _backend(self) -> Backend:
        """A PostgreSQL connection: one that an ended session left, with its prepared statements, or a new one."""
        with self._idle_lock:
            if self._idle:
                return self._idle.pop()
        return Backend(self._connect())

    def give_back(self, backend: Backend, *, reusable: bool) -> None:
        """The end of a session. What a cancel request may still reach is not used again."""
        if reusable and not self._closed and backend.reset():
            with self._idle_lock:
                if len(self._idle) < _IDLE_BACKENDS:
                    self._idle.append(backend)
                    return
        backend.close()

    def _connect(self) -> psycopg.Connection[Any]:
        # psycopg must not prepare by itself: at each DROP, ALTER or ROLLBACK it would DEALLOCATE ALL, Backend's plans too.
        return psycopg.connect(self._conninfo(options=_SETTINGS), autocommit=True, prepare_threshold=None)


def _event(session: SqlSession) -> str:
    """EVENTDATA() of a LOGON trigger."""

    def escaped(text: str) -> str:
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

    login = session.login
    return (
        "<EVENT_INSTANCE><EventType>LOGON</EventType>"
        f"<PostTime>{datetime.now(UTC).isoformat(timespec='milliseconds')[:23]}</PostTime>"
        f"<SPID>{session.spid}</SPID><ServerName>{escaped(session.engine.server_name)}</ServerName>"
        f"<LoginName>{escaped(login.name)}</LoginName><LoginType>SQL Login</LoginType>"
        f"<SID>{base64.b64encode(login.sid).decode()}</SID>"
        f"<ClientHost>127.0.0.1</ClientHost><IsPooled>0</IsPooled></EVENT_INSTANCE>"
    )
