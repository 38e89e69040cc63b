"""What a DBA does once before a composition can run: databases, standing accounts, ledger, gate, targets, enrolment.

On a real server the same scripts come from `dponectl ledger render`, `gate render` and `target render`.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
from dpone_embedded.statedir import StateDir
from psycopg import sql

from airflow_provider_dpone.composition.enrolment import enroll_clickhouse, enroll_mssql
from airflow_provider_dpone.composition.services import GuardServices
from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.contracts.gate_profile import GateReceipt
from airflow_provider_dpone.drivers import Connection, Secret, drain, load_sql, quote_clickhouse, quote_mssql
from airflow_provider_dpone.drivers.clickhouse import ClickHouseDsn
from airflow_provider_dpone.drivers.clickhouse import connect as connect_clickhouse
from airflow_provider_dpone.drivers.mssql import MsSqlDsn
from airflow_provider_dpone.drivers.mssql import connect as connect_mssql
from airflow_provider_dpone.drivers.mssql_password import hashed_password
from airflow_provider_dpone.drivers.postgres import PostgresDsn, scram_verifier
from airflow_provider_dpone.gates import logon_gate
from airflow_provider_dpone.gates.postgres_source import PostgresSource, access_script, accounts_script
from airflow_provider_dpone.gates.target_database import TargetDatabase, provision_script
from airflow_provider_dpone.ledger import GateReceiptStore, GateStanding, LedgerSettings, grants, install
from dpone_demo import loading, operator_file, planted
from dpone_demo.installation import Installation

CONTROL = "dpone_control"
WAREHOUSE = "flights_dw"
OPERATIONS = "flights_ops"
ANALYTICS = "flights"
WRITER_ROLE = "dpone_writer"
MANAGED_SCHEMAS = ("raw", "staging", "marts", "snapshots")

CONTROLLER = "dpone_controller"
ISSUER = "dpone_issuer"
CLOSER = "dpone_closer"
OUTCOME_READER = "dpone_outcome_reader"
SOURCE_READER = "dpone_source_reader"
POSTGRES_ISSUER = "dpone_postgres_issuer"
POSTGRES_OBSERVER = "dpone_postgres_observer"

_SQL = load_sql("dpone_demo", "sql/server.sql")


def provision(stack: Installation, release_root: Path) -> GuardServices:
    """Make everything that is not there yet, and answer the accounts of the roles.

    What was made by half is not mended: `half_made` tells, and the caller starts anew.
    """
    services = guard_services(stack, release_root)
    if half_made(stack.state):
        raise ConfigurationError(
            "half_provisioned",
            happened="an earlier run ended while it made the databases and accounts.",
            not_done="nothing was changed.",
            check="that the databases of the demo may go, drop them, and name an empty --state-dir.",
        )
    _note(stack, "begun")
    with _as_dba(stack) as connection:
        known = drain(connection, _SQL.text("exists"), WAREHOUSE)[0][0][0]
        connection.rollback()
    if known is None:
        _sql_server(stack, services)
        _postgres_accounts(stack)
        _clickhouse_tables(stack)
        _enroll(stack, services)
    return services


def write_operator_file(stack: Installation, release_root: Path) -> Path:
    """Write what `dponectl --config` takes to look at this installation."""
    return operator_file.write(stack.state.path, guard_services(stack, release_root), _dba_dsn(stack, CONTROL))


def record_receipt(stack: Installation, services: GuardServices, receipt: GateReceipt) -> GateStanding:
    """Record a green gate profile, as the DBA: what `dponectl ledger record-profile` does."""
    dba = _dba_dsn(stack, CONTROL)
    return GateReceiptStore(lambda: connect_mssql(dba), services.ledger).record(receipt)


def load(stack: Installation) -> None:
    """Load the data set where it is not loaded yet."""
    with _as_dba(stack, WAREHOUSE) as connection:
        loaded = drain(connection, _SQL.text("raw_rows"))[0][0][0]
        connection.rollback()
        if loaded:
            _note(stack, "done")
            return
        loading.load_sql_server(connection)
    postgres = stack.addresses.postgres
    assert postgres is not None
    loading.load_postgres(_conninfo(stack))
    _postgres_access(stack)
    _note(stack, "done")


def plant(stack: Installation) -> None:
    """Put a row that no source has into each target (`planted`)."""
    with _as_dba(stack, WAREHOUSE) as connection:
        planted.plant_in_sql_server(connection)
    access, _ = guard_services(stack, Path()).require_clickhouse()
    planted.plant_in_clickhouse(connect_clickhouse(access), ANALYTICS)


def half_made(state: StateDir) -> bool:
    """Whether a run ended between the first step of `provision` and the last one of `load`."""
    return (state.read("demo.json") or {}).get("setup") == "begun"


def _note(stack: Installation, setup: str) -> None:
    known = stack.state.read("demo.json") or {}
    if known.get("setup") != "done":
        stack.state.write("demo.json", {**known, "setup": setup})


def guard_services(stack: Installation, release_root: Path) -> GuardServices:
    """The roles of the demo, each an account of its own (docs/roles.md)."""
    server, clickhouse, postgres = stack.addresses.sqlserver, stack.addresses.clickhouse, stack.addresses.postgres
    assert server is not None and clickhouse is not None and postgres is not None

    def account(login: str) -> MsSqlDsn:
        return MsSqlDsn(
            host=server.host,
            port=server.port,
            database=CONTROL,
            user=login,
            password=Secret(stack.state.secret(login)),
            trust_server_certificate=True,
        )

    def clickhouse_account(user: str, password: str) -> ClickHouseDsn:
        return ClickHouseDsn(host=clickhouse.host, port=clickhouse.port, user=user, password=Secret(password))

    def postgres_account(role: str) -> PostgresDsn:
        return PostgresDsn(
            host=postgres.host,
            port=postgres.port,
            database=OPERATIONS,
            user=role,
            password=Secret(stack.state.secret(role)),
        )

    return GuardServices(
        ledger=LedgerSettings(service_id=service_id(stack)),
        controller=account(CONTROLLER),
        issuer=account(ISSUER),
        closer=account(CLOSER),
        outcome_reader=account(OUTCOME_READER),
        source_reader=account(SOURCE_READER),
        work_root=release_root / "attempts",
        clickhouse_access=clickhouse_account(clickhouse.user, clickhouse.password),
        clickhouse_observer=clickhouse_account(clickhouse.observer_user, clickhouse.observer_password),
        postgres_issuer=postgres_account(POSTGRES_ISSUER),
        postgres_observer=postgres_account(POSTGRES_OBSERVER),
    )


def service_id(stack: Installation) -> str:
    """The ledger's service id: drawn once for a state folder."""
    known = stack.state.read("demo.json")
    if known is None:
        known = {"service_id": str(uuid.uuid4())}
        stack.state.write("demo.json", known)
    return str(known["service_id"])


