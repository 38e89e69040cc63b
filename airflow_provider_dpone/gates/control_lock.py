"""Ends a session that holds the ledger's one lock and is not heard of any more.

A mutation of the ledger is a few batches, and its client decides between them. A worker that is stopped there (a paused
virtual machine, a SIGSTOP) keeps its session, and with it the lock: nobody admits, closes or finalizes any more. Nothing
of such a transaction is committed, so ending its session undoes it, and whoever wakes up finds that nothing happened.

Only silence counts: a holder that works on a batch, however long, is left alone, and so is one that is heard of between
the look and the end. Who holds the lock without a transaction has not stopped in a mutation: that is left to its owner.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from airflow_provider_dpone.contracts.errors import ControlUnavailable
from airflow_provider_dpone.drivers import Connect, Connection, drain, load_sql
from airflow_provider_dpone.drivers.mssql_rights import acting_as, right_missing
from airflow_provider_dpone.gates.mssql_logins import session_of
from airflow_provider_dpone.ledger import LedgerSettings
from airflow_provider_dpone.ledger.transaction import driver_errors

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
    try:
        return _end(closer, settings)
    except driver_errors() as err:
        raise ControlUnavailable(
            "control_lock_look",
            happened=f"looking for the holder of the control lock: {' '.join(str(err).split())[:400]}",
            not_done="no session was ended, or it is not known whether.",
        ) from err


def _end(closer: Connect, settings: LedgerSettings) -> SilentHolder | None:
    with (
        session_of(ROLE, closer) as session,
        acting_as(ROLE, "ending the silent holder of the control lock"),
    ):
        silent = SQL.text("silent").rstrip()
        (rows,) = drain(session, SQL.text("silent_holder", silent=silent))
        for session_id, login_time, sid, login, host, heard, seconds in rows:
            if seconds <= settings.lock_timeout_seconds:
                continue
            holder = SilentHolder(session_id=int(session_id), login=str(login), host=str(host), seconds=int(seconds))
            text = SQL.text("end_silent_holder", silent=silent, session=str(holder.session_id))
            if _ended(session, text, bytes(sid), login_time, heard):
                _log.warning("ended %s, which held the control lock of the ledger", holder)
                return holder
            _log.info("%s was heard of again, or has ended by itself", holder)
    return None


def _ended(session: Connection, text: str, *seen: object) -> bool:
    """Whether the session that was seen was ended: it is looked at again in the batch that ends it."""
    try:
        return drain(session, text, *seen) == [[(1,)]]
    except Exception as err:
        if right_missing(ROLE, "ending a session", err):
            raise
        # KILL also fails for a session that ends at this moment.
        _log.info("ending the holder of the control lock answered: %s", " ".join(str(err).split())[:200])
        return False
