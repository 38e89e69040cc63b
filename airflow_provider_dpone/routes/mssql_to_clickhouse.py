"""SQL Server to ClickHouse, full refresh: one source snapshot, a fresh staging table, and one EXCHANGE.

Order of the work: observe the target, open the source snapshot and measure it, charge its bytes, create the staging
table, stream one INSERT as the ingest user, close that user and prove it gone, compare the typed content of both
sides, persist the UUID pair, send one EXCHANGE as the publish user, close that one too. The outcome is read from
the UUID pair alone.

The target must exist before its first publication, created empty by its owner: a transfer creates no target.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

from airflow_provider_dpone.contracts.canonical import exact_sha256
from airflow_provider_dpone.contracts.errors import ConfigurationError, GuardError
from airflow_provider_dpone.contracts.principal import Connector, Principal, Purpose
from airflow_provider_dpone.contracts.proof import Authority
from airflow_provider_dpone.contracts.snapshot import (
    SnapshotGeneration,
    SnapshotIntent,
    SnapshotLimits,
    SnapshotTarget,
)
from airflow_provider_dpone.drivers import quote_clickhouse
from airflow_provider_dpone.drivers.clickhouse import ClickHouseDsn, connect
from airflow_provider_dpone.drivers.mssql import MsSqlDsn
from airflow_provider_dpone.drivers.trigger_points import reach
from airflow_provider_dpone.gates.clickhouse_names import query_id, staging_table, staging_uuid
from airflow_provider_dpone.gates.interface import ClickHouseIngestGrant, ClickHousePublishGrant, Credential
from airflow_provider_dpone.routes import snapshot
from airflow_provider_dpone.routes.arrow_stream import ArrowStream
from airflow_provider_dpone.routes.clickhouse_target import ClickHouseTarget, Table
from airflow_provider_dpone.routes.interface import AttemptContext, Observation, Outcome, RouteReport
from airflow_provider_dpone.routes.mssql_source import Measure, SnapshotRead
from airflow_provider_dpone.routes.snapshot import SnapshotJournal, TargetChanged
from airflow_provider_dpone.routes.types import Carrier, SourceColumn, carry

CELL = "mssql_clickhouse_full_refresh_v1"

_INSERT_SETTINGS = {"async_insert": 0, "input_format_null_as_default": 0, "insert_deduplicate": 0}
_UNBOUNDED = 2**62
#: A retired table is kept this long, because a reader may still hold it; a later attempt drops it.
RETAIN_SECONDS = 60


class SourceCharges(Protocol):
    """Durable, cumulative source bytes of one workload under one activation."""

    def charge(
        self, activation_id: str, workload_id: str, bytes: int, ceiling: int, *, attempt: str | None = None
    ) -> object:
        """Add, or refuse when the sum would pass the ceiling."""


class ContentDiffers(GuardError):
    """The staging table does not hold what was read from the source; it is not published."""

    code = "DPONE_CONTENT_DIFFERS"
    not_done = "no EXCHANGE was sent; the target holds what it held before."
    check = "the types of the target columns against docs/types.md, and who else can write the staging table."

    def __init__(self, happened: str) -> None:
        super().__init__("content", happened=happened)


@dataclass(frozen=True, slots=True, kw_only=True)
class MsSqlToClickHousePlan:
    """One table to one table. ``source`` is a reading account. Digests are the ones of the activation request."""

    source: MsSqlDsn
    source_schema: str
    source_table: str
    max_source_bytes: int
    service_id: str
    physical_subject_sha256: str
    write_subject_sha256: str
    database: str
    target_table: str

    def __post_init__(self) -> None:
        if self.max_source_bytes <= 0:
            raise ConfigurationError(
                "max_source_bytes", happened="max_source_bytes must be a positive number of bytes."
            )


class MsSqlToClickHouseRoute:
    """``access`` manages users and names, ``observer`` reads; neither ever writes a row."""

    cell = CELL

    def __init__(
        self,
        plan: MsSqlToClickHousePlan,
        *,
        access: ClickHouseDsn,
        observer: ClickHouseDsn,
        snapshots: SnapshotJournal,
        charges: SourceCharges,
    ) -> None:
        self._plan = plan
        self._access = access
        self._snapshots = snapshots
        self._charges = charges
        self._target = ClickHouseTarget(
            service_id=plan.service_id,
            database=plan.database,
            table=plan.target_table,
            access=access,
            observer=observer,
        )

    def principals(self) -> tuple[tuple[Connector, Purpose], ...]:
        return (("clickhouse", "ingest"), ("clickhouse", "publish"))

    def admission_record(self, ctx: Observation) -> Mapping[str, object]:
        database_uuid = self._target.database_uuid()
        found = self._target.require()
        return {
            "schema": "dpone.clickhouse-snapshot-admission.v1",
            "database": self._plan.database,
            "database_uuid": database_uuid,
            "target_table": self._plan.target_table,
            "target_uuid": found.uuid,
            "columns": [list(column) for column in self._target.columns(self._plan.target_table)],
        }

    def work(self, ctx: AttemptContext) -> RouteReport:
        plan, attempt = self._plan, ctx.operation.attempt_sha256
        database_uuid = self._target.database_uuid()
        before = self._target.require()
        retained = self._drop_settled(ctx)
        with SnapshotRead(plan.source, plan.source_schema, plan.source_table) as source:
            columns = source.columns()
            carriers = self._carriers(columns)
            measured = source.measure(columns)
            if measured.bytes:  # an empty table, or one of NULLs alone, takes nothing from the budget
                self._charges.charge(
                    ctx.operation.activation_id,
                    ctx.attempt.workload_id,
                    measured.bytes,
                    plan.max_source_bytes,
                    attempt=attempt,
                )
            ctx.log.info("source snapshot: %d rows, %d bytes, charged", measured.rows, measured.bytes)
            self._target.create_staging(attempt)
            grant = ClickHouseIngestGrant(database=plan.database, staging_table=staging_table(attempt))
            stream = ArrowStream(carriers, source.batches(carriers))
            with ctx.interruptible(source.interrupt):
                self._insert(ctx, ctx.issue("ingest", grant), stream, measured)
        closure = {"schema": "dpone.clickhouse-closure.v1", **ctx.close("ingest")}
        ctx.log.info("ingest user closed and quiescent; comparing %d rows", stream.rows)
        staged = self._compare(attempt, carriers, stream)
        intent = self._intent(
            ctx, _Observed(before, staged, database_uuid, measured, stream.wire_bytes, retained, stream), closure
        )
        record = snapshot.intend(self._snapshots, intent)
        publish = ClickHousePublishGrant(
            database=plan.database, staging_table=staging_table(attempt), target_table=plan.target_table
        )
        credential = ctx.issue("publish", publish)
        ctx.require_wanted()
        error = snapshot.exchange(self._target, self._as(ctx, credential), record)
        if error is not None:
            ctx.log.warning("EXCHANGE was not acknowledged; the UUIDs will tell whether it took place: %s", error)
        ctx.close("publish")
        return RouteReport(
            rows=stream.rows,
            bytes=measured.bytes,
            details={"wire_bytes": stream.wire_bytes, "content_sha256": stream.content.sha256()},
        )

    def outcome(self, ctx: Observation) -> Outcome:
        attempt = ctx.operation.attempt_sha256
        record = snapshot.decide(self._target, self._snapshots, ctx)
        published, own = snapshot.pair(self._target, attempt)
        target_uuid = published.uuid if published else None
        evidence: dict[str, object] = {
            "schema": "dpone.clickhouse-snapshot-outcome.v1",
            "target_uuid": target_uuid,
            "attempt_table_uuid": own.uuid if own else None,
            "staging_uuid": str(staging_uuid(attempt)),
        }
        if record is not None:
            evidence |= {
                "snapshot_record_sha256": record.sha256,
                "snapshot_state": record.state,
                "rows": record.intent.generation.rows,
                "content_sha256": record.intent.generation.content_sha256,
            }
            return Outcome(state=snapshot.state_of(record), evidence=evidence)
        # A publisher is issued only after EXCHANGE_INTENT is stored: without it no EXCHANGE was sent.
        admission = ctx.evidence.evidence(attempt, "admission")
        untouched = target_uuid != str(staging_uuid(attempt)) and (
            admission is None or target_uuid == admission["target_uuid"]
        )
        evidence |= {"snapshot_state": "NO_INTENT", "staging_left": own is not None}
        return Outcome(state="FAILED" if untouched else "COMMIT_UNKNOWN", evidence=evidence)

    def _carriers(self, columns: tuple[SourceColumn, ...]) -> tuple[Carrier, ...]:
        target = dict(self._target.columns(self._plan.target_table))
        if sorted(target) != sorted(column.name for column in columns):
            raise ConfigurationError(
                "columns",
                happened=f"the source has the columns {sorted(column.name for column in columns)}, "
                f"the target has {sorted(target)}.",
                not_done="nothing was read or written.",
            )
        days = self._target.days()
        return tuple(carry(column, target[column.name], days) for column in columns)

    def _insert(self, ctx: AttemptContext, credential: Credential, stream: ArrowStream, measured: Measure) -> None:
        if measured.rows:
            names = [carrier.name for carrier in stream.carriers]
            table = quote_clickhouse(self._plan.database, staging_table(ctx.operation.attempt_sha256))
            named = {"query_id": query_id(ctx.operation.attempt_sha256, "ingest")}
            with closing(connect(self._as(ctx, credential), settings=_INSERT_SETTINGS)) as client:
                reach("staging_insert", "before")
                try:
                    client.raw_insert(table, names, insert_block=stream.generate(), fmt="ArrowStream", settings=named)
                    reach("staging_insert", "applied")
                except Exception as err:
                    # The HTTP client hides an error of the source behind its own; the source's is the cause.
                    raise (stream.failure or err) from err
            reach("staging_insert", "acknowledged")
        if stream.rows != measured.rows:
            raise ContentDiffers(f"the snapshot has {measured.rows} rows and {stream.rows} were read.")

    def _compare(self, attempt: str, carriers: tuple[Carrier, ...], stream: ArrowStream) -> Table:
        """What the observer reads back must be what was read from the source; the columns must be the target's."""
        name = staging_table(attempt)
        found = self._target.content(name, carriers)
        if found.document() != stream.content.document():
            raise ContentDiffers(
                f"{stream.rows} rows were read, the staging table holds {found.rows}, or values differ."
            )
        if self._target.columns(name) != self._target.columns(self._plan.target_table):
            raise TargetChanged("columns")
        staged = self._target.tables(name).get(name)
        if staged is None or staged.uuid != str(staging_uuid(attempt)):
            raise TargetChanged("staging_uuid")
        return staged

    def _intent(self, ctx: AttemptContext, seen: _Observed, closure: Mapping[str, object]) -> SnapshotIntent:
        plan, attempt = self._plan, ctx.operation.attempt_sha256
        content = seen.stream.content.sha256()
        source = {
            "schema": "dpone.mssql-source-snapshot.v1",
            "table": [plan.source_schema, plan.source_table],
            "rows": seen.measured.rows,
            "bytes": seen.measured.bytes,
            "content_sha256": content,
        }
        record = {
            "schema": "dpone.clickhouse-generation.v1",
            "source": source,
            "content": seen.stream.content.document(),
            "ingest_closure": closure,
        }
        enrollment = {
            "schema": "dpone.clickhouse-enrollment.v1",
            "service_id": plan.service_id,
            "database_uuid": seen.database_uuid,
            "target_table": plan.target_table,
        }
        generation = SnapshotGeneration(
            record_sha256=ctx.evidence.put_evidence(attempt, "clickhouse_generation", record),
            source_snapshot_sha256=exact_sha256(source),
            content_sha256=content,
            schema_sha256=self._target.schema_sha256(seen.staged.name),
            physical_sha256=seen.staged.physical_sha256,
            old_target_uuid=seen.before.uuid,
            new_generation_uuid=seen.staged.uuid,
            rows=seen.stream.rows,
            source_bytes=seen.measured.bytes,
            wire_bytes=seen.wire_bytes,
            generation_bytes=seen.staged.bytes,
            old_target_bytes=seen.before.bytes,
            retained_bytes=seen.retained_bytes,
        )
        target = SnapshotTarget(
            service_id=plan.service_id,
            physical_subject_sha256=plan.physical_subject_sha256,
            database_id=seen.database_uuid,
            database=plan.database,
            target_table=plan.target_table,
            generation_table=staging_table(attempt),
            write_subject_sha256=plan.write_subject_sha256,
            enrollment_sha256=exact_sha256(enrollment),
        )
        return SnapshotIntent(
            attempt=ctx.attempt,
            target=target,
            generation=generation,
            limits=SnapshotLimits(
                max_rows=_UNBOUNDED,
                max_source_bytes=plan.max_source_bytes,
                max_wire_bytes=_UNBOUNDED,
                max_generation_bytes=_UNBOUNDED,
                max_retained_bytes=_UNBOUNDED,
                max_total_transient_bytes=_UNBOUNDED,
            ),
            ingest_principal=_authority(ctx.operation.principal("ingest")),
            publisher_principal=_authority(ctx.operation.principal("publish")),
            closed_ingest_sha256=exact_sha256(closure),
        )

    def _drop_settled(self, ctx: AttemptContext) -> int:
        """Drop what earlier attempts left; they are settled, or this one would not have been admitted."""
        kept = 0
        for name, (age, size) in self._target.left_tables().items():
            if age >= RETAIN_SECONDS:
                ctx.log.info("dropping %s, left by a settled attempt", name)
                self._target.drop(name)
            else:
                kept += size
        return kept

    def _as(self, ctx: AttemptContext, credential: Credential) -> ClickHouseDsn:
        """The attempt's own login; the client name carries the attempt into the server's logs."""
        app = f"dpone-{ctx.operation.digest_prefix}"
        return self._access.for_user(credential.username, credential.secret, app=app)


@dataclass(frozen=True, slots=True)
class _Observed:
    """What the intent is made of, as seen after the ingest user was closed."""

    before: Table
    staged: Table
    database_uuid: str
    measured: Measure
    wire_bytes: int
    retained_bytes: int
    stream: ArrowStream


def _authority(principal: Principal) -> Authority:
    return Authority(
        connector=principal.connector, service_id=principal.service_id, principal_id=principal.principal_id
    )
