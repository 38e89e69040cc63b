"""The demo's composition on three engines of its own, with little data and passwords that some quoting forgets."""

from __future__ import annotations

import hashlib
import itertools
import json
import secrets
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from dpone_demo import loading, provisioning
from dpone_demo.campaign import SOURCE
from dpone_embedded import Stack

from airflow_provider_dpone.composition import release
from airflow_provider_dpone.composition.factory import build_composition_activation
from airflow_provider_dpone.composition.services import GuardServices, resume_attempt
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.drivers import drain
from airflow_provider_dpone.drivers.clickhouse import connect as connect_clickhouse
from airflow_provider_dpone.ledger import AttemptStore, GateReceiptStore
from tests.support.gate_receipts import receipt

#: What quoting has to survive: braces of a connection string, quotes, a pipe's and a URI's own characters, a blank.
HOSTILE = "}{;'\"&*%$\\@/:?#+ =[]"
ROLES = (
    provisioning.CONTROLLER,
    provisioning.ISSUER,
    provisioning.CLOSER,
    provisioning.OUTCOME_READER,
    provisioning.SOURCE_READER,
    provisioning.POSTGRES_ISSUER,
    provisioning.POSTGRES_OBSERVER,
)
CLICKHOUSE_ACCOUNTS = ("dpone_admin", "dpone_observer")


def password_of(name: str) -> str:
    """Different for each account, so that what is found somewhere tells whose it is."""
    return f"Cn4{HOSTILE}{hashlib.sha256(name.encode()).hexdigest()[:12]}"


