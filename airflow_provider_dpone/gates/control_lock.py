"""Ends a session that holds the ledger's one lock and is not heard of any more.

A mutation of the ledger is a few batches, and its client decides between them. A worker that is stopped there (a paused
virtual machine, a SIGSTOP) keeps its session, and with it the lock: nobody admits, closes or finalizes any more. Nothing
of such a transaction is committed, so ending its session undoes it, and whoever wakes up finds that nothing happened.

Only silence counts: a holder that works on a batch, however long, is left alone.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from airflow_provider_dpone.drivers import Connect, drain, load_sql
from airflow_provider_dpone.drivers.mssql_rights import acting_as
from airflow_provider_dpone.gates.mssql_logins import SQL as GATE_SQL
from airflow_provider_dpone.gates.mssql_logins import session_of
from airflow_provider_dpone.ledger import LedgerSettings

SQL = load_sql("airflow_provider_dpone.gates", "sql/control_lock.sql")
ROLE = "closer"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentHolder:
    """The session that was ended: as whom and from where it came, and for how many seconds it had sent nothing."""

    session_id: int
    login: str
    host: str
    seconds: int

    def __str__(self) -> str:
        return f"session {self.session_id} of {self.login} from {self.host}, silent for {self.seconds} s"


def end_silent_holder(closer: Connect, settings: LedgerSettings) -> SilentHolder | None:
    """End the holder that has been silent for longer than anybody waits for the lock; None when there is none.

    ``closer`` connects to the control database. Safe at any time, from anywhere, any number of times.
    """
    with (
        session_of(ROLE, closer) as session,
        acting_as(ROLE, "ending the silent holder of the control lock"),
    ):
        (rows,) = drain(session, SQL.text("silent_holder"))
        for session_id, login_time, sid, login, host, seconds in rows:
            if seconds <= settings.lock_timeout_seconds:
                continue
            holder = SilentHolder(session_id=int(session_id), login=str(login), host=str(host), seconds=int(seconds))
            drain(session, GATE_SQL.text("end_session", session=str(holder.session_id)), bytes(sid), login_time)
            _log.warning("ended %s, which held the control lock of the ledger", holder)
            return holder
    return None
