"""Closing and proving, by an account that has no user in any target.

Closing goes: the gate row becomes CLOSING (the LOGON trigger refuses from that commit on), the login is disabled, its
sessions are ended one by one after their id, login time and SID were compared again, and the row becomes CLOSED
together with the evidence. A login that was never created leaves a disabled tombstone with the journaled SID, so that
the identity can never come to life later.

Proving asks the server for sessions and transactions of the *original* SID, which EXECUTE AS does not hide, counts
logins that are still under way as present, and first makes sure that it could have seen them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_dpone.contracts.errors import ConfigurationError, GateTampered, NotQuiescent
from airflow_provider_dpone.contracts.gate_evidence import GateObservation
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.principal import Principal
from airflow_provider_dpone.drivers import Connect, Connection, Cursor, Secret, drain, quote_mssql, read_all
from airflow_provider_dpone.drivers.mssql_rights import acting_as, right_missing
from airflow_provider_dpone.drivers.trigger_points import reach
from airflow_provider_dpone.gates.database_policy import EnrolledDatabase
from airflow_provider_dpone.gates.mssql_logins import (
    SQL,
    Rows,
    create_login,
    enrolled_databases,
    enrolled_from,
    forgetful_databases,
    identity,
    login_batch,
    logins_from,
    session_of,
)
from airflow_provider_dpone.ledger import LedgerSettings, LoginGateStore

ROLE = "closer"

#: How long closing waits for ended sessions to roll back before it leaves that to the proof, in seconds.
_ROLLBACK_SECONDS = 10.0

_log = logging.getLogger(__name__)


class LoginCloser:
    """Closes logins for good, and observes that nothing is left of them."""

    def __init__(self, connect: Connect, *, settings: LedgerSettings) -> None:
        self._connect = connect
        self._settings = settings
        self._gates = LoginGateStore(connect, settings, role=ROLE)
        #: Operations whose gate was seen CLOSED, which no gate ever leaves again.
        self._seen_closed: set[str] = set()

    def close(self, operation: Operation, principal: Principal) -> Mapping[str, object]:
        key = operation.attempt_sha256
        gate = self._gates.to_closing(key)
        if (gate.login_sid, gate.login_name) != identity(principal):
            raise GateTampered("gate_identity", happened="the journaled login is not the one that is to be closed.")
        if gate.state != "CLOSED":
            with session_of(ROLE, self._connect) as session, acting_as(ROLE, f"disabling {principal.name}"):
                self._disable(session, principal)
            gate = self._gates.to_closed(key, lambda cursor: self._seal(cursor, operation, principal))
        self._seen_closed.add(key)
        closed = self._observation(operation, principal, "CLOSED_GATES")
        return self._kept(closed, gate.disabled_evidence_sha256)

    def prove_quiescent(self, operation: Operation, principal: Principal) -> Mapping[str, object]:
        key = operation.attempt_sha256
        self._require_closed(operation)
        with (
            session_of(ROLE, self._connect) as session,
            session_of(ROLE, self._connect) as control,
            acting_as(ROLE, f"looking for {principal.name}"),
        ):
            ((other,),) = drain(control, SQL.text("own_session"))[0]
            seen = self._look(session, operation, principal, other)
            if seen.ours:
                # A login that passed the barrier just before it closed may have become a session after the closing.
                self._end(session, principal, seen.ours)
                seen = self._look(session, operation, principal, other)
        if seen.present:
            raise NotQuiescent(sessions=seen.present)
        databases = seen.databases
        observation = self._observation(operation, principal, "QUIESCENCE", tuple(d.database_id for d in databases))
        return self._kept(observation, self._gates.put_quiescence(key, observation.members()))

    # Closing

    def _disable(self, session: Connection, principal: Principal) -> None:
        """Disable the login, then end its sessions and wait a while for their rollback. The proof names what is left."""
        deadline = time.monotonic() + _ROLLBACK_SECONDS
        disable = SQL.text("disable_login", login=quote_mssql(principal.name))
        text = login_batch(disable, SQL.text("logins"), SQL.text("sessions"))
        while True:
            reach("disable_login", "before")
            found, rows = drain(session, text, principal.sid, principal.name)
            reach("disable_login", "applied")
            ours = _sessions(rows)[0] if _is_ours(logins_from(found), principal) else []
            self._end(session, principal, ours)
            if not ours or time.monotonic() >= deadline:
                reach("disable_login", "acknowledged")
                return
            time.sleep(0.2)

    def _seal(self, cursor: Cursor, operation: Operation, principal: Principal) -> Mapping[str, object]:
        """Inside the locked transaction: the login is disabled, or a disabled tombstone takes its SID for good."""
        tombstone = create_login(principal, Secret.generate(), "master")
        text = login_batch(
            SQL.text("leave_tombstone", create_login=tombstone),
            SQL.text("disable_login", login=quote_mssql(principal.name)),
            SQL.text("logins"),
        )
        with acting_as(ROLE, f"sealing {principal.name}"):
            ((left,),), found = read_all(cursor, text, principal.sid, principal.name)
        if left:
            _log.info("login %s was never created; left a disabled tombstone with its SID", principal.name)
        if not _is_ours(logins_from(found), principal) or not logins_from(found)[0][3]:
            raise GateTampered("login_not_disabled", happened="the login is not disabled after it was disabled.")
        return self._observation(operation, principal, "CLOSED_GATES").members()

    def _end(self, session: Connection, principal: Principal, ours: Sequence[_Session]) -> None:
        for each in ours:
            self._end_one(session, principal, each.session_id, each.login_time)

    def _end_one(self, session: Connection, principal: Principal, session_id: int, login_time: str) -> None:
        reach("end_session", "before")
        try:
            drain(session, SQL.text("end_session", session=str(int(session_id))), principal.sid, login_time)
            reach("end_session", "applied")
        except Exception as err:
            if missing := right_missing(ROLE, f"ending session {session_id} of {principal.name}", err):
                raise missing from err
            # KILL also fails for a session that just ended: only looking again can tell.
            _log.info("ending session %d answered: %s", session_id, " ".join(str(err).split())[:200])
        reach("end_session", "acknowledged")

    # Proving

    def _require_closed(self, operation: Operation) -> None:
        key, gate = operation.attempt_sha256, operation.gate
        if key in self._seen_closed:
            return
        if gate is None or gate.state != "CLOSED":
            # What was read before the closing is older than the gate; CLOSED itself is never left again.
            gate = self._gates.read(key)
        if gate is None or gate.state != "CLOSED":
            raise NotQuiescent("gate_not_closed", sessions=[{"gate": None if gate is None else gate.state}])
        self._seen_closed.add(key)

    def _look(self, session: Connection, operation: Operation, principal: Principal, other: int) -> _Look:
        """One batch. A missing permission shows fewer rows, not an error: so it first looks whether it would see them."""
        text = login_batch(
            SQL.text("visibility"),
            SQL.text("logins"),
            enrolled_databases(self._settings),
            forgetful_databases(self._settings),
            *(SQL.text(name) for name in ("sessions", "transactions", "orphaned")),
        )
        visible, *results = drain(session, text, principal.sid, principal.name, other, *[operation.attempt_sha256] * 2)
        if not results or visible[0][2] != 1 or 0 in visible[0]:
            raise ConfigurationError(
                "observer_visibility",
                happened="the closer cannot see other sessions, so their absence would prove nothing.",
                not_done="quiescence was not recorded.",
                check="VIEW SERVER STATE (2022: VIEW SERVER PERFORMANCE STATE) and VIEW ANY DEFINITION of the role"
                " closer in docs/roles.md.",
            )
        found, enrolled, forgetful, sessions, ((transactions,),), orphaned = results
        if forgetful:
            raise ConfigurationError(
                "target_durability",
                happened=f"{', '.join(str(name) for (name,) in forgetful)} may acknowledge a commit before it is on disk:"
                " a crash could take back what the outcome rests on.",
                not_done="quiescence was not recorded.",
                check="there: ALTER DATABASE CURRENT SET DELAYED_DURABILITY = DISABLED, then EXEC sys.sp_flush_log.",
            )
        if logins_from(found) != [(principal.name, principal.sid, "S", True)]:
            raise GateTampered("login_not_disabled", happened="the closed login is missing or enabled again.")
        databases = enrolled_from(enrolled)
        ours, others = _sessions(sessions)
        present = [each.members() for each in (*ours, *others)]
        if transactions:
            present.append({"transactions": transactions})
        names = {database.database_id: database.name for database in databases}
        present += [
            {"database": names[database_id], "orphaned_transaction": session_id}
            for database_id, session_id in orphaned
            if database_id in names
        ]
        return _Look(databases=databases, ours=ours, present=present)

    # Evidence

    def _kept(self, observation: GateObservation, sha256: str | None) -> Mapping[str, object]:
        """The observation that the ledger keeps: usually this one, or the first one when several observed."""
        if sha256 == observation.sha256:
            return observation.members()
        evidence = self._gates.gate_evidence(observation.attempt_sha256, observation.kind)
        if evidence is None:
            raise GateTampered("gate_evidence_missing", happened="a gate has no evidence of what was observed.")
        return evidence

    def _observation(
        self, operation: Operation, principal: Principal, kind: Any, database_ids: tuple[int, ...] = ()
    ) -> GateObservation:
        return GateObservation(
            attempt_sha256=operation.attempt_sha256,
            service_id=principal.service_id,
            login_sid=principal.sid.hex(),
            login_name=principal.name,
            kind=kind,
            database_ids=database_ids,
        )


def _is_ours(found: list[tuple[str, bytes, str, bool]], principal: Principal) -> bool:
    """Whether the login is there, under both its journaled name and SID. A half match is tampering."""
    if not found:
        return False
    if [(name, sid) for name, sid, _, _ in found] != [(principal.name, principal.sid)]:
        raise GateTampered(
            "login_identity",
            happened=f"a login has the name or the SID of {principal.name}, but not both.",
            check="who created or renamed it; a sysadmin has to remove it before the gate can close.",
        )
    return True


@dataclass(frozen=True, slots=True)
class _Session:
    """A session of the login, or one that is still logging in and could become one: it counts as present."""

    session_id: int
    login_time: str
    status: str
    open_transactions: int
    ours: bool

    def members(self) -> dict[str, object]:
        if not self.ours:
            return {"session_id": self.session_id, "status": "logging in"}
        return {
            "session_id": self.session_id,
            "login_time": self.login_time,
            "status": self.status,
            "open_transactions": self.open_transactions,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """What one look saw of a closed login. Nothing ``present`` is absence."""

    databases: tuple[EnrolledDatabase, ...]
    ours: list[_Session]
    present: list[dict[str, object]]


def _sessions(rows: Rows) -> tuple[list[_Session], list[_Session]]:
    """Those of the login, and those that are still logging in."""
    found = [_Session(int(i), str(t), str(s), int(c or 0), bool(ours)) for i, t, s, c, ours in rows]
    return [each for each in found if each.ours], [each for each in found if not each.ours]
