"""The script by which a DBA makes a dedicated target database ready for attempts. Printed or applied, never at run time.

It is run once in a new database by a login that may own it; afterwards the controller owns the database.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_dpone.drivers import load_sql
from airflow_provider_dpone.drivers.quoting import quote_in_script, require_one_spelling
from airflow_provider_dpone.gates import target_fence

_SQL = load_sql("airflow_provider_dpone.gates", "sql/target_database.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetDatabase:
    """A target and the logins that work on it. `published_schemas` are those that the source reader may read.

    One login may serve several roles. One that is the controller owns the database and needs no user of its own.
    """

    database: str
    writer_role: str
    managed_schemas: Sequence[str]
    controller: str
    issuer: str
    outcome_reader: str
    source_reader: str | None = None
    published_schemas: Sequence[str] = ()

    def __post_init__(self) -> None:
        require_one_spelling((self.controller, *self.logins))
        for schemas in (self.managed_schemas, self.published_schemas):
            target_fence.require_outside(schemas)

    @property
    def logins(self) -> tuple[str, ...]:
        """The logins that get a user in the database, each once."""
        readers = () if self.source_reader is None else (self.source_reader,)
        return tuple(
            name for name in dict.fromkeys((self.issuer, self.outcome_reader, *readers)) if name != self.controller
        )


def provision_script(target: TargetDatabase) -> str:
    """GO-separated batches for the target database."""
    role = quote_in_script(target.writer_role)
    parts = [_SQL.text("writer_role", role=role)]
    parts += [
        _SQL.text("managed_schema", schema=quote_in_script(schema), role=role) for schema in target.managed_schemas
    ]
    parts += [target_fence.provision_script(target.writer_role)]
    parts += [_SQL.text("user", login=quote_in_script(login)) for login in target.logins]
    if target.outcome_reader in target.logins:
        reader = quote_in_script(target.outcome_reader)
        parts += [_SQL.text("outcome_reader", login=reader)]
        parts += [_read(schema, reader) for schema in target.managed_schemas]
    if target.issuer in target.logins:
        parts += [_SQL.text("issuer", login=quote_in_script(target.issuer), role=role)]
    if target.source_reader in target.logins:
        reader = quote_in_script(str(target.source_reader))
        parts += [_read(schema, reader) for schema in target.published_schemas]
    parts += [
        _SQL.text("settings", database=quote_in_script(target.database), controller=quote_in_script(target.controller))
    ]
    return "\n".join(parts)


def _read(schema: str, reader: str) -> str:
    return _SQL.text("read_schema", schema=quote_in_script(schema), login=reader)
