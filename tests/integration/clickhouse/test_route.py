"""The whole route on the real ClickHouse engine. The source is a table in memory here; test_end_to_end has SQL Server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from airflow_provider_dpone.contracts.errors import AdmissionRefused, ConfigurationError, ValueRefused
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.proof import TerminalState
from airflow_provider_dpone.drivers import Secret
from airflow_provider_dpone.drivers.clickhouse import connect
from airflow_provider_dpone.drivers.mssql import MsSqlDsn
from airflow_provider_dpone.gates.clickhouse_names import query_id, retired_table, staging_table, staging_uuid
from airflow_provider_dpone.routes import mssql_to_clickhouse, snapshot
from airflow_provider_dpone.routes.mssql_source import Measure
from airflow_provider_dpone.routes.mssql_to_clickhouse import (
    ContentDiffers,
    MsSqlToClickHousePlan,
    MsSqlToClickHouseRoute,
)
from airflow_provider_dpone.routes.types import Carrier, SourceColumn
from tests.integration.clickhouse.conftest import SUBJECT, World

COLUMNS = (
    SourceColumn(name="id", type="int", length=4, precision=10, scale=0, nullable=False),
    SourceColumn(name="carrier", type="nvarchar", length=20, precision=0, scale=0, nullable=True),
)


class TableInMemory:
    """Stands where SnapshotRead stands; ``read`` counts the batches that were asked for."""

    rows: ClassVar[list[tuple[int | None, str | None]]] = []
    read = 0

    def __init__(self, *_: object) -> None:
        return

    def __enter__(self) -> TableInMemory:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def interrupt(self) -> None:
        return

    def columns(self) -> tuple[SourceColumn, ...]:
        return COLUMNS

    def measure(self, columns: Sequence[SourceColumn]) -> Measure:
        return Measure(rows=len(self.rows), bytes=len(self.rows) * 10)

    def batches(self, carriers: Sequence[Carrier]) -> Iterator[pa.RecordBatch]:
        for start in range(0, len(self.rows), 100):
            type(self).read += 1
            part = self.rows[start : start + 100]
            yield pa.record_batch(
                {"id": pa.array([row[0] for row in part], pa.int32()), "carrier": pa.array([row[1] for row in part])}
            )


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> type[TableInMemory]:
    class Source(TableInMemory):
        """A class a test, so that no test sees another's rows."""

    Source.rows = [(number, f"c{number % 7}" if number % 5 else None) for number in range(1000)]
    monkeypatch.setattr(mssql_to_clickhouse, "SnapshotRead", Source)
    return Source


@pytest.fixture
def target(world: World) -> World:
    world.do(
        f"CREATE TABLE {world.database}.flights (id Int32, carrier Nullable(String)) ENGINE = MergeTree ORDER BY id"
    )
    return world


def route(world: World, max_source_bytes: int = 10**6) -> MsSqlToClickHouseRoute:
    plan = MsSqlToClickHousePlan(
        source=MsSqlDsn(host="none", database="none", user="none", password=Secret("none")),
        source_schema="marts",
        source_table="flights",
        max_source_bytes=max_source_bytes,
        service_id=world.service_id,
        physical_subject_sha256=SUBJECT,
        write_subject_sha256=SUBJECT,
        database=world.database,
        target_table="flights",
    )
    return MsSqlToClickHouseRoute(
        plan, access=world.access, observer=world.observer, snapshots=world.ledger, charges=world.ledger
    )


def admit(world: World, made: MsSqlToClickHouseRoute) -> Operation:
    operation = world.operation()
    record = made.admission_record(world.context(operation))
    world.ledger.put_evidence(operation.attempt_sha256, "admission", record)
    return operation


def outcome(world: World, made: MsSqlToClickHouseRoute, operation: Operation) -> TerminalState:
    return made.outcome(world.context(world.settled(operation))).state


def published(world: World) -> list[tuple[int, str | None]]:
    return world.sql(f"SELECT id, carrier FROM {world.database}.flights ORDER BY id")


