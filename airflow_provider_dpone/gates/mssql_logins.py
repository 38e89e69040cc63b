"""The login of an attempt as the server knows it, and the sessions of the accounts that create and close it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, cast

from airflow_provider_dpone.contracts.errors import ControlUnavailable, GuardError
from airflow_provider_dpone.contracts.principal import Principal
from airflow_provider_dpone.drivers import Connect, Connection, Secret, load_sql, quote_mssql
from airflow_provider_dpone.drivers.mssql_password import hashed_password
from airflow_provider_dpone.gates.database_policy import EnrolledDatabase
from airflow_provider_dpone.ledger import LedgerSettings

SQL = load_sql("airflow_provider_dpone.gates", "sql/mssql_gate.sql")

Rows = Sequence[tuple[Any, ...]]


class _ManualConnection(Protocol):
    def setautocommit(self, value: bool) -> None: ...


@contextmanager
def session_of(role: str, connect: Connect) -> Iterator[Connection]:
    """A connection of a role for single statements. KILL is refused inside a transaction, hence autocommit."""
    try:
        connection = connect()
    except GuardError:
        raise
    except Exception as err:  # whatever the given factory raises, no session came to be
        raise ControlUnavailable("gate_connect", happened=f"no session of the {role}: {err}") from err
    try:
        cast("_ManualConnection", connection).setautocommit(True)
        yield connection
    finally:
        connection.close()


def identity(principal: Principal) -> tuple[bytes, str]:
    return (principal.sid, principal.name)


def login_batch(*statements: str) -> str:
    """One batch over a login whose SID and name are its first two parameters."""
    return "".join((SQL.text("this_login"), *statements))


def logins_from(rows: Rows) -> list[tuple[str, bytes, str, bool]]:
    """Name, SID, type and whether it is disabled, of every login with the journaled SID or the journaled name."""
    return [(str(name), bytes(sid), str(kind).strip(), bool(disabled)) for name, sid, kind, disabled in rows]


def create_login(principal: Principal, secret: Secret, database: str) -> str:
    return SQL.text(
        "create_login",
        login=quote_mssql(principal.name),
        hash=hashed_password(secret),
        sid="0x" + principal.sid.hex().upper(),
        database=quote_mssql(database),
    )


def enrolled_databases(settings: LedgerSettings) -> str:
    """The statement that answers the enrolled databases of an operation's guards. Its parameter is the operation."""
    return SQL.text("enrolled_databases", control=quote_mssql(settings.control_schema))


def forgetful_databases(settings: LedgerSettings) -> str:
    """The statement that answers those of them whose commits a crash may forget. Its parameter is the operation."""
    return SQL.text("forgetful_databases", control=quote_mssql(settings.control_schema))


def enrolled_from(rows: Rows) -> tuple[EnrolledDatabase, ...]:
    """The enrolled databases of an operation's guards."""
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
