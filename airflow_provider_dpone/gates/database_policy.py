"""What a target database must still be when a login is issued into it: dedicated, and owned by the controller.

Each violation has a fixed reason ``login_database_policy_<name>``; the names are those of ``sql/database_policy.sql``.
A reason explains a refusal and never relaxes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.contracts.principal import SID_TAG
from airflow_provider_dpone.drivers import Cursor, load_sql, quote_mssql, read_all
from airflow_provider_dpone.ledger import LedgerSettings

_SQL = load_sql("airflow_provider_dpone.gates", "sql/database_policy.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class EnrolledDatabase:
    """One enrollment of the ledger, as the gate reads it."""

    guard_id: str
    name: str
    database_id: int
    database_guid: str
    create_token: str
    writer_role: str


def require_same_incarnation(cursor: Cursor, database: EnrolledDatabase) -> None:
    """The database behind the name must be the enrolled one: same id, same guid, same creation."""
    (rows,) = read_all(cursor, _SQL.text("identity"), database.name)
    if [tuple(row) for row in rows] != [(database.database_id, database.database_guid, database.create_token)]:
        raise _refused("identity", [database.name], "it was dropped, restored or replaced since its enrollment.")


def require_policy(
    cursor: Cursor, settings: LedgerSettings, control_database: str, database: EnrolledDatabase, *, owner: str
) -> None:
    """Refuse to issue into a database that is no longer dedicated, or that the login ``owner`` does not own.

    Asked inside the issuer's transaction: the session's own login is the one standing account besides the owner that
    may hold rights there, and only those that issuing needs.
    """
    _require_none(read_all(cursor, _SQL.text("server_violations"), database.name, owner))
    inside = _SQL.text(
        "violations",
        database=quote_mssql(database.name),
        control=quote_mssql(settings.control_schema),
        control_database=quote_mssql(control_database),
        tag="0x" + SID_TAG.hex().upper(),
    )
    _require_none(read_all(cursor, inside, database.guard_id, database.writer_role))


def _require_none(results: Sequence[Sequence[tuple[object, ...]]]) -> None:
    violations = [(str(reason), str(named)) for reason, named in results[-1]]
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
