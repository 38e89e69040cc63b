"""Compiled statements: their values, rights, atomicity, rows, triggers."""

from __future__ import annotations

import itertools
import operator
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING

from tsqldev.errors import SqlError, unsupported
from tsqldev.interfaces import Column, Compiled
from tsqldev.session import errormap, scratch, triggers, uniqueness, values
from tsqldev.session.answers import ROWS_LIMIT, Question
from tsqldev.session.backend import BackendError, Row
from tsqldev.session.lexer import PUNCT, QUOTED, WORD, tokens
from tsqldev.session.split import Simple
from tsqldev.session.transactions import cannot_be_committed
from tsqldev.types import SqlType

if TYPE_CHECKING:
    from tsqldev.session.interp import Interpreter

_READS = frozenset({"SELECT", "EXPRESSION"})
ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=")


def query(interp: Interpreter, node: Simple) -> None:
    """SELECT, INSERT, UPDATE, DELETE, MERGE."""
    second = node.tokens[1].word if len(node.tokens) > 1 else ""
    if node.first == "INSERT" and second == "BULK":
        interp.session.bulk.announce(interp, node)
        return
    if node.first == "UPDATE" and second == "STATISTICS":
        interp.session.define(interp, node)
        return
    compiled = interp.compile(node.text)
    updated = _updated_columns(node) if compiled.fires else frozenset()
    run(interp, compiled, updated=updated, reads=reads_tables(node.text), text=node.text)


@lru_cache(2048)
def reads_tables(text: str) -> bool:
    """Whether a query reads from anything: only then it opens an implicit transaction."""
    return "from" in text.lower() and any(token.word == "FROM" for token in tokens(text))


def _updated_columns(node: Simple) -> frozenset[str]:
    """The columns that an UPDATE or MERGE sets, whether or not a value changes: what UPDATE(column) tells."""
    found: set[str] = set()
    depth, listing = 0, False
    for index, token in enumerate(node.tokens):
        if token.kind == PUNCT and token.text in "()":
            depth += 1 if token.text == "(" else -1
        elif depth == 0 and token.word == "SET":
            listing = True
        elif depth == 0 and token.word in ("FROM", "WHERE", "OUTPUT", "WHEN", "OPTION"):
            listing = False
        elif listing and depth == 0 and token.kind in (WORD, QUOTED) and index + 1 < len(node.tokens):
            before = node.tokens[index - 1]
            starts = before.word == "SET" or (before.kind == PUNCT and before.text in (",", ".", "="))
            after = node.tokens[index + 1]
            if starts and after.kind == PUNCT and after.text in ASSIGNMENTS:
                found.add(token.name.lower())
    return frozenset(found)


def run(
    interp: Interpreter,
    compiled: Compiled,
    *,
    updated: frozenset[str] = frozenset(),
    reads: bool = True,
    text: str = "",
) -> None:
    """`text`: the statement, where it may have to be compiled again with the keys of what it changes."""
    session = interp.session
    if session.settings.fmtonly or session.settings.noexec:
        if session.settings.fmtonly and compiled.columns and not compiled.assigns:
            session.sink.columns(compiled.columns)
            session.sink.rows(())
            session.sink.done(0, command="SELECT")
        return
    if reads or compiled.kind not in _READS:
        begin_if_implicit(interp)
    session.check(compiled.uses, interp.frame.owner_id)
    if compiled.kind not in _READS or compiled.into:
        check_writable(interp, compiled)
    if compiled.into is not None:
        count = _select_into(interp, compiled)
        finish(interp, count, "SELECT")
        return
    if compiled.kind in _READS:
        _read(interp, compiled)
        return
    target = compiled.target.object_id if compiled.target is not None else 0
    if session.transactions.count or compiled.fires or not target:
        _change(interp, compiled, updated, text if target else "")
        return
    with session.keys.unkeyed(target) as free:
        if free:
            _change(interp, compiled, updated, "")
    if not free:
        _change(interp, compiled, updated, text)