def test_a_table_is_published_and_published_again(target: World, source: type[TableInMemory]) -> None:
    made = route(target)
    operation = admit(target, made)
    report = made.work(target.context(operation))
    assert (report.rows, report.bytes, target.ledger.charged) == (1000, 10_000, 10_000)
    assert outcome(target, made, operation) == "SUCCEEDED"
    assert published(target) == source.rows
    target.do("SYSTEM FLUSH LOGS")
    for purpose in ("ingest", "publish"):
        logged = target.sql(
            "SELECT DISTINCT user FROM system.query_log WHERE type = 'QueryFinish' "
            f"AND query_id = '{query_id(operation.attempt_sha256, purpose)}'"
        )
        assert logged == [(operation.principal(purpose).name,)]

    source.rows = [(1, "x")]
    target.ledger.records.clear()
    again = admit(target, made)
    made.work(target.context(again))
    assert outcome(target, made, again) == "SUCCEEDED"
    assert published(target) == [(1, "x")]
    left = set(target.target("flights").left_tables())
    assert left == {retired_table(operation.attempt_sha256), retired_table(again.attempt_sha256)}


def test_retired_tables_are_dropped_by_a_later_attempt_only(
    target: World, source: type[TableInMemory], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = route(target)
    first = admit(target, made)
    made.work(target.context(first))
    outcome(target, made, first)
    assert retired_table(first.attempt_sha256) in target.target("flights").left_tables()
    monkeypatch.setattr(mssql_to_clickhouse, "RETAIN_SECONDS", 0)
    target.ledger.records.clear()
    second = admit(target, made)
    made.work(target.context(second))
    assert retired_table(first.attempt_sha256) not in target.target("flights").left_tables()


def test_an_empty_source_is_a_whole_snapshot_too(target: World, source: type[TableInMemory]) -> None:
    target.do(f"INSERT INTO {target.database}.flights VALUES (1, 'old')")
    source.rows = []
    made = route(target)
    operation = admit(target, made)
    assert made.work(target.context(operation)).rows == 0
    assert outcome(target, made, operation) == "SUCCEEDED"
    assert published(target) == []


def test_rows_that_take_no_bytes_are_published(
    target: World, source: type[TableInMemory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """NULLs and empty texts alone: rows, and nothing to charge."""
    monkeypatch.setattr(source, "measure", lambda read, columns: Measure(rows=len(read.rows), bytes=0))
    made = route(target)
    operation = admit(target, made)
    rows = made.work(target.context(operation)).rows
    assert outcome(target, made, operation) == "SUCCEEDED"
    assert rows == len(source.rows) == len(published(target)) > 0


def test_bytes_are_charged_before_the_first_row_is_read(target: World, source: type[TableInMemory]) -> None:
    made = route(target, max_source_bytes=9_999)
    operation = admit(target, made)
    with pytest.raises(AdmissionRefused, match="source_bytes_ceiling"):
        made.work(target.context(operation))
    assert source.read == 0
    assert outcome(target, made, operation) == "FAILED"
    assert not target.target("flights").left_tables()


def test_a_value_that_would_change_stops_the_attempt_and_the_target_stays(
    target: World, source: type[TableInMemory]
) -> None:
    target.do(f"INSERT INTO {target.database}.flights VALUES (1, 'old')")
    source.rows = [*source.rows, (None, "x")]
    made = route(target)
    operation = admit(target, made)
    with pytest.raises(ValueRefused) as caught:
        made.work(target.context(operation))
    assert (caught.value.column, caught.value.reason) == ("id", "null_into_not_nullable")
    assert outcome(target, made, operation) == "FAILED"
    assert published(target) == [(1, "old")]


@pytest.mark.parametrize(
    "alter",
    [
        "ADD COLUMN more Int32",
        "DROP COLUMN carrier",
        "RENAME COLUMN carrier TO Carrier",
        "MODIFY COLUMN carrier Nullable(FixedString(2))",
        "ADD COLUMN twice Int32 MATERIALIZED id * 2",
    ],
)
def test_a_target_whose_columns_differ_gets_nothing(target: World, source: type[TableInMemory], alter: str) -> None:
    target.do(f"ALTER TABLE {target.database}.flights {alter}")
    made = route(target)
    operation = target.operation()
    with pytest.raises(ConfigurationError):
        made.work(target.context(operation))
    assert source.read == 0 and not target.target("flights").left_tables()


@pytest.mark.parametrize(
    "tamper",
    [
        "ALTER TABLE {t} UPDATE carrier = 'c9' WHERE id = 500 SETTINGS mutations_sync = 1",
        "ALTER TABLE {t} DELETE WHERE id = 999 SETTINGS mutations_sync = 1",
        "INSERT INTO {t} VALUES (1, 'c1')",
    ],
)
def test_a_staging_table_that_holds_something_else_is_not_published(
    target: World, source: type[TableInMemory], monkeypatch: pytest.MonkeyPatch, tamper: str
) -> None:
    made = route(target)
    operation = admit(target, made)
    context = target.context(operation)
    close = context.close

    def close_and_tamper(purpose: str) -> object:
        documents = close(purpose)  # type: ignore[arg-type]  # the purposes of the route pass through
        if purpose == "ingest":
            target.do(tamper.format(t=f"{target.database}.{staging_table(operation.attempt_sha256)}"))
        return documents

    monkeypatch.setattr(context, "close", close_and_tamper)
    with pytest.raises(ContentDiffers):
        made.work(context)
    assert not target.ledger.records
    assert outcome(target, made, operation) == "FAILED"
    assert published(target) == []


class Died(Exception):
    """The worker ends here."""


@pytest.mark.parametrize(
    ("step", "state"),
    [
        ("create_staging", "FAILED"),
        ("content", "FAILED"),
        ("intend", "FAILED"),
        ("exchange_before", "FAILED"),
        ("exchange_after", "SUCCEEDED"),
    ],
)
def test_a_worker_that_dies_at_any_step_is_resolved_from_what_is_there(
    target: World, source: type[TableInMemory], monkeypatch: pytest.MonkeyPatch, step: str, state: str
) -> None:
    def die(*_: object, **__: object) -> None:
        raise Died

    made = route(target)
    operation = admit(target, made)
    if step in ("create_staging", "content"):
        monkeypatch.setattr(made._target, step, die)
    elif step == "intend":
        monkeypatch.setattr(snapshot, "intend", die)
    elif step == "exchange_before":
        monkeypatch.setattr(snapshot, "exchange", die)
    else:
        exchange = snapshot.exchange

        def exchange_and_die(*given: Any) -> None:
            exchange(*given)
            raise Died

        monkeypatch.setattr(snapshot, "exchange", exchange_and_die)
    with pytest.raises(Died):
        made.work(target.context(operation))
    monkeypatch.undo()

    # Another process, later: a new route object, nothing but the ledger and the server.
    later = route(target)
    assert outcome(target, later, operation) == state
    assert published(target) == (source.rows if state == "SUCCEEDED" else [])
    found = target.target("flights").tables("flights")["flights"].uuid
    assert (found == str(staging_uuid(operation.attempt_sha256))) == (state == "SUCCEEDED")


def test_a_target_replaced_by_others_before_any_intent_is_unknown(target: World, source: type[TableInMemory]) -> None:
    made = route(target)
    operation = admit(target, made)
    target.do(f"CREATE TABLE {target.database}.other AS {target.database}.flights")
    target.do(f"EXCHANGE TABLES {target.database}.flights AND {target.database}.other")
    assert outcome(target, made, operation) == "COMMIT_UNKNOWN"


def test_a_plan_without_a_positive_ceiling_is_refused(target: World) -> None:
    with pytest.raises(ConfigurationError):
        replace(route(target)._plan, max_source_bytes=0)


def test_two_workers_with_one_attempt_cannot_both_stage(target: World, source: type[TableInMemory]) -> None:
    made = route(target)
    operation = admit(target, made)
    made.work(target.context(operation))
    with pytest.raises(ConfigurationError, match="staging_table"):
        made.work(target.context(operation))
    assert outcome(target, made, operation) == "SUCCEEDED"
    with closing(connect(target.observer)) as client:
        assert client.query(f"SELECT count() FROM {target.database}.flights").result_rows == [(1000,)]
