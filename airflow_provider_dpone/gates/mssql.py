"""The SQL Server login gate: one login an attempt, created once, closed for good, proven gone.

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
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, cast

from airflow_provider_dpone.contracts.errors import (
    ConfigurationError,
    ControlUnavailable,
    GateTampered,
    GuardError,
    NotQuiescent,
)
from airflow_provider_dpone.contracts.gate_evidence import GateObservation
from airflow_provider_dpone.contracts.operation import LoginGate, Operation
from airflow_provider_dpone.contracts.principal import Connector, Principal, Purpose, new_mssql_principal
from airflow_provider_dpone.drivers import Connect, Connection, Cursor, Secret, drain, load_sql, quote_mssql, read_all
from airflow_provider_dpone.drivers.mssql_password import hashed_password
from airflow_provider_dpone.gates import logon_gate, target_fence
from airflow_provider_dpone.gates.database_policy import EnrolledDatabase, require_policy, require_same_incarnation
from airflow_provider_dpone.gates.interface import Credential, Grant, MsSqlWriterGrant
from airflow_provider_dpone.ledger import LedgerSettings, LoginGateStore

if TYPE_CHECKING:
    from collections.abc import Iterator

_SQL = load_sql("airflow_provider_dpone.gates", "sql/mssql_gate.sql")
_log = logging.getLogger(__name__)

#: How long closing waits for ended sessions to roll back before it leaves that to the proof, in seconds.
_ROLLBACK_SECONDS = 10.0


class _ManualConnection(Protocol):
    def setautocommit(self, value: bool) -> None: ...


class MsSqlLoginGate:
    """The gate of the instance that the ledger lives on.

    ``connect`` gives sessions of the issuer and closer in the control database. They need ALTER ANY LOGIN, ALTER ANY
    CONNECTION, VIEW ANY DEFINITION and VIEW SERVER STATE (2022: VIEW SERVER PERFORMANCE STATE), and own the targets.
    """

    def __init__(self, gates: LoginGateStore, connect: Connect, *, settings: LedgerSettings) -> None:
        self._gates = gates
        self._connect = connect
        self._settings = settings

    @property
    def connector(self) -> Connector:
        return "mssql"

    @property
    def service_id(self) -> str:
        return self._settings.service_id

    def new_principal(self, purpose: Purpose) -> Principal:
        return new_mssql_principal(self._settings.service_id, purpose)

    # Issue

    def issue(self, operation: Operation, principal: Principal, grant: Grant) -> Credential:
        if not isinstance(grant, MsSqlWriterGrant):
            raise ConfigurationError("grant", happened="a SQL Server login is granted one writer role, nothing else.")
        secret = Secret.generate()
        with self._session() as session:
            control_database = str(_one(drain(session, _SQL.text("control_database"))))
            logon_gate.verify(session, self._settings, control_database)
            database = self._enrolled(session, operation, grant.database)

        def create(cursor: Cursor) -> None:
            require_same_incarnation(cursor, database)
            require_policy(cursor, self._settings, control_database, database)
            if _logins(cursor, principal):
                raise GateTampered(
                    "login_exists",
                    happened=f"a login with the journaled name or SID of {principal.name} exists already.",
                )
            read_all(cursor, _create_login(principal, secret, database.name))
            in_database = _SQL.text(
                "create_user",
                database=quote_mssql(database.name),
                login=quote_mssql(principal.name),
                role=quote_mssql(database.writer_role),
            )
            read_all(cursor, _SQL.text("execute"), in_database)
            target_fence.advance(cursor, database.name, operation.attempt_sha256, principal.name)

        gate = self._gates.to_ready(operation.attempt_sha256, create)
        self._verify_ready(gate, principal, database)
        return Credential(username=principal.name, secret=secret)

    def _verify_ready(self, gate: LoginGate, principal: Principal, database: EnrolledDatabase) -> None:
        """READY (as the store read it back), the login and its membership, on connections that did not make them."""
        if gate.state != "READY" or (gate.login_sid, gate.login_name) != _identity(principal):
            raise GateTampered("gate_not_ready", happened="the gate of a login that was just created is not READY.")
        with self._session() as session:
            cursor = session.cursor()
            try:
                logins = _logins(cursor, principal)
            finally:
                cursor.close()
            text = _SQL.text("membership", database=quote_mssql(database.name))
            members = _one(drain(session, text, principal.sid, principal.name, database.writer_role))
        if logins != [(principal.name, principal.sid, "S", False)] or members != 1:
            raise GateTampered("login_not_as_issued", happened="the new login, its user or its role is not as issued.")

    # Close

    def close(self, operation: Operation, principal: Principal) -> Mapping[str, object]:
        key = operation.attempt_sha256
        gate = self._gates.to_closing(key)
        if (gate.login_sid, gate.login_name) != _identity(principal):
            raise GateTampered("gate_identity", happened="the journaled login is not the one that is to be closed.")
        if gate.state != "CLOSED":
            with self._session() as session:
                if self._disable_existing(session, principal):
                    self._end_sessions(session, principal, seconds=_ROLLBACK_SECONDS)
            gate = self._gates.to_closed(key, lambda cursor: self._seal(cursor, operation, principal))
        closed = self._observation(operation, principal, "CLOSED_GATES")
        return self._kept(closed, gate.disabled_evidence_sha256)

    def _disable_existing(self, session: Connection, principal: Principal) -> bool:
        cursor = session.cursor()
        try:
            login = _require_ours(_logins(cursor, principal), principal)
            if login is not None:
                read_all(cursor, _SQL.text("disable_login", login=quote_mssql(principal.name)))
        finally:
            cursor.close()
        return login is not None

    def _seal(self, cursor: Cursor, operation: Operation, principal: Principal) -> Mapping[str, object]:
        """Inside the locked transaction: the login is disabled, or a disabled tombstone takes its SID for good."""
        if _require_ours(_logins(cursor, principal), principal) is None:
            _log.info("login %s was never created; leaving a disabled tombstone with its SID", principal.name)
            read_all(cursor, _create_login(principal, Secret.generate(), "master"))
        read_all(cursor, _SQL.text("disable_login", login=quote_mssql(principal.name)))
        if _logins(cursor, principal) != [(principal.name, principal.sid, "S", True)]:
            raise GateTampered("login_not_disabled", happened="the login is not disabled after it was disabled.")
        return self._observation(operation, principal, "CLOSED_GATES").members()

    # Prove

    def prove_quiescent(self, operation: Operation, principal: Principal) -> Mapping[str, object]:
        key = operation.attempt_sha256
        gate = operation.gate
        if gate is None or gate.state != "CLOSED":
            # What was read before the closing is older than the gate; CLOSED itself is never left again.
            gate = self._gates.read(key)
        if gate is None or gate.state != "CLOSED":
            raise NotQuiescent("gate_not_closed", sessions=[{"gate": None if gate is None else gate.state}])
        with self._session() as session, self._session() as control:
            self._require_visibility(session, control)
            cursor = session.cursor()
            try:
                logins = _logins(cursor, principal)
            finally:
                cursor.close()
            if logins != [(principal.name, principal.sid, "S", True)]:
                raise GateTampered("login_not_disabled", happened="the closed login is missing or enabled again.")
            databases = self._databases(session, operation)
            # A login that passed the barrier just before it closed may have become a session after the closing.
            self._end_sessions(session, principal, seconds=0.0)
            self._require_absence(session, principal, databases)
        observation = self._observation(operation, principal, "QUIESCENCE", tuple(d.database_id for d in databases))
        return self._kept(observation, self._gates.put_quiescence(key, observation.members()))

    def _require_visibility(self, session: Connection, control: Connection) -> None:
        """A missing permission shows fewer rows, not an error: ask for it, and look for a session that is there."""
        ((state, performance, definitions),) = drain(session, _SQL.text("visibility"))[0]
        other = _one(drain(control, _SQL.text("own_session")))
        if not (state or performance) or not definitions or _one(drain(session, _SQL.text("session_seen"), other)) != 1:
            raise ConfigurationError(
                "observer_visibility",
                happened="the observer cannot see other sessions, so their absence would prove nothing.",
                not_done="quiescence was not recorded.",
                check="VIEW SERVER STATE (2022: VIEW SERVER PERFORMANCE STATE) and VIEW ANY DEFINITION of the closer.",
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
        transactions = _one(drain(session, _SQL.text("transactions"), principal.sid))
        if transactions:
            present.append({"transactions": transactions})
        enrolled = {database.database_id: database.name for database in databases}
        for database_id, session_id in drain(session, _SQL.text("orphaned"))[0]:
            if database_id in enrolled:
                present.append({"database": enrolled[database_id], "orphaned_transaction": session_id})
        if present:
            raise NotQuiescent(sessions=present)

    # Shared steps

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
            drain(session, _SQL.text("end_session", session=str(int(session_id))), principal.sid, login_time)
        except Exception as err:  # noqa: BLE001  # KILL also fails for a session that just ended: only looking again can tell
            _log.info("ending session %d answered: %s", session_id, " ".join(str(err).split())[:200])

    def _databases(self, session: Connection, operation: Operation) -> tuple[EnrolledDatabase, ...]:
        text = _SQL.text("enrolled_databases", control=quote_mssql(self._settings.control_schema))
        (rows,) = drain(session, text, operation.attempt_sha256)
        return tuple(
            EnrolledDatabase(
                guard_id=guard,
                name=name,
                database_id=int(database_id),
                database_guid=guid,
                create_token=token,
                writer_role=role,
            )
            for guard, name, database_id, guid, token, role in rows
        )

    def _enrolled(self, session: Connection, operation: Operation, name: str) -> EnrolledDatabase:
        for database in self._databases(session, operation):
            if database.name == name:
                return database
        raise ConfigurationError(
            "database_not_enrolled",
            happened=f"{name} is not an enrolled database of this operation's guards.",
            not_done="no login was created.",
        )

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

    @contextmanager
    def _session(self) -> Iterator[Connection]:
        """A connection for single statements. KILL is refused inside a transaction, hence autocommit."""
        try:
            connection = self._connect()
        except GuardError:
            raise
        except Exception as err:  # whatever the given factory raises, no session came to be
            raise ControlUnavailable("gate_connect", happened=f"no session of the closer: {err}") from err
        try:
            cast("_ManualConnection", connection).setautocommit(True)
            yield connection
        finally:
            connection.close()


def _identity(principal: Principal) -> tuple[bytes, str]:
    return (principal.sid, principal.name)


def _one(results: list[list[tuple[Any, ...]]]) -> Any:
    return results[-1][0][0]


def _logins(cursor: Cursor, principal: Principal) -> list[tuple[str, bytes, str, bool]]:
    (rows,) = read_all(cursor, _SQL.text("logins"), principal.sid, principal.name)
    return [(str(name), bytes(sid), str(kind).strip(), bool(disabled)) for name, sid, kind, disabled in rows]


def _require_ours(logins: list[tuple[str, bytes, str, bool]], principal: Principal) -> bytes | None:
    """The login under both its journaled name and SID, or None when there is none. A half match is tampering."""
    if not logins:
        return None
    if [(name, sid) for name, sid, _, _ in logins] != [(principal.name, principal.sid)]:
        raise GateTampered(
            "login_identity",
            happened=f"a login has the name or the SID of {principal.name}, but not both.",
            check="who created or renamed it; a sysadmin has to remove it before the gate can close.",
        )
    return principal.sid


def _create_login(principal: Principal, secret: Secret, database: str) -> str:
    return _SQL.text(
        "create_login",
        login=quote_mssql(principal.name),
        hash=hashed_password(secret),
        sid="0x" + principal.sid.hex().upper(),
        database=quote_mssql(database),
    )


def _sessions(session: Connection, principal: Principal) -> list[tuple[int, str, str, int, int]]:
    (rows,) = drain(session, _SQL.text("sessions"), principal.sid)
    return [(int(i), str(t), str(s), int(c or 0), int(ours)) for i, t, s, c, ours in rows]