def _read(interp: Interpreter, compiled: Compiled) -> None:
    session = interp.session
    types, data = arguments(interp, compiled)
    question = session.engine.answers.question(session, compiled, types, data)
    if question is not None:
        finish(interp, _answer(interp, compiled, types, data, question), compiled.kind)
        return
    with session.transactions.statement(compound=bool(compiled.before), fatal=interp.errors_are_fatal):
        held = session.keys.read(compiled, types, data) if compiled.reads else []
        count = affect(interp, compiled)
    if held and not count:
        session.keys.forget(held)
    finish(interp, count, compiled.kind)


def _answer(
    interp: Interpreter, compiled: Compiled, types: list[SqlType], data: list[object], question: Question
) -> int:
    """The rows of a query that reads no data: from memory, or from PostgreSQL and remembered."""
    session = interp.session
    known = session.engine.answers.known(question)
    if known is not None:
        return _give(interp, compiled, iter(known))
    kept: list[Row] = []
    with session.transactions.statement(compound=False, fatal=interp.errors_are_fatal):
        with closing(session.backend.stream(compiled.sql, types, data, _plan_key(interp))) as coming:
            count = _give(interp, compiled, (_kept(row, kept) for row in coming))
        session.engine.answers.keep(session, question, kept)
    return count


def _kept(row: Row, kept: list[Row]) -> Row:
    # One more than is remembered, so that too many are seen to be too many.
    if len(kept) <= ROWS_LIMIT:
        kept.append(row)
    return row


def _give(interp: Interpreter, compiled: Compiled, rows: Iterator[Row]) -> int:
    """To the client, or to the variables that the last row fills."""
    if not compiled.assigns:
        return _send_stream(interp, compiled.columns, rows)
    # No row leaves the variables as they are.
    numbered = deque(enumerate(rows, 1), maxlen=1)
    for _, row in numbered:
        _assign(interp, compiled, row)
    return numbered[0][0] if numbered else 0


def _assign(interp: Interpreter, compiled: Compiled, row: Row) -> None:
    for name, value in zip(compiled.assigns, row, strict=False):
        interp.frame.values[name.lower()] = value


def _change(interp: Interpreter, compiled: Compiled, updated: frozenset[str], text: str) -> None:
    """`text` as in `run`: the change tells its keys, within a transaction (of its own, if there is none)."""
    session = interp.session
    if text and not compiled.keyed:
        compiled = interp.compile(text, keyed=True)
    try:
        with session.transactions.statement(compound=bool(compiled.before or compiled.fires or text)):
            count = affect(interp, compiled, updated)
    except BackendError as error:
        if not uniqueness.may_be_late(session.backend, compiled, error):
            raise
        with session.transactions.statement(compound=True):
            count = affect(interp, compiled, updated, late=True)
    finish(interp, count, compiled.kind)


def affect(
    interp: Interpreter, compiled: Compiled, updated: frozenset[str] = frozenset(), *, late: bool = False
) -> int:
    """Run a checked statement and its triggers within the caller's statement; the number of rows.

    `late`: unique keys are looked at when all rows are changed.
    """
    session = interp.session
    if compiled.kind not in _READS:
        session.transactions.wrote = True
    if compiled.before:
        session.backend.script("; ".join(compiled.before))
    if compiled.kind in _READS:
        return _rows_of(interp, compiled)
    if compiled.reads:
        session.keys.read(compiled, *arguments(interp, compiled))
    with uniqueness.at_the_end(session.backend, compiled) if late else nullcontext():
        count = session.keys.change(compiled, lambda: _rows_of(interp, compiled))
    if compiled.fires:
        session.rowcount = count
        triggers.fire(interp, compiled, count, updated)
    return count


def finish(interp: Interpreter, count: int, kind: str) -> None:
    session = interp.session
    session.rowcount = count
    session.sink.done(None if session.settings.nocount else count, command=kind)


