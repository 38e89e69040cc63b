"""The sessions of the process: what the sys.dm_ views and KILL know of one another's connections."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID

from tsqldev.session.locktable import LockTable

FIRST_USER_SESSION = 51
LOGGING_IN = 0  # login_time 1900-01-01, as the server shows a session that has not finished logging in


def now() -> int:
    """The current time as a `datetime` value: 1/300 s since 1900-01-01."""
    elapsed = datetime.now(UTC).replace(tzinfo=None) - datetime(1900, 1, 1)
    return (elapsed.days * 86400 + elapsed.seconds) * 300 + elapsed.microseconds * 3 // 10000


@dataclass(slots=True)
class SessionRecord:
    """One row of sys.dm_exec_sessions and what belongs to it. Written by the session's own thread, read by others."""

    spid: int
    disconnect: Callable[[], None]
    host_name: str = ""
    program_name: str = ""
    client_library: str = ""
    client_pid: int = 0
    login_time: int = LOGGING_IN
    login_name: str = ""
    security_id: bytes = b""
    original_login_name: str = ""
    original_security_id: bytes = b""
    database_id: int = 1
    database_name: str = "master"
    authenticating_database_id: int = 1
    status: str = "running"
    command: str = ""
    text: str = ""
    isolation: int = 2
    transaction_count: int = 0
    transaction_id: int = 0
    transaction_began: int = 0
    transaction_name: str = ""
    transaction_wrote: bool = False
    last_request_start: int = field(default_factory=now)
    last_request_end: int = field(default_factory=now)
    row_count: int = 0
    last_error: int = 0
    lock_timeout: int = -1
    language: str = "us_english"
    connection_id: UUID = field(default_factory=uuid.uuid4)
    packet_size: int = 4096
    encrypted: bool = False
    backend_pid: int = 0
    killed: threading.Event = field(default_factory=threading.Event)
    interrupt: Callable[[], None] | None = None
    refresh: Callable[[], None] | None = None
    ansi: dict[str, int] = field(default_factory=dict)


class Registry:
    def __init__(self) -> None:
        # Replaced by the engine's own view of PostgreSQL, once there is one.
        self.outside: Callable[[], dict[int, set[int]]] = dict
        self.locks = LockTable(lambda: self.outside())
        self._lock = threading.Lock()
        self._sessions: dict[int, SessionRecord] = {}
        self._refused: dict[str, int] = {}

    def enter(self, disconnect: Callable[[], None]) -> SessionRecord:
        """A new session under the lowest free session id."""
        with self._lock:
            spid = FIRST_USER_SESSION
            while spid in self._sessions:
                spid += 1
            record = SessionRecord(spid, disconnect)
            self._sessions[spid] = record
            return record

    def leave(self, record: SessionRecord) -> None:
        self.locks.release_session(record.spid)
        with self._lock:
            self._sessions.pop(record.spid, None)

    def get(self, spid: int) -> SessionRecord | None:
        with self._lock:
            return self._sessions.get(spid)

    def listed(self) -> list[SessionRecord]:
        """The records as they are: what their sessions last wrote."""
        with self._lock:
            return sorted(self._sessions.values(), key=lambda record: record.spid)

    def all(self) -> list[SessionRecord]:
        records = self.listed()
        for record in records:
            if record.refresh is not None:
                record.refresh()
        return records

    def refused(self, what: str) -> None:
        """Count a statement that the emulation refused."""
        with self._lock:
            self._refused[what] = self._refused.get(what, 0) + 1

    def refusals(self) -> dict[str, int]:
        with self._lock:
            return dict(self._refused)
