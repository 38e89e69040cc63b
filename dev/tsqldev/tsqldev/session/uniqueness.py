"""Unique keys at the end of a statement: UPDATE t SET id = id + 1.

PostgreSQL looks for a duplicate with every row that it changes; SQL Server when all rows of the statement are changed.
Where an UPDATE computes keys from its rows and meets a duplicate, it is made again without the unique indexes, which are
then built anew: the duplicates that are still there fail the statement. The table is closed to others until the
transaction ends. A key that a foreign key refers to cannot be taken away; there the first duplicate stays the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tsqldev.interfaces import Compiled
from tsqldev.session.backend import Backend, BackendError

_DUPLICATE = "23505"


def may_be_late(backend: Backend, compiled: Compiled, error: BackendError) -> bool:
    """Whether the duplicate may be gone when all rows are changed."""
    if error.sqlstate != _DUPLICATE or not compiled.moves or compiled.target is None:
        return False
    rows, _ = backend.run(
        f"select from pg_constraint where contype = 'f' and confrelid = '{compiled.target.relation}'::regclass"
    )
    return not rows


@contextmanager
def at_the_end(backend: Backend, compiled: Compiled) -> Iterator[None]:
    """Without the unique indexes whose keys the statement moves; at the end they are there again, or it fails."""
    assert compiled.target is not None
    names = [f"data.i{compiled.target.object_id}_{index_id}" for index_id in compiled.moves]
    texts = [backend.run(f"select pg_get_indexdef('{name}'::regclass)")[0][0][0] for name in names]
    backend.script(f"DROP INDEX {', '.join(names)}")
    yield
    backend.script("; ".join(texts))