def begin_if_implicit(interp: Interpreter) -> None:
    """SET IMPLICIT_TRANSACTIONS ON: a statement that needs a transaction opens one."""
    session = interp.session
    if session.settings.implicit_transactions and not session.transactions.count:
        session.transactions.begin()


def check_writable(interp: Interpreter, compiled: Compiled) -> None:
    if not interp.session.transactions.doomed:
        return
    target = compiled.target
    if target is not None and target.relation.startswith("pg_temp.") and target.name.startswith("@"):
        return
    raise cannot_be_committed()


def arguments(interp: Interpreter, compiled: Compiled) -> tuple[list[SqlType], list[object]]:
    """The values of `$1`, `$2` ... for one execution."""
    return (
        [parameter.type for parameter in compiled.parameters],
        [values.of(interp, parameter.name) for parameter in compiled.parameters],
    )


def _plan_key(interp: Interpreter) -> object:
    module = interp.frame.module
    return (interp.session.catalog.names_version, module.object_id if module else 0)


def _rows_of(interp: Interpreter, compiled: Compiled) -> int:
    session = interp.session
    types, data = arguments(interp, compiled)
    key = _plan_key(interp)
    if compiled.columns and not compiled.assigns:
        if compiled.kind in _READS:
            as_bytes = session.sink.uuid_bytes
            with closing(
                session.backend.stream(compiled.sql, types, data, key, uuid_bytes=as_bytes)
            ) as rows_as_they_come:
                return _send_stream(interp, compiled.columns, rows_as_they_come)
        rows, count = session.backend.run(compiled.sql, types, data, key)
        if compiled.count_in_result:
            raise unsupported("OUTPUT rows of this statement")
        session.keys.changed(compiled, count, rows)
        width = len(compiled.columns)
        _note_identity(interp, compiled, count)
        session.sink.columns(compiled.columns)
        session.sink.rows([row[:width] for row in rows])
        return count
    rows, count = session.backend.run(compiled.sql, types, data, key)
    if compiled.count_in_result:
        count = int(rows[0][-1 - sum(width for _, width in compiled.keys)]) if rows else 0
    session.keys.changed(compiled, count, rows)
    if compiled.assigns:
        if rows:
            _assign(interp, compiled, rows[-1])
        return len(rows)
    _note_identity(interp, compiled, count)
    return count


def _note_identity(interp: Interpreter, compiled: Compiled, count: int) -> None:
    """SCOPE_IDENTITY() and @@IDENTITY after rows with an identity column came in."""
    if compiled.identity_column is None or not count or any(fired.trigger.instead_of for fired in compiled.fires):
        return
    session, target = interp.session, compiled.target
    if target is not None and target.object_id and session.identity_insert == target.object_id:
        # Explicit values: the last one counts, and the next generated one follows the highest.
        column = compiled.identity_column
        found, _ = session.backend.run(
            f"select setval('data.s{target.object_id}', greatest(s.last_value, m.value)), m.value"
            f" from data.s{target.object_id} s, (select max({column}) as value from {target.relation}) m"
        )
        value = found[0][1]
    else:
        found, _ = session.backend.run("select lastval()")
        value = found[0][0]
    interp.frame.scope_identity = session.last_identity = Decimal(value)


def _send_stream(interp: Interpreter, columns: Sequence[Column], rows: Iterator[Row]) -> int:
    """Rows go out while PostgreSQL makes them; an error in the middle follows the rows that were sent."""
    session = interp.session
    first = next(rows, None)
    session.sink.columns(columns)
    numbers = itertools.count()
    # Paired with a number each, which counts them without a step of Python for a row.
    all_rows = zip(rows if first is None else itertools.chain((first,), rows), numbers, strict=False)
    session.sink.rows(map(operator.itemgetter(0), all_rows))
    return next(numbers) + sum(1 for _ in rows)


