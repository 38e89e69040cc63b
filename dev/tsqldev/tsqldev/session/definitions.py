"""When definitions may have changed: so that a statement need not ask PostgreSQL each time.

All definitions are made by sessions of this process. What a session sees of them changes when it makes or takes back
one itself, or when another session's transaction that made some has committed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from tsqldev.catalog import Access, Catalog, Principal
from tsqldev.interfaces import ObjectUse
from tsqldev.session import dmvs


class Definitions:
    """The process's count of committed transactions that changed definitions."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.committed = 0

    def commit(self) -> None:
        with self._lock:
            self.committed += 1


class SessionCatalog(Catalog):
    """The catalog as one session sees it; it remembers the version as long as nothing can have changed."""

    def __init__(self, connection: psycopg.Connection[Any], shared: Definitions) -> None:
        super().__init__(connection, dmvs.COLUMNS)
        self._shared = shared
        self._own = 0
        self._open = False
        self._changing = False
        self._stamp: tuple[int, int] | None = None
        self._version = 0
        self._allowed: set[tuple[object, ...]] = set()

    @property
    def version(self) -> int:
        stamp = (self._shared.committed, self._own)
        if self._changing:
            return super().version
        if stamp != self._stamp:
            self._version = super().version
            self._stamp = stamp
            self._allowed.clear()
        return self._version

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

    def ended(self, *, committed: bool, snapshot: bool) -> None:
        """The transaction is over in PostgreSQL. After a snapshot, others' definitions of meanwhile come into sight."""
        if snapshot:
            self._own += 1
        if not self._open:
            return
        self._open = False
        self._own += 1
        if committed:
            self._shared.commit()

    def check(self, access: Access, uses: Sequence[ObjectUse], principal: Principal, chain_owner: int | None) -> None:
        """`Access.check`, asked once as long as no definition and no right changes."""
        if not uses:
            return
        version = self.version
        key = (version, principal, chain_owner, *uses)
        if key not in self._allowed:
            access.check(list(uses), principal, chain_owner)
            self._allowed.add(key)

    def holds(self, access: Access, principal: Principal, permission: str) -> bool:
        """Whether the principal has a right at the server's level; a yes is remembered."""
        key = (self.version, principal, permission)
        if key not in self._allowed:
            if not access.holds(principal, "SERVER", 0, permission):
                return False
            self._allowed.add(key)
        return True
