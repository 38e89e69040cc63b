"""The PostgreSQL side of a session: one connection, typed parameters, binary rows, prepared statements, streaming."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import psycopg
from psycopg import generators, pq
from psycopg.adapt import AdaptersMap, Transformer
from psycopg.types.string import ByteaBinaryLoader
from tsqldev.errors import SqlError, unsupported
from tsqldev.session.standing import StandingTables
from tsqldev.types import SqlType

_OIDS = {
    "int2": 21,
    "int4": 23,
    "int8": 20,
    "float4": 700,
    "float8": 701,
    "text": 25,
    "bytea": 17,
    "uuid": 2950,
}
_NUMERIC = 1700
_PREPARED_LIMIT = 300
_CHUNK = 500
_LONG = 1000

_FAILED = pq.ExecStatus.FATAL_ERROR
_CHUNKED = pq.ExecStatus.TUPLES_CHUNK
_TUPLES = pq.ExecStatus.TUPLES_OK

# Making a UUID of sixteen bytes takes as long as all the other values of a usual row together.
_UUIDS_AS_BYTES = AdaptersMap(psycopg.adapters)
_UUIDS_AS_BYTES.register_loader("uuid", ByteaBinaryLoader)

Row = tuple[Any, ...]


class BackendError(Exception):
    """PostgreSQL refused a statement: its error fields, before they become a SQL Server message."""

    def __init__(self, sqlstate: str, message: str, detail: str, constraint: str, table: str, column: str) -> None:
        super().__init__(f"{sqlstate}: {message}")
        self.sqlstate = sqlstate
        self.message = message
        self.detail = detail
        self.constraint = constraint
        self.table = table
        self.column = column


def oid(type: SqlType) -> int:
    return _OIDS.get(type.postgres, _NUMERIC)


def encode(value: object) -> bytes | None:
    """A value of `tsqldev.types` in PostgreSQL's text format (bytes stay as they are and go binary)."""
    if value is None:
        return None
    if isinstance(value, str):
        if "\x00" in value:
            raise unsupported("character U+0000 in a string")
        try:
            return value.encode("utf-8")
        except UnicodeEncodeError as err:
            raise unsupported("a lone surrogate in a Unicode string") from err
    if isinstance(value, bytes):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, bool):
        return b"1" if value else b"0"
    return str(value).encode("ascii")


