"""INSERT BULK and the rows that follow it: into the table by COPY, with the conversions of an INSERT."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tsqldev.errors import SqlError, unsupported
from tsqldev.interfaces import Column, TableInfo
from tsqldev.session import queries, scratch
from tsqldev.session.lexer import PUNCT, near, split_commas
from tsqldev.session.split import Simple
from tsqldev.types import BINARY, CHARACTER

if TYPE_CHECKING:
    from tsqldev.session.interp import Interpreter
    from tsqldev.session.session import SqlSession

_BLOCK = 64 * 1024
_HINTS = frozenset(
    {"TABLOCK", "CHECK_CONSTRAINTS", "FIRE_TRIGGERS", "KEEP_NULLS", "KEEP_IDENTITY", "ROWS_PER_BATCH", "ORDER"}
    | {"KILOBYTES_PER_BATCH", "ALLOW_ENCRYPTED_VALUE_MODIFICATIONS"}
)
_SPECIAL = re.compile("[\\\\\t\n\r\x00]")
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


class BulkLoad:
    """One announced load at a time: the INSERT BULK batch names the table, the next message brings the rows."""

    def __init__(self, session: SqlSession) -> None:
        self._session = session
        self._target = ""
        self._columns: list[str] = []
        self._hints: frozenset[str] = frozenset()

    def announce(self, interp: Interpreter, node: Simple) -> None:
        """INSERT BULK table (column type, ...) WITH (hints)."""
        items = node.tokens[2:]
        opened = next((at for at, token in enumerate(items) if token.text == "(" and token.kind == PUNCT), len(items))
        if opened in (0, len(items)):
            raise near(items[-1])
        depth, closed = 0, len(items)
        for at in range(opened, len(items)):
            if items[at].kind == PUNCT and items[at].text in "()":
                depth += 1 if items[at].text == "(" else -1
                if depth == 0:
                    closed = at
                    break
        self._target = node.part(items[:opened])
        self._columns = [part[0].name for part in split_commas(items[opened + 1 : closed]) if part]
        words = [token.word for token in items[closed + 1 :] if token.word]
        hints = [word for word in words if word not in ("WITH", "ASC", "DESC")]
        known = [word for word in hints if word in _HINTS]
        if "ORDER" not in known and len(known) != len(hints):
            raise unsupported(f"INSERT BULK hint {next(word for word in hints if word not in _HINTS)}")
        self._hints = frozenset(known)
        parts = queries.split_name(self._target)
        self.table(interp, parts)
        interp.session.sink.done(None)

    def table(self, interp: Interpreter, parts: list[str]) -> TableInfo:
        found = interp.local_table(parts) or self._session.catalog.resolve(
            parts, self._session.principal.database, interp.frame.default_schema
        )
        if not isinstance(found, TableInfo) or found.system:
            raise SqlError(208, f"Invalid object name '{'.'.join(parts)}'.")
        return found

    def load(self, interp: Interpreter, columns: Sequence[Column], rows: Iterator[Sequence[object]]) -> None:
        session = self._session
        if not self._target:
            raise SqlError(4002, "The incoming tabular data stream (TDS) protocol stream is incorrect.", severity=16)
        target, names = self._target, self._columns
        self._target = ""
        if len(names) != len(columns):
            raise SqlError(
                4816, "Invalid column type from bcp client for colid 1: the columns differ from the announced ones."
            )
        session.sync()
        table = self.table(interp, queries.split_name(target))
        self.load_into(interp, table, target, names, columns, rows)

    def load_into(
        self,
        interp: Interpreter,
        table: TableInfo,
        target: str,
        names: list[str],
        columns: Sequence[Column],
        rows: Iterator[Sequence[object]],
        hints: frozenset[str] | None = None,
        check: Callable[[str], None] = lambda source: None,
    ) -> None:
        """Rows of `columns` into the columns `names` of a table, all or none.

        `check` looks at the rows, in a #temp table with the columns c1, c2 ..., before any goes in.
        """
        session = self._session
        self._hints = self._hints if hints is None else hints
        queries.begin_if_implicit(interp)
        positions = self._positions(table, names)
        kept = session.identity_insert
        with session.transactions.statement(compound=True):
            session.transactions.wrote = True
            name = "#bulk"
            temporary = [
                Column(f"c{number}", column.type.with_nullable(True)) for number, column in enumerate(columns, 1)
            ]
            info = scratch.create_from_columns(interp, name, temporary)
            try:
                loaded = session.backend.copy(
                    f"COPY {info.relation} ({', '.join(info.physical)}) FROM STDIN", copy_blocks(rows, columns)
                )
                check(name)
                if "KEEP_IDENTITY" in self._hints:
                    session.identity_insert = table.object_id
                count = self._insert(interp, table, target, names, positions, name) if loaded else 0
            finally:
                session.identity_insert = kept
                temp = session.temp_tables.pop(name, None)
            if temp is not None:
                session.backend.script(f"DROP TABLE IF EXISTS {temp.info.relation}")
        queries.finish(interp, count, "INSERT")

    def _positions(self, table: TableInfo, names: list[str]) -> list[Column]:
        by_name = {column.name.lower(): column for column in table.columns}
        found = [by_name.get(name.lower()) for name in names]
        for name, column in zip(names, found, strict=True):
            if column is None:
                raise SqlError(207, f"Invalid column name '{name}'.")
        return [column for column in found if column is not None]

    def _insert(
        self,
        interp: Interpreter,
        table: TableInfo,
        target: str,
        names: list[str],
        columns: list[Column],
        source: str,
    ) -> int:
        """INSERT ... SELECT gives the rights, conversions and messages of an INSERT."""
        session = self._session
        used = [
            (name, number)
            for number, (name, column) in enumerate(zip(names, columns, strict=True), 1)
            if not column.identity or "KEEP_IDENTITY" in self._hints
        ]
        listed = ", ".join(f"[{name.replace(']', ']]')}]" for name, _ in used)
        picked = ", ".join(f"[c{number}]" for _, number in used)
        for column, number in ((column, number) for number, column in enumerate(columns, 1) if column.has_default):
            if "KEEP_NULLS" not in self._hints and self._has_null(session, source, number):
                raise unsupported(
                    f"bulk load of NULL into column {column.name}, which has a default, without the hint KEEP_NULLS"
                )
        compiled = interp.compile(f"INSERT INTO {target} ({listed}) SELECT {picked} FROM {source}")
        session.check(compiled.uses, interp.frame.owner_id)
        if compiled.fires and "FIRE_TRIGGERS" not in self._hints:
            raise unsupported("bulk load into a table with triggers without the hint FIRE_TRIGGERS")
        return queries.affect(interp, compiled)

    def _has_null(self, session: SqlSession, source: str, number: int) -> bool:
        relation = session.temp_tables[source].info.relation
        rows, _ = session.backend.run(f"select exists (select from {relation} where c{number} is null)")
        return bool(rows[0][0])


def copy_blocks(rows: Iterator[Sequence[object]], columns: Sequence[Column]) -> Iterator[bytes]:
    """Rows as blocks of PostgreSQL's COPY text format."""
    writers = [_writer(column) for column in columns]
    pending: list[str] = []
    size = 0
    for row in rows:
        line = "\t".join(["\\N" if value is None else write(value) for write, value in zip(writers, row, strict=True)])
        pending.append(line)
        size += len(line)
        if size > _BLOCK:
            yield _block(pending)
            pending = []
            size = 0
    if pending:
        yield _block(pending)


def _block(lines: list[str]) -> bytes:
    text = "\n".join(lines) + "\n"
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as err:
        raise unsupported("a lone surrogate in a Unicode string") from err


def _writer(column: Column) -> Callable[[Any], str]:
    """How a value of the column's type is written; values are held as `tsqldev.types` says."""
    name = column.type.name
    if name in CHARACTER:
        return _text
    if name in BINARY:
        return _bytes
    if name == "bit":
        return _bit
    return str


def _text(value: str) -> str:
    if _SPECIAL.search(value) is None:
        return value
    if "\x00" in value:
        raise unsupported("character U+0000 in a string")
    return value.translate(_ESCAPES)


def _bytes(value: bytes) -> str:
    return "\\\\x" + value.hex()


def _bit(value: int) -> str:
    return "1" if value else "0"
