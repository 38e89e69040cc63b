"""What a target database must still be when a login is issued into it: dedicated, and owned by the controller.

Each violation has a fixed reason ``login_database_policy_<name>``; the names are those of ``sql/database_policy.sql``.
A reason explains a refusal and never relaxes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.contracts.principal import SID_TAG
from airflow_provider_dpone.drivers import load_sql, quote_mssql
from airflow_provider_dpone.ledger import LedgerSettings

_SQL = load_sql("airflow_provider_dpone.gates", "sql/database_policy.sql")

Rows = Sequence[tuple[object, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnrolledDatabase:
    """One enrollment of the ledger, as the gate reads it."""

    guard_id: str
    name: str
    database_id: int
    database_guid: str
    create_token: str
    writer_role: str


def outside(name: str, *, owner: str) -> tuple[str, list[str]]:
    """What the server shows of a database without entering it: two result sets, and the parameters they need."""
    return _SQL.text("identity") + _SQL.text("server_violations"), [name, name, owner]


def require_outside(database: EnrolledDatabase, rows: Rows, violations: Rows) -> None:
    """The database behind the name must be the enrolled one (same id, same guid, same creation), set as provisioned.

    It is owned by the login that `outside` was asked with.
    """
    if [tuple(row) for row in rows] != [(database.database_id, database.database_guid, database.create_token)]:
        raise _refused("identity", [database.name], "it was dropped, restored or replaced since its enrollment.")
    require_none(violations)


def inside(settings: LedgerSettings, control_database: str, database: EnrolledDatabase) -> tuple[str, list[str]]:
    """What is wrong inside the database, as one result set: the batch ends there, if it has a row.

    Asked inside the issuer's transaction: the session's own login is the one standing account besides the owner that
    may hold rights there, and only those that issuing needs.
    """
    text = _SQL.text(
        "violations",
        database=quote_mssql(database.name),
        control=quote_mssql(settings.control_schema),
        control_database=quote_mssql(control_database),
        tag="0x" + SID_TAG.hex().upper(),
    )
    return text, [database.guard_id, database.writer_role]


def require_none(rows: Rows) -> None:
    """Refuse to issue into a database that is no longer dedicated."""
    violations = [(str(reason), str(named)) for reason, named in rows]
    if violations:
        named = [f"{reason}: {name}" for reason, name in violations]
        raise _refused(violations[0][0], named, "the policy of a dedicated target database does not hold.")


def _refused(reason: str, named: list[str], why: str) -> ConfigurationError:
    return ConfigurationError(
        f"login_database_policy_{reason}",
        happened=f"{'; '.join(named)}: {why}",
        not_done="no login was created.",
        check="the database against the script of `dponectl target render`.",
    )
