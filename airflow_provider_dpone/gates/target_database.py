"""The script by which a DBA makes a dedicated target database ready for attempts. Printed or applied, never at run time.

It is run once in a new database by a login that may own it; afterwards the controller owns the database.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_dpone.drivers import load_sql
from airflow_provider_dpone.drivers.quoting import quote_in_script
from airflow_provider_dpone.gates import target_fence

_SQL = load_sql("airflow_provider_dpone.gates", "sql/target_database.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetDatabase:
    """A target and the logins that work on it. `published_schemas` are those that the source reader may read.

    An issuer that is the controller owns the database and needs no user of its own.
    """

    database: str
    writer_role: str
    managed_schemas: Sequence[str]
    controller: str
    issuer: str
    outcome_reader: str
    source_reader: str | None = None
    published_schemas: Sequence[str] = ()


def provision_script(target: TargetDatabase) -> str:
    """GO-separated batches for the target database."""
    role = quote_in_script(target.writer_role)
    reader = quote_in_script(target.outcome_reader)
    parts = [_SQL.text("writer_role", role=role)]
    parts += [
        _SQL.text("managed_schema", schema=quote_in_script(schema), role=role) for schema in target.managed_schemas
    ]
    parts += [target_fence.provision_script(target.writer_role), _SQL.text("outcome_reader", login=reader)]
    parts += [
        _SQL.text("read_schema", schema=quote_in_script(schema), login=reader) for schema in target.managed_schemas
    ]
    if target.issuer != target.controller:
        parts += [_SQL.text("issuer", login=quote_in_script(target.issuer), role=role)]
    if target.source_reader is not None:
        login = quote_in_script(target.source_reader)
        parts += [_SQL.text("source_reader", login=login)]
        parts += [_SQL.text("read_schema", schema=quote_in_script(s), login=login) for s in target.published_schemas]
    parts += [
        _SQL.text("settings", database=quote_in_script(target.database), controller=quote_in_script(target.controller))
    ]
    return "\n".join(parts)
