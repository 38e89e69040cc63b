"""Who holds and who waits for what: the one lock table of the process, for application locks and for keys of tables.

Requests for one resource are served in the order in which they came; one that keeps nothing holds up nobody. A wait that would close a circle of waiting
sessions is a deadlock for the one that closes it; `outside` tells who waits for whom inside PostgreSQL, where a wait of
half a second makes it worth asking.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field

GRANTED = 0
GRANTED_AFTER_WAIT = 1
TIMEOUT = -1
CANCELLED = -2
DEADLOCK = -3

_COMPATIBLE = {
    "IS": {"IS", "S", "U", "IX", "SIX", "UIX"},
    "S": {"IS", "S", "U"},
    "U": {"IS", "S"},
    "IX": {"IS", "IX"},
    "SIX": {"IS"},
    "UIX": {"IS"},
    "X": set(),
}
# What one owner holds after asking for a second mode: the weakest that covers both.
_COMBINED = {
    frozenset({"S", "IX"}): "SIX",
    frozenset({"U", "IX"}): "UIX",
    frozenset({"SIX", "U"}): "UIX",
    frozenset({"SIX", "UIX"}): "UIX",
}
_STRENGTH = ("IS", "S", "U", "IX", "SIX", "UIX", "X")
_PATIENCE = 0.5

Edges = Mapping[int, set[int]]


@dataclass(frozen=True, slots=True)
class Owner:
    """`transaction` is the transaction's id, or 0 for a lock that the session owns."""

    spid: int
    transaction: int


def combine(first: str, second: str) -> str:
    if first == second:
        return first
    special = _COMBINED.get(frozenset({first, second}))
    if special:
        return special
    return max(first, second, key=_STRENGTH.index)


def compatible(held: str, wanted: str) -> bool:
    return wanted in _COMPATIBLE[held]


@dataclass(frozen=True, slots=True)
class Lock:
    """One row of sys.dm_tran_locks."""

    resource: Hashable
    owner: Owner
    mode: str
    status: str


@dataclass(slots=True)
class _Held:
    """`modes` are those asked for, each to be released once; `mode` covers them all."""

    mode: str
    modes: list[str] = field(default_factory=list)

    def add(self, mode: str) -> None:
        self.mode = combine(self.mode, mode)
        self.modes.append(mode)

    def remove(self) -> bool:
        """Take back the last; whether none is left."""
        self.modes.pop()
        for index, mode in enumerate(self.modes):
            self.mode = mode if not index else combine(self.mode, mode)
        return not self.modes


@dataclass(frozen=True, slots=True)
class _Request:
    resource: Hashable
    owner: Owner
    mode: str
    keep: bool = True


