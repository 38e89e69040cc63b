"""The part of DB-API that the product uses, as types, and the rule that result sets are read to the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol


class Cursor(Protocol):
    @property
    def description(self) -> Any: ...
    @property
    def rowcount(self) -> int: ...
    def execute(self, operation: str, /, *parameters: Any) -> Any: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> Sequence[Any]: ...
    def nextset(self) -> bool | None: ...
    def close(self) -> None: ...


class Connection(Protocol):
    def cursor(self) -> Cursor: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...
    def close(self) -> None: ...


#: Gives a fresh, independent connection each time. Its caller closes it.
Connect = Callable[[], Connection]


def drain(connection: Connection, sql: str, *parameters: Any) -> list[list[tuple[Any, ...]]]:
    """Execute one batch and return the rows of every result set.

    Everything is read before the cursor is closed: closing an unread cursor sends Attention, which under
    XACT_ABORT ON rolls the transaction back without an error, and an error after the first result set would be lost.
    """
    cursor = connection.cursor()
    try:
        return read_all(cursor, sql, *parameters)
    finally:
        cursor.close()


def read_all(cursor: Cursor, sql: str, *parameters: Any) -> list[list[tuple[Any, ...]]]:
    """The same on a cursor that somebody else opened and closes."""
    cursor.execute(sql, *parameters)
    results: list[list[tuple[Any, ...]]] = []
    while True:
        if cursor.description is not None:
            results.append([tuple(row) for row in cursor.fetchall()])
        if not cursor.nextset():
            return results