class Backend:
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self._pg = connection.pgconn
        self.standing = StandingTables()
        self._prepared: OrderedDict[tuple[object, ...], bytes] = OrderedDict()
        self._seen: OrderedDict[tuple[object, ...], None] = OrderedDict()
        self._names = 0
        self._version: object = None
        # A cancel request reaches whatever runs when it arrives: it may only be sent while a statement is running.
        self._running = threading.Lock()
        self._busy = False

    # -- statements

    def script(self, sql: str) -> None:
        """Statements without parameters or rows (transaction control, DDL of temporary tables)."""
        self._pg.send_query(sql.encode())
        self._finish()

    def run(
        self, sql: str, types: Sequence[SqlType] = (), values: Sequence[object] = (), key: object = None
    ) -> tuple[list[Row], int]:
        """All rows, and the number of affected rows. `key` names what the plan depends on beside the text."""
        self._send(sql, types, values, key)
        result = self._finish()
        if result.status == _TUPLES:
            return self._rows(result), result.ntuples
        return [], result.command_tuples or 0

    def stream(
        self,
        sql: str,
        types: Sequence[SqlType] = (),
        values: Sequence[object] = (),
        key: object = None,
        *,
        uuid_bytes: bool = False,
    ) -> Generator[Row, None, None]:
        """The rows as they come, in bounded memory. The connection is busy until the iterator is done or closed.

        `uuid_bytes`: a uniqueidentifier is the bytes that a UUID has, in their written order.
        """
        self._send(sql, types, values, key)
        self._pg.set_chunked_rows_mode(_CHUNK)
        transformer = Transformer(_UUIDS_AS_BYTES if uuid_bytes else self.connection)
        ended = False
        self._busy = True
        try:
            while True:
                result = self.connection.wait(generators.fetch(self._pg))
                if result is None:
                    ended = True
                    return
                if result.status == _FAILED:
                    failure = _failure(result)
                    self._drain()
                    ended = True
                    raise failure
                if result.ntuples:
                    transformer.set_pgresult(result)
                    yield from transformer.load_rows(0, result.ntuples, tuple)
        finally:
            if not ended:
                self.cancel()
                self._drain()
            self._idle()

    def copy(self, sql: str, blocks: Iterator[bytes]) -> int:
        """COPY ... FROM STDIN."""
        with self.connection.cursor() as cursor:
            try:
                with cursor.copy(sql) as copy:
                    for block in blocks:
                        copy.write(block)
            except psycopg.Error as err:
                raise of_driver(err) from err
            return cursor.rowcount

    def copy_out(self, sql: str) -> bytes:
        """COPY ... TO STDOUT, whole."""
        with self.connection.cursor() as cursor:
            try:
                with cursor.copy(sql) as copy:
                    return b"".join(bytes(block) for block in copy)
            except psycopg.Error as err:
                raise of_driver(err) from err

    # -- interruption

    def cancel(self) -> None:
        """Interrupt the running statement, if there is one. Callable from any thread."""
        with self._running:
            if self._busy and self._pg.status == pq.ConnStatus.OK:
                self._pg.get_cancel().cancel()

    def reset(self) -> bool:
        """Make it as good as new for another session, prepared statements and emptied tables apart. False where that cannot be."""
        if self.broken or self._pg.transaction_status != pq.TransactionStatus.IDLE:
            return False
        try:
            self.script(f"{self.standing.session_ended()}DISCARD SEQUENCES; RESET ALL")
        except (BackendError, SqlError):
            return False
        return True

    @property
    def failed(self) -> bool:
        """Whether PostgreSQL takes nothing but a rollback."""
        return self._pg.transaction_status == pq.TransactionStatus.INERROR

    @property
    def broken(self) -> bool:
        return self._pg.status != pq.ConnStatus.OK

    def close(self) -> None:
        self.connection.close()

    # -- private

    def _send(self, sql: str, types: Sequence[SqlType], values: Sequence[object], key: object) -> None:
        data = [encode(value) for value in values]
        oids = [oid(type) for type in types]
        formats = [1 if number == 17 else 0 for number in oids]
        name = self._statement_name(sql, oids, key)
        if name is None:
            self._pg.send_query_params(sql.encode(), data, oids, formats, 1)
        else:
            self._pg.send_query_prepared(name, data, formats, 1)

    def _statement_name(self, sql: str, oids: list[int], key: object) -> bytes | None:
        """A prepared statement from the second use on, from the first for texts that take long to plan.

        Temporary tables come again under the same name with other columns, or with many rows where the plan is for few:
        never for texts that name one.
        """
        if key is None or "pg_temp." in sql:
            return None
        self._keep_current(key)
        full = (sql, tuple(oids), key)
        name = self._prepared.get(full)
        if name is not None:
            self._prepared.move_to_end(full)
            return name
        if full not in self._seen and len(sql) < _LONG:
            self._seen[full] = None
            if len(self._seen) > _PREPARED_LIMIT:
                self._seen.popitem(last=False)
            return None
        if len(self._prepared) >= _PREPARED_LIMIT:
            _, old = self._prepared.popitem(last=False)
            self.script(f"DEALLOCATE {old.decode()}")
        self._names += 1
        name = f"p{self._names}".encode()
        self._pg.send_prepare(name, sql.encode(), oids)
        self._finish()
        self._prepared[full] = name
        return name

    def _keep_current(self, key: object) -> None:
        """Plans of an earlier version of the definitions (the first part of a key) will not be asked for again."""
        version = key[0] if isinstance(key, tuple) else None
        if version is None or version == self._version:
            return
        self._version = version
        stale = [full for full in self._prepared if isinstance(full[2], tuple)]
        if stale:
            self.script("; ".join(f"DEALLOCATE {self._prepared.pop(full).decode()}" for full in stale))

    def _finish(self) -> pq.abc.PGresult:
        self._busy = True
        try:
            results = self.connection.wait(generators.execute(self._pg))
        except psycopg.OperationalError as err:
            raise SqlError(
                596, "Cannot continue the execution because the session is in the kill state.", severity=21
            ) from err
        finally:
            self._idle()
        for result in results:
            if result.status == _FAILED:
                raise _failure(result)
        last: pq.abc.PGresult = results[-1]
        return last

    def _drain(self) -> None:
        while self.connection.wait(generators.fetch(self._pg)) is not None:
            continue

    def _idle(self) -> None:
        with self._running:
            self._busy = False

    def _rows(self, result: pq.abc.PGresult) -> list[Row]:
        transformer = Transformer(self.connection)
        transformer.set_pgresult(result)
        return transformer.load_rows(0, result.ntuples, tuple)


def _failure(result: pq.abc.PGresult) -> BackendError:
    def read(code: pq.DiagnosticField) -> str:
        return (result.error_field(code) or b"").decode("utf-8", "replace")

    return BackendError(
        read(pq.DiagnosticField.SQLSTATE),
        read(pq.DiagnosticField.MESSAGE_PRIMARY),
        read(pq.DiagnosticField.MESSAGE_DETAIL),
        read(pq.DiagnosticField.CONSTRAINT_NAME),
        read(pq.DiagnosticField.TABLE_NAME),
        read(pq.DiagnosticField.COLUMN_NAME),
    )


def of_driver(error: psycopg.Error) -> BackendError:
    """The same fields of an error that came through psycopg's own calls."""
    diagnosis = error.diag
    return BackendError(
        diagnosis.sqlstate or ("57P01" if isinstance(error, psycopg.OperationalError) else "XX000"),
        diagnosis.message_primary or str(error),
        diagnosis.message_detail or "",
        diagnosis.constraint_name or "",
        diagnosis.table_name or "",
        diagnosis.column_name or "",
    )
