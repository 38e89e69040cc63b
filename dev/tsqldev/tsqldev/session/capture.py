"""Sinks that keep what a request says, instead of sending it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from tsqldev.errors import SqlError
from tsqldev.interfaces import Column, ResultSink
from tsqldev.types import SqlType

log = logging.getLogger("tsqldev.logon")


class Capture:
    """Keeps result sets (INSERT ... EXEC); messages and errors go on to the client."""

    uuid_bytes = False

    def __init__(self, outer: ResultSink) -> None:
        self.results: list[tuple[Sequence[Column], list[tuple[object, ...]]]] = []
        self._outer = outer

    def columns(self, columns: Sequence[Column]) -> None:
        self.results.append((columns, []))

    def rows(self, rows: Iterable[Sequence[object]]) -> None:
        self.results[-1][1].extend(tuple(row) for row in rows)

    def done(self, count: int | None, *, command: str = "") -> None:
        """The statements of the procedure are no results of the client."""

    def info(self, number: int, message: str, *, severity: int = 0, state: int = 1, line: int = 1) -> None:
        self._outer.info(number, message, severity=severity, state=state, line=line)

    def error(self, error: SqlError) -> None:
        self._outer.error(error)

    def enter_module(self) -> None:
        """Nothing to tell the client."""

    def leave_module(self, status: int) -> None:
        """Nothing to tell the client."""

    def return_value(self, name: str, type: SqlType, value: object) -> None:
        self._outer.return_value(name, type, value)

    def database_changed(self, new: str, old: str) -> None:
        self._outer.database_changed(new, old)

    def transaction_began(self, descriptor: int) -> None:
        self._outer.transaction_began(descriptor)

    def transaction_committed(self, descriptor: int) -> None:
        self._outer.transaction_committed(descriptor)

    def transaction_rolled_back(self, descriptor: int) -> None:
        self._outer.transaction_rolled_back(descriptor)


class LogSink:
    """A LOGON trigger has no client yet: its messages go to the log, its result sets nowhere."""

    uuid_bytes = False

    def __init__(self, login: str) -> None:
        self._login = login

    def columns(self, columns: Sequence[Column]) -> None:
        log.warning("a LOGON trigger answered a result set for login %s", self._login)

    def rows(self, rows: Iterable[Sequence[object]]) -> None:
        for _ in rows:
            continue

    def done(self, count: int | None, *, command: str = "") -> None:
        """No client."""

    def info(self, number: int, message: str, *, severity: int = 0, state: int = 1, line: int = 1) -> None:
        log.info("LOGON trigger, login %s: message %s: %s", self._login, number, message)

    def error(self, error: SqlError) -> None:
        log.warning(
            "LOGON trigger, login %s: error %s, line %s: %s", self._login, error.number, error.line, error.message
        )

    def enter_module(self) -> None:
        """No client."""

    def leave_module(self, status: int) -> None:
        """No client."""

    def return_value(self, name: str, type: SqlType, value: object) -> None:
        """No client."""

    def database_changed(self, new: str, old: str) -> None:
        """No client."""

    def transaction_began(self, descriptor: int) -> None:
        """No client."""

    def transaction_committed(self, descriptor: int) -> None:
        """No client."""

    def transaction_rolled_back(self, descriptor: int) -> None:
        """No client."""
