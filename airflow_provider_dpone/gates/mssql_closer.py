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
from collections.abc import Mapping
from typing import Any

from airflow_provider_dpone.contracts.errors import ConfigurationError, GateTampered, NotQuiescent
from airflow_provider_dpone.contracts.gate_evidence import GateObservation
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.principal import Principal
from airflow_provider_dpone.drivers import Connect, Connection, Cursor, Secret, drain, quote_mssql, read_all
from airflow_provider_dpone.drivers.mssql_rights import acting_as, right_missing
from airflow_provider_dpone.gates.database_policy import EnrolledDatabase
from airflow_provider_dpone.gates.mssql_logins import (
    SQL,
    create_login,
    enrolled_databases,
    identity,
    logins,
    logins_seen,
    one,
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

    def close(self, operation: Operation, principal: Principal) -> Mapping[str, object]:
        key = operation.attempt_sha256
        gate = self._gates.to_closing(key)
        if (gate.login_sid, gate.login_name) != identity(principal):
            raise GateTampered("gate_identity", happened="the journaled login is not the one that is to be closed.")
        if gate.state != "CLOSED":
            with session_of(ROLE, self._connect) as session, acting_as(ROLE, f"disabling {principal.name}"):
                if self._disable_existing(session, principal):
                    self._end_sessions(session, principal, seconds=_ROLLBACK_SECONDS)
            gate = self._gates.to_closed(key, lambda cursor: self._seal(cursor, operation, principal))
        closed = self._observation(operation, principal, "CLOSED_GATES")
        return self._kept(closed, gate.disabled_evidence_sha256)

    def prove_quiescent(self, operation: Operation, principal: Principal) -> Mapping[str, object]:
        key = operation.attempt_sha256
        gate = operation.gate
        if gate is None or gate.state != "CLOSED":
            # What was read before the closing is older than the gate; CLOSED itself is never left again.
            gate = self._gates.read(key)
        if gate is None or gate.state != "CLOSED":
            raise NotQuiescent("gate_not_closed", sessions=[{"gate": None if gate is None else gate.state}])
        with (
            session_of(ROLE, self._connect) as session,
            session_of(ROLE, self._connect) as control,
            acting_as(ROLE, f"looking for {principal.name}"),
        ):
            self._require_visibility(session, control)
            if logins_seen(session, principal) != [(principal.name, principal.sid, "S", True)]:
                raise GateTampered("login_not_disabled", happened="the closed login is missing or enabled again.")
            databases = enrolled_databases(session, self._settings, operation)
            # A login that passed the barrier just before it closed may have become a session after the closing.
            self._end_sessions(session, principal, seconds=0.0)
            self._require_absence(session, principal, databases)
        observation = self._observation(operation, principal, "QUIESCENCE", tuple(d.database_id for d in databases))
        return self._kept(observation, self._gates.put_quiescence(key, observation.members()))

    # Closing

    def _disable_existing(self, session: Connection, principal: Principal) -> bool:
        if not _is_ours(logins_seen(session, principal), principal):
            return False
        drain(session, SQL.text("disable_login", login=quote_mssql(principal.name)))
        return True

    def _seal(self, cursor: Cursor, operation: Operation, principal: Principal) -> Mapping[str, object]:
        """Inside the locked transaction: the login is disabled, or a disabled tombstone takes its SID for good."""
        with acting_as(ROLE, f"sealing {principal.name}"):
            if not _is_ours(logins(cursor, principal), principal):
                _log.info("login %s was never created; leaving a disabled tombstone with its SID", principal.name)
                read_all(cursor, create_login(principal, Secret.generate(), "master"))
            read_all(cursor, SQL.text("disable_login", login=quote_mssql(principal.name)))
            if logins(cursor, principal) != [(principal.name, principal.sid, "S", True)]:
                raise GateTampered("login_not_disabled", happened="the login is not disabled after it was disabled.")
        return self._observation(operation, principal, "CLOSED_GATES").members()

    def _end_sessions(self, session: Connection, principal: Principal, *, seconds: float) -> None:
        """End the login's sessions and wait a while for their rollback. What is left then, the proof will name."""
        deadline = time.monotonic() + seconds
        while True:
            present = [row for row in _sessions(session, principal) if row[4]]
            for session_id, login_time, *_ in present:
                self._end_one(session, principal, session_id, login_time)
            if not present or time.monotonic() >= deadline:
                return
            time.sleep(0.2)

    def _end_one(self, session: Connection, principal: Principal, session_id: int, login_time: str) -> None:
        try:
            drain(session, SQL.text("end_session", session=str(int(session_id))), principal.sid, login_time)
        except Exception as err:
            if missing := right_missing(ROLE, f"ending session {session_id} of {principal.name}", err):
                raise missing from err
            # KILL also fails for a session that just ended: only looking again can tell.
            _log.info("ending session %d answered: %s", session_id, " ".join(str(err).split())[:200])

    # Proving

    def _require_visibility(self, session: Connection, control: Connection) -> None:
        """A missing permission shows fewer rows, not an error: ask for it, and look for a session that is there."""
        ((state, performance, definitions),) = drain(session, SQL.text("visibility"))[0]
        other = one(drain(control, SQL.text("own_session")))
        if not (state or performance) or not definitions or one(drain(session, SQL.text("session_seen"), other)) != 1:
            raise ConfigurationError(
                "observer_visibility",
                happened="the closer cannot see other sessions, so their absence would prove nothing.",
                not_done="quiescence was not recorded.",
                check="VIEW SERVER STATE (2022: VIEW SERVER PERFORMANCE STATE) and VIEW ANY DEFINITION of the role"
                " closer in docs/roles.md.",
            )

    def _require_absence(
        self, session: Connection, principal: Principal, databases: tuple[EnrolledDatabase, ...]
    ) -> None:
        present: list[dict[str, object]] = [
            {"session_id": session_id, "login_time": login_time, "status": status, "open_transactions": count}
            if ours
            else {"session_id": session_id, "status": "logging in"}
            for session_id, login_time, status, count, ours in _sessions(session, principal)
        ]
        transactions = one(drain(session, SQL.text("transactions"), principal.sid))
        if transactions:
            present.append({"transactions": transactions})
        enrolled = {database.database_id: database.name for database in databases}
        for database_id, session_id in drain(session, SQL.text("orphaned"))[0]:
            if database_id in enrolled:
                present.append({"database": enrolled[database_id], "orphaned_transaction": session_id})
        if present:
            raise NotQuiescent(sessions=present)

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


def _sessions(session: Connection, principal: Principal) -> list[tuple[int, str, str, int, int]]:
    (rows,) = drain(session, SQL.text("sessions"), principal.sid)
    return [(int(i), str(t), str(s), int(c or 0), int(ours)) for i, t, s, c, ours in rows]
