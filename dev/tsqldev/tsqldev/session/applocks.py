"""Application locks: sp_getapplock and what looks at it, as one lock table of the process.

A resource is named by database, database principal and text (case-sensitive, cut at 255 characters). A transaction or a
session owns its locks; the same owner may take a resource several times and must release it as often.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

GRANTED = 0
GRANTED_AFTER_WAIT = 1
TIMEOUT = -1
CANCELLED = -2
DEADLOCK = -3
INVALID = -999

MODES = {
    "INTENTSHARED": "IS",
    "SHARED": "S",
    "UPDATE": "U",
    "INTENTEXCLUSIVE": "IX",
    "EXCLUSIVE": "X",
}
MODE_NAMES = {
    "IS": "IntentShared",
    "S": "Shared",
    "U": "Update",
    "IX": "IntentExclusive",
    "SIX": "SharedIntentExclusive",
    "UIX": "UpdateIntentExclusive",
    "X": "Exclusive",
}

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


@dataclass(frozen=True, slots=True)
class Resource:
    database_id: int
    principal: str
    name: str


@dataclass(frozen=True, slots=True)
class Owner:
    """`transaction` is the transaction's id, or 0 for a lock that the session owns."""

    spid: int
    transaction: int


@dataclass(slots=True)
class _Held:
    modes: list[str] = field(default_factory=list)

    @property
    def mode(self) -> str:
        result = self.modes[0]
        for mode in self.modes[1:]:
            result = combine(result, mode)
        return result


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

    resource: Resource
    owner: Owner
    mode: str
    status: str


class LockTable:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held: dict[Resource, dict[Owner, _Held]] = {}
        # First come, first served: a request waits behind earlier ones that it conflicts with.
        self._waiting: list[tuple[Resource, Owner, str]] = []

    def acquire(
        self,
        resource: Resource,
        owner: Owner,
        mode: str,
        timeout_ms: int,
        cancelled: Callable[[], bool],
    ) -> int:
        """GRANTED, GRANTED_AFTER_WAIT, TIMEOUT, CANCELLED or DEADLOCK. A negative timeout waits for ever."""
        with self._changed:
            request = (resource, owner, mode)
            if self._grantable(request, ()):
                self._grant(resource, owner, mode)
                return GRANTED
            if timeout_ms == 0:
                return TIMEOUT
            deadline = None if timeout_ms < 0 else time.monotonic() + timeout_ms / 1000
            self._waiting.append(request)
            try:
                if self._deadlocked(owner.spid):
                    return DEADLOCK
                while True:
                    if cancelled():
                        return CANCELLED
                    if self._grantable(request, self._waiting):
                        self._grant(resource, owner, mode)
                        return GRANTED_AFTER_WAIT
                    patience = None if deadline is None else deadline - time.monotonic()
                    if patience is not None and patience <= 0:
                        return TIMEOUT
                    self._changed.wait(patience)
            finally:
                self._waiting.remove(request)
                self._changed.notify_all()

    def release(self, resource: Resource, owner: Owner) -> bool:
        """Release one hold. False where the owner has none."""
        with self._changed:
            held = self._held.get(resource, {}).get(owner)
            if held is None:
                return False
            held.modes.pop()
            if not held.modes:
                self._drop(resource, owner)
            self._changed.notify_all()
            return True

    def release_owner(self, owner: Owner) -> None:
        self._release_where(lambda candidate: candidate == owner)

    def release_session(self, spid: int) -> None:
        self._release_where(lambda candidate: candidate.spid == spid)

    def wake(self) -> None:
        """Let waiters look again whether they were cancelled."""
        with self._changed:
            self._changed.notify_all()

    def mode(self, resource: Resource, owner: Owner) -> str | None:
        with self._changed:
            held = self._held.get(resource, {}).get(owner)
            return held.mode if held else None

    def would_grant(self, resource: Resource, owner: Owner, mode: str) -> bool:
        with self._changed:
            return self._grantable((resource, owner, mode), ())

    def locks(self) -> list[Lock]:
        with self._changed:
            granted = [
                Lock(resource, owner, held.mode, "GRANT")
                for resource, owners in self._held.items()
                for owner, held in owners.items()
            ]
            return granted + [Lock(resource, owner, mode, "WAIT") for resource, owner, mode in self._waiting]

    # -- under the condition's lock

    def _grantable(
        self, request: tuple[Resource, Owner, str], queue: list[tuple[Resource, Owner, str]] | tuple[()]
    ) -> bool:
        resource, owner, mode = request
        owners = self._held.get(resource, {})
        mine = owners.get(owner)
        wanted = combine(mine.mode, mode) if mine else mode
        for other, held in owners.items():
            if other.spid != owner.spid and not compatible(held.mode, wanted):
                return False
        if mine:
            return True
        for earlier in queue or self._waiting:
            if earlier is request:
                break
            if earlier[0] == resource and earlier[1].spid != owner.spid and not compatible(earlier[2], mode):
                return False
        return True

    def _grant(self, resource: Resource, owner: Owner, mode: str) -> None:
        self._held.setdefault(resource, {}).setdefault(owner, _Held()).modes.append(mode)

    def _drop(self, resource: Resource, owner: Owner) -> None:
        owners = self._held[resource]
        del owners[owner]
        if not owners:
            del self._held[resource]

    def _release_where(self, matches: Callable[[Owner], bool]) -> None:
        with self._changed:
            found = [(resource, owner) for resource, owners in self._held.items() for owner in owners if matches(owner)]
            for resource, owner in found:
                self._drop(resource, owner)
            if found:
                self._changed.notify_all()

    def _blockers(self, spid: int) -> set[int]:
        result: set[int] = set()
        for resource, owner, mode in self._waiting:
            if owner.spid != spid:
                continue
            for other, held in self._held.get(resource, {}).items():
                if other.spid != spid and not compatible(held.mode, mode):
                    result.add(other.spid)
        return result

    def _deadlocked(self, spid: int) -> bool:
        seen: set[int] = set()
        queue = list(self._blockers(spid))
        while queue:
            other = queue.pop()
            if other == spid:
                return True
            if other not in seen:
                seen.add(other)
                queue.extend(self._blockers(other))
        return False
