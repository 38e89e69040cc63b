"""PostgreSQL to SQL Server, full refresh, target_atomic: the target is replaced in one fenced transaction.

The source is read by COPY under one REPEATABLE READ snapshot, with a role that exists for the attempt alone. Rows go by bulk insert into a staging table that carries
the attempt in its name. One target transaction then takes the fence row and keeps it, replaces the content, verifies
it, drops the staging table, writes the outcome marker and commits. A commit whose acknowledgement is lost is resolved
by the marker alone, after the writer is closed and quiescent.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_dpone.contracts.errors import ConfigurationError, ControlUnavailable, GuardError, ValueRefused
from airflow_provider_dpone.contracts.principal import Connector, Purpose
from airflow_provider_dpone.drivers import Connect, Connection, drain, load_sql, quote_mssql, quote_postgres
from airflow_provider_dpone.drivers.mssql import MsSqlDsn
from airflow_provider_dpone.drivers.mssql import connect as connect_mssql
from airflow_provider_dpone.drivers.postgres import PostgresDsn
from airflow_provider_dpone.drivers.postgres import connect as connect_postgres
from airflow_provider_dpone.drivers.quoting import utf16_units
from airflow_provider_dpone.drivers.trigger_points import reach
from airflow_provider_dpone.gates import target_fence
from airflow_provider_dpone.gates.interface import MsSqlWriterGrant, PostgresExtractGrant
from airflow_provider_dpone.routes import relation_inventory
from airflow_provider_dpone.routes.interface import AttemptContext, Observation, Outcome, RouteReport
from airflow_provider_dpone.routes.postgres_values import MAX, Convert, TargetColumn, conversion

if TYPE_CHECKING:
    import psycopg

CELL = "postgres_mssql_full_refresh_v1"

_SQL = load_sql("airflow_provider_dpone.routes", "sql/target_atomic.sql")
_SOURCE = load_sql("airflow_provider_dpone.routes", "sql/postgres_source.sql")
_STAGING_INFIX = "__dpone_"
#: The digits of an attempt at the end of a staging table's name, and how long a name may be.
_DIGEST_DIGITS = 12
_NAME_UNITS = 128
_BYTES_PER_CHARACTER = {"nchar": 2, "nvarchar": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresToMsSqlPlan:
    """One table to one table. The accounts of `source` and of `target` are replaced by the attempt's."""

    source: PostgresDsn
    source_schema: str
    source_table: str
    target: MsSqlDsn
    target_schema: str
    target_table: str


