"""Who may do what on PostgreSQL: every role tries every action, and the server decides as docs/roles.md says."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass

import psycopg
import pytest

from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.drivers import quote_postgres
from airflow_provider_dpone.drivers.postgres import PostgresDsn, connect
from airflow_provider_dpone.gates.interface import PostgresExtractGrant
from tests.support.live_postgres import DATABASE, OBSERVER, SOURCE_ROLE, LivePostgres
from tests.support.roles_page import allowed_on

ROLES = ("issuer", "observer", "attempt")

#: Action -> who may. The same table stands in docs/roles.md.
ALLOWED: Mapping[str, frozenset[str]] = {
    action: frozenset(role.strip() for role in roles.split(",") if role.strip())
    for action, roles in {
        "create a role with the source role": "issuer",
        "bar an attempt's role": "issuer",
        "set the password of an attempt's role": "issuer, attempt",
        "set the observer's password": "observer",
        "make a superuser": "",
        "grant a right on source data": "",
        "see other sessions": "observer",
        "end a session of a closed attempt": "issuer",
        "end a session of somebody else": "",
        "read source data": "attempt",
        "write source data": "",
        "create a table in the source": "",
        "take on the source role": "",
    }.items()
}
_STATEMENTS = {
    "create a role with the source role": "CREATE ROLE tried; GRANT {source_role} TO tried WITH SET FALSE",
    "bar an attempt's role": "ALTER ROLE {attempt} NOLOGIN PASSWORD NULL",
    "set the password of an attempt's role": "ALTER ROLE {attempt} PASSWORD 'tried'",
    "set the observer's password": "ALTER ROLE {observer} PASSWORD 'tried'",
    "make a superuser": "CREATE ROLE tried SUPERUSER",
    "grant a right on source data": "GRANT SELECT ON {table} TO PUBLIC; DO $$ BEGIN IF NOT EXISTS (SELECT FROM"
    " pg_class WHERE oid = '{table}'::regclass AND relacl::text ~ '[{,]=r/') THEN RAISE insufficient_privilege; END IF;"
    " END $$",
    "see other sessions": "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = {pid}"
    " AND state IS NOT NULL) THEN RAISE insufficient_privilege; END IF; END $$",
    "end a session of a closed attempt": "GRANT {attempt} TO CURRENT_USER WITH INHERIT TRUE;"
    " SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usesysid = {oid}",
    "end a session of somebody else": "SELECT pg_terminate_backend({pid})",
    "read source data": "SELECT * FROM {table}",
    "write source data": "INSERT INTO {table} VALUES (1)",
    "create a table in the source": "CREATE TABLE tried (a int)",
    "take on the source role": "SET ROLE {source_role}",
}


@dataclass(frozen=True, kw_only=True)
class Scene:
    """An attempt whose role is issued, a table, a session of somebody else, and everybody's account."""

    accounts: Mapping[str, PostgresDsn]
    names: Mapping[str, str]
    postgres: LivePostgres

    def try_to(self, role: str, action: str) -> None:
        """Do it as the account of a role and take it back. Raises what the server answers."""
        statement = _STATEMENTS[action]
        for name, value in self.names.items():
            statement = statement.replace("{" + name + "}", value)
        with closing(connect(self.accounts[role])) as session:
            # Read-only is an attempt's default and no barrier: it can take that off by itself.
            try:
                session.execute(b"SET TRANSACTION READ WRITE; " + statement.encode())
            finally:
                pid = session.info.backend_pid
                session.close()
                wait_gone(self.postgres, "pid = %s", pid)


def wait_gone(postgres: LivePostgres, which: str, value: object) -> None:
    """An attempt has two sessions at most, and one that is still leaving is one."""
    deadline = time.monotonic() + 10
    while postgres.asked(f"SELECT FROM pg_stat_activity WHERE {which}", value) and time.monotonic() < deadline:
        time.sleep(0.02)


@pytest.fixture
def scene(postgres: LivePostgres, admit: Callable[[], Operation]) -> Iterator[Scene]:
    operation, gate, table = admit(), postgres.gate(), f"roles_{secrets.token_hex(4)}"
    postgres.as_owner(f"CREATE TABLE {table} (a int)")
    principal = operation.principal("extract")
    credential = gate.issue(operation, principal, PostgresExtractGrant(database=DATABASE))
    attempt = postgres.issuer.for_role(credential.username, credential.secret, app="worker")
    wait_gone(postgres, "usename = %s", principal.name)
    somebody = psycopg.connect(postgres.owner)
    working = connect(attempt)
    ((oid,),) = postgres.asked("SELECT oid FROM pg_roles WHERE rolname = %s", principal.name)
    yield Scene(
        accounts={"issuer": postgres.issuer, "observer": postgres.observer, "attempt": attempt},
        postgres=postgres,
        names={
            "source_role": quote_postgres(SOURCE_ROLE),
            "attempt": quote_postgres(principal.name),
            "observer": quote_postgres(OBSERVER),
            "table": table,
            "pid": str(somebody.info.backend_pid),
            "oid": str(oid),
        },
    )
    working.close()
    somebody.close()
    gate.close(operation, principal)
    postgres.as_owner(f"DROP TABLE {table}")


@pytest.mark.parametrize("role", ROLES)
def test_the_server_allows_what_the_role_is_for_and_refuses_the_rest(scene: Scene, role: str) -> None:
    # What ends sessions comes last: it ends the attempt's own.
    for action in sorted(ALLOWED, key=lambda action: action.startswith("end")):
        if role in ALLOWED[action]:
            scene.try_to(role, action)
            continue
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            scene.try_to(role, action)


def test_the_table_of_the_documentation_is_this_one() -> None:
    assert allowed_on("PostgreSQL", ALLOWED) == (ROLES, ALLOWED)
