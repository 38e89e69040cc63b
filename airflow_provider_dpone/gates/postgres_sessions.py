"""The sessions of an attempt's role: ending them, and looking for what is left.

A connection has no role while it logs in. Whether a role may log in is read again after its password was checked, so a
connection that began after the role was barred never becomes a session of it: only one that was logging in at the first
look and still is at the second may yet be one, and counts as present. So does a prepared transaction that stands at both
and is younger than the role: its owner is whoever the session was at that moment, which SET ROLE chooses.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_dpone.contracts.errors import GuardError
from airflow_provider_dpone.drivers import quote_postgres
from airflow_provider_dpone.drivers.postgres import PostgresDsn
from airflow_provider_dpone.gates.postgres_roles import SQL, serialized, session_as

if TYPE_CHECKING:
    from airflow_provider_dpone.gates.postgres_roles import Session


#: How soon a session that came back is ended again.
_AGAIN_SECONDS = 0.005

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was there at one moment: sessions, transactions without one, and connections that are nobody's yet."""

    sessions: tuple[tuple[int, int, str, str], ...]
    #: Name and transaction of each prepared transaction of the role, and of those that somebody else is named for.
    prepared: tuple[tuple[str, str], ...]
    prepared_by_others: frozenset[tuple[str, str]]
    starting: frozenset[int]


def end(issuer: Session, name: str, oid: int) -> None:
    """End every session of a role, after pid, start and role were compared again. What stays, the proof names."""
    if not issuer.execute(SQL.text("sessions").encode(), {"oid": oid}).fetchall():
        return
    role = quote_postgres(name)
    with serialized(issuer, name):
        issuer.execute(SQL.text("take_rights_of", role=role).encode())
        for pid, session_oid, backend_start, _ in issuer.execute(
            SQL.text("sessions").encode(), {"oid": oid}
        ).fetchall():
            if session_oid == oid:
                seen = {"pid": pid, "backend_start": backend_start, "oid": oid}
                issuer.execute(SQL.text("end_session").encode(), seen)
        issuer.execute(SQL.text("give_back", role=role).encode())


@contextmanager
def ended_meanwhile(issuer: PostgresDsn, name: str, oid: int) -> Iterator[None]:
    """End every session of a role, and those that come back, for as long as the block lasts: on a connection of its own.

    It serializes with nobody. Where it fails, which another closer at the same work can bring about, it only says so:
    whether the block's own statements succeed decides.
    """
    stop = threading.Event()

    def end_again_and_again() -> None:
        import psycopg

        role = quote_postgres(name)
        try:
            with session_as(issuer, f"ending sessions of {name}") as session:
                session.execute(SQL.text("take_rights_of", role=role).encode())
                try:
                    while not stop.wait(_AGAIN_SECONDS):
                        session.execute(SQL.text("end_all").encode(), {"oid": oid})
                finally:
                    session.execute(SQL.text("give_back", role=role).encode())
        except (GuardError, psycopg.Error) as err:
            _log.info("ending sessions of %s answered: %s", name, " ".join(str(err).split())[:200])

    thread = threading.Thread(target=end_again_and_again, name=f"ending {name}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def seen_as(observer: Session, pid: int) -> int | None:
    """The oid of the role whose session this is, as the observer sees it; None when it sees less, or nothing."""
    row = observer.execute(SQL.text("session_seen").encode(), {"pid": pid}).fetchone()
    return None if row is None else int(row[0])


def wait_gone(observer: Session, pid: int, *, seconds: float) -> None:
    """Wait a while for a session that its client has closed."""
    deadline = time.monotonic() + seconds
    while seen_as(observer, pid) is not None and time.monotonic() < deadline:
        time.sleep(0.02)


def look(observer: Session, name: str, oid: int) -> Look:
    """One read of everything. The view is read anew by each statement, because each is a transaction of its own."""
    starting = observer.execute(SQL.text("starting").encode()).fetchall()
    sessions = observer.execute(SQL.text("sessions").encode(), {"oid": oid}).fetchall()
    prepared = observer.execute(SQL.text("prepared").encode(), {"name": name, "oid": oid}).fetchall()
    return Look(
        sessions=tuple((int(pid), int(of), str(since), str(state)) for pid, of, since, state in sessions),
        prepared=tuple((str(gid), str(xid)) for certain, gid, xid in prepared if certain),
        prepared_by_others=frozenset((str(gid), str(xid)) for certain, gid, xid in prepared if not certain),
        starting=frozenset(int(pid) for (pid,) in starting),
    )


def present(looks: Sequence[Look]) -> list[dict[str, object]]:
    """What stands in the way of a proof."""
    found: dict[tuple[str, object], dict[str, object]] = {}
    for seen in looks:
        for pid, oid, since, state in seen.sessions:
            found["session", pid] = {"pid": pid, "role_oid": oid, "backend_start": since, "state": state}
        for gid, _ in seen.prepared:
            found["prepared", gid] = {"prepared_transaction": gid}
    for gid, _ in frozenset.intersection(*(seen.prepared_by_others for seen in looks)):
        found["prepared", gid] = {"prepared_transaction": gid, "state": "younger than the role, of whoever it is"}
    for pid in frozenset.intersection(*(seen.starting for seen in looks)):
        found["starting", pid] = {"pid": pid, "state": "logging in"}
    return list(found.values())
