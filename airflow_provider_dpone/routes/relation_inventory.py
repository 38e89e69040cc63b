"""What an observer without write rights sees of declared relations: identity, last change and row count.

Names are compared as SQL Server's default collation compares them: without case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from airflow_provider_dpone.drivers import Connect, drain, load_sql, quote_mssql

_SQL = load_sql("airflow_provider_dpone.routes", "sql/relations.sql")

#: One relation as a JSON object: object_id, type (U or V), created, modified and, for a table, rows.
RelationState = Mapping[str, Any]


def observe(connect: Connect, database: str, names: Iterable[tuple[str, str]]) -> dict[str, RelationState]:
    """The state of each of the given (schema, name) that exists, by `schema.name` in lower case."""
    wanted = {_key(schema, name) for schema, name in names}
    connection = connect()
    try:
        found: dict[str, RelationState] = {}
        (rows,) = drain(connection, _SQL.text("inventory", database=quote_mssql(database)))
        for schema, name, object_id, kind, created, modified in rows:
            if _key(schema, name) not in wanted:
                continue
            state = {"object_id": object_id, "type": kind, "created": created, "modified": modified}
            if kind == "U":
                table = quote_mssql(database, schema, name)
                state["rows"] = drain(connection, _SQL.text("count_rows", table=table))[0][0][0]
            found[_key(schema, name)] = state
        connection.rollback()
        return found
    finally:
        connection.close()


def changes(
    before: Mapping[str, RelationState], after: Mapping[str, RelationState], names: Sequence[tuple[str, str]]
) -> dict[str, str]:
    """How each changed relation differs: created, dropped, rebuilt, altered or rows_changed."""
    differences: dict[str, str] = {}
    for schema, name in names:
        key = _key(schema, name)
        old, new = before.get(key), after.get(key)
        if old is None and new is None:
            continue
        if old is None or new is None:
            differences[key] = "created" if old is None else "dropped"
        elif old["object_id"] != new["object_id"]:
            differences[key] = "rebuilt"
        elif old["modified"] != new["modified"]:
            differences[key] = "altered"
        elif old.get("rows") != new.get("rows"):
            differences[key] = "rows_changed"
    return differences


def _key(schema: str, name: str) -> str:
    return f"{schema}.{name}".lower()
