"""A PostgreSQL source made ready as its DBA would, with names and passwords that hold what some quoting forgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from tsqldev.pgserver import PostgresProcess

from airflow_provider_dpone.drivers import Secret
from airflow_provider_dpone.drivers.postgres import PostgresDsn
from airflow_provider_dpone.gates.postgres import PostgresGate
from airflow_provider_dpone.gates.postgres_source import PostgresSource, access_script, accounts_script

DATABASE = "flüge ]'\";%--"
SOURCE_ROLE = "re'ad\"er ]%s"
ISSUER, OBSERVER = "iss'u\"er {{role}}", "ob'serv\"er %"
PASSWORD = "p}{;'\"&*%$\\ =ß"
#: Long enough for a second look to be another one, short enough for tests.
READ_INTERVAL = 0.02


@dataclass(frozen=True, kw_only=True)
class LivePostgres:
    """The server, and the accounts of the roles on it. `owner` is the connection text of a superuser, in the source."""

    issuer: PostgresDsn
    observer: PostgresDsn
    owner: str
    source_role: str = SOURCE_ROLE

    def gate(self, **changes: Any) -> PostgresGate:
        """The gate, or one that a test spoils."""
        given: dict[str, Any] = {
            "issuer": self.issuer,
            "observer": self.observer,
            "source_role": self.source_role,
            "read_interval_seconds": READ_INTERVAL,
        }
        return PostgresGate(**given | changes)

    def as_owner(self, statement: str | sql.Composed, rows: Sequence[Sequence[Any]] = ()) -> None:
        with psycopg.connect(self.owner) as connection:
            if rows:
                connection.cursor().executemany(statement, rows)  # type: ignore[arg-type]  # tests write literal SQL
            else:
                connection.execute(statement)  # type: ignore[arg-type]  # tests write literal SQL

    def asked(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """What a superuser sees."""
        with psycopg.connect(self.owner) as connection:
            return connection.execute(query, parameters or None).fetchall()  # type: ignore[arg-type]  # literal SQL

    def closed(self, name: str) -> bool:
        """There is such a role, nobody can log in as it, it belongs to nothing, and it has no session."""
        roles = self.asked(
            "SELECT r.rolcanlogin, r.rolpassword IS NULL, r.rolvaliduntil < now(),"
            " (SELECT count(*) FROM pg_auth_members AS m WHERE m.member = r.oid),"
            " (SELECT count(*) FROM pg_stat_activity AS a WHERE a.usesysid = r.oid)"
            " FROM pg_authid AS r WHERE r.rolname = %s",
            name,
        )
        return roles == [(False, True, True, 0, 0)]

    def to_document(self) -> dict[str, Any]:
        """For another process, on its standard input."""
        return {role: _document(getattr(self, role)) for role in ("issuer", "observer")}

    @classmethod
    def from_document(cls, given: dict[str, Any]) -> LivePostgres:
        """As a worker process sees it: no superuser."""
        accounts = {
            role: PostgresDsn(**members | {"password": Secret(members["password"])}) for role, members in given.items()
        }
        return cls(**accounts, owner="")


def provision(server: PostgresProcess) -> LivePostgres:
    """What the DBA does once. Every table that is made in the source later can be extracted."""
    assert server.port is not None
    source = PostgresSource(database=DATABASE, tables=(), issuer=ISSUER, observer=OBSERVER, source_role=SOURCE_ROLE)
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
        connection.execute(accounts_script(source).encode())
        for role in (ISSUER, OBSERVER):
            alter = sql.SQL("ALTER ROLE {} PASSWORD {}")
            connection.execute(alter.format(sql.Identifier(role), sql.Literal(PASSWORD)))
        # A hardened server: whoever enters the source was named.
        connection.execute(sql.SQL("REVOKE CONNECT ON DATABASE {} FROM PUBLIC").format(sql.Identifier(DATABASE)))
    with psycopg.connect(server.conninfo(DATABASE), autocommit=True) as connection:
        connection.execute(access_script(source).encode())
        grant = sql.SQL("ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO {}")
        connection.execute(grant.format(sql.Identifier(SOURCE_ROLE)))
    accounts = {
        role: PostgresDsn(host="127.0.0.1", port=server.port, database=DATABASE, user=user, password=Secret(PASSWORD))
        for role, user in (("issuer", ISSUER), ("observer", OBSERVER))
    }
    return LivePostgres(**accounts, owner=server.conninfo(DATABASE))


def _document(dsn: PostgresDsn) -> dict[str, Any]:
    return {
        "host": dsn.host,
        "port": dsn.port,
        "database": dsn.database,
        "user": dsn.user,
        "password": dsn.password.reveal(),
    }
