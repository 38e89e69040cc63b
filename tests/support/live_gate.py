"""A small whole deployment on a real endpoint: ledger, LOGON gate, one target database and a route that writes it."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_dpone.attempts import GuardedAttempt, Settlement
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.ownership import guard_id
from airflow_provider_dpone.contracts.principal import Connector, Purpose
from airflow_provider_dpone.drivers import Connect, Connection, Secret, drain, go_batches, quote_mssql
from airflow_provider_dpone.drivers.mssql import MsSqlDsn, connect, connect_autocommit
from airflow_provider_dpone.drivers.mssql_password import hashed_password
from airflow_provider_dpone.gates import logon_gate, target_fence
from airflow_provider_dpone.gates.interface import Credential, MsSqlWriterGrant, WriterGate
from airflow_provider_dpone.gates.mssql import MsSqlLoginGate
from airflow_provider_dpone.gates.target_database import TargetDatabase, provision_script
from airflow_provider_dpone.ledger import (
    Activation,
    ActivationStore,
    AttemptStore,
    LedgerSettings,
    LoginGateStore,
    enroll,
    grants,
    install,
)
from airflow_provider_dpone.routes.interface import AttemptContext, Observation, Outcome, RouteReport
from tests.support import ledger_records as make
from tests.support.gate_receipts import open_door
from tests.support.ledger_records import SERVICE

ROLE = "dpone_writer"
SCHEMA = "raw"
#: The standing accounts of the deployment (docs/roles.md), each a login of its own.
ACCOUNTS = ("controller", "issuer", "closer", "observer")
_NUMBERS = itertools.count(1)


@dataclass(kw_only=True)
class TableRoute:
    """Adds one row to a table of the target and marks it, in one fenced transaction."""

    target: MsSqlDsn
    observer: Connect
    before_commit: Callable[[AttemptContext, Connection], None] = field(default=lambda ctx, connection: None)
    after_commit: Callable[[AttemptContext], None] = field(default=lambda ctx: None)
    cell: str = "postgres_mssql_full_refresh_v1"

    def principals(self) -> tuple[tuple[Connector, Purpose], ...]:
        return (("mssql", "ingest"),)

    def admission_record(self, ctx: Observation) -> Mapping[str, object]:
        return {"schema": "test.admission.v1", "table": "raw.effects"}

    def login(self, credential: Credential) -> Connection:
        return connect(self.target.for_login(credential.username, credential.secret))

    def work(self, ctx: AttemptContext) -> RouteReport:
        credential = ctx.issue("ingest", MsSqlWriterGrant(database=self.target.database))
        connection = self.login(credential)
        try:
            key = ctx.operation.attempt_sha256
            target_fence.hold(connection, key)
            drain(connection, "INSERT INTO [raw].[effects] ([operation_key]) VALUES (?);", key)
            self.before_commit(ctx, connection)
            target_fence.mark(connection, key, 1, make.sha("content"))
            connection.commit()
        finally:
            connection.close()
        self.after_commit(ctx)
        return RouteReport(rows=1, bytes=71)

    def outcome(self, ctx: Observation) -> Outcome:
        marker = target_fence.observe_marker(self.observer, self.target.database, ctx.operation.attempt_sha256)
        return Outcome(
            state="FAILED" if marker is None else "SUCCEEDED",
            evidence={"schema": "test.outcome.v1", "marker_rows": None if marker is None else marker.row_count},
        )


@dataclass(frozen=True, kw_only=True)
class LiveGate:
    """The deployment, as its standing accounts see it."""

    dba: MsSqlDsn
    controller: MsSqlDsn
    issuer: MsSqlDsn
    closer: MsSqlDsn
    observer: MsSqlDsn
    target: str
    settings: LedgerSettings
    activation: Activation
    #: Gates of other engines, for routes that need them.
    others: dict[str, WriterGate] = field(default_factory=dict)

    @property
    def attempts(self) -> AttemptStore:
        return AttemptStore(self.control, self.settings)

    @property
    def gates(self) -> LoginGateStore:
        """To look at gates: the controller may not move one."""
        return LoginGateStore(self.control, self.settings, role="controller")

    @property
    def gate(self) -> MsSqlLoginGate:
        return MsSqlLoginGate(
            issuer=lambda: connect_autocommit(self.issuer),
            closer=lambda: connect_autocommit(self.closer),
            controller=self.controller.user,
            settings=self.settings,
        )

    def control(self) -> Connection:
        return connect_autocommit(self.controller)

    def observe(self) -> Connection:
        return connect_autocommit(self.observer)

    def route(self) -> TableRoute:
        return TableRoute(target=replace(self.controller, database=self.target), observer=self.observe)

    def run_id(self) -> str:
        return f"manual__{next(_NUMBERS)}_{secrets.token_hex(4)}"

    def attempt(
        self, run_id: str, try_number: int = 1, *, route: TableRoute | None = None, task_id: str = "load"
    ) -> GuardedAttempt:
        where = make.coordinates(run_id, try_number=try_number, task_id=task_id)
        return GuardedAttempt(
            make.attempt(self.activation.request, "w000", self.activation.epochs_of("w000"), where),
            where,
            route=route or self.route(),
            gates={"mssql": self.gate, **self.others},
            ledger=self.attempts,
            quiescence_seconds=30.0,
        )

    def settlement(self, operation: Operation) -> Settlement:
        return Settlement(
            operation,
            route=self.route(),
            gates={"mssql": self.gate, **self.others},
            ledger=self.attempts,
            quiescence_seconds=30.0,
        )

    def as_dba(self, sql: str, *parameters: Any, database: str | None = None) -> list[tuple[Any, ...]]:
        """A look, or a tampering, by the DBA."""
        with autocommit(replace(self.dba, database=database or self.dba.database)) as connection:
            results = drain(connection, sql, *parameters)
            return results[-1] if results else []

    def logins(self, name: str) -> list[tuple[bytes, bool]]:
        found = self.as_dba("SELECT [sid], [is_disabled] FROM sys.server_principals WHERE [name] = ?;", name)
        return [(bytes(sid), bool(disabled)) for sid, disabled in found]

    def sessions(self, sid: bytes) -> int:
        sql = "SELECT COUNT(*) FROM sys.dm_exec_sessions WHERE [original_security_id] = ?;"
        return int(self.as_dba(sql, sid)[0][0])

    def effects(self, operation: Operation) -> int:
        sql = "SELECT COUNT(*) FROM [raw].[effects] WHERE [operation_key] = ?;"
        return int(self.as_dba(sql, operation.attempt_sha256, database=self.target)[0][0])

    @property
    def sees_sessions_by(self) -> str:
        """What the right to see other sessions is called on this server: 2022 has a narrower name."""
        [(major,)] = self.as_dba("SELECT CONVERT(int, SERVERPROPERTY('ProductMajorVersion'));")
        return "VIEW SERVER PERFORMANCE STATE" if major >= 16 else "VIEW SERVER STATE"

    def to_document(self) -> dict[str, Any]:
        """For another process that works as these accounts, on its standard input."""
        accounts = {role: getattr(self, role) for role in ACCOUNTS}
        return {
            "host": self.controller.host,
            "port": self.controller.port,
            "target": self.target,
            "activation_id": self.activation.activation_id,
            "accounts": {role: [dsn.user, dsn.password.reveal(), dsn.database] for role, dsn in accounts.items()},
        }

    @classmethod
    def from_document(cls, given: dict[str, Any]) -> LiveGate:
        """The deployment as a worker process sees it: nothing of the test's process but its addresses, and no DBA."""
        accounts = {
            role: MsSqlDsn(
                host=given["host"],
                port=given["port"],
                database=database,
                user=user,
                password=Secret(password),
                trust_server_certificate=True,
            )
            for role, (user, password, database) in given["accounts"].items()
        }
        settings = LedgerSettings(service_id=SERVICE)
        activation = ActivationStore(lambda: connect_autocommit(accounts["controller"]), settings).read(
            given["activation_id"]
        )
        assert activation is not None
        return cls(
            dba=accounts["controller"], target=given["target"], settings=settings, activation=activation, **accounts
        )

    def settle_everything(self) -> None:
        """Leave nothing that would stand in the way of the next test."""
        for operation in self.attempts.unresolved():
            self.settlement(operation).settle()


