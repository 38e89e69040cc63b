"""When definitions may have changed: so that a statement need not ask PostgreSQL each time.

All definitions are made by sessions of this process. What a session sees of them changes when it makes or takes back
one itself, or when another session's transaction that made some has committed. What follows from them is a *fact* of
their version, which all sessions that see this version share.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import psycopg
from tsqldev.catalog import Access, Catalog, Principal
from tsqldev.catalog.lookup import Versions
from tsqldev.interfaces import ObjectUse
from tsqldev.session import dmvs

T = TypeVar("T")
_MISSING = object()


class Definitions:
    """The process's count of committed transactions that changed definitions, and what follows from each version."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun = self._ended = 0
        self.known: tuple[int, tuple[int, int]] | None = None
        self.facts = Versions()

    @property
    def stamp(self) -> int | None:
        """Equal before and after: nothing was committed between. None while it cannot be known, in the middle of one."""
        ended = self._ended
        return ended if ended == self._begun else None

    def commit_begins(self) -> None:
        with self._lock:
            self._begun += 1

    def commit_ended(self) -> None:
        with self._lock:
            self._ended += 1


class SessionCatalog(Catalog):
    """The catalog as one session sees it; it remembers the version as long as nothing can have changed."""

    def __init__(self, connection: psycopg.Connection[Any], shared: Definitions) -> None:
        super().__init__(connection, dmvs.COLUMNS)
        self._shared = shared
        self._own = 0
        self._open = False
        self._changing = False
        self._committing = False
        self._snapshot = False
        self._stamp: tuple[int, int] | None = None
        self._seen = (0, 0)

    def _versions(self) -> tuple[int, int]:
        shared = self.stamp
        if shared is None:
            return super()._versions()
        # Without changes of its own, and without a snapshot, a session sees what every other such session sees.
        common = not self._open and not self._snapshot
        if common and (known := self._shared.known) is not None and known[0] == shared:
            return known[1]
        stamp = (shared, self._own)
        if not common and stamp == self._stamp:
            return self._seen
        versions = super()._versions()
        if self._shared.stamp == shared:
            if common:
                self._shared.known = (shared, versions)
            else:
                self._seen, self._stamp = versions, stamp
        return versions

    @property
    def stamp(self) -> int | None:
        """Equal before and after: the version in between is one. None while none is to be remembered."""
        return None if self._changing else self._shared.stamp

    def fact(self, key: Hashable, ask: Callable[[], T]) -> T:
        """What `ask` answers, where that follows from the definitions and `key`: asked once for each version of them."""
        stamp = self.stamp
        if stamp is None:
            return ask()
        facts = self._shared.facts.at(self.version)
        found = facts.get(key, _MISSING)
        if found is not _MISSING:
            return cast(T, found)
        answer = ask()
        # What was committed while PostgreSQL was asked belongs to another version.
        if self.stamp == stamp:
            facts[key] = answer
        return answer

    # -- what the session does

    def began(self, *, snapshot: bool) -> None:
        """A transaction began in PostgreSQL. The next look at the version takes the snapshot, if it has one."""
        self._snapshot = snapshot
        self._stamp = None

    @contextmanager
    def changing(self) -> Iterator[None]:
        """This session's transaction changes definitions in here: nothing is remembered meanwhile."""
        self._open = self._changing = True
        try:
            yield
        finally:
            self._changing = False
            self._own += 1

    def rolled_back(self) -> None:
        """Something of the transaction was taken back."""
        if self._open:
            self._own += 1

    def committing(self) -> None:
        """The transaction is about to commit."""
        if self._open and not self._committing:
            self._committing = True
            self._shared.commit_begins()

    def ended(self) -> None:
        """The transaction is over in PostgreSQL. After a snapshot, others' definitions of meanwhile come into sight."""
        self._own += 1
        self._open = self._snapshot = False
        if self._committing:
            self._committing = False
            self._shared.commit_ended()

    # -- rights

    def check(self, access: Access, uses: Sequence[ObjectUse], principal: Principal, chain_owner: int | None) -> None:
        """`Access.check`, asked once as long as no definition and no right changes."""
        if uses:
            self.fact(("uses", principal, chain_owner, *uses), lambda: access.check(list(uses), principal, chain_owner))
