"""The fence and the outcome marker of one target database.

A write transaction takes the fence row with UPDLOCK and HOLDLOCK and keeps it until COMMIT: a fence that is read but
not held is no fence. The issuer hands the fence to an operation before its login becomes READY, so a transaction of an
earlier operation that is still under way either commits first or is refused. The marker commits with the target
transaction and is believed only when the writer is closed and proven quiescent.

Both live in a schema that dbo does not own, behind procedures: a writer may execute `hold` and `mark` and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_provider_dpone.contracts.errors import ConfigurationError, Fenced
from airflow_provider_dpone.drivers import Connect, Connection, drain, load_sql, quote_mssql
from airflow_provider_dpone.drivers.quoting import as_compared, quote_in_script

_SQL = load_sql("airflow_provider_dpone.gates", "sql/target_fence.sql")
_SCHEMA = "dpone_fence"


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """What an operation recorded in its last target transaction. `written_at` is UTC, ISO 8601."""

    row_count: int
    evidence_sha256: str
    written_at: str


def require_outside(schemas: Iterable[str]) -> None:
    """Refuse the fence's own schema: whoever may write there could write markers that nobody earned."""
    for schema in schemas:
        if as_compared(schema) == _SCHEMA:
            raise ConfigurationError(
                "fence_schema",
                happened=f"{schema!r} is the schema of the fence; it is neither managed nor published.",
                not_done="nothing was printed or recorded.",
            )


def provision_script(role: str) -> str:
    """The GO-separated script that a target database's owner runs once, with the grants of the writer role."""
    return _SQL.text("provision") + "\n" + _SQL.text("grant_writer", role=quote_in_script(role))


def advance(database: str) -> str:
    """Hands the fence of `database`, on the same instance, to an operation: parameters are its key and its login."""
    return _SQL.text("advance", database=quote_mssql(database))


def hold(connection: Connection, operation_key: str) -> None:
    """Take the fence in the open transaction of a target connection.

    Raises Fenced when the fence names another operation or login; the transaction is then unusable.
    """
    _call(connection, _SQL.text("hold"), operation_key)


def mark(connection: Connection, operation_key: str, row_count: int, evidence_sha256: str) -> None:
    """Record the end of the operation; the row becomes true with the caller's COMMIT. Takes the fence as `hold` does."""
    _call(connection, _SQL.text("mark"), operation_key, row_count, evidence_sha256)


def _call(connection: Connection, sql: str, *parameters: object) -> None:
    try:
        drain(connection, sql, *parameters)
    except Exception as err:
        # The drivers have no common error class; the procedure's own message decides.
        if "DPONE_FENCED" in str(err):
            raise Fenced("target_fence") from err
        raise


def observe_marker(observe: Connect, database: str, operation_key: str) -> Marker | None:
    """The operation's marker, on an observer's connection of its own.

    Only meaningful after closure and quiescence of the operation's writers.
    """
    connection = observe()
    try:
        (rows,) = drain(connection, _SQL.text("read_marker", database=quote_mssql(database)), operation_key)
        connection.rollback()
    finally:
        connection.close()
    for row_count, evidence_sha256, written_at in rows:
        return Marker(row_count=row_count, evidence_sha256=evidence_sha256, written_at=written_at)
    return None
