"""One logged-in connection: its requests, its state, and the end of both."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tsqldev.catalog import Access, Login, Principal
from tsqldev.catalog.ddl import Ddl
from tsqldev.catalog.statement import DdlContext
from tsqldev.compile import CompileContext, Compiler
from tsqldev.errors import SqlError
from tsqldev.interfaces import Column, ObjectUse, ResultSink, RpcParameter, TableInfo
from tsqldev.session import presence, procedures, scratch, sysprocs
from tsqldev.session.backend import Backend
from tsqldev.session.bulk import BulkLoad, copy_blocks
from tsqldev.session.capture import Capture, LogSink
from tsqldev.session.definitions import SessionCatalog
from tsqldev.session.frames import (
    Attention,
    BatchAbort,
    Caught,
    Disconnect,
    Frame,
    LeaveTrigger,
    Scope,
    ScopeAbort,
    Settings,
)
from tsqldev.session.identity import Identity
from tsqldev.session.interp import Interpreter
from tsqldev.session.keylocks import KeyLocks
from tsqldev.session.locktable import Owner
from tsqldev.session.prepared import Prepared
from tsqldev.session.registry import SessionRecord, now
from tsqldev.session.split import Simple
from tsqldev.session.transactions import ISOLATION_NUMBERS, Transactions, cannot_be_committed
from tsqldev.types import nvarchar

if TYPE_CHECKING:
    from tsqldev.session.engine import SessionEngine


class SqlSession(Identity):
    """Implements `tsqldev.interfaces.Session`; everything but `attention` runs on the serving thread."""

    engine: SessionEngine
    spid: int
    transactions: Transactions
    rowcount: int
    last_error: int

    def __init__(self, engine: SessionEngine, record: SessionRecord, backend: Backend, sink: ResultSink) -> None:
        super().__init__()
        self.engine = engine
        self.record = record
        self.spid = record.spid
        self.sink = sink
        self.backend = backend
        connection = backend.connection
        record.backend_pid = connection.info.backend_pid
        self.catalog = SessionCatalog(connection, engine.definitions)
        self.access = Access(connection, self.catalog.fact)
        self.ddl = Ddl(connection, self.catalog, self.access)
        self.transactions = Transactions(self.backend, self)
        self.interp = Interpreter(self)
        self.bulk = BulkLoad(self)
        self.keys = KeyLocks(self, engine.registry.locks)
        self.settings = Settings()
        self.login: Login
        self.principal: Principal
        self.rowcount = 0
        self.last_error = 0
        self.last_identity: object = None
        self.identity_insert = 0
        self.identity_insert_name = ""
        self.context_info: bytes | None = None
        self.session_context: dict[str, tuple[object, bool]] = {}
        self.temp_tables: dict[str, scratch.TempTable] = {}
        self.table_variables: list[scratch.TableVariable] = []
        self.prepared: dict[int, Prepared] = {}
        self.capturing = False
        self._temp_names = 0
        self._attention = threading.Event()
        self._woken = threading.Event()
        self._closed = False
        record.interrupt = self._interrupt
        record.refresh = lambda: presence.refresh(self)

    def opened(self, login: Login, principal: Principal) -> None:
        """Authentication succeeded: this is who the session is."""
        self.login = login
        self.sids[login.login_id] = login.sid
        self.principal = principal
        self._announced = principal.database

    # -- requests

    def batch(self, sql: str, sink: ResultSink) -> None:
        self.engine.trace("batch", self, sql)
        self._request(sink, lambda: self._batch(sql))

    def _batch(self, sql: str) -> None:
        frame = Frame(Scope.BATCH, self.principal.database, default_schema=self.principal.default_schema)
        try:
            self.interp.run_text(sql, frame)
        except SqlError as error:
            # It did not parse: nothing of it has run.
            self.report(error)
            self.sink.done(None)

    def rpc(self, name: str | int, parameters: Sequence[RpcParameter], sink: ResultSink) -> int:
        procedure = sysprocs.NUMBERS.get(name, "") if isinstance(name, int) else name
        arguments = [
            procedures.Argument(p.name, p.type, p.value, output=p.output, default=p.default) for p in parameters
        ]
        self.engine.trace_call(self, procedure or str(name), arguments)
        status = -6

        def call(_: Simple) -> None:
            nonlocal status
            if not procedure:
                raise SqlError(2812, f"Could not find stored procedure number {name}.", state=62)
            status = procedures.call(self.interp, sysprocs.parts(procedure), arguments)

        def run() -> None:
            frame = Frame(Scope.BATCH, self.principal.database, default_schema=self.principal.default_schema)
            self.interp.frames.append(frame)
            try:
                self.interp.guarded(Simple("EXEC", procedure, 1, []), call)
            finally:
                self.interp.frames.pop()
            for argument in arguments:
                if argument.output:
                    self.sink.return_value(argument.name, argument.type, argument.value)

        self._request(sink, run)
        return status

    def _request(self, sink: ResultSink, run: Callable[[], None]) -> None:
        self.sink = sink
        self._attention.clear()
        self._woken.clear()
        self.record.status = "running"
        self.record.last_request_start = now()
        try:
            try:
                run()
            finally:
                self._ended_request()
        except (BatchAbort, ScopeAbort):
            pass
        except Attention:
            if self.settings.xact_abort:
                self.transactions.abandon()
        except Disconnect as ended:
            self.report(ended.error)
        except (Caught, LeaveTrigger) as escaped:
            self.report(escaped.error)
        finally:
            self.record.status = "sleeping"
            self.record.last_request_end = now()

    def _ended_request(self) -> None:
        """A batch cannot leave a doomed transaction behind."""
        self.interp.frames.clear()
        self.capturing = False
        if self.transactions.doomed and not self.backend.broken:
            self.transactions.abandon()
            self.report(
                SqlError(
                    3998,
                    "Uncommittable transaction is detected at the end of the batch. The transaction is rolled back.",
                )
            )
            self.sink.done(None)

    def report(self, error: SqlError) -> None:
        self.record.last_error = error.number
        if error.number == 40000 and not error.located:
            self.engine.refused(error.message)
        self.sink.error(error)

    # -- the transaction manager's requests

    def begin_transaction(self, name: str, isolation: int, sink: ResultSink) -> None:
        self._managed(sink, lambda: self._begin(name, isolation))

    def commit_transaction(self, name: str, begin_again: bool, isolation: int, sink: ResultSink) -> None:
        def run() -> None:
            self.transactions.commit()
            if begin_again:
                self._begin(name, isolation)

        self._managed(sink, run)

    def rollback_transaction(self, name: str, begin_again: bool, isolation: int, sink: ResultSink) -> None:
        def run() -> None:
            if name:
                self.transactions.rollback_to(name)
            else:
                self.transactions.rollback()
            if begin_again:
                self._begin(name, isolation)

        self._managed(sink, run)

    def save_transaction(self, name: str, sink: ResultSink) -> None:
        self._managed(sink, lambda: self.transactions.save(name))

    def transaction_descriptor(self) -> int:
        return self.transactions.id

    def _begin(self, name: str, isolation: int) -> None:
        if isolation in ISOLATION_NUMBERS:
            self.transactions.isolation = ISOLATION_NUMBERS[isolation]
        self.transactions.begin(name)

    def _managed(self, sink: ResultSink, run: Callable[[], None]) -> None:
        def request() -> None:
            frame = Frame(Scope.BATCH, self.principal.database)
            self.interp.frames.append(frame)
            self.interp.guarded(Simple("TRANSACTION", "", 1, []), lambda _: run())

        self._request(sink, request)

    # -- bulk load

    def bulk_load(self, columns: Sequence[Column], rows: Iterator[Sequence[object]], sink: ResultSink) -> None:
        def request() -> None:
            frame = Frame(Scope.BATCH, self.principal.database, default_schema=self.principal.default_schema)
            self.interp.frames.append(frame)
            self.interp.guarded(
                Simple("INSERT", "INSERT BULK", 1, []), lambda _: self.bulk.load(self.interp, columns, rows)
            )

        self._request(sink, request)

    def copy_rows(self, table: TableInfo, rows: Sequence[Sequence[object]]) -> int:
        text = f"COPY {table.relation} ({', '.join(table.physical)}) FROM STDIN"
        return self.backend.copy(text, copy_blocks(iter(rows), table.columns))

    # -- reset, interruption, end

    def reset(self, keep_transaction: bool) -> None:
        if not keep_transaction:
            self.transactions.abandon()
        for name in list(self.temp_tables):
            scratch.drop_temp(self, name)
        self.engine.registry.locks.release_owner(Owner(self.spid, 0))
        self.settings = replace(Settings())
        self.transactions.isolation = "READ COMMITTED"
        self.impersonations.clear()
        self.principal = self.access.open(self.login, self.engine.initial_database(self.record))
        self._announced = self.principal.database
        self.prepared.clear()
        self.session_context.clear()
        self.context_info = None
        self.identity_insert = 0
        self.last_identity = None
        self.rowcount = self.last_error = 0

    def attention(self) -> None:
        self._attention.set()
        self._interrupt()

    def _interrupt(self) -> None:
        """Wake whatever this session waits in: a lock, a pause, PostgreSQL."""
        self._woken.set()
        self.engine.registry.locks.wake()
        self.backend.cancel()

    @property
    def interrupted(self) -> bool:
        return self._attention.is_set() or self.record.killed.is_set()

    def check_interrupted(self) -> None:
        if self.record.killed.is_set():
            raise Disconnect(
                SqlError(596, "Cannot continue the execution because the session is in the kill state.", severity=21)
            )
        if self._attention.is_set():
            raise Attention

    def pause(self, seconds: float) -> None:
        """WAITFOR."""
        if seconds > 0:
            self._woken.wait(seconds)
        self.check_interrupted()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        # There is nobody left to tell.
        self.sink = LogSink(self.record.login_name)
        self.record.status = "rollback" if self.transactions.count else "sleeping"
        try:
            self.transactions.abandon()
        finally:
            self.engine.give_back(self.backend, reusable=not self.interrupted)
            self.engine.registry.leave(self.record)

    # -- events of the transaction

    def transaction_started(self, snapshot: bool) -> None:
        self.catalog.began(snapshot=snapshot)

    def transaction_commits(self) -> None:
        self.catalog.committing()

    def transaction_began(self, descriptor: int) -> None:
        self.sink.transaction_began(descriptor)

    def transaction_committed(self, descriptor: int) -> None:
        self.sink.transaction_committed(descriptor)

    def transaction_rolled_back(self, descriptor: int) -> None:
        self.sink.transaction_rolled_back(descriptor)

    def rolling_back(self) -> None:
        scratch.rolling_back(self)

    def rolled_back_to_savepoint(self) -> None:
        scratch.brought_back(self)

    def transaction_ended(self, transaction_id: int, committed: bool) -> None:
        self.catalog.ended()
        if committed:
            self.backend.standing.committed()
        self.engine.registry.locks.release_owner(Owner(self.spid, transaction_id))
        if not committed and not self.backend.broken:
            scratch.rolled_back(self, transaction_id)

    # -- definitions

    def settings_lost(self) -> None:
        super().settings_lost()
        self.catalog.rolled_back()
        self.backend.standing.rolled_back()

    def check(self, uses: Sequence[ObjectUse], chain_owner: int | None) -> None:
        """Raises 229 where the session may not do that, 3952 where a snapshot may not be taken."""
        self.catalog.check(self.access, uses, self.principal, chain_owner)
        self.check_snapshot(uses)

    def define(self, interp: Interpreter, node: Simple) -> None:
        """A statement of the catalog: definitions and rights."""
        if self.transactions.doomed:
            raise cannot_be_committed()
        self.sync()
        context = self.ddl_context(interp)
        with self.transactions.statement(compound=True):
            self.transactions.wrote = True
            with self.catalog.changing():
                result = self.ddl.execute(node.text, context)
        self.definitions_changed()
        for number, text in result.infos:
            self.sink.info(number, text)
        self.rowcount = result.count or 0
        self.sink.done(None if self.settings.nocount else result.count)

    def ddl_context(self, interp: Interpreter) -> DdlContext:
        return DdlContext(
            self.principal,
            interp.frame.default_schema,
            self.transactions.count,
            quoted_identifier=self.settings.quoted_identifier,
            ansi_nulls=self.settings.ansi_nulls,
            chain_owner=interp.frame.owner_id,
            connected=lambda: [record.original_security_id for record in self.engine.registry.all()],
        )

    def definitions_changed(self) -> None:
        """The session's own identity may have other names now."""
        super().settings_lost()

    def compiler(self, context: CompileContext) -> Compiler:
        return Compiler(self.catalog, context)

    # -- smaller things that statements ask

    def capture(self, run: Callable[[], None]) -> list[tuple[Sequence[Column], list[tuple[Any, ...]]]]:
        outer = self.sink
        capture = Capture(outer)
        self.sink, self.capturing = capture, True
        try:
            run()
        finally:
            self.sink, self.capturing = outer, False
        return capture.results

    def next_temp_name(self) -> str:
        self._temp_names += 1
        return f"x{self._temp_names}"

    def check_snapshot(self, uses: Sequence[ObjectUse]) -> None:
        """Raises 3952 where a snapshot transaction touches a database that does not allow it."""
        if not uses or self.transactions.isolation != "SNAPSHOT":
            return
        for database in {use.database for use in uses if use.permission != "CONNECT"}:
            if not self.catalog.fact(("snapshot", database), partial(self._allows_snapshot, database)):
                raise SqlError(
                    3952,
                    f"Snapshot isolation transaction failed accessing database '{database}' because snapshot isolation "
                    "is not allowed in this database. Use ALTER DATABASE to allow snapshot isolation.",
                )

    def _allows_snapshot(self, database: str) -> bool:
        rows, _ = self.backend.run(
            "select database_id in (1, 4) or meta.option(options, 'allow_snapshot_isolation', '0') = '1'"
            " from meta.databases where key = meta.fold($1)",
            [nvarchar(128)],
            [database],
        )
        return not rows or bool(rows[0][0])

    def sees_server_state(self) -> bool:
        return any(
            self.access.holds(self.principal, "SERVER", 0, permission)
            for permission in ("VIEW SERVER STATE", "VIEW SERVER PERFORMANCE STATE")
        )
