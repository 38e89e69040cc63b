"""Reading one SQL Server table in bounded batches, all of it from one committed state.

The database must allow SNAPSHOT isolation. The alternative, a shared table lock held for the whole read, would
block the writers of every other workload, so it is refused by name. Rows and bytes are measured in the same
snapshot before the first row is read: the charge against ``max_source_bytes`` is exact and comes first.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_dpone.contracts.errors import ConfigurationError, GuardError
from airflow_provider_dpone.drivers import drain, load_sql, quote_mssql
from airflow_provider_dpone.drivers.mssql import MsSqlDsn, connect
from airflow_provider_dpone.drivers.mssql_rights import acting_as
from airflow_provider_dpone.routes.types import Carrier, SourceColumn

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows in one Arrow batch: memory stays below this many rows times a row's width.
BATCH_ROWS = 16_384
_SNAPSHOT_ON = 1
_SQL = load_sql("airflow_provider_dpone.routes", "sql/mssql_source.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """What the snapshot holds: rows, and bytes as DATALENGTH counts them."""

    rows: int
    bytes: int


class SourceInterrupted(GuardError):
    """The task was told to stop while the source was being read."""

    code = "DPONE_SOURCE_INTERRUPTED"
    happened = "the read of the source was interrupted."
    not_done = "the staging table is incomplete and will not be published."


class SnapshotRead:
    """One read transaction. Use it as a context manager: ``columns``, then ``measure``, then ``batches`` once."""

    def __init__(self, dsn: MsSqlDsn, schema: str, table: str) -> None:
        self._dsn = dsn
        self._table = quote_mssql(schema, table)
        self._stop = threading.Event()
        self._reader: Any = None
        self._connection: Any = None

    def __enter__(self) -> SnapshotRead:
        self._connection = connect(self._dsn)
        # Not the driver's own transactions: the level has to be set before the transaction begins.
        self._connection.setautocommit(True)
        (((state, database),),) = drain(self._connection, _SQL.text("snapshot_allowed"))
        if state != _SNAPSHOT_ON:
            self._connection.close()
            raise ConfigurationError(
                "source_snapshot_isolation",
                happened=f"the database {database} does not allow SNAPSHOT isolation.",
                not_done="nothing was read.",
                check=f"ALTER DATABASE {quote_mssql(str(database))} SET ALLOW_SNAPSHOT_ISOLATION ON, by its owner.",
                avoid="read without a snapshot: rows could come from different states.",
            )
        drain(self._connection, _SQL.text("begin_snapshot"))
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def interrupt(self) -> None:
        """Stop the read from another thread."""
        self._stop.set()
        if self._reader is not None:
            self._reader.close()

    def columns(self) -> tuple[SourceColumn, ...]:
        (rows,) = drain(self._connection, _SQL.text("columns"), self._table)
        if not rows:
            raise ConfigurationError(
                "source_table",
                happened=f"{self._table} does not exist in {self._dsn.database}, or {self._dsn.user} cannot see it.",
            )
        return tuple(
            SourceColumn(name=name, type=kind, length=length, precision=precision, scale=scale, nullable=bool(nullable))
            for name, kind, length, precision, scale, nullable in rows
        )

    def measure(self, columns: Sequence[SourceColumn]) -> Measure:
        counted = " + ".join(_SQL.text("column_bytes", column=quote_mssql(column.name)).strip() for column in columns)
        with acting_as("source_reader", f"reading {self._table} in {self._dsn.database}"):
            (((rows, count),),) = drain(self._connection, _SQL.text("measure", bytes=counted, table=self._table))
        return Measure(rows=int(rows), bytes=int(count))

    def _until_stopped(self) -> Iterator[pa.RecordBatch]:
        while not self._stop.is_set():
            try:
                batch = next(self._reader, None)
            except Exception as err:
                # Closing the reader from another thread makes the driver fail in ways of its own.
                if self._stop.is_set():
                    raise SourceInterrupted("interrupted") from err
                raise
            if batch is None:
                return
            yield batch
        raise SourceInterrupted("interrupted")

    def batches(self, carriers: Sequence[Carrier]) -> Iterator[pa.RecordBatch]:
        """Each row once, in the carriers' order of columns."""
        columns = ", ".join(
            f"{_SQL.text(carrier.read, column=quote_mssql(carrier.name)).strip()} AS {quote_mssql(carrier.name)}"
            for carrier in carriers
        )
        cursor: Any = self._connection.cursor()
        try:
            cursor.execute(_SQL.text("rows", columns=columns, table=self._table))
            self._reader = cursor.arrow_reader(batch_size=BATCH_ROWS)
            yield from self._until_stopped()
        finally:
            cursor.close()
