"""Locks on keys of tables: what a statement waits for before it reads, and what it holds of what it changed.

PostgreSQL locks the rows that are there, and its readers wait for nobody. These locks are the rest of what SQL Server
does: a reader under READ COMMITTED waits for the keys that another transaction changed, a range that is read with
HOLDLOCK admits no new rows, and an update lock is shared with readers and not with a second update lock.

A resource is a table, or the leading values of one of its indexes. Who changes a row holds IX on all of these for each
index of the table; who looks for a key takes S, U or X on the longest one that its conditions fix, and intent locks on
the shorter ones. A change meets a range that somebody holds after PostgreSQL has made it, when its keys are known: it
is then taken back, waits, and is made again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from tsqldev.errors import SqlError
from tsqldev.interfaces import KEYS_LIMIT, Compiled, ReadLock
from tsqldev.session import locktable
from tsqldev.session.backend import Row
from tsqldev.session.locktable import LockTable, Owner, combine
from tsqldev.types import SqlType, nvarchar

if TYPE_CHECKING:
    from tsqldev.session.session import SqlSession

_WRITING = frozenset({"IX", "SIX", "UIX", "X"})
_UNKEYED = -1
# Keys that are a parameter as it stands, or (in a binary collation) without the blanks at its end.
_PLAIN = re.compile(r"\$(\d+)::(?:int[248]|uuid|bytea|numeric)|sys\.bin2\(\$(\d+)::text\)")
# How long a range waits at least for statements that were running when it was taken.
_RUNNING_MS = 1000


class Key(NamedTuple):
    """The rows of a table whose leading columns in an index have these values; the table itself with no values."""

    table: int
    index_id: int
    values: tuple[object, ...]


class KeyHeld(Exception):
    """A change met a key that another session holds; it is to be taken back and made again when the key is free."""

    def __init__(self, key: Key) -> None:
        super().__init__(key)
        self.key = key


class KeyLocks:
    def __init__(self, session: SqlSession, table: LockTable) -> None:
        self._session = session
        self._table = table
        self._versioned: dict[tuple[int, str], bool] = {}
        self._undoable = False

    # -- reading

    def read(self, compiled: Compiled, types: Sequence[SqlType], data: Sequence[object]) -> list[Key]:
        """Take or wait for what the statement reads, within it. Answers the keys to `forget` without a row."""
        held: list[Key] = []
        needed = [lock for lock in compiled.reads if lock.keep or self._wanted(lock)]
        known = self._values(needed, types, data)
        for lock in needed:
            values = tuple(known[text] for text in lock.key)
            keep = lock.keep and self._session.transactions.count > 0
            timeout = 0 if lock.nowait else self._session.settings.lock_timeout
            # A row that is held by a hint keeps readers of the whole table away by PostgreSQL's lock, if at all.
            intent = "IX" if lock.mode == "X" and lock.absent else "IS"
            for length in range(len(values)):
                self._take(_part(lock, values, length), intent, timeout, keep=keep)
            key = _part(lock, values, len(values))
            before = self._table.mode(key, self._owner) if keep else None
            self._take(key, lock.mode, timeout, keep=keep)
            if keep and lock.absent:
                self._let_finish(lock.object_id, timeout)
            elif keep and values and (before is None or combine(before, lock.mode) != before):
                held.append(key)
        return held

    def forget(self, keys: Sequence[Key]) -> None:
        """A hint that found no row to hold keeps nothing, unless it is for a range."""
        for key in keys:
            self._table.release(key, self._owner)

    def _wanted(self, lock: ReadLock) -> bool:
        """Whether somebody may hold what a read that keeps nothing has to wait for."""
        others = self._table.others(Key(lock.object_id, 0, ()), self._session.spid)
        if not others or (lock.mode == "S" and not others & _WRITING):
            return False
        return not (lock.versioned and self._reads_versions(lock.database))

    def _reads_versions(self, database: str) -> bool:
        key = (self._session.catalog.version, database)
        if key not in self._versioned:
            self._versioned.clear()
            rows, _ = self._session.backend.run(
                "select meta.option(options, 'read_committed_snapshot', '0') = '1' from meta.databases"
                " where key = meta.fold($1)",
                [nvarchar(128)],
                [database],
            )
            self._versioned[key] = bool(rows and rows[0][0])
        return self._versioned[key]

    def _values(self, locks: Sequence[ReadLock], types: Sequence[SqlType], data: Sequence[object]) -> dict[str, object]:
        """What the key expressions of the locks are for these parameters."""
        found = {text: _plain(text, data) for lock in locks for text in lock.key}
        asked = [text for text, value in found.items() if value is None]
        if asked:
            key = (self._session.catalog.names_version, "keys")
            rows, _ = self._session.backend.run(f"SELECT {', '.join(asked)}", types, data, key)
            found.update(zip(asked, rows[0], strict=True))
        return found

    def _let_finish(self, table: int, timeout: int) -> None:
        """Changes that had begun before the range was taken do not know of it: they end first.

        One that cannot end before this transaction does (a circle) cannot make a row appear in it either.
        """
        running = Key(table, _UNKEYED, ())
        if not self._table.others(running, self._session.spid):
            return
        patience = timeout if timeout < 0 else max(timeout, _RUNNING_MS)
        result = self._request(running, "S", patience, keep=False)
        if result not in (locktable.GRANTED, locktable.GRANTED_AFTER_WAIT, locktable.DEADLOCK):
            raise _refusal(result)

    # -- changing

    def guarded(self, table: int) -> bool:
        """Whether another session holds ranges or keys of the table, beside those of rows that it changed."""
        return bool(self._table.others(Key(table, 0, ()), self._session.spid) - {"IX"})

    @contextmanager
    def unkeyed(self, table: int) -> Iterator[bool]:
        """A change outside of a transaction that does not tell its keys; False where it has to, because of a range."""
        owner = Owner(self._session.spid, _UNKEYED)
        self._table.hold([Key(table, _UNKEYED, ())], owner, "IX")
        try:
            yield not self.guarded(table)
        finally:
            self._table.release_owner(owner)

    def change(self, compiled: Compiled, run: Callable[[], int]) -> int:
        """Run a change inside a transaction; `run` calls `changed` with the rows that came back."""
        target = compiled.target
        if target is None or not compiled.keyed or not self.guarded(target.object_id):
            return run()
        while True:
            try:
                with self._session.transactions.statement(compound=False):
                    self._undoable = True
                    try:
                        return run()
                    finally:
                        self._undoable = False
            except KeyHeld as met:
                self._take(met.key, "IX", self._session.settings.lock_timeout)

    def changed(self, compiled: Compiled, count: int, rows: Sequence[Row]) -> None:
        """Hold the keys of the rows that were changed. Raises KeyHeld inside `change`."""
        undoable, self._undoable = self._undoable, False
        target = compiled.target
        if target is None or not target.object_id or not compiled.keyed or not count:
            return
        root = Key(target.object_id, 0, ())
        timeout = self._session.settings.lock_timeout
        if count > KEYS_LIMIT:
            self._take(root, "X", timeout)
            return
        keys = {root}
        width = sum(size for _, size in compiled.keys)
        for row in rows if width else ():
            at = len(row) - width
            for index, size in compiled.keys:
                keys.update(Key(target.object_id, index, row[at : at + length]) for length in range(1, size + 1))
                at += size
        while True:
            met = self._table.hold(keys, self._owner, "IX")
            if met is None:
                return
            assert isinstance(met, Key)
            if undoable:
                raise KeyHeld(met)
            self._take(met, "IX", timeout)

    # -- the table

    @property
    def _owner(self) -> Owner:
        return Owner(self._session.spid, self._session.transactions.id)

    def _request(self, key: Key, mode: str, timeout: int, *, keep: bool) -> int:
        result = self._table.acquire(key, self._owner, mode, timeout, lambda: self._session.interrupted, keep=keep)
        if result == locktable.CANCELLED:
            self._session.check_interrupted()
        return result

    def _take(self, key: Key, mode: str, timeout: int, *, keep: bool = True) -> None:
        if keep and self._table.hold((key,), self._owner, mode) is None:
            return
        result = self._request(key, mode, timeout, keep=keep)
        if result < 0:
            raise _refusal(result)


def _plain(text: str, data: Sequence[object]) -> object:
    """The value of a key expression where no conversion is needed; None where PostgreSQL has to be asked."""
    match = _PLAIN.fullmatch(text)
    if match is None:
        return None
    value = data[int(match[1] or match[2]) - 1]
    if match[1] is None:
        return value.rstrip(" ") if isinstance(value, str) else None
    return None if isinstance(value, str | float) else value


def _part(lock: ReadLock, values: tuple[object, ...], length: int) -> Key:
    return Key(lock.object_id, lock.index if length else 0, values[:length])


def _refusal(result: int) -> SqlError:
    if result == locktable.DEADLOCK:
        return SqlError(
            1205,
            "Transaction was deadlocked on lock resources with another process and has been chosen as the deadlock "
            "victim. Rerun the transaction.",
            severity=13,
            state=51,
        )
    return SqlError(1222, "Lock request time out period exceeded.", state=51)
