"""PostgreSQL's errors as the messages that SQL Server would send."""

from __future__ import annotations

import re

from tsqldev.errors import SqlError, unsupported
from tsqldev.session.backend import Backend, BackendError, of_driver

_INDEX = re.compile(r"^i(\d+)_(\d+)$")
_CHECK = re.compile(r"^k(\d+)$")
_FOREIGN_KEY = re.compile(r"^f(\d+)$")
_TABLE = re.compile(r"^t(\d+)$")
_COLUMN = re.compile(r"^c(\d+)$")
_KEY_VALUES = re.compile(r"=\((.*)\) (?:already exists|is duplicated)", re.DOTALL)
_RAISED = re.compile(r"^\s*(\d+)\s*[, ]\s*(\d+)\s*[, ]\s*(\d+)")

__all__ = ["of_driver", "translate"]

_OVERFLOWS = {"smallint": "smallint", "integer": "int", "bigint": "bigint"}


def translate(error: BackendError, kind: str, backend: Backend) -> SqlError:
    """The message for a failed statement. Called when the connection can run statements again (after the rollback)."""
    state = error.sqlstate
    raised = _RAISED.match(error.detail) if state in ("TS000", "TQ000") else None
    if raised:
        number, severity, message_state = (int(part) for part in raised.groups())
        return SqlError(number, error.message, severity=severity, state=message_state)
    if state == "23505":
        return _duplicate(error, backend)
    if state == "23503":
        return _foreign_key(error, kind, backend)
    if state == "23514":
        return _check(error, kind, backend)
    if state == "23502":
        return _not_null(error, kind, backend)
    if state == "22012":
        return SqlError(8134, "Divide by zero error encountered.")
    if state == "22003":
        return _overflow(error)
    if state == "40P01":
        return SqlError(
            1205,
            "Transaction was deadlocked on lock resources with another process and has been chosen as the deadlock "
            "victim. Rerun the transaction.",
            severity=13,
            state=51,
        )
    if state == "55P03":
        return SqlError(1222, "Lock request time out period exceeded.", state=51)
    if state == "40001":
        return SqlError(
            3960,
            "Snapshot isolation transaction aborted due to update conflict. Retry the transaction or change the "
            "isolation level for the update/delete statement.",
        )
    if state == "21000" and error.message.startswith("MERGE"):
        return SqlError(
            8672,
            "The MERGE statement attempted to UPDATE or DELETE the same row more than once. This happens when a target "
            "row matches more than one source row. A MERGE statement cannot UPDATE/DELETE the same row of the target "
            "table multiple times. Refine the ON clause to ensure a target row matches at most one source row, or use "
            "the GROUP BY clause to group the source rows.",
        )
    if state == "21000":
        return SqlError(
            512,
            "Subquery returned more than 1 value. This is not permitted when the subquery follows =, !=, <, <= , >, "
            ">= or when the subquery is used as an expression.",
        )
    if state == "57014":
        return SqlError(3617, "The request was cancelled by the client.", severity=11)
    if state in ("57P01", "57P02", "57P03"):
        return SqlError(596, "Cannot continue the execution because the session is in the kill state.", severity=21)
    if state == "54001":
        return SqlError(8631, "Internal error: Server stack limit has been reached.", severity=17)
    return unsupported(f"what PostgreSQL answered with {state}: {error.message}")


def _rows(backend: Backend, sql: str) -> list[tuple[object, ...]]:
    return backend.run(sql)[0]


def _duplicate(error: BackendError, backend: Backend) -> SqlError:
    values = _KEY_VALUES.search(error.detail)
    shown = f" The duplicate key value is ({values.group(1)})." if values else ""
    match = _INDEX.match(error.constraint)
    if match:
        found = _rows(
            backend,
            "select i.name, i.is_primary_key, i.is_unique_constraint, s.name, o.name from meta.indexes i"
            " join meta.objects o on o.object_id = i.object_id"
            " join meta.schemas s on s.database_id = o.database_id and s.schema_id = o.schema_id"
            f" where i.object_id = {match.group(1)} and i.index_id = {match.group(2)}",
        )
        if found:
            index, primary, unique, schema, table = found[0]
            if primary or unique:
                kind = "PRIMARY KEY" if primary else "UNIQUE KEY"
                return SqlError(
                    2627,
                    f"Violation of {kind} constraint '{index}'. Cannot insert duplicate key in object "
                    f"'{schema}.{table}'.{shown}",
                    severity=14,
                )
            return SqlError(
                2601,
                f"Cannot insert duplicate key row in object '{schema}.{table}' with unique index '{index}'.{shown}",
                severity=14,
            )
    return SqlError(
        2627,
        f"Violation of UNIQUE KEY constraint '{error.constraint}'. Cannot insert duplicate key in object "
        f"'{error.table}'.{shown}",
        severity=14,
    )