@contextmanager
def autocommit(dsn: MsSqlDsn) -> Iterator[Any]:
    connection: Any = connect(dsn)
    try:
        connection.setautocommit(True)
        yield connection
    finally:
        connection.close()


def provision(dba: MsSqlDsn, *, one_account: bool = False) -> LiveGate:
    """What a DBA does once, on a server of its own, with names that no other provisioning has.

    With ``one_account`` the controller's login also issues and closes.
    """
    suffix = secrets.token_hex(4)
    control, target = f"control_{suffix}", f"target_{suffix}"
    settings = LedgerSettings(service_id=SERVICE)
    accounts = {role: (f"{role}_{suffix}", Secret.generate()) for role in ACCOUNTS}
    if one_account:
        accounts["issuer"] = accounts["closer"] = accounts["controller"]
    logins = {role: name for role, (name, _) in accounts.items()}
    with autocommit(dba) as connection:
        for database in (control, target):
            drain(connection, f"CREATE DATABASE {quote_mssql(database)} COLLATE SQL_Latin1_General_CP1_CI_AS;")
        for name, secret in dict(accounts.values()).items():
            login = quote_mssql(name)
            drain(connection, f"CREATE LOGIN {login} WITH PASSWORD = {hashed_password(secret)} HASHED;")
    at_control, at_target = replace(dba, database=control), replace(dba, database=target)
    install.apply(lambda: connect(at_control), settings, authority="nonproduction")
    open_door(lambda: connect(at_control), settings)
    standing = grants.StandingLogins(
        controller=logins["controller"], issuer=logins["issuer"], closer=logins["closer"], others=[logins["observer"]]
    )
    with autocommit(at_control) as connection:
        for batch in go_batches(grants.script(settings, standing)):
            drain(connection, batch)
    with autocommit(at_control) as connection:
        logon_gate.apply(connection, settings, control)
    script = provision_script(
        TargetDatabase(
            database=target,
            writer_role=ROLE,
            managed_schemas=(SCHEMA,),
            controller=logins["controller"],
            issuer=logins["issuer"],
            outcome_reader=logins["observer"],
        )
    )
    with autocommit(at_target) as connection:
        for batch in go_batches(script):
            drain(connection, batch)
        drain(connection, "CREATE TABLE [raw].[effects] ([operation_key] varchar(71) NOT NULL);")
    identity = enroll.observe_mssql(lambda: connect(at_control), target)
    subject = identity.physical_subject_sha256
    role = enroll.MsSqlEnrollment(identity=identity, writer_role=ROLE, managed_schemas=(SCHEMA,))
    domain = enroll.EnrolledDomain(connector="mssql", service_id=SERVICE, physical_subject_sha256=subject, mssql=role)
    other = make.domain(f"clickhouse {suffix}", "clickhouse")
    entry = enroll.EnrolledDomain(connector=other[1], service_id=other[2], physical_subject_sha256=other[3])
    enroll.enroll(lambda: connect(at_control), settings, [domain, entry])
    guard = guard_id(connector="mssql", service_id=SERVICE, physical_subject_sha256=subject)
    accounts_dsn = {
        role: MsSqlDsn(
            host=dba.host,
            port=dba.port,
            database=target if role == "observer" else control,
            user=name,
            password=secret,
            trust_server_certificate=True,
        )
        for role, (name, secret) in accounts.items()
    }
    request = make.request([(guard, "mssql", SERVICE, subject), other])
    store = ActivationStore(lambda: connect_autocommit(accounts_dsn["controller"]), settings)
    store.prepare(request)
    return LiveGate(
        dba=at_control,
        **accounts_dsn,
        target=target,
        settings=settings,
        activation=store.activate(request),
    )


def deprovision(live: LiveGate) -> None:
    """Take the LOGON trigger off the server, so that another provisioning can install its own."""
    master = replace(live.dba, database="master")
    with autocommit(master) as connection:
        drain(connection, f"DROP TRIGGER {quote_mssql(logon_gate.TRIGGER)} ON ALL SERVER;")
    with autocommit(live.dba) as connection:
        drain(connection, f"DROP USER {quote_mssql(logon_gate.READER)};")
    with autocommit(master) as connection:
        drain(connection, f"DROP LOGIN {quote_mssql(logon_gate.READER)};")