def airflow_connections(stack: Installation) -> Mapping[str, Mapping[str, object]]:
    """The Airflow connections by id, as they go into Airflow's metadata database (encrypted there)."""
    import json

    services = guard_services(stack, Path())
    mssql_extra = {"trust_server_certificate": True, "service_id": services.ledger.service_id}

    def mssql(dsn: MsSqlDsn) -> dict[str, object]:
        return {
            "conn_type": "dpone_mssql",
            "host": dsn.host,
            "port": dsn.port,
            "schema": dsn.database,
            "login": dsn.user,
            "password": dsn.password.reveal(),
            "extra": json.dumps(mssql_extra),
        }

    def clickhouse(dsn: ClickHouseDsn | None) -> dict[str, object]:
        assert dsn is not None
        return {
            "conn_type": "dpone_clickhouse",
            "host": dsn.host,
            "port": dsn.port,
            "login": dsn.user,
            "password": dsn.password.reveal(),
        }

    def postgres(dsn: PostgresDsn) -> dict[str, object]:
        return {
            "conn_type": "dpone_postgres",
            "host": dsn.host,
            "port": dsn.port,
            "schema": dsn.database,
            "login": dsn.user,
            "password": dsn.password.reveal(),
        }

    postgres_issuer, postgres_observer = services.require_postgres()
    assert services.issuer is not None
    return {
        "dpone_controller": mssql(services.controller),
        "dpone_issuer": mssql(services.issuer),
        "dpone_closer": mssql(services.closer),
        "dpone_outcome_reader": mssql(services.outcome_reader),
        "dpone_source_reader": mssql(services.source_reader),
        "dpone_clickhouse_admin": clickhouse(services.clickhouse_access),
        "dpone_clickhouse_observer": clickhouse(services.clickhouse_observer),
        "dpone_postgres_issuer": postgres(postgres_issuer),
        "dpone_postgres_observer": postgres(postgres_observer),
    }


def reconciler_addresses(stack: Installation) -> dict[str, Any]:
    """What the reconciler logs in with: the DBA accounts of the three engines."""
    addresses = stack.addresses
    server, clickhouse, postgres = addresses.sqlserver, addresses.clickhouse, addresses.postgres
    assert server is not None and clickhouse is not None and postgres is not None
    return {
        "sqlserver": {
            "host": server.host,
            "port": server.port,
            "user": server.user,
            "password": server.password,
            "control": CONTROL,
            "warehouse": WAREHOUSE,
        },
        "postgres": {
            "host": postgres.host,
            "port": postgres.port,
            "user": postgres.user,
            "password": postgres.password,
            "database": OPERATIONS,
        },
        "clickhouse": {
            "host": clickhouse.host,
            "port": clickhouse.port,
            "user": clickhouse.user,
            "password": clickhouse.password,
            "database": ANALYTICS,
        },
        "planted": list(planted.planted(ANALYTICS)),
    }


