"""INSERT ... EXECUTE: the rows of a procedure or dynamic batch, caught and put into a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tsqldev.errors import SqlError
from tsqldev.interfaces import Column
from tsqldev.session import procedures, queries, scratch
from tsqldev.session.backend import Row
from tsqldev.session.split import Simple

if TYPE_CHECKING:
    from tsqldev.session.interp import Interpreter


def run(interp: Interpreter, node: Simple, index: int) -> None:
    session = interp.session
    if session.capturing:
        raise SqlError(8164, "An INSERT EXEC statement cannot be nested.")
    call = Simple(
        "EXEC", node.part(node.tokens[index:]), node.tokens[index].line, node.tokens[index:], node.tokens[index].start
    )
    queries.begin_if_implicit(interp)
    with session.transactions.statement(compound=True):
        captured = session.capture(lambda: procedures.execute(interp, call))
        target = node.part(node.tokens[:index])
        total = 0
        for columns, rows in captured:
            total += _store(interp, target, columns, rows)
    queries.finish(interp, total, "INSERT")


def _store(interp: Interpreter, target: str, columns: Sequence[Column], rows: list[Row]) -> int:
    session = interp.session
    name = "#captured"
    named = [Column(f"c{number}", column.type.with_nullable(True)) for number, column in enumerate(columns, 1)]
    info = scratch.create_from_columns(interp, name, named)
    try:
        if rows:
            session.copy_rows(info, rows)
        compiled = interp.compile(f"{target} SELECT * FROM {name}")
        session.check(compiled.uses, interp.frame.owner_id)
        queries.check_writable(interp, compiled)
        count = queries.affect(interp, compiled)
        scratch.drop_temp(session, name)
        return count
    finally:
        session.temp_tables.pop(name, None)
