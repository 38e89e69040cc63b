"""The tokens of one response: what the session reports becomes, in order, what the client reads (MS-TDS 2.2.7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from tsqldev.errors import SqlError
from tsqldev.interfaces import Column, ResultSink, RpcParameter
from tsqldev.types import SqlType
from tsqldev.wire import tokens
from tsqldev.wire.rows import plain_row_encoder, row_encoder
from tsqldev.wire.transport import MessageWriter

_ROWS_AT_ONCE = 32 * 1024
_FEW_ROWS = 50
_MOST_ROWS = 500


class Response(ResultSink):
    """Writes one response message.

    A DONE token says whether more follows, which is known only with the next token: so the last one is held back. After
    an attention nothing more is added but what the client must know (its database, its transaction); `finish` then
    acknowledges it.
    """

    uuid_bytes = True

    def __init__(self, writer: MessageWriter, server: str, attention: Callable[[], bool]) -> None:
        self._writer = writer
        self._server = server
        self._attention = attention
        self._held: tuple[int, int, int, str] | None = None
        self._failed = False
        self._depth = 0
        self._types: tuple[SqlType, ...] = ()
        self._outputs: list[tuple[int, str]] = []
        self.fatal = False

    # ---- tokens

    def _add(self, data: bytes, *, always: bool = False) -> None:
        if self._attention() and not always:
            return
        self._release(more=True)
        self._writer.write(data)

    def _release(self, *, more: bool) -> None:
        if self._held is not None:
            kind, status, count, command = self._held
            self._held = None
            self._writer.write(tokens.done(kind, status | (tokens.DONE_MORE if more else 0), count, command))

    def _hold(self, kind: int, count: int | None, command: str) -> None:
        if self._attention():
            return
        self._release(more=True)
        status = 0 if count is None else tokens.DONE_COUNT
        if self._failed:
            status |= tokens.DONE_ERROR
            self._failed = False
        self._held = (kind, status, count or 0, command)

    # ---- ResultSink

    def columns(self, columns: Sequence[Column]) -> None:
        self._add(tokens.column_metadata(columns))
        self._types = tuple(column.type for column in columns)

    def rows(self, rows: Iterable[Sequence[object]]) -> None:
        if self._attention():
            return
        self._release(more=True)
        source, write = iter(rows), self._writer.write
        encode = plain_row_encoder(self._types)
        size = count = 0
        # The first ones singly: how large a row is decides how many are encoded at once.
        for row in islice(source, _FEW_ROWS):
            data = encode(row)
            size += len(data)
            count += 1
            write(data)
            if self._attention():
                return
        if count < _FEW_ROWS:
            return
        at_once = max(1, min(_FEW_ROWS * _ROWS_AT_ONCE // size, _MOST_ROWS))
        encode = row_encoder(self._types)
        pending: list[bytes] = []
        while True:
            try:
                pending.extend(map(encode, islice(source, at_once)))
            finally:
                # An error in the middle follows the rows before it.
                write(b"".join(pending))
            if not pending or self._attention():
                return
            pending.clear()

    def done(self, count: int | None, *, command: str = "") -> None:
        self._hold(tokens.DONE_IN_PROCEDURE if self._depth else tokens.DONE, count, command)

    def info(self, number: int, message: str, *, severity: int = 0, state: int = 1, line: int = 1) -> None:
        self._add(
            tokens.message(
                number,
                message,
                state=state,
                severity=severity,
                server=self._server,
                procedure="",
                line=line,
                error=False,
            )
        )

    def error(self, error: SqlError) -> None:
        self._add(tokens.error_message(error, self._server))
        self._failed = True
        self.fatal = self.fatal or error.severity >= 20

    def enter_module(self) -> None:
        self._depth += 1

    def leave_module(self, status: int) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._add(tokens.return_status(status))
            self._hold(tokens.DONE_PROCEDURE, None, "")

    def return_value(self, name: str, type: SqlType, value: object) -> None:
        ordinal = next((at for at, (_, known) in enumerate(self._outputs) if known == name), 0)
        if self._outputs:
            number, name = self._outputs.pop(ordinal)
        else:
            number = 0
        self._add(tokens.return_value(number, name, type, value))

    def database_changed(self, new: str, old: str) -> None:
        self._add(tokens.environment_text(tokens.ENV_DATABASE, new, old), always=True)

    def transaction_began(self, descriptor: int) -> None:
        self._add(tokens.environment_transaction(tokens.ENV_BEGIN, descriptor), always=True)

    def transaction_committed(self, descriptor: int) -> None:
        self._add(tokens.environment_transaction(tokens.ENV_COMMIT, descriptor), always=True)

    def transaction_rolled_back(self, descriptor: int) -> None:
        self._add(tokens.environment_transaction(tokens.ENV_ROLLBACK, descriptor), always=True)

    # ---- the frame around a request

    def reset_done(self) -> None:
        self._add(tokens.reset_done())

    def begin_call(self, parameters: Sequence[RpcParameter]) -> None:
        """A remote procedure call starts: its statements end with DONEINPROC."""
        self._depth += 1
        self._outputs = [(number, p.name) for number, p in enumerate(parameters) if p.output]

    def end_call(self, status: int) -> None:
        self.leave_module(status)
        self._outputs = []

    def finish(self, *, attention: bool, failed: bool = False) -> None:
        """End the message. A request that reported no end of a statement, or an error after it, gets one."""
        self._failed = self._failed or failed
        if attention:
            self._release(more=True)
            if failed:
                # The statement that was interrupted ends first: only then do ODBC clients call it cancelled.
                self._writer.write(tokens.done(tokens.DONE, tokens.DONE_ERROR | tokens.DONE_MORE))
            self._writer.write(tokens.done(tokens.DONE, tokens.DONE_ATTENTION))
        else:
            if self._failed or self._held is None:
                self._hold(tokens.DONE, None, "")
            self._release(more=False)
        self._writer.finish()
