"""The script by which a DBA makes a PostgreSQL source ready for attempts. Printed or applied, never at run time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_dpone.drivers import load_sql, quote_postgres

_SQL = load_sql("airflow_provider_dpone.gates", "sql/postgres_source.sql")

#: The group role that holds what attempts may read, unless another is named.
SOURCE_ROLE = "dpone_source_reader"


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresSource:
    """One source database and the accounts of its server. ``tables`` are pairs of schema and name."""

    database: str
    tables: Sequence[tuple[str, str]]
    issuer: str
    observer: str
    source_role: str = SOURCE_ROLE


def accounts_script(source: PostgresSource) -> str:
    """Once a server: the source role, the issuer and the observer, without passwords."""
    return _SQL.text(
        "accounts",
        source_role=quote_postgres(source.source_role),
        issuer=quote_postgres(source.issuer),
        observer=quote_postgres(source.observer),
    )


def access_script(source: PostgresSource) -> str:
    """Once a database, in it, when its tables are there: who enters, and what attempts may read. Repeatable."""
    role = quote_postgres(source.source_role)
    parts = [
        _SQL.text(
            "connect",
            database=quote_postgres(source.database),
            source_role=role,
            issuer=quote_postgres(source.issuer),
            observer=quote_postgres(source.observer),
        )
    ]
    schemas = dict.fromkeys(schema for schema, _ in source.tables)
    parts += [_SQL.text("read_schema", schema=quote_postgres(schema), source_role=role) for schema in schemas]
    parts += [_SQL.text("read_table", table=quote_postgres(*table), source_role=role) for table in source.tables]
    return "\n".join(parts)