# -- values


def scalar(interp: Interpreter, text: str, target: SqlType | None = None) -> object:
    """The value of an expression, converted to `target` as an assignment converts."""
    compiled = interp.expression(text, target)
    return _single(interp, compiled, text)


def typed(interp: Interpreter, text: str) -> tuple[SqlType, object]:
    """The value of an expression and its own type."""
    compiled = interp.expression(text)
    return compiled.columns[0].type, _single(interp, compiled, text)


def condition(interp: Interpreter, text: str) -> bool:
    interp.session.sync()
    return bool(_single(interp, interp.session.compiler(interp.context()).condition(text), text))


def _single(interp: Interpreter, compiled: Compiled, text: str) -> object:
    session = interp.session
    session.check(compiled.uses, interp.frame.owner_id)
    if reads_tables(text):
        begin_if_implicit(interp)
    types, data = arguments(interp, compiled)
    rows = _few_rows(interp, compiled, types, data, _plan_key(interp), fatal=interp.errors_are_fatal)
    if len(rows) > 1:
        raise SqlError(
            512,
            "Subquery returned more than 1 value. This is not permitted when the subquery follows =, !=, <, <= , >, "
            ">= or when the subquery is used as an expression.",
        )
    return rows[0][0] if rows else None


def _few_rows(
    interp: Interpreter,
    compiled: Compiled,
    types: list[SqlType],
    data: list[object],
    plan: object,
    *,
    fatal: bool = False,
) -> list[Row]:
    """All rows of an expression, from memory where nothing can have changed them."""
    session = interp.session
    answers = session.engine.answers
    question = answers.question(session, compiled, types, data)
    known = None if question is None else answers.known(question)
    if known is not None:
        return known
    with session.transactions.statement(compound=False, fatal=fatal):
        if compiled.reads:
            session.keys.read(compiled, types, data)
        rows, _ = session.backend.run(compiled.sql, types, data, plan)
        if question is not None:
            answers.keep(session, question, rows)
    return rows


def convert(interp: Interpreter, value: object, source: SqlType, target: SqlType) -> object:
    """Convert by the compiler's rules, as an assignment does."""
    session = interp.session
    context = interp.context()
    only = type(context)(database=context.database, database_id=context.database_id, variables={"@value": source})
    compiled = session.compiler(only).expression("@value", target)
    data = [
        value if parameter.name == "@value" else values.of(interp, parameter.name) for parameter in compiled.parameters
    ]
    types = [parameter.type for parameter in compiled.parameters]
    try:
        rows = _few_rows(interp, compiled, types, data, "convert")
    except BackendError as error:
        raise errormap.translate(error, "SELECT", session.backend) from error
    return rows[0][0]


# -- SELECT INTO


def _select_into(interp: Interpreter, compiled: Compiled) -> int:
    session = interp.session
    name = compiled.into or ""
    types, data = arguments(interp, compiled)
    with session.transactions.statement(compound=True):
        session.keys.read(compiled, types, data)
        for text in compiled.before:
            session.backend.script(text)
        parts = split_name(name)
        if parts[-1].startswith("#"):
            info = scratch.create_from_columns(interp, parts[-1], compiled.columns)
        else:
            with session.catalog.changing():
                info = session.ddl.create_table_as(parts, compiled.columns, session.ddl_context(interp))
            session.definitions_changed()
        overriding = " OVERRIDING SYSTEM VALUE" if any(column.identity for column in compiled.columns) else ""
        text = f"INSERT INTO {info.relation} ({', '.join(info.physical)}){overriding} {compiled.sql}"
        _, count = session.backend.run(text, types, data)
    return count


def split_name(text: str) -> list[str]:
    """The parts of a written name, without their quotes."""
    parts = [""]
    for token in tokens(text)[:-1]:
        if token.kind == PUNCT and token.text == ".":
            parts.append("")
        else:
            parts[-1] = token.name
    return parts