class LockTable:
    def __init__(self, outside: Callable[[], Edges] = dict) -> None:
        self._outside = outside
        self._changed = threading.Condition()
        self._held: dict[Hashable, dict[Owner, _Held]] = {}
        self._owned: dict[Owner, set[Hashable]] = {}
        self._waiting: list[_Request] = []

    def acquire(
        self,
        resource: Hashable,
        owner: Owner,
        mode: str,
        timeout_ms: int,
        cancelled: Callable[[], bool],
        *,
        keep: bool = True,
    ) -> int:
        """GRANTED, GRANTED_AFTER_WAIT, TIMEOUT, CANCELLED or DEADLOCK. A negative timeout waits for ever.

        Without `keep` the lock is let go at once: the caller only waits for those who hold what excludes it.
        """
        with self._changed:
            request = _Request(resource, owner, mode, keep)
            if self._grantable(request):
                self._grant(request)
                return GRANTED
            if timeout_ms == 0:
                return TIMEOUT
            self._waiting.append(request)
            if self._deadlocked(owner.spid, {}):
                self._withdraw(request)
                return DEADLOCK
        deadline = None if timeout_ms < 0 else time.monotonic() + timeout_ms / 1000
        try:
            return self._wait(request, deadline, cancelled)
        finally:
            with self._changed:
                self._withdraw(request)

    def release(self, resource: Hashable, owner: Owner) -> bool:
        """Release one hold. False where the owner has none."""
        with self._changed:
            held = self._held.get(resource, {}).get(owner)
            if held is None:
                return False
            if held.remove():
                self._drop(resource, owner)
            self._changed.notify_all()
            return True

    def release_owner(self, owner: Owner) -> None:
        if owner in self._owned:
            with self._changed:
                self._release_all(owner)

    def release_session(self, spid: int) -> None:
        with self._changed:
            for owner in [owner for owner in self._owned if owner.spid == spid]:
                self._release_all(owner)

    def wake(self) -> None:
        """Let waiters look again whether they were cancelled."""
        with self._changed:
            self._changed.notify_all()

    # -- many at once

    def hold(self, resources: Iterable[Hashable], owner: Owner, mode: str) -> Hashable | None:
        """Take them all, each once, if none must be waited for. Else nothing is taken, and one that must is answered."""
        with self._changed:
            wanted = [_Request(resource, owner, mode) for resource in resources if self._lacks(resource, owner, mode)]
            for request in wanted:
                if not self._grantable(request):
                    return request.resource
            for request in wanted:
                self._grant(request)
            return None

    def others(self, resource: Hashable, spid: int) -> set[str]:
        """The modes in which other sessions hold it."""
        if resource not in self._held:
            return set()
        with self._changed:
            return {held.mode for owner, held in self._held.get(resource, {}).items() if owner.spid != spid}

    # -- looking

    def mode(self, resource: Hashable, owner: Owner) -> str | None:
        with self._changed:
            held = self._held.get(resource, {}).get(owner)
            return held.mode if held else None

    def would_grant(self, resource: Hashable, owner: Owner, mode: str) -> bool:
        with self._changed:
            return self._grantable(_Request(resource, owner, mode))

    def locks(self) -> list[Lock]:
        with self._changed:
            granted = [
                Lock(resource, owner, held.mode, "GRANT")
                for resource, owners in self._held.items()
                for owner, held in owners.items()
            ]
            return granted + [Lock(wait.resource, wait.owner, wait.mode, "WAIT") for wait in self._waiting]

    def blockers(self, spid: int) -> set[int]:
        """The sessions for which a session waits here."""
        with self._changed:
            return self._blockers(spid)

    # -- waiting

    def _wait(self, request: _Request, deadline: float | None, cancelled: Callable[[], bool]) -> int:
        while True:
            with self._changed:
                if cancelled():
                    return CANCELLED
                if self._grantable(request):
                    self._grant(request)
                    return GRANTED_AFTER_WAIT
                left = _PATIENCE if deadline is None else deadline - time.monotonic()
                if left <= 0:
                    return TIMEOUT
                if self._changed.wait(min(left, _PATIENCE)):
                    continue
            # Nothing happened for a while: a circle may go through PostgreSQL, which must not be asked under the lock.
            edges = self._outside()
            with self._changed:
                if edges and not self._grantable(request) and self._deadlocked(request.owner.spid, edges):
                    return DEADLOCK

    def _withdraw(self, request: _Request) -> None:
        for index, waiting in enumerate(self._waiting):
            if waiting is request:
                del self._waiting[index]
                self._changed.notify_all()
                return

    # -- under the condition's lock

    def _lacks(self, resource: Hashable, owner: Owner, mode: str) -> bool:
        held = self._held.get(resource, {}).get(owner)
        return held is None or combine(held.mode, mode) != held.mode

    def _grantable(self, request: _Request) -> bool:
        owners = self._held.get(request.resource, {})
        mine = owners.get(request.owner)
        spid = request.owner.spid
        wanted = combine(mine.mode, request.mode) if mine else request.mode
        for other, held in owners.items():
            if other.spid != spid and not compatible(held.mode, wanted):
                return False
        if mine:
            return True
        for earlier in self._waiting:
            if earlier is request:
                break
            if (
                earlier.keep
                and earlier.resource == request.resource
                and earlier.owner.spid != spid
                and not compatible(earlier.mode, request.mode)
            ):
                return False
        return True

    def _grant(self, request: _Request) -> None:
        if not request.keep:
            return
        owners = self._held.setdefault(request.resource, {})
        held = owners.get(request.owner)
        if held is None:
            owners[request.owner] = held = _Held(request.mode)
            self._owned.setdefault(request.owner, set()).add(request.resource)
        held.add(request.mode)

    def _drop(self, resource: Hashable, owner: Owner) -> None:
        owners = self._held[resource]
        del owners[owner]
        if not owners:
            del self._held[resource]
        mine = self._owned[owner]
        mine.discard(resource)
        if not mine:
            del self._owned[owner]

    def _release_all(self, owner: Owner) -> None:
        for resource in list(self._owned.get(owner, ())):
            self._drop(resource, owner)
        self._changed.notify_all()

    def _blockers(self, spid: int) -> set[int]:
        result: set[int] = set()
        for request in self._waiting:
            if request.owner.spid != spid:
                continue
            owners = self._held.get(request.resource, {})
            mine = owners.get(request.owner)
            wanted = combine(mine.mode, request.mode) if mine else request.mode
            for other, held in owners.items():
                if other.spid != spid and not compatible(held.mode, wanted):
                    result.add(other.spid)
        return result

    def _deadlocked(self, spid: int, edges: Edges) -> bool:
        seen: set[int] = set()
        queue = list(self._blockers(spid))
        while queue:
            other = queue.pop()
            if other == spid:
                return True
            if other not in seen:
                seen.add(other)
                queue.extend(self._blockers(other))
                queue.extend(edges.get(other, ()))
        return False