class PostgresToMsSqlRoute:
    """`observe` connects as the outcome reader of the target instance."""

    cell = CELL

    def __init__(self, plan: PostgresToMsSqlPlan, observe: Connect) -> None:
        self._plan = plan
        self._observe = observe

    def principals(self) -> tuple[tuple[Connector, Purpose], ...]:
        return (("mssql", "ingest"), ("postgres", "extract"))

    def admission_record(self, ctx: Observation) -> Mapping[str, object]:
        return {"schema": "dpone.target-atomic-admission.v1", "relations": self._relations(ctx)}

    def work(self, ctx: AttemptContext) -> RouteReport:
        plan = self._plan
        credential = ctx.issue("ingest", MsSqlWriterGrant(database=plan.target.database))
        connection = connect_mssql(plan.target.for_login(credential.username, credential.secret))
        try:
            columns = self._target_columns(connection)
            self._clear_left_staging(ctx, connection)
            staging = quote_mssql(plan.target_schema, self._staging_name(ctx))
            target = quote_mssql(plan.target_schema, plan.target_table)
            drain(connection, _SQL.text("create_staging", staging=staging, target=target))
            connection.commit()
            with closing(SourceRows(plan, self._reader(ctx), columns)) as source, ctx.interruptible(source.cancel):
                copied = _bulk_insert(connection, staging, [column.name for column in columns], source)
            if copied != source.count:
                raise TargetNotVerified(f"{source.count} rows were read and {copied} were staged.")
            ctx.log.info("staged %d rows (%d bytes) in %s", source.count, source.bytes, staging)
            names = ", ".join(quote_mssql(column.name) for column in columns)
            self._replace(ctx, connection, source, {"staging": staging, "target": target, "columns": names})
        finally:
            connection.close()
        reach("target_commit", "acknowledged")
        return RouteReport(rows=source.count, bytes=source.bytes, details={"content_sha256": source.digest})

    def outcome(self, ctx: Observation) -> Outcome:
        plan = self._plan
        recorded = ctx.evidence.evidence(ctx.operation.attempt_sha256, "admission")
        after = self._relations(ctx)
        names = ((plan.target_schema, plan.target_table), (plan.target_schema, self._staging_name(ctx)))
        marker = target_fence.observe_marker(self._observe, plan.target.database, ctx.operation.attempt_sha256)
        evidence = {
            "schema": "dpone.target-atomic-outcome.v1",
            "marker": marker is not None,
            "rows": marker.row_count if marker else None,
            "content_sha256": marker.evidence_sha256 if marker else None,
            "changes": relation_inventory.changes(recorded["relations"] if recorded else after, after, names),
            "relations": after,
        }
        # The replacement and the marker are one transaction: no marker after quiescence, no replacement.
        return Outcome(state="SUCCEEDED" if marker else "FAILED", evidence=evidence)

    def _reader(self, ctx: AttemptContext) -> PostgresDsn:
        """The source as the attempt's own role, under a name that tells the attempt to whoever looks at sessions."""
        source = self._plan.source
        credential = ctx.issue("extract", PostgresExtractGrant(database=source.database))
        return source.for_role(credential.username, credential.secret, app=f"dpone {ctx.operation.digest_prefix}")

    def _replace(
        self, ctx: AttemptContext, connection: Connection, source: SourceRows, names: Mapping[str, str]
    ) -> None:
        operation_key = ctx.operation.attempt_sha256
        target_fence.hold(connection, operation_key)
        drain(connection, _SQL.text("replace", **names))
        ((held, differing),) = drain(connection, _SQL.text("verify", **names))[0]
        if held != source.count or differing:
            raise TargetNotVerified(f"{source.count} rows were read, the target holds {held}, {differing} differ.")
        drain(connection, _SQL.text("drop", staging=names["staging"]))
        target_fence.mark(connection, operation_key, source.count, source.digest)
        reach("target_commit", "before")
        ctx.require_wanted()
        connection.commit()
        reach("target_commit", "applied")

    def _relations(self, ctx: Observation) -> Mapping[str, Mapping[str, Any]]:
        plan = self._plan
        names = ((plan.target_schema, plan.target_table), (plan.target_schema, self._staging_name(ctx)))
        # The marker decides here, in the transaction that replaced and verified the rows: counting is enough.
        return relation_inventory.observe(self._observe, plan.target.database, names, content="count")

    def _staging_name(self, ctx: Observation) -> str:
        return self._staging_prefix() + ctx.operation.digest_prefix

    def _staging_prefix(self) -> str:
        """The target's name and a mark; a long name is cut, because the whole must fit a SQL Server name."""
        name = self._plan.target_table
        while utf16_units(name) > _NAME_UNITS - len(_STAGING_INFIX) - _DIGEST_DIGITS:
            name = name[:-1]
        return name + _STAGING_INFIX

    def _target_columns(self, connection: Connection) -> tuple[TargetColumn, ...]:
        name = quote_mssql(self._plan.target_schema, self._plan.target_table)
        (rows,) = drain(connection, _SQL.text("columns"), name)
        connection.commit()
        if not rows:
            raise ConfigurationError(
                "target_table",
                happened=f"{name} does not exist in {self._plan.target.database}, or the writer role cannot see it.",
                check="that its owner created it in a managed schema; a transfer never creates its target.",
            )
        return tuple(
            TargetColumn(
                name=column,
                type=type_name,
                length=length if length == MAX else length // _BYTES_PER_CHARACTER.get(type_name, 1),
                precision=precision,
                scale=scale,
                nullable=bool(nullable),
                identity=bool(identity),
                computed=bool(computed),
                code_page=code_page,
            )
            for column, type_name, length, precision, scale, nullable, identity, computed, code_page in rows
        )

    def _clear_left_staging(self, ctx: AttemptContext, connection: Connection) -> None:
        """Drop what earlier attempts left. The guard admits one at a time, so their writers are closed."""
        prefix = self._staging_prefix()
        left = re.compile(re.escape(prefix) + f"[0-9a-f]{{{_DIGEST_DIGITS}}}")
        (rows,) = drain(connection, _SQL.text("left_staging"), self._plan.target_schema, prefix)
        for (name,) in rows:
            if left.fullmatch(name) is None:
                continue  # somebody else's table that begins like ours
            ctx.log.info("dropping %s, left by an earlier attempt that is closed and resolved", name)
            drain(connection, _SQL.text("drop", staging=quote_mssql(self._plan.target_schema, name)))
        connection.commit()


class TargetNotVerified(GuardError):
    """What arrived is not what was read; the target transaction was not committed."""

    code = "DPONE_TARGET_NOT_VERIFIED"
    not_done = "the target transaction was rolled back; the target holds what it held before."
    check = "triggers, computed columns and collations of the target table."

    def __init__(self, happened: str) -> None:
        super().__init__("content", happened=happened)


