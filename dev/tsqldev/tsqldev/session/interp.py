"""Running T-SQL: frames, control flow, and what an error does to statement, scope, batch and transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg
from tsqldev.compile import CompileContext
from tsqldev.errors import SqlError, unsupported
from tsqldev.interfaces import Compiled, TableInfo
from tsqldev.session import (
    bulkfile,
    errormap,
    insertexec,
    metaprocs,
    procedures,
    queries,
    scratch,
    statements,
    sysprocs,
    variables,
)
from tsqldev.session.backend import BackendError
from tsqldev.session.frames import (
    BATCH_ABORTING,
    NESTING_LIMIT,
    SCOPE_ABORTING,
    TERMINATED,
    BatchAbort,
    Break,
    Caught,
    Continue,
    Disconnect,
    Frame,
    LeaveTrigger,
    Return,
    Scope,
    ScopeAbort,
)
from tsqldev.session.split import Block, If, Node, Simple, Try, While
from tsqldev.session.syntax import exec_source
from tsqldev.types import SqlType

if TYPE_CHECKING:
    from tsqldev.session.session import SqlSession

Handler = Callable[["Interpreter", Simple], None]

_DDL = frozenset({"CREATE", "ALTER", "DROP", "TRUNCATE", "GRANT", "DENY", "REVOKE", "ENABLE", "DISABLE"})
_QUERIES = frozenset({"SELECT", "WITH", "INSERT", "UPDATE", "DELETE", "MERGE"})


class Interpreter:
    def __init__(self, session: SqlSession) -> None:
        self.session: SqlSession = session
        self.frames: list[Frame] = []
        # What statements and values find by name, without importing all who import them.
        self.system_procedures = sysprocs.PROCEDURES
        self.file_value = bulkfile.single
        self.described_rows = metaprocs.describe_rows

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    # -- frames

    def run_text(self, text: str, frame: Frame) -> None:
        """Parse and run a batch, dynamic batch or module body in a frame of its own."""
        try:
            nodes = self.session.engine.split(text)
        except SqlError as error:
            error.line += frame.line_offset
            error.procedure = frame.procedure
            error.located = error.crossed = True
            raise
        self.run_frame(nodes, frame)

    def run_frame(self, nodes: Sequence[Node], frame: Frame) -> None:
        session = self.session
        if len(self.frames) > NESTING_LIMIT:
            raise SqlError(
                217,
                "Maximum stored procedure, function, trigger, or view nesting level exceeded (limit 32).",
            )
        kept = replace(session.settings)
        isolation = session.transactions.isolation
        principal = session.principal
        impersonations = len(session.impersonations)
        frame.depth = len(self.frames)
        self.frames.append(frame)
        try:
            variables.declare_all(self, nodes)
            self.nodes(nodes)
        except Return:
            pass
        finally:
            scratch.leave(self, frame)
            self.frames.pop()
            if frame.scope is not Scope.BATCH:
                # SET options, EXECUTE AS and USE of a module or dynamic batch end with it.
                session.settings = kept
                session.transactions.isolation = isolation
                session.restore_principal(principal, impersonations)

    # -- control flow

    def nodes(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            self.node(node)

    def node(self, node: Node) -> None:
        if isinstance(node, Simple):
            self.guarded(node, self.simple)
        elif isinstance(node, Block):
            self.nodes(node.body)
        elif isinstance(node, If):
            if self.condition(node):
                self.node(node.then)
            elif node.otherwise is not None:
                self.node(node.otherwise)
        elif isinstance(node, While):
            self.loop(node)
        else:
            self.attempt(node)

    def loop(self, node: While) -> None:
        while self.condition(node):
            try:
                self.node(node.body)
            except Break:
                return
            except Continue:
                continue

    def attempt(self, node: Try) -> None:
        frame = self.frame
        frame.try_depth += 1
        depth = len(self.frames)
        try:
            self.nodes(node.body)
        except Caught as caught:
            if caught.depth < depth:
                raise
            frame.try_depth -= 1
            self.handle(node, caught.error)
            return
        except BaseException:
            frame.try_depth -= 1
            raise
        frame.try_depth -= 1

    def handle(self, node: Try, error: SqlError) -> None:
        frame = self.frame
        frame.caught.append(error)
        try:
            self.nodes(node.handler)
        finally:
            frame.caught.pop()

    def condition(self, node: If | While) -> bool:
        result = False

        def evaluate(_: Simple) -> None:
            nonlocal result
            if self.session.settings.fmtonly:
                result = True
                return
            result = queries.condition(self, node.condition)

        # A condition that fails is a failed statement: the branch is not taken.
        self.guarded(Simple("IF", node.condition, node.line, []), evaluate)
        if isinstance(node, While) and self.session.settings.fmtonly:
            return False
        return result

    # -- statements

    def simple(self, node: Simple) -> None:
        first = node.first
        handler = statements.HANDLERS.get(first)
        if handler is not None:
            handler(self, node)
        elif first == "INSERT" and (source := exec_source(node)):
            insertexec.run(self, node, source)
        elif first in _QUERIES:
            queries.query(self, node)
        elif first in ("EXEC", ""):
            procedures.execute(self, node)
        elif first in _DDL:
            statements.ddl(self, node)
        else:
            raise unsupported(f"statement {first}")

    def guarded(self, node: Simple, run: Callable[[Simple], None]) -> None:
        """Run one statement; an error becomes what SQL Server makes of it."""
        session = self.session
        session.check_interrupted()
        try:
            run(node)
        except BackendError as error:
            session.check_interrupted()
            self.failed(errormap.translate(error, self._kind(node), session.backend), node)
        except psycopg.Error as error:
            session.check_interrupted()
            self.failed(errormap.translate(errormap.of_driver(error), self._kind(node), session.backend), node)
        except SqlError as error:
            self.failed(error, node)
        else:
            if node.first != "DECLARE":
                session.last_error = 0

    def _kind(self, node: Simple) -> str:
        if node.first == "WITH":
            for token in node.tokens:
                if token.word in ("INSERT", "UPDATE", "DELETE", "MERGE"):
                    return token.word
            return "SELECT"
        if node.first == "ALTER":
            return "ALTER TABLE"
        return node.first or "EXECUTE"

    # -- errors

    @property
    def errors_are_fatal(self) -> bool:
        """Whether an error of a statement ends the transaction: XACT_ABORT is ON, and no TRY is open."""
        return self.session.settings.xact_abort and not any(frame.try_depth for frame in self.frames)

    def failed(self, error: SqlError, node: Simple) -> None:
        """An error of severity 11 and more came out of a statement of the current frame.

        It goes to the innermost TRY; out of a trigger, to the statement that fired it; else it is sent, and then ends
        the statement, the scope, or the batch with its transaction.
        """
        session = self.session
        self._locate(error, node)
        session.last_error = error.number
        session.rowcount = 0
        if error.number == 40000:
            session.engine.refused(error.message)
        if error.severity >= 20:
            raise Disconnect(error)
        scope_only = error.number in SCOPE_ABORTING and not error.raised and not error.crossed
        catching = self._catching_depth(include_current=not scope_only)
        trigger = self._trigger_depth()
        dooms = (
            error.dooms
            or (session.settings.xact_abort and error.raised != "raiserror")
            or error.number in BATCH_ABORTING
        )
        if trigger and catching < trigger and (error.raised != "raiserror" or catching):
            error.dooms = error.crossed = True
            raise LeaveTrigger(error)
        if catching:
            if dooms:
                session.transactions.doom()
            raise Caught(error, catching)
        session.report(error)
        if dooms:
            session.transactions.abandon()
            raise BatchAbort
        if error.raised == "throw":
            raise BatchAbort
        if scope_only:
            raise ScopeAbort
        if error.number in TERMINATED:
            session.sink.info(3621, "The statement has been terminated.", line=error.line)
        session.sink.done(None)

    def _locate(self, error: SqlError, node: Simple) -> None:
        if error.located:
            return
        frame = self.frame
        error.line = frame.line_offset + node.line + max(error.line - 1, 0)
        error.procedure = error.procedure or frame.procedure
        error.located = True

    def _catching_depth(self, *, include_current: bool) -> int:
        """How deep the innermost frame with an open TRY is; 0 where there is none."""
        deepest = len(self.frames) - (0 if include_current else 1)
        return next((depth for depth in range(deepest, 0, -1) if self.frames[depth - 1].try_depth), 0)

    def _trigger_depth(self) -> int:
        """How deep the innermost running trigger's frame is; 0 outside triggers."""
        return next(
            (depth for depth in range(len(self.frames), 0, -1) if self.frames[depth - 1].scope is Scope.TRIGGER), 0
        )

    # -- names and compiling

    def local_table(self, parts: Sequence[str]) -> TableInfo | None:
        """The #temp table or table variable of that name, in the current frame."""
        return scratch.visible(self).get(parts[-1].lower()) if parts[-1][:1] in ("#", "@") else None

    def context(self, *, keyed: bool | None = None) -> CompileContext:
        session = self.session
        frame = self.frame
        principal = session.principal
        return CompileContext(
            database=principal.database,
            database_id=principal.database_id,
            default_schema=frame.default_schema,
            variables=frame.variables,
            local_tables=scratch.visible(self),
            isolation=session.transactions.isolation,
            identity_insert=session.identity_insert,
            depth=sum(1 for other in self.frames if other.scope is Scope.TRIGGER),
            rowcount=session.settings.rowcount,
            running_triggers=self.running_triggers(),
            keyed=session.transactions.count > 0 if keyed is None else keyed,
        )

    def running_triggers(self) -> frozenset[int]:
        return frozenset(
            frame.module.object_id for frame in self.frames if frame.scope is Scope.TRIGGER and frame.module is not None
        )

    def compile(self, text: str, *, keyed: bool | None = None) -> Compiled:
        self.session.sync()
        return self.session.compiler(self.context(keyed=keyed)).statement(text)

    def expression(self, text: str, target: SqlType | None = None) -> Compiled:
        self.session.sync()
        return self.session.compiler(self.context()).expression(text, target)
