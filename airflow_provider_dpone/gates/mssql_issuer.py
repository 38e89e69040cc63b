"""Issuing: the attempt's login, its user in one target, and the fence, in one transaction with the gate row.

The issuer may create logins and users and hand over the fence. It cannot read or write a target's rows, end a session,
or record that anything is closed.
"""

from __future__ import annotations

from airflow_provider_dpone.contracts.errors import ConfigurationError, GateTampered
from airflow_provider_dpone.contracts.operation import LoginGate, Operation
from airflow_provider_dpone.contracts.principal import Principal
from airflow_provider_dpone.drivers import Connect, Cursor, Secret, drain, quote_mssql, read_all
from airflow_provider_dpone.drivers.mssql_rights import acting_as
from airflow_provider_dpone.gates import database_policy, logon_gate, target_fence
from airflow_provider_dpone.gates.database_policy import EnrolledDatabase
from airflow_provider_dpone.gates.interface import Credential, Grant, MsSqlWriterGrant
from airflow_provider_dpone.gates.mssql_logins import (
    SQL,
    create_login,
    enrolled_databases,
    enrolled_from,
    identity,
    login_batch,
    logins_from,
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
        issued: list[EnrolledDatabase] = []

        def create(cursor: Cursor) -> None:
            with acting_as(ROLE, "looking at the barrier and the target"):
                control_database, database = self._looked_at(cursor, operation, principal, grant.database)
            with acting_as(ROLE, f"creating {principal.name} in {database.name}"):
                self._create(cursor, operation, principal, secret, control_database, database)
            issued.append(database)

        gate = self._gates.to_ready(operation.attempt_sha256, create)
        self._verify_ready(gate, principal, issued[-1])
        return Credential(username=principal.name, secret=secret)

    def _looked_at(
        self, cursor: Cursor, operation: Operation, principal: Principal, name: str
    ) -> tuple[str, EnrolledDatabase]:
        """The control database and the enrolled target, when the barrier stands and no such login is there yet.

        One batch, which enters no target: one that is gone or closed to this account is refused by its name here.
        """
        barrier, trigger = logon_gate.installed(self._settings)
        policy, parameters = database_policy.outside(name, owner=self._controller)
        text = login_batch(
            SQL.text("logins"), SQL.text("control_database"), barrier, enrolled_databases(self._settings), policy
        )
        existing, ((control,),), triggers, enrolled, identified, violations = read_all(
            cursor, text, principal.sid, principal.name, trigger, operation.attempt_sha256, *parameters
        )
        logon_gate.require_rendered(triggers, self._settings, str(control))
        database = _named(enrolled_from(enrolled), name)
        database_policy.require_outside(database, identified, violations)
        if existing:
            raise GateTampered(
                "login_exists",
                happened=f"a login with the journaled name or SID of {principal.name} exists already.",
            )
        return str(control), database

    def _create(
        self,
        cursor: Cursor,
        operation: Operation,
        principal: Principal,
        secret: Secret,
        control_database: str,
        database: EnrolledDatabase,
    ) -> None:
        """One batch: it stops before it creates anything where the inside of the target is not as provisioned."""
        policy, parameters = database_policy.inside(self._settings, control_database, database)
        in_database = SQL.text(
            "create_user",
            database=quote_mssql(database.name),
            login=quote_mssql(principal.name),
            role=quote_mssql(database.writer_role),
        )
        text = policy + create_login(principal, secret, database.name) + SQL.text("execute")
        text += target_fence.advance(database.name)
        key = operation.attempt_sha256
        (violations,) = read_all(cursor, text, *parameters, in_database, key, principal.name)
        database_policy.require_none(violations)

    def _verify_ready(self, gate: LoginGate, principal: Principal, database: EnrolledDatabase) -> None:
        """READY (as the store read it back), the login and its membership, on connections that did not make them."""
        if gate.state != "READY" or (gate.login_sid, gate.login_name) != identity(principal):
            raise GateTampered("gate_not_ready", happened="the gate of a login that was just created is not READY.")
        text = login_batch(SQL.text("logins"), SQL.text("membership", database=quote_mssql(database.name)))
        with session_of(ROLE, self._connect) as session:
            seen, ((members,),) = drain(session, text, principal.sid, principal.name, database.writer_role)
        if logins_from(seen) != [(principal.name, principal.sid, "S", False)] or members != 1:
            raise GateTampered("login_not_as_issued", happened="the new login, its user or its role is not as issued.")


def _named(databases: tuple[EnrolledDatabase, ...], name: str) -> EnrolledDatabase:
    for database in databases:
        if database.name == name:
            return database
    raise ConfigurationError(
        "database_not_enrolled",
        happened=f"{name} is not an enrolled database of this operation's guards.",
        not_done="no login was created.",
    )