@dataclass(frozen=True, kw_only=True)
class Flights:
    """The deployment: three engines, the accounts of the roles, an activation in force, and a folder for releases."""

    stack: Stack
    services: GuardServices
    root: Path
    #: The folder where the SQL Server endpoint keeps every batch that it was sent.
    traces: Path

    @property
    def attempts(self) -> AttemptStore:
        return AttemptStore(self.services.control, self.services.ledger)

    def tries(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> list[tuple[int, str]]:
        found = self.attempts.find(dag_id, run_id, task_id, map_index)
        return [(each.coordinates.try_number, each.state) for each in found]

    def operation(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> Operation:
        (found,) = self.attempts.find(dag_id, run_id, task_id, map_index)
        return found

    def connections(self) -> dict[str, dict[str, Any]]:
        """As Airflow's server serves them to a task."""
        nothing = {"host": None, "schema": None, "login": None, "password": None, "port": None, "extra": None}
        return {
            conn_id: {"conn_id": conn_id, **nothing, **fields}
            for conn_id, fields in provisioning.airflow_connections(self.stack).items()
        }

    def as_dba(self, sql: str, *parameters: Any, database: str = provisioning.WAREHOUSE) -> list[tuple[Any, ...]]:
        with provisioning._as_dba(self.stack, database, autocommit=True) as connection:
            results = drain(connection, sql, *parameters)
            return results[-1] if results else []

    def in_postgres(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(provisioning._conninfo(self.stack), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def in_clickhouse(self, statement: str) -> list[tuple[Any, ...]]:
        access, _ = self.services.require_clickhouse()
        client = connect_clickhouse(access)
        try:
            return [tuple(row) for row in client.query(statement).result_rows]
        finally:
            client.close()

    def writers_left(self, operation: Operation) -> list[str]:
        """Logins of the attempt that could still log in, and sessions of it."""
        left = []
        for principal in operation.principals:
            if principal.connector == "mssql":
                sql = "SELECT [is_disabled] FROM sys.server_principals WHERE [sid] = ?;"
                if self.as_dba(sql, principal.sid) not in ([], [(True,)]):
                    left.append(f"login {principal.name}")
                sql = "SELECT COUNT(*) FROM sys.dm_exec_sessions WHERE [original_security_id] = ?;"
                if self.as_dba(sql, principal.sid) != [(0,)]:
                    left.append(f"session of {principal.name}")
            elif principal.connector == "postgres":
                name = principal.name.replace("'", "''")
                if self.in_postgres(f"SELECT 1 FROM pg_roles WHERE rolname = '{name}' AND rolcanlogin"):
                    left.append(f"role {principal.name}")
                if self.in_postgres(f"SELECT 1 FROM pg_stat_activity WHERE usename = '{name}'"):
                    left.append(f"session of {principal.name}")
            elif self.in_clickhouse(f"SELECT 1 FROM system.processes WHERE user = '{principal.name}'"):
                left.append(f"query of {principal.name}")
        return left

    def settle_everything(self) -> None:
        """Leave nothing that would stand in the way of the next test."""
        for operation in self.attempts.unresolved():
            resume_attempt(self.services, self.root, operation).settle()

    def write_configuration(self, folder: Path) -> Path:
        """A configuration file for `dponectl`, with a password file for each role."""
        folder.mkdir(mode=0o700, exist_ok=True)
        services = self.services
        access, observer = services.require_clickhouse()
        issuer, postgres_observer = services.require_postgres()
        assert services.issuer is not None
        mssql = {
            "controller": services.controller,
            "issuer": services.issuer,
            "closer": services.closer,
            "outcome_reader": services.outcome_reader,
            "source_reader": services.source_reader,
        }
        lines = [f'service_id = "{services.ledger.service_id}"', f'release_root = "{self.root}"', "[mssql]"]
        lines += [f'host = "{services.controller.host}"', f"port = {services.controller.port}"]
        lines += ["trust_server_certificate = true", f'control_database = "{services.controller.database}"']
        sections = (
            ("mssql", mssql, []),
            (
                "clickhouse",
                {"access": access, "observer": observer},
                [f'host = "{access.host}"', f"port = {access.port}"],
            ),
            (
                "postgres",
                {"issuer": issuer, "observer": postgres_observer},
                [f'host = "{issuer.host}"', f"port = {issuer.port}", f'database = "{issuer.database}"'],
            ),
        )
        for engine, roles, head in sections:
            if head:
                lines += [f"[{engine}]", *head]
            for role, dsn in roles.items():
                file = folder / f"{engine}_{role}"
                file.write_text(dsn.password.reveal() + "\n", encoding="utf-8")  # type: ignore[attr-defined]  # three kinds
                file.chmod(0o600)
                lines += [f"[{engine}.roles.{role}]", f"user = {json.dumps(dsn.user)}", f'password_file = "{file}"']  # type: ignore[attr-defined]  # of DSN
        config = folder / "dpone.toml"
        config.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return config


@contextmanager
def deployed() -> Iterator[Flights]:
    """Three engines without Airflow, provisioned as the demo does, with at most fifty rows in each table."""
    with tempfile.TemporaryDirectory(prefix="dpone-flights-") as name:
        folder = Path(name)
        folder.chmod(0o711)  # PostgreSQL runs as another user when we are root, and has to pass
        traces = folder / "traces"
        traces.mkdir()
        stack = Stack(folder / "stack", services=("sqlserver", "postgres", "clickhouse"), sql_traces=traces)
        _give_passwords(stack)
        stack.start()
        try:
            root = folder / "releases"
            services = provisioning.provision(stack, root)
            with _little_data():
                provisioning.load(stack)
            server = GateReceiptStore(services.control, services.ledger).standing().server
            provisioning.record_receipt(stack, services, receipt(server))
            flights = Flights(stack=stack, services=services, root=root, traces=traces)
            _published_table(flights)
            root.mkdir(exist_ok=True)
            release.build(SOURCE, root / "release")
            build_composition_activation(root, services).activate(root / "release")
            yield flights
        finally:
            stack.stop()


def _give_passwords(stack: Stack) -> None:
    stack.state.create()
    stack.state.write("secrets.json", {role: password_of(role) for role in ROLES})
    clickhouse = stack.state.data("clickhouse")
    clickhouse.mkdir()
    accounts = {account: password_of(account) for account in CLICKHOUSE_ACCOUNTS}
    secrets_of_clickhouse = {"server_id": str(uuid.uuid4()), "accounts": accounts, "pool": {}}
    (clickhouse / "secrets.json").write_text(json.dumps(secrets_of_clickhouse), encoding="utf-8")


@contextmanager
def _little_data() -> Iterator[None]:
    rows = loading.rows
    loading.rows = lambda table: itertools.islice(rows(table), 50)
    try:
        yield
    finally:
        loading.rows = rows


def _published_table(flights: Flights) -> None:
    """The source of a publication as dbt would have left it, with twenty rows."""
    columns = (
        "[delay_key] uniqueidentifier NULL, [flight_date] date NULL, [carrier] varchar(2) NULL,"
        " [airline] nvarchar(40) NULL, [origin] varchar(3) NULL, [dest] varchar(3) NULL, [flights] int NULL,"
        " [cancelled] int NULL, [mean_dep_delay] decimal(9, 2) NULL, [mean_arr_delay] decimal(9, 2) NULL,"
        " [late_share] decimal(23, 14) NULL, [worst_arr_delay] int NULL, [first_departure_hour] datetime2(0) NULL"
    )
    flights.as_dba(f"CREATE TABLE [marts].[daily_delays] ({columns});")
    for number in range(20):
        flights.as_dba(
            "INSERT INTO [marts].[daily_delays] VALUES (NEWID(), '2013-01-01', 'UA', N'Ünited', 'JFK', 'SFO', ?, 0, 1.5,"
            " -2.25, 0.5, 7, '2013-01-01T05:00:00');",
            number,
        )


def run_id() -> str:
    return f"manual__2026-11-30T01:02:03.456789+00:00_{secrets.token_hex(4)}"
