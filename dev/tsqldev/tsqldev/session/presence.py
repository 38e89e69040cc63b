"""How a session looks to others, and how another one ends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tsqldev.errors import SqlError
from tsqldev.session.transactions import ISOLATION_LEVELS

if TYPE_CHECKING:
    from tsqldev.session.session import SqlSession


def kill(session: SqlSession, spid: int) -> None:
    """KILL: the other session ends as soon as its transaction is rolled back; its row stays until then."""
    if session.transactions.count:
        raise SqlError(6115, "KILL command cannot be used inside user transactions.")
    if not session.access.holds(session.principal, "SERVER", 0, "ALTER ANY CONNECTION"):
        raise SqlError(6102, "User does not have permission to use the KILL statement.", severity=14)
    if spid == session.spid:
        raise SqlError(6104, "Cannot use KILL to kill your own process.")
    if 0 < spid <= 50:
        raise SqlError(6107, "Only user processes can be killed.", severity=14)
    record = session.engine.registry.get(spid)
    if record is None:
        raise SqlError(6106, f"Process ID {spid} is not an active process ID.")
    record.killed.set()
    if record.interrupt is not None:
        record.interrupt()
    record.disconnect()


def refresh(session: SqlSession) -> None:
    """Bring the record up to date, for a view that another session reads."""
    record, transactions = session.record, session.transactions
    record.transaction_count = transactions.count
    record.transaction_id = transactions.id
    record.transaction_began = int((transactions.began + 2208988800) * 300) if transactions.id else 0
    record.transaction_name = transactions.name
    record.transaction_wrote = transactions.wrote
    record.isolation = ISOLATION_LEVELS[transactions.isolation]
    record.row_count = session.rowcount
    record.lock_timeout = session.settings.lock_timeout
    principal = getattr(session, "principal", None)
    if principal is not None:
        record.login_name = principal.login
        record.security_id = session.sids.get(principal.login_id, b"")
        record.database_id = principal.database_id
        record.database_name = principal.database
    record.ansi = {
        "quoted_identifier": int(session.settings.quoted_identifier),
        "arithabort": int(session.settings.arithabort),
        "ansi_null_dflt_on": int(session.settings.ansi_null_dflt_on),
        "ansi_warnings": int(session.settings.ansi_warnings),
        "ansi_padding": int(session.settings.ansi_padding),
        "ansi_nulls": int(session.settings.ansi_nulls),
        "concat_null_yields_null": int(session.settings.concat_null_yields_null),
    }
