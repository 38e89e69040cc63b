"""Observing a ClickHouse target, and the standing account's part: an empty staging table, and names taken away.

Nothing here writes a row or decides an outcome. The content of a table is read back by the observer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_dpone.contracts.canonical import exact_sha256
from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.drivers import load_sql, quote_clickhouse
from airflow_provider_dpone.drivers.clickhouse import ClickHouseDsn, StandingAccount
from airflow_provider_dpone.gates.clickhouse_names import retired_table, staging_table, staging_uuid
from airflow_provider_dpone.routes.content import Content
from airflow_provider_dpone.routes.types import NARROW_DAYS, WIDE_DAYS, Carrier

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

_SQL = load_sql("airflow_provider_dpone.routes", "sql/clickhouse_target.sql")
_NO_UUID = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What stands behind one name at one moment; ``bytes`` on disk, ``age_seconds`` since its last change of shape."""

    name: str
    uuid: str
    engine: str
    engine_full: str
    rows: int
    bytes: int
    age_seconds: int

    @property
    def physical_sha256(self) -> str:
        """Digest of what the table physically is: its identity and how it stores rows."""
        return exact_sha256({"schema": "dpone.clickhouse-table.v1", "engine": self.engine_full, "uuid": self.uuid})


class ClickHouseTarget:
    """One target table in one database of one server. ``access`` changes names, ``observer`` only reads."""

    def __init__(
        self, *, service_id: str, database: str, table: str, access: ClickHouseDsn, observer: ClickHouseDsn
    ) -> None:
        self.service_id = service_id
        self.database = database
        self.table = table
        self._access = StandingAccount(access)
        self._observer = StandingAccount(observer)

    def observe(self) -> Client:
        """A client for one use."""
        return self._observer.client()

    def database_engine(self) -> str:
        return self._database()[0]

    def _database(self) -> tuple[str, str, str]:
        """Engine, UUID and server identity, as they are now."""
        client = self.observe()
        rows = client.query(_SQL.text("database"), parameters={"database": self.database}).result_rows
        if not rows:
            raise ConfigurationError("target_database", happened=f"the database {self.database} does not exist.")
        engine, uuid, service_id = rows[0]
        return str(engine), str(uuid), str(service_id)

    def database_uuid(self) -> str:
        """The database's UUID; refuses another server and a database without UUIDs."""
        engine, uuid, service_id = self._database()
        if service_id != self.service_id:
            raise ConfigurationError(
                "target_service", happened=f"the server says it is {service_id}, the plan says {self.service_id}."
            )
        if engine != "Atomic" or uuid == _NO_UUID:
            # A Replicated database exchanges on each replica by itself, and there is no verdict for half of them.
            raise ConfigurationError(
                "target_database",
                happened=f"{self.database} has the engine {engine}; a target needs an Atomic database with a UUID.",
            )
        return uuid

    def tables(self, *names: str) -> Mapping[str, Table]:
        """Those of the names that exist now, in one read."""
        client = self.observe()
        parameters = {"database": self.database, "names": list(names)}
        found = client.query(_SQL.text("tables"), parameters=parameters).result_rows
        return {
            name: Table(name=name, uuid=uuid, engine=engine, engine_full=full, rows=rows, bytes=size, age_seconds=age)
            for name, uuid, engine, full, rows, size, age in found
        }

    def require(self) -> Table:
        """The target as it stands; it must exist and keep every row that it is given."""
        found = self.tables(self.table).get(self.table)
        where = f"{self.database}.{self.table}"
        if found is None:
            raise ConfigurationError(
                "target_table",
                happened=f"{where} does not exist, or the observer cannot see it.",
                check="that its owner created it, empty: the first publication exchanges with it, too.",
                avoid="let a transfer create its own target.",
            )
        if found.engine != "MergeTree" or " TTL " in found.engine_full:
            raise ConfigurationError(
                "target_engine",
                happened=f"{where} has the engine {found.engine_full}, which may drop, merge or replicate rows.",
                check="that the target is a plain MergeTree without TTL.",
            )
        if found.uuid == _NO_UUID:
            raise ConfigurationError("target_uuid", happened=f"{where} has no UUID.")
        return found

    def columns(self, table: str) -> tuple[tuple[str, str], ...]:
        """Names and types in order; computed columns are refused."""
        client = self.observe()
        parameters = {"database": self.database, "table": table}
        rows = client.query(_SQL.text("columns"), parameters=parameters).result_rows
        for name, _, default in rows:
            if default not in ("", "DEFAULT"):
                raise ConfigurationError(
                    "target_column", happened=f"column {name} of {self.database}.{table} is {default}."
                )
        return tuple((str(name), str(kind)) for name, kind, _ in rows)

    def days(self) -> tuple[int, int]:
        """First and last day that this server's date types hold, asked of the server itself."""
        client = self.observe()
        first, last = client.query(_SQL.text("ranges")).result_rows[0]
        wide = str(first).startswith("0001-01-01") and str(last) == "9999-12-31"
        return WIDE_DAYS if wide else NARROW_DAYS

    def create_staging(self, attempt_sha256: str) -> Table:
        """Create the attempt's empty staging table, and read it back."""
        from clickhouse_connect.driver.exceptions import ClickHouseError

        name, uuid = staging_table(attempt_sha256), staging_uuid(attempt_sha256)
        statement = _SQL.text(
            "create_staging",
            staging=quote_clickhouse(self.database, name),
            uuid=f"'{uuid}'",
            target=quote_clickhouse(self.database, self.table),
        )
        client = self._access.client()
        try:
            client.command(statement)
        except ClickHouseError as err:
            # Without a number there was no answer: whether the table is there now is read below.
            if getattr(err, "code", None) is not None:
                raise ConfigurationError(
                    "staging_table",
                    happened=f"ClickHouse did not create the staging table {self.database}.{name}: {err}",
                    check="whether the table exists already: then another process works for this attempt.",
                ) from err
        found = self.tables(name).get(name)
        if found is None or found.uuid != str(uuid) or self.columns(name) != self.columns(self.table):
            raise ConfigurationError(
                "staging_table", happened=f"{name} was created and does not read back like its target."
            )
        return found

    def retire(self, attempt_sha256: str) -> None:
        """Rename the unique staging name away, once; a name that is gone already is left gone."""
        from clickhouse_connect.driver.exceptions import ClickHouseError

        staging, retired = staging_table(attempt_sha256), retired_table(attempt_sha256)
        if staging not in self.tables(staging):
            return
        statement = _SQL.text(
            "retire",
            staging=quote_clickhouse(self.database, staging),
            retired=quote_clickhouse(self.database, retired),
        )
        client = self._access.client()
        try:
            client.command(statement)
        except ClickHouseError:
            # Lost reply, or another closer was first: what counts is whether the name is gone.
            if staging in self.tables(staging):
                raise

    def left_tables(self) -> Mapping[str, tuple[int, int]]:
        """Staging and retired tables of attempts in this database: age in seconds, bytes."""
        client = self.observe()
        rows = client.query(_SQL.text("attempt_tables"), parameters={"database": self.database}).result_rows
        return {str(name): (int(age), int(size)) for name, age, size in rows}

    def drop(self, name: str) -> None:
        client = self._access.client()
        client.command(_SQL.text("drop", table=quote_clickhouse(self.database, name)))

    def content(self, table: str, carriers: Sequence[Carrier]) -> Content:
        """What the table holds, read back by the observer in bounded batches."""
        import pyarrow as pa

        columns = ", ".join(
            f"{_SQL.text(carrier.back, column=quote_clickhouse(carrier.name)).strip()} AS c{index}"
            for index, carrier in enumerate(carriers)
        )
        statement = _SQL.text("rows", columns=columns, table=quote_clickhouse(self.database, table))
        found = Content(carriers)
        settings = {"output_format_arrow_string_as_string": 0, "output_format_arrow_low_cardinality_as_dictionary": 0}
        client = self.observe()
        stream: Any = client.raw_stream(statement, fmt="ArrowStream", settings=settings)
        try:
            for batch in pa.ipc.open_stream(stream):
                found.add(batch.columns)
        finally:
            stream.close()
        return found

    def schema_sha256(self, table: str) -> str:
        columns = [list(column) for column in self.columns(table)]
        return exact_sha256({"schema": "dpone.clickhouse-columns.v1", "columns": columns})