def _sql_server(stack: Installation, services: GuardServices) -> None:
    with _as_dba(stack, autocommit=True) as connection:
        for database in (CONTROL, WAREHOUSE):
            drain(connection, _SQL.text("database", database=quote_mssql(database)))
        for login in (CONTROLLER, ISSUER, CLOSER, OUTCOME_READER, SOURCE_READER):
            password = hashed_password(Secret(stack.state.secret(login)))
            drain(connection, _SQL.text("login", login=quote_mssql(login), password=password))
    logins = grants.StandingLogins(
        controller=CONTROLLER, issuer=ISSUER, closer=CLOSER, others=(OUTCOME_READER, SOURCE_READER)
    )
    dba = _dba_dsn(stack, CONTROL)
    install.apply(lambda: connect_mssql(dba), services.ledger, authority="nonproduction")
    with _as_dba(stack, CONTROL, autocommit=True) as connection:
        _run_script(connection, grants.script(services.ledger, logins))
    with _as_dba(stack, CONTROL, autocommit=True) as connection:
        logon_gate.apply(connection, services.ledger, CONTROL)
    target = TargetDatabase(
        database=WAREHOUSE,
        writer_role=WRITER_ROLE,
        managed_schemas=MANAGED_SCHEMAS,
        controller=CONTROLLER,
        issuer=ISSUER,
        outcome_reader=OUTCOME_READER,
        source_reader=SOURCE_READER,
        published_schemas=("marts",),
    )
    with _as_dba(stack, WAREHOUSE, autocommit=True) as connection:
        _run_script(connection, provision_script(target))
        loading.create_raw_tables(connection)


def _postgres_source() -> PostgresSource:
    tables = [("public", table) for table in loading.IN_POSTGRES]
    return PostgresSource(database=OPERATIONS, tables=tables, issuer=POSTGRES_ISSUER, observer=POSTGRES_OBSERVER)


def _postgres_accounts(stack: Installation) -> None:
    with psycopg.connect(_conninfo(stack), autocommit=True) as connection:
        connection.execute(accounts_script(_postgres_source()).encode())
        for role in (POSTGRES_ISSUER, POSTGRES_OBSERVER):
            # Hashed here, so that the password itself can stand in no log of the server.
            verifier = scram_verifier(role, Secret(stack.state.secret(role)))
            alter = sql.SQL("ALTER ROLE {} PASSWORD {}")
            connection.execute(alter.format(sql.Identifier(role), sql.Literal(verifier)))


def _postgres_access(stack: Installation) -> None:
    with psycopg.connect(_conninfo(stack)) as connection:
        connection.execute(access_script(_postgres_source()).encode())


def _clickhouse_tables(stack: Installation) -> None:
    services = guard_services(stack, Path())
    access, _ = services.require_clickhouse()
    client = connect_clickhouse(access)
    client.command(f"CREATE DATABASE {quote_clickhouse(ANALYTICS)} ENGINE = Atomic")
    for table, columns, order in loading.CLICKHOUSE_TABLES:
        body = ", ".join(f"{quote_clickhouse(name)} {kind}" for name, kind in columns)
        client.command(
            f"CREATE TABLE {quote_clickhouse(ANALYTICS, table)} ({body}) ENGINE = MergeTree ORDER BY {order}"
            " SETTINGS allow_nullable_key = 1"
        )


def _enroll(stack: Installation, services: GuardServices) -> None:
    dba = _dba_dsn(stack, CONTROL)
    _, observer = services.require_clickhouse()

    def installer() -> Connection:
        return connect_mssql(dba)

    enroll_mssql(installer, services.ledger, WAREHOUSE, writer_role=WRITER_ROLE, managed_schemas=MANAGED_SCHEMAS)
    enroll_clickhouse(installer, services.ledger, observer, ANALYTICS)


def _dba_dsn(stack: Installation, database: str) -> MsSqlDsn:
    server = stack.addresses.sqlserver
    assert server is not None
    return MsSqlDsn(
        host=server.host,
        port=server.port,
        database=database,
        user=server.user,
        password=Secret(server.password),
        trust_server_certificate=True,
    )


@contextlib.contextmanager
def _as_dba(stack: Installation, database: str = "master", *, autocommit: bool = False) -> Iterator[Any]:
    connection: Any = connect_mssql(_dba_dsn(stack, database))
    try:
        connection.autocommit = autocommit
        yield connection
    finally:
        connection.close()


def _run_script(connection: Connection, script: str) -> None:
    """Run GO-separated batches, each by itself, as sqlcmd would."""
    batch: list[str] = []
    for line in [*script.splitlines(), "GO"]:
        if line.strip() != "GO":
            batch.append(line)
        elif any(part.strip() and not part.startswith("--") for part in batch):
            drain(connection, "\n".join(batch))
            batch = []


def _conninfo(stack: Installation) -> str:
    postgres = stack.addresses.postgres
    assert postgres is not None
    return psycopg.conninfo.make_conninfo(
        host=postgres.host, port=postgres.port, user=postgres.user, password=postgres.password, dbname=OPERATIONS
    )
