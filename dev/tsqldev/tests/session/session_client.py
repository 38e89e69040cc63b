"""A client of one session, with short ways to ask it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest


class Client:
    """One session through python-tds, which tells error numbers."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.messages: list[str] = []

    def sets(self, sql: str, *parameters: object) -> list[list[tuple[object, ...]]]:
        """All result sets of a batch. Raises the first error after everything was read."""
        cursor = self.connection.cursor()
        cursor.execute(sql, parameters or None)
        found = []
        while True:
            if cursor.description:
                found.append([tuple(row) for row in cursor.fetchall()])
            if not cursor.nextset():
                break
        return found

    def rows(self, sql: str, *parameters: object) -> list[tuple[object, ...]]:
        return self.sets(sql, *parameters)[-1]

    def row(self, sql: str, *parameters: object) -> tuple[object, ...]:
        (row,) = self.rows(sql, *parameters)
        return row

    def value(self, sql: str, *parameters: object) -> object:
        return self.row(sql, *parameters)[0]

    def run(self, sql: str, *parameters: object) -> None:
        self.sets(sql, *parameters)

    def error(self, sql: str, *parameters: object) -> int:
        """The number of the first error of a batch that must fail."""
        import pytds

        with pytest.raises(pytds.tds_base.Error) as failed:
            self.sets(sql, *parameters)
        return int(getattr(failed.value, "number", 0) or 0)

    def later(self, sql: str) -> Future[list[list[tuple[object, ...]]]]:
        """Run a batch in a thread of its own."""
        result: Future[list[list[tuple[object, ...]]]] = Future()

        def work() -> None:
            try:
                result.set_result(self.sets(sql))
            except Exception as error:
                result.set_exception(error)

        threading.Thread(target=work, daemon=True).start()
        return result

    def close(self) -> None:
        self.connection.close()


Connect = Callable[..., Client]
