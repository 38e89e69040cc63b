"""What an observer without write rights sees of declared relations: identity, last change and content.

Names are compared as SQL Server's default collation compares them: without case and trailing blanks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.drivers import Connect, Connection, drain, load_sql, quote_mssql
from airflow_provider_dpone.routes.relation_content import TableColumn, read_content

_SQL = load_sql("airflow_provider_dpone.routes", "sql/relations.sql")

#: `digest` hashes every row of every table on the server; `count` counts them, and sees no row that changed in place.
ContentCheck = Literal["digest", "count"]

#: One relation as a JSON object: object_id, type (U or V), created, modified; `rows` of a table; `content_sha256` of
#: what was hashed (a table's rows, a view's text) or None; `unchecked` names what was not, with the reason.
RelationState = Mapping[str, Any]

#: What `changes` says of a relation that looks the same but whose content was not looked at completely.
UNCHECKED = "content_unchecked"


def observe(
    connect: Connect,
    database: str,
    names: Iterable[tuple[str, str]],
    *,
    content: ContentCheck,
    others: list[tuple[str, str]] | None = None,
) -> dict[str, RelationState]:
    """The state of each of the given (schema, name) that exists, by its `relation_key`. `others` is given the rest.

    One statement for all relations, one for all columns (with `digest`), and one for each table. Refused for an account
    that does not see every definition: what it does not see would be taken for what is not there.
    """
    wanted = {relation_key(schema, name) for schema, name in names}
    connection = connect()
    try:
        (((sees_all,),), rows) = drain(
            connection, _SQL.text("inventory", database=quote_mssql(database)), quote_mssql(database)
        )
        if not sees_all:
            raise _blind(database)
        found = {relation_key(row[0], row[1]): row for row in rows if relation_key(row[0], row[1]) in wanted}
        if others is not None:
            others += [(row[0], row[1]) for row in rows if relation_key(row[0], row[1]) not in wanted]
        columns: Mapping[int, Sequence[TableColumn]] = {}
        if content == "digest" and any(row[3] == "U" for row in found.values()):
            columns = _columns(connection, database)
        states: dict[str, RelationState] = {}
        for key, (schema, name, object_id, kind, created, modified, text) in found.items():
            state = {"object_id": object_id, "type": kind, "created": created, "modified": modified}
            if kind == "U":
                state |= _table(connection, quote_mssql(database, schema, name), content, columns.get(object_id, ()))
            else:
                state |= _view(text)
            states[key] = state
        connection.rollback()
        return states
    finally:
        connection.close()


def _blind(database: str) -> ConfigurationError:
    return ConfigurationError(
        "observer_visibility",
        happened=f"the outcome reader lacks VIEW DEFINITION in {database}, so what it does not see may be there.",
        not_done="nothing was concluded about any relation.",
        check="the rights of the outcome reader in docs/roles.md; `dponectl target render` prints them.",
    )


def changes(
    before: Mapping[str, RelationState], after: Mapping[str, RelationState], names: Iterable[tuple[str, str]]
) -> dict[str, str]:
    """How each changed relation differs: created, dropped, rebuilt, altered, rows_changed or content_changed.

    content_unchecked is a relation that looks the same, and part of whose content nobody could look at.
    """
    differences: dict[str, str] = {}
    for key in (relation_key(schema, name) for schema, name in names):
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
        elif old["content_sha256"] != new["content_sha256"]:
            differences[key] = "content_changed"
        elif _incomplete(old) or _incomplete(new):
            differences[key] = UNCHECKED
    return differences


def _incomplete(state: RelationState) -> bool:
    """Whether part of the content was not looked at. What the server computes from other columns is no such part."""
    return any(reason != "computed" for reason in state["unchecked"].values())


def _table(
    connection: Connection, table: str, check: ContentCheck, columns: Sequence[TableColumn]
) -> Mapping[str, object]:
    if check == "count":
        rows = drain(connection, _SQL.text("count_rows", table=table))[0][0][0]
        return {"rows": rows, "content_sha256": None, "unchecked": {"*": "only counted"}}
    content = read_content(connection, table, columns)
    return {"rows": content.rows, "content_sha256": content.sha256, "unchecked": content.unchecked}


def _view(text_sha256: str | None) -> Mapping[str, object]:
    if text_sha256 is None:
        return {"content_sha256": None, "unchecked": {"*": "definition not visible"}}
    return {"content_sha256": f"sha256:{text_sha256.lower()}", "unchecked": {}}


def _columns(connection: Connection, database: str) -> Mapping[int, Sequence[TableColumn]]:
    (rows,) = drain(connection, _SQL.text("columns", database=quote_mssql(database)))
    columns: dict[int, list[TableColumn]] = defaultdict(list)
    for object_id, name, kind, length, precision, scale, collation, hidden in rows:
        columns[object_id].append(
            TableColumn(
                name=name,
                type=kind,
                length=length,
                precision=precision,
                scale=scale,
                collation=collation,
                hidden=hidden,
            )
        )
    return columns


def relation_key(schema: str, name: str) -> str:
    """`schema.name`, the same text for what the server takes for the same name."""
    return f"{schema.casefold().rstrip(' ')}.{name.casefold().rstrip(' ')}"