def _foreign_key(error: BackendError, kind: str, backend: Backend) -> SqlError:
    match = _FOREIGN_KEY.match(error.constraint)
    name, database, table, column = error.constraint, "", error.table, ""
    # PostgreSQL names the constraint on both sides; its detail tells which side was changed.
    referencing = "is not present in table" in error.detail
    if match:
        side = "referenced_object_id" if referencing else "parent_object_id"
        wanted = "referenced_column_id" if referencing else "parent_column_id"
        found = _rows(
            backend,
            "select k.name, d.name, s.name || '.' || o.name,"
            f" (select c.name from meta.foreign_key_columns fc join meta.columns c on c.object_id = f.{side}"
            f"  and c.column_id = fc.{wanted} where fc.object_id = f.object_id"
            "  and (select count(*) from meta.foreign_key_columns x where x.object_id = f.object_id) = 1)"
            " from meta.foreign_keys f join meta.objects k on k.object_id = f.object_id"
            f" join meta.objects o on o.object_id = f.{side}"
            " join meta.databases d on d.database_id = o.database_id"
            " join meta.schemas s on s.database_id = o.database_id and s.schema_id = o.schema_id"
            f" where f.object_id = {match.group(1)}",
        )
        if found:
            name, database, table, column = (str(item) if item is not None else "" for item in found[0])
    side_name = "FOREIGN KEY" if referencing else "REFERENCE"
    where = f", column '{column}'" if column else ""
    return SqlError(
        547,
        f'The {kind} statement conflicted with the {side_name} constraint "{name}". The conflict occurred in '
        f'database "{database}", table "{table}"{where}.',
        state=0,
    )


def _check(error: BackendError, kind: str, backend: Backend) -> SqlError:
    match = _CHECK.match(error.constraint)
    name, database, table, column = error.constraint, "", error.table, ""
    if match:
        found = _rows(
            backend,
            "select k.name, d.name, s.name || '.' || o.name, c.name from meta.check_constraints f"
            " join meta.objects k on k.object_id = f.object_id"
            " join meta.objects o on o.object_id = f.parent_object_id"
            " join meta.databases d on d.database_id = o.database_id"
            " join meta.schemas s on s.database_id = o.database_id and s.schema_id = o.schema_id"
            " left join meta.columns c on c.object_id = f.parent_object_id and c.column_id = f.parent_column_id"
            f" where f.object_id = {match.group(1)}",
        )
        if found:
            name, database, table, column = (str(item) if item is not None else "" for item in found[0])
    where = f", column '{column}'" if column else ""
    return SqlError(
        547,
        f'The {kind} statement conflicted with the CHECK constraint "{name}". The conflict occurred in database '
        f'"{database}", table "{table}"{where}.',
        state=0,
    )


def _not_null(error: BackendError, kind: str, backend: Backend) -> SqlError:
    table, column = error.table, error.column
    match, field = _TABLE.match(table), _COLUMN.match(column)
    if match and field:
        found = _rows(
            backend,
            "select d.name || '.' || s.name || '.' || o.name, c.name from meta.objects o"
            " join meta.databases d on d.database_id = o.database_id"
            " join meta.schemas s on s.database_id = o.database_id and s.schema_id = o.schema_id"
            " join meta.columns c on c.object_id = o.object_id"
            f" where o.object_id = {match.group(1)} and c.column_id = {field.group(1)}",
        )
        if found:
            table, column = str(found[0][0]), str(found[0][1])
    verb = "UPDATE" if kind == "UPDATE" else "INSERT"
    return SqlError(
        515,
        f"Cannot insert the value NULL into column '{column}', table '{table}'; column does not allow nulls. "
        f"{verb} fails.",
        state=2,
    )


def _overflow(error: BackendError) -> SqlError:
    for word, name in _OVERFLOWS.items():
        if error.message.startswith(word):
            return SqlError(8115, f"Arithmetic overflow error converting expression to data type {name}.", state=2)
    if "numeric" in error.message:
        return SqlError(8115, "Arithmetic overflow error converting numeric to data type numeric.", state=8)
    return SqlError(8115, "Arithmetic overflow error converting expression to data type float.", state=2)
