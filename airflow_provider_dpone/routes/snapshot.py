"""Publishing one complete ClickHouse table by one EXCHANGE, and telling afterwards whether it happened.

The two UUIDs are persisted before the EXCHANGE is sent, first as PREPARED, then as EXCHANGE_INTENT. The statement
is sent once, by a publisher that exists for it alone. After the publisher is closed and quiescent the unique
staging name is renamed away, so that nothing that is still on its way can exchange anything, and the UUID pair
decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Protocol

from airflow_provider_dpone.contracts.attempt import Attempt
from airflow_provider_dpone.contracts.errors import GuardError, OutcomeUnknown
from airflow_provider_dpone.contracts.proof import TerminalState
from airflow_provider_dpone.contracts.snapshot import (
    ExchangeObservation,
    PublisherClosure,
    SnapshotIntent,
    SnapshotRecord,
)
from airflow_provider_dpone.drivers import load_sql, quote_clickhouse
from airflow_provider_dpone.drivers.clickhouse import ClickHouseDsn, connect
from airflow_provider_dpone.drivers.trigger_points import reach
from airflow_provider_dpone.gates.clickhouse_names import query_id, retired_table, staging_table
from airflow_provider_dpone.routes.clickhouse_target import ClickHouseTarget, Table
from airflow_provider_dpone.routes.interface import Observation

_SQL = load_sql("airflow_provider_dpone.routes", "sql/clickhouse_target.sql")
_STATES: Mapping[str, TerminalState] = {
    "PUBLISHED": "SUCCEEDED",
    "NOT_PUBLISHED": "FAILED",
    "COMMIT_UNKNOWN": "COMMIT_UNKNOWN",
}


class SnapshotJournal(Protocol):
    """The ledger's snapshot records. A record that is stored again is the same answer."""

    def put(self, record: SnapshotRecord) -> SnapshotRecord: ...
    def read(self, attempt: Attempt | str) -> SnapshotRecord | None: ...


class TargetChanged(GuardError):
    """The target is no longer what the attempt observed when it began."""

    code = "DPONE_TARGET_CHANGED"
    happened = "the target table was replaced or altered while the attempt was working."
    not_done = "no EXCHANGE was sent."
    check = "who changed the target: its database is owned by the activation."


def exchange(target: ClickHouseTarget, publisher: ClickHouseDsn, record: SnapshotRecord) -> str | None:
    """Send the one EXCHANGE. Returns None when it was acknowledged, else the error; neither decides anything."""
    from clickhouse_connect.driver.exceptions import ClickHouseError

    intent = record.intent
    if record.state != "EXCHANGE_INTENT":
        raise OutcomeUnknown("exchange_without_intent", happened="an EXCHANGE was asked for without its intent.")
    statement = _SQL.text(
        "exchange",
        target=quote_clickhouse(intent.target.database, intent.target.target_table),
        staging=quote_clickhouse(intent.target.database, intent.target.generation_table),
    )
    with closing(connect(publisher)) as client:
        before = target.tables(intent.target.target_table).get(intent.target.target_table)
        if before is None or before.uuid != intent.generation.old_target_uuid:
            raise TargetChanged("target_uuid")
        reach("exchange", "before")
        try:
            client.command(statement, settings={"query_id": query_id(intent.attempt.sha256, "publish")})
            reach("exchange", "applied")
        except ClickHouseError as err:
            return str(err)
    reach("exchange", "acknowledged")
    return None


def decide(target: ClickHouseTarget, journal: SnapshotJournal, ctx: Observation) -> SnapshotRecord | None:
    """The decided record, or None when no EXCHANGE can have been sent. Call it after closure and quiescence only.

    A record that is decided stays decided, except COMMIT_UNKNOWN, which is read again.
    """
    operation = ctx.operation
    record = journal.read(operation.attempt)
    if record is None or record.state == "PREPARED":
        return None
    if record.state in ("PUBLISHED", "NOT_PUBLISHED"):
        return record
    closed, quiet = operation.proof("CLOSED_GATES"), operation.proof("QUIESCENCE")
    if closed is None or quiet is None:
        raise OutcomeUnknown(
            "publisher_not_closed",
            happened="the UUIDs cannot decide before the publisher is closed and proven quiescent.",
        )
    target.retire(operation.attempt_sha256)
    closure = PublisherClosure(
        intent_sha256=record.intent.sha256, closed_gates_sha256=closed.sha256, quiescence_sha256=quiet.sha256
    )
    decided = record.decided(closure, observe(target, record.intent, ctx))
    if record.state == decided.state:
        return record
    return journal.put(decided)


def observe(target: ClickHouseTarget, intent: SnapshotIntent, ctx: Observation) -> ExchangeObservation:
    """What the catalog shows behind both names in one read; the rows that it showed are stored as evidence."""
    attempt = ctx.operation.attempt_sha256
    published, generation = pair(target, attempt)
    both = (published, generation)
    catalog = {
        "schema": "dpone.clickhouse-catalog.v1",
        "database": target.database,
        "tables": [
            [table.name, table.uuid, table.engine_full, table.rows, table.bytes] for table in both if table is not None
        ],
    }
    new = next((table for table in both if table and table.uuid == intent.generation.new_generation_uuid), None)
    old = next((table for table in both if table and table.uuid == intent.generation.old_target_uuid), None)
    return ExchangeObservation(
        target=intent.target,
        target_uuid=published.uuid if published else None,
        generation_uuid=generation.uuid if generation else None,
        database_engine=target.database_engine(),
        table_engines=(published.engine if published else None, generation.engine if generation else None),
        # An Atomic database and plain MergeTree tables are one node's own: nothing is replicated.
        node_count=1,
        replica_count=1,
        schema_sha256=(
            target.schema_sha256(published.name) if published else None,
            target.schema_sha256(generation.name) if generation else None,
        ),
        physical_sha256=(
            published.physical_sha256 if published else None,
            generation.physical_sha256 if generation else None,
        ),
        unsupported_features=(),
        generation_content_sha256=None,
        generation_rows=new.rows if new else None,
        generation_bytes=new.bytes if new else None,
        old_target_bytes=old.bytes if old else None,
        retained_bytes=None,
        catalog_evidence_sha256=ctx.evidence.put_evidence(attempt, "clickhouse_catalog", catalog),
    )


def pair(target: ClickHouseTarget, attempt_sha256: str) -> tuple[Table | None, Table | None]:
    """The tables behind the target's name and behind the attempt's own name, in one read.

    Two tables under the attempt's two names are no answer: then there is no generation.
    """
    staging, retired = staging_table(attempt_sha256), retired_table(attempt_sha256)
    found = target.tables(target.table, staging, retired)
    own = [found[name] for name in (staging, retired) if name in found]
    return found.get(target.table), own[0] if len(own) == 1 else None


def state_of(record: SnapshotRecord) -> TerminalState:
    """The attempt's outcome that a decided record stands for."""
    return _STATES[record.state]


def intend(journal: SnapshotJournal, intent: SnapshotIntent) -> SnapshotRecord:
    """Persist PREPARED and then EXCHANGE_INTENT; only after this may a publisher be issued."""
    return journal.put(journal.put(SnapshotRecord(intent=intent)).exchange_intended())
