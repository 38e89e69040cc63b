"""Issuing: the attempt's login, its user in one target, and the fence, in one transaction with the gate row.

The issuer may create logins and users and hand over the fence. It cannot read or write a target's rows, end a session,
or record that anything is closed.
"""

from __future__ import annotations

from airflow_provider_dpone.contracts.errors import ConfigurationError, GateTampered
from airflow_provider_dpone.contracts.operation import LoginGate, Operation
from airflow_provider_dpone.contracts.principal import Principal
from airflow_provider_dpone.drivers import Connect, Connection, Cursor, Secret, drain, quote_mssql, read_all
from airflow_provider_dpone.drivers.mssql_rights import acting_as
from airflow_provider_dpone.gates import logon_gate, target_fence
from airflow_provider_dpone.gates.database_policy import EnrolledDatabase, require_policy, require_same_incarnation
from airflow_provider_dpone.gates.interface import Credential, Grant, MsSqlWriterGrant
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

ROLE = "issuer"


class LoginIssuer:
    """Creates each journaled login once. ``controller`` is the login that must own the target."""

    def __init__(self, connect: Connect, *, controller: str, settings: LedgerSettings) -> None:
        self._connect = connect
        self._controller = controller
        self._settings = settings
        self._gates = LoginGateStore(connect, settings, role=ROLE)

    def issue(self, operation: Operation, principal: Principal, grant: Grant) -> Credential:
        if not isinstance(grant, MsSqlWriterGrant):
            raise ConfigurationError("grant", happened="a SQL Server login is granted one writer role, nothing else.")
        secret = Secret.generate()
        with session_of(ROLE, self._connect) as session, acting_as(ROLE, "looking at the barrier and the target"):
            control_database = str(one(drain(session, SQL.text("control_database"))))
            logon_gate.verify(session, self._settings, control_database)
            database = self._enrolled(session, operation, grant.database)

        def create(cursor: Cursor) -> None:
            with acting_as(ROLE, f"looking at {database.name}"):
                require_same_incarnation(cursor, database)
                require_policy(cursor, self._settings, control_database, database, owner=self._controller)
                existing = logins(cursor, principal)
            if existing:
                raise GateTampered(
                    "login_exists",
                    happened=f"a login with the journaled name or SID of {principal.name} exists already.",
                )
            with acting_as(ROLE, f"creating {principal.name} in {database.name}"):
                self._create(cursor, operation, principal, secret, database)

        gate = self._gates.to_ready(operation.attempt_sha256, create)
        self._verify_ready(gate, principal, database)
        return Credential(username=principal.name, secret=secret)

    def _create(
        self, cursor: Cursor, operation: Operation, principal: Principal, secret: Secret, database: EnrolledDatabase
    ) -> None:
        read_all(cursor, create_login(principal, secret, database.name))
        in_database = SQL.text(
            "create_user",
            database=quote_mssql(database.name),
            login=quote_mssql(principal.name),
            role=quote_mssql(database.writer_role),
        )
        read_all(cursor, SQL.text("execute"), in_database)
        target_fence.advance(cursor, database.name, operation.attempt_sha256, principal.name)

    def _verify_ready(self, gate: LoginGate, principal: Principal, database: EnrolledDatabase) -> None:
        """READY (as the store read it back), the login and its membership, on connections that did not make them."""
        if gate.state != "READY" or (gate.login_sid, gate.login_name) != identity(principal):
            raise GateTampered("gate_not_ready", happened="the gate of a login that was just created is not READY.")
        with session_of(ROLE, self._connect) as session:
            seen = logins_seen(session, principal)
            text = SQL.text("membership", database=quote_mssql(database.name))
            members = one(drain(session, text, principal.sid, principal.name, database.writer_role))
        if seen != [(principal.name, principal.sid, "S", False)] or members != 1:
            raise GateTampered("login_not_as_issued", happened="the new login, its user or its role is not as issued.")

    def _enrolled(self, session: Connection, operation: Operation, name: str) -> EnrolledDatabase:
        for database in enrolled_databases(session, self._settings, operation):
            if database.name == name:
                return database
        raise ConfigurationError(
            "database_not_enrolled",
            happened=f"{name} is not an enrolled database of this operation's guards.",
            not_done="no login was created.",
        )
