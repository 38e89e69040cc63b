"""A control connection that goes no further than the commit: every decision and every write is real, and nothing is kept.

Many calls can be asked of one ledger so, whatever they would do to it, and one server session is enough for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_provider_dpone.drivers import Connect, Connection, Cursor, drain, read_all
from tests.support.watched_connection import WatchedConnection, WatchedCursor

_COMMIT = "COMMIT TRANSACTION;"
_TAKE_BACK = "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;"


class ReachedCommit(Exception):
    """Everything that comes before the commit has been done and accepted."""


class StoppingAtCommit:
    """A connection factory. What it gives is one session, whose transaction is taken back when a caller closes it."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._session: Any = None
        self._lent = False
        #: How often a commit was reached.
        self.reached = 0

    def __call__(self) -> Connection:
        assert not self._lent, "one call at a time"
        if self._session is None:
            self._session = self._connect()
        self._lent = True
        return _Lent(self._session, self)

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def given_back(self) -> None:
        self._lent = False
        drain(self._session, _TAKE_BACK)


class _Lent(WatchedConnection):
    def __init__(self, session: Any, lender: StoppingAtCommit) -> None:
        super().__init__(session, lambda batch: None)
        self._lender = lender

    def cursor(self) -> Cursor:
        return _StoppingCursor(self._connection.cursor(), self._lender)

    def close(self) -> None:
        self._lender.given_back()


class _StoppingCursor(WatchedCursor):
    def __init__(self, cursor: Any, lender: StoppingAtCommit) -> None:
        super().__init__(cursor, lambda batch: None)
        self._lender = lender

    def execute(self, operation: str, /, *parameters: Any) -> Any:
        """A batch that commits is run up to its commit."""
        before, commit, after = operation.rpartition(_COMMIT)
        if not commit:
            return super().execute(operation, *parameters)
        assert "?" not in after
        read_all(self._cursor, before, *parameters)
        self._lender.reached += 1
        raise ReachedCommit


def would_commit(call: Callable[[], object]) -> bool:
    """Whether the call came as far as its commit; False when it had its answer without one. Refusals pass."""
    try:
        call()
    except ReachedCommit:
        return True
    return False