class SourceRows:
    """The converted rows of one snapshot, once. After iteration `count`, `bytes` and `digest` describe what was read.

    `bytes` counts the rows' text form; `digest` is the sum of their hashes, so it does not depend on their order.
    """

    def __init__(self, plan: PostgresToMsSqlPlan, reader: PostgresDsn, columns: tuple[TargetColumn, ...]) -> None:
        self._connection = connect_postgres(reader)
        self._relation = quote_postgres(plan.source_schema, plan.source_table)
        self._columns = columns
        self._types: dict[str, str] = {}
        #: What ended the reading. A driver that consumes the rows may raise something of its own instead, or nothing.
        self.failure: BaseException | None = None
        #: Whether the source was read to its end: without this, a count of rows says nothing.
        self.finished = False
        self.count = 0
        self.bytes = 0
        self._sum = 0

    @property
    def digest(self) -> str:
        return f"sha256:{self._sum:064x}"

    def cancel(self) -> None:
        self._connection.cancel_safe()

    def close(self) -> None:
        """Ends the source session, also in the middle of its stream."""
        self._connection.close()

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        import psycopg

        try:
            yield from self._read()
        except psycopg.Error as err:
            self.failure = self._typed(err)
            raise self.failure from err
        except BaseException as err:
            self.failure = err
            raise
        self.finished = True

    def _read(self) -> Iterator[tuple[Any, ...]]:
        connection = self._connection
        with connection:
            connection.execute(_SOURCE.text("begin_snapshot").encode())
            types = self._types = self._source_types()
            converts = tuple(conversion(types[column.name], column) for column in self._columns)
            names = ", ".join(quote_postgres(column.name) for column in self._columns)
            statement = _SOURCE.text("copy_out", columns=names, relation=self._relation).encode()
            with connection.cursor().copy(statement) as copy:
                copy.set_types([types[column.name] for column in self._columns])
                for row in copy.rows():
                    yield self._counted(row, converts)

    def _typed(self, err: psycopg.Error) -> GuardError:
        """What an error of the source means: a value, a permission, or a source that went away."""
        import psycopg

        if isinstance(err, psycopg.DataError) and err.sqlstate is None:
            # The driver says which value it has no Python object for, not in which column.
            temporal = [name for name, kind in self._types.items() if kind.startswith(("date", "time"))]
            return ValueRefused(", ".join(temporal), "not_representable", row=self.count + 1)
        said = f"reading {self._relation} answered: {' '.join(str(err).split())}"
        if err.sqlstate is not None and err.sqlstate[:2] in ("22", "42"):
            return ConfigurationError(
                "source_table",
                happened=said,
                not_done="the target was not changed.",
                check="the table and the rights of the source role: USAGE on the schema, SELECT on the table.",
            )
        return ControlUnavailable("postgres_source", happened=said, not_done="the target was not changed.")

    def _source_types(self) -> dict[str, str]:
        rows = self._connection.execute(_SOURCE.text("column_types").encode(), (self._relation,)).fetchall()
        if not rows:
            raise ConfigurationError(
                "source_table", happened=f"{self._relation} does not exist in the source database."
            )
        types = {str(name): str(type_name) for name, type_name in rows}
        wanted = [column.name for column in self._columns]
        if sorted(types) != sorted(wanted):
            raise ConfigurationError(
                "source_columns",
                happened=f"{self._relation} has the columns {sorted(types)}, the target has {sorted(wanted)}.",
            )
        return types

    def _counted(self, row: tuple[Any, ...], converts: tuple[Convert, ...]) -> tuple[Any, ...]:
        converted = tuple(convert(value) for convert, value in zip(converts, row, strict=True))
        text = repr(converted).encode()
        self.count += 1
        self.bytes += len(text)
        self._sum = (self._sum + int.from_bytes(hashlib.sha256(text).digest())) % 2**256
        return converted


def _bulk_insert(connection: Any, staging: str, columns: list[str], rows: SourceRows) -> int:
    """Bulk copy on a session of its own, with the same login; each value was converted to the column's exact type.

    mssql-python takes an interrupt that is raised while it asks for the next row (a killed or timed out task) for the
    end of the rows and reports success: whether all was read is known by `rows` alone.
    """
    cursor = connection.cursor()
    try:
        result = cursor.bulkcopy(staging, iter(rows), column_mappings=columns, timeout=0, keep_nulls=True)
    except Exception as err:
        if rows.failure is not None and err is not rows.failure:
            raise rows.failure from err
        raise
    finally:
        cursor.close()
    if rows.failure is not None:
        raise rows.failure
    if not rows.finished:
        raise TargetNotVerified(f"the source was not read to its end; {rows.count} rows were.")
    return int(result["rows_copied"])
