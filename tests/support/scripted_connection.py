"""A DB-API connection that answers from a script: what a server or the network does, as a test decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Results = Sequence[Sequence[tuple[Any, ...]]]


class ScriptedConnection:
    """``answer`` is asked with each batch and its parameters; it returns result sets or raises."""

    def __init__(self, answer: Callable[[str, tuple[Any, ...]], Results]) -> None:
        self.answer = answer
        self.batches: list[str] = []
        self.closed = False
        self.autocommit = False

    def setautocommit(self, value: bool) -> None:
        self.autocommit = value

    def cursor(self) -> ScriptedCursor:
        return ScriptedCursor(self)

    def commit(self) -> None:
        raise AssertionError("the ledger commits in SQL")

    def rollback(self) -> None:
        raise AssertionError("the ledger ends a transaction by closing its connection")

    def close(self) -> None:
        self.closed = True


class ScriptedCursor:
    def __init__(self, connection: ScriptedConnection) -> None:
        self._connection = connection
        self._results: list[Sequence[tuple[Any, ...]]] = []
        self.rowcount = -1

    @property
    def description(self) -> Any:
        return [("column",)] if self._results else None

    def execute(self, operation: str, /, *parameters: Any) -> Any:
        self._connection.batches.append(operation)
        self._results = list(self._connection.answer(operation, parameters))
        return self

    def fetchall(self) -> Sequence[Any]:
        return self._results[0]

    def fetchone(self) -> Any:
        return self._results[0][0] if self._results and self._results[0] else None

    def nextset(self) -> bool | None:
        self._results = self._results[1:]
        return bool(self._results)

    def close(self) -> None:
        self._results = []
