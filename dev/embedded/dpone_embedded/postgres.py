"""PostgreSQL: one server for Airflow's metadata and for the tables that the transfers read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from threading import Event

import psycopg
from psycopg import sql
from tsqldev.pgserver import PostgresFailed, PostgresProcess

from dpone_embedded import addresses
from dpone_embedded.errors import Interrupted, StackError
from dpone_embedded.ports import LOOPBACK
from dpone_embedded.statedir import StateDir

DATABASES: Mapping[str, str] = {"airflow": "airflow", "flights_ops": "flights_ops"}
_SETTINGS: Mapping[str, str | int] = {
    # A development server: a crash of the machine may cost its last second, a kill -9 costs nothing.
    "synchronous_commit": "off",
    "shared_buffers": "96MB",
    "max_connections": 100,
}


class PostgresService:
    """`address` is known once `ready` is set. Each database is owned by a role of its own name."""

    name = "postgres"

    def __init__(self, state: StateDir) -> None:
        self._state = state
        self._server = PostgresProcess(state.data("postgres"), settings=_SETTINGS, tcp=True)
        self._address: addresses.Postgres | None = None
        self.ready = Event()

    def start(self, stop: Event) -> None:
        try:
            self._server.start()
        except PostgresFailed as err:
            raise StackError(str(err)) from err
        if stop.is_set():
            raise Interrupted("PostgreSQL was interrupted while it started")
        port = self._server.port
        assert port is not None
        with psycopg.connect(self._server.conninfo(), autocommit=True) as connection:
            for role, database in DATABASES.items():
                _ensure(connection, role, database, self._state.secret(f"postgres_{role}"))
        self._address = addresses.Postgres(
            host=LOOPBACK,
            port=port,
            user=self._server.superuser,
            password=self._server.superuser_password,
            databases=DATABASES,
        )
        self.ready.set()
        link = self._state.log("postgres")
        if not link.exists():
            link.symlink_to(self._server.log_file)

    @property
    def address(self) -> addresses.Postgres:
        if self._address is None:
            raise StackError("PostgreSQL has not started.")
        return self._address

    def as_role(self, role: str) -> addresses.Postgres:
        """The same server for the owner of one database."""
        address = self.address
        return addresses.Postgres(
            host=address.host,
            port=address.port,
            user=role,
            password=self._state.secret(f"postgres_{role}"),
            databases={role: DATABASES[role]},
        )

    def check(self) -> None:
        if self._server.pid is None:
            raise StackError(f"PostgreSQL is no longer running. Its log is {Path(self._server.log_file)}.")

    def stop(self) -> None:
        self._server.stop(timeout=20)


def _ensure(connection: psycopg.Connection[tuple[object, ...]], role: str, database: str, password: str) -> None:
    # Hashed here, so that the password itself can stand in no log of the server.
    verifier = connection.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
    known = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone()
    verb = sql.SQL("ALTER" if known else "CREATE")
    connection.execute(sql.SQL("{} ROLE {} LOGIN PASSWORD {}").format(verb, sql.Identifier(role), verifier))
    if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [database]).fetchone() is None:
        connection.execute(
            sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(database), sql.Identifier(role))
        )
