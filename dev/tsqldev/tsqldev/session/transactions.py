"""What SQL Server calls a transaction, on PostgreSQL: nesting count, savepoints, doom, statement atomicity."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from tsqldev.errors import SqlError
from tsqldev.session.backend import Backend

ISOLATION_NUMBERS = {
    1: "READ UNCOMMITTED",
    2: "READ COMMITTED",
    3: "REPEATABLE READ",
    4: "SERIALIZABLE",
    5: "SNAPSHOT",
}
ISOLATION_LEVELS = {name: number for number, name in ISOLATION_NUMBERS.items()}

_ids = itertools.count(int(time.time()) * 1000 % (1 << 40))
_ids_lock = threading.Lock()


def next_transaction_id() -> int:
    """Distinct in the life of the process, and increasing over restarts."""
    with _ids_lock:
        return next(_ids)


class TransactionEvents(Protocol):
    def transaction_started(self, snapshot: bool) -> None:
        """PostgreSQL has begun one, announced to the client or not."""

    def transaction_commits(self) -> None:
        """PostgreSQL is about to be told to commit; `transaction_ended` follows, whatever comes of it."""

    def transaction_began(self, descriptor: int) -> None: ...
    def transaction_committed(self, descriptor: int) -> None: ...
    def transaction_rolled_back(self, descriptor: int) -> None: ...
    def transaction_ended(self, transaction_id: int, committed: bool) -> None:
        """Locks that the transaction owns are to be released. Called after PostgreSQL has ended it."""

    def rolling_back(self) -> None:
        """A rollback, whole or to a savepoint, is about to happen in PostgreSQL."""

    def rolled_back_to_savepoint(self) -> None: ...

    def settings_lost(self) -> None:
        """PostgreSQL undid settings made inside what was rolled back."""


class Transactions:
    """`count` is @@TRANCOUNT; `id` the running transaction's id, 0 without one.

    `auto` marks the transaction of a single autocommit statement that fires triggers: it counts as one inside them.
    """

    def __init__(self, backend: Backend, events: TransactionEvents) -> None:
        self.count = 0
        self.id = 0
        self.name = ""
        self.doomed = False
        self.auto = False
        self.began = 0.0
        self.isolation = "READ COMMITTED"
        self.snapshot = False
        self.wrote = False
        self._backend = backend
        self._events = events
        self._depth = 0
        self._savepoints: list[tuple[str, str]] = []
        self._savepoint_numbers = itertools.count(1)

    @property
    def state(self) -> int:
        """XACT_STATE()."""
        if self.count == 0:
            return 0
        return -1 if self.doomed else 1

    # -- statements of the client

    def begin(self, name: str = "", *, announce: bool = True) -> None:
        if self.doomed:
            raise cannot_be_committed()
        if self.count == 0:
            self._start(announce)
            self.name = name
        self.count += 1

    def commit(self) -> None:
        if self.count == 0:
            raise SqlError(3902, "The COMMIT TRANSACTION request has no corresponding BEGIN TRANSACTION.")
        if self.doomed:
            raise cannot_be_committed()
        if self.count > 1:
            self.count -= 1
            return
        self._end(committed=True)

    def rollback(self) -> None:
        if self.count == 0:
            raise SqlError(3903, "The ROLLBACK TRANSACTION request has no corresponding BEGIN TRANSACTION.")
        self._end(committed=False)

    def rollback_to(self, name: str) -> None:
        """ROLLBACK TRANSACTION name: a savepoint, or the outermost transaction's own name."""
        if self.count == 0:
            raise SqlError(3903, "The ROLLBACK TRANSACTION request has no corresponding BEGIN TRANSACTION.")
        for index in range(len(self._savepoints) - 1, -1, -1):
            known, physical = self._savepoints[index]
            if known.lower() == name.lower():
                if self.doomed:
                    raise SqlError(
                        3931,
                        "The current transaction cannot be committed and cannot be rolled back to a savepoint. "
                        "Roll back the entire transaction.",
                    )
                self._events.rolling_back()
                self._backend.script(f"ROLLBACK TO SAVEPOINT {physical}")
                del self._savepoints[index + 1 :]
                self._events.settings_lost()
                self._events.rolled_back_to_savepoint()
                return
        if name.lower() == self.name.lower():
            self.rollback()
            return
        raise SqlError(6401, f"Cannot roll back {name}. No transaction or savepoint of that name was found.")

    def save(self, name: str) -> None:
        if self.count == 0:
            raise SqlError(628, "Cannot issue SAVE TRANSACTION when there is no active transaction.")
        if self.doomed:
            raise SqlError(
                3931,
                "The current transaction cannot be committed and cannot be rolled back to a savepoint. "
                "Roll back the entire transaction.",
            )
        physical = f"u{next(self._savepoint_numbers)}"
        self._backend.script(f"SAVEPOINT {physical}")
        self._savepoints.append((name, physical))

    def doom(self) -> None:
        """From now on the transaction can only be rolled back (XACT_STATE() = -1)."""
        if self.count:
            self.doomed = True

    def abandon(self) -> None:
        """Roll back whatever is open, without an error where nothing is."""
        if self.count:
            self._end(committed=False)

    # -- statement atomicity

    @contextmanager
    def statement(self, *, compound: bool, fatal: bool = False) -> Iterator[None]:
        """One statement: all of it happens, or nothing. `compound`: it takes more than one PostgreSQL statement.

        `fatal`: it only reads, and its error would end the transaction anyway, so that no savepoint is needed.
        """
        if fatal and not compound and self.count:
            yield
            return
        if self.count == 0:
            if not compound:
                yield
                return
            with self._automatic():
                yield
            return
        savepoint = f"s{self._depth}"
        transaction = self.id
        self._backend.script(f"SAVEPOINT {savepoint}")
        self._depth += 1
        try:
            yield
        except BaseException:
            self._depth -= 1
            if self.id == transaction and not self._backend.broken:
                self._backend.script(f"ROLLBACK TO SAVEPOINT {savepoint}; RELEASE SAVEPOINT {savepoint}")
                self._events.settings_lost()
            raise
        self._depth -= 1
        if self.id == transaction:
            self._backend.script(f"RELEASE SAVEPOINT {savepoint}")

    @contextmanager
    def _automatic(self) -> Iterator[None]:
        self._start(announce=False)
        self.auto = True
        self.count = 1
        transaction = self.id
        try:
            yield
        except BaseException:
            if self.id == transaction:
                self._end(committed=False)
            raise
        if self.id == transaction:
            self._end(committed=True)

    # -- private

    def _start(self, announce: bool) -> None:
        self.snapshot = self.isolation == "SNAPSHOT"
        level = "REPEATABLE READ" if self.snapshot else "READ COMMITTED"
        self._backend.script(f"BEGIN ISOLATION LEVEL {level}")
        self.id = next_transaction_id()
        self.began = time.time()
        self.doomed = False
        self.auto = False
        self.wrote = False
        self._savepoints.clear()
        self._events.transaction_started(self.snapshot)
        if announce:
            self._events.transaction_began(self.id)

    def _end(self, *, committed: bool) -> None:
        transaction, automatic = self.id, self.auto
        try:
            if committed:
                self._events.transaction_commits()
            else:
                self._events.rolling_back()
            if not self._backend.broken:
                self._backend.script("COMMIT" if committed else "ROLLBACK")
        except BaseException:
            committed = False
            raise
        finally:
            self.count = 0
            self.id = 0
            self.name = ""
            self.doomed = False
            self.auto = False
            self._savepoints.clear()
            self._events.transaction_ended(transaction, committed)
            if not committed:
                self._events.settings_lost()
            if not automatic:
                if committed:
                    self._events.transaction_committed(transaction)
                else:
                    self._events.transaction_rolled_back(transaction)


def cannot_be_committed() -> SqlError:
    return SqlError(
        3930,
        "The current transaction cannot be committed and cannot support operations that write to the log file. "
        "Roll back the transaction.",
    )
