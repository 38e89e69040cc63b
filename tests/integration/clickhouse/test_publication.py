"""One EXCHANGE and its verdict on a real engine: replies dropped, statements late, tables replaced by others."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from dpone_embedded.clickhouse import ClickHouseServer

from airflow_provider_dpone.contracts.canonical import exact_sha256
from airflow_provider_dpone.contracts.errors import ControlUnavailable, OutcomeUnknown
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.proof import Authority
from airflow_provider_dpone.contracts.snapshot import (
    SnapshotGeneration,
    SnapshotIntent,
    SnapshotLimits,
    SnapshotTarget,
)
from airflow_provider_dpone.drivers.clickhouse import ClickHouseDsn, connect
from airflow_provider_dpone.gates.clickhouse_names import retired_table, staging_table
from airflow_provider_dpone.gates.interface import ClickHousePublishGrant
from airflow_provider_dpone.routes import snapshot
from airflow_provider_dpone.routes.clickhouse_target import ClickHouseTarget
from airflow_provider_dpone.routes.snapshot import TargetChanged
from tests.integration.clickhouse.conftest import SUBJECT, World, open_world
from tests.support.tcp_proxy import Fate, TcpProxy


@pytest.fixture
def losing(world: World) -> Iterator[TcpProxy]:
    """The reply to each EXCHANGE is lost."""
    fate = Fate(loss="reply", needle="EXCHANGE TABLES")
    with TcpProxy(world.endpoint.host, world.endpoint.port, fate) as proxy:
        yield proxy


@pytest.fixture
def prepared(world: World) -> Operation:
    return prepare(world)


def prepare(world: World) -> Operation:
    """A target with the value 1, and a staging table of an attempt with the value 2."""
    operation = world.operation()
    world.do(f"CREATE TABLE {world.database}.target (a Int64) ENGINE = MergeTree ORDER BY a")
    world.do(f"INSERT INTO {world.database}.target VALUES (1)")
    world.target().create_staging(operation.attempt_sha256)
    world.do(f"INSERT INTO {world.database}.{staging_table(operation.attempt_sha256)} VALUES (2)")
    return operation


def intent(world: World, operation: Operation) -> SnapshotIntent:
    target = world.target()
    staging = staging_table(operation.attempt_sha256)
    found = target.tables("target", staging)
    ingest, publish = (
        Authority(connector=p.connector, service_id=p.service_id, principal_id=p.principal_id)
        for p in operation.principals
    )
    return SnapshotIntent(
        attempt=operation.attempt,
        target=SnapshotTarget(
            service_id=world.service_id,
            physical_subject_sha256=SUBJECT,
            database_id=target.database_uuid(),
            database=world.database,
            target_table="target",
            generation_table=staging,
            write_subject_sha256=SUBJECT,
            enrollment_sha256=SUBJECT,
        ),
        generation=SnapshotGeneration(
            record_sha256=SUBJECT,
            source_snapshot_sha256=SUBJECT,
            content_sha256=SUBJECT,
            schema_sha256=target.schema_sha256(staging),
            physical_sha256=found[staging].physical_sha256,
            old_target_uuid=found["target"].uuid,
            new_generation_uuid=found[staging].uuid,
            rows=1,
            source_bytes=8,
            wire_bytes=8,
            generation_bytes=found[staging].bytes,
            old_target_bytes=found["target"].bytes,
            retained_bytes=0,
        ),
        limits=SnapshotLimits(
            max_rows=10,
            max_source_bytes=1000,
            max_wire_bytes=1000,
            max_generation_bytes=10**9,
            max_retained_bytes=10**9,
            max_total_transient_bytes=10**10,
        ),
        ingest_principal=ingest,
        publisher_principal=publish,
        closed_ingest_sha256=exact_sha256({"schema": "test"}),
    )


def publisher(world: World, operation: Operation) -> ClickHouseDsn:
    grant = ClickHousePublishGrant(
        database=world.database, staging_table=staging_table(operation.attempt_sha256), target_table="target"
    )
    credential = world.gate.issue(operation, operation.principal("publish"), grant)
    return world.access.for_user(credential.username, credential.secret)


def value(world: World) -> int:
    return int(world.sql(f"SELECT a FROM {world.database}.target")[0][0])


def test_an_acknowledged_exchange_is_published(world: World, prepared: Operation) -> None:
    record = snapshot.intend(world.ledger, intent(world, prepared))
    assert snapshot.exchange(world.target(), publisher(world, prepared), record) is None

    decided = snapshot.decide(world.target(), world.ledger, world.context(world.settled(prepared)))

    assert decided is not None and decided.state == "PUBLISHED" and snapshot.state_of(decided) == "SUCCEEDED"
    assert value(world) == 2
    assert set(world.target().left_tables()) == {retired_table(prepared.attempt_sha256)}
    assert [entry.state for entry in world.ledger.records] == ["PREPARED", "EXCHANGE_INTENT", "PUBLISHED"]


def test_a_lost_reply_is_sent_once_and_resolved_by_the_uuids(
    world: World, prepared: Operation, losing: TcpProxy
) -> None:
    record = snapshot.intend(world.ledger, intent(world, prepared))
    through = replace(publisher(world, prepared), host="127.0.0.1", port=losing.port)

    error = snapshot.exchange(world.target(), through, record)

    assert error is not None and losing.met == 1
    decided = snapshot.decide(world.target(), world.ledger, world.context(world.settled(prepared)))
    assert decided is not None and decided.state == "PUBLISHED"
    assert value(world) == 2


def test_an_exchange_that_never_arrived_is_not_published(world: World, prepared: Operation) -> None:
    snapshot.intend(world.ledger, intent(world, prepared))
    decided = snapshot.decide(world.target(), world.ledger, world.context(world.settled(prepared)))
    assert decided is not None and decided.state == "NOT_PUBLISHED" and snapshot.state_of(decided) == "FAILED"
    assert value(world) == 1


def test_a_late_exchange_finds_neither_its_user_nor_its_name(world: World, prepared: Operation) -> None:
    snapshot.intend(world.ledger, intent(world, prepared))
    dsn = publisher(world, prepared)
    late = connect(dsn)
    snapshot.decide(world.target(), world.ledger, world.context(world.settled(prepared)))
    staging = staging_table(prepared.attempt_sha256)
    with pytest.raises(Exception, match=r"516|497|Authentication"):
        late.command(f"EXCHANGE TABLES {world.database}.target AND {world.database}.{staging}")
    with pytest.raises(Exception, match="UNKNOWN_TABLE"):
        world.do(f"EXCHANGE TABLES {world.database}.target AND {world.database}.{staging}")
    assert value(world) == 1


def test_a_target_that_somebody_else_replaced_is_unknown_and_stays_so(world: World, prepared: Operation) -> None:
    record = snapshot.intend(world.ledger, intent(world, prepared))
    snapshot.exchange(world.target(), publisher(world, prepared), record)
    world.do(f"CREATE TABLE {world.database}.stranger (a Int64) ENGINE = MergeTree ORDER BY a")
    world.do(f"EXCHANGE TABLES {world.database}.target AND {world.database}.stranger")
    settled = world.settled(prepared)
    for _ in range(2):
        decided = snapshot.decide(world.target(), world.ledger, world.context(settled))
        assert decided is not None and decided.state == "COMMIT_UNKNOWN"
    world.do(f"EXCHANGE TABLES {world.database}.target AND {world.database}.stranger")
    again = snapshot.decide(world.target(), world.ledger, world.context(settled))
    assert again is not None and again.state == "PUBLISHED"


def test_nothing_is_decided_before_the_publisher_is_closed_and_quiescent(world: World, prepared: Operation) -> None:
    snapshot.intend(world.ledger, intent(world, prepared))
    with pytest.raises(OutcomeUnknown, match="publisher_not_closed"):
        snapshot.decide(world.target(), world.ledger, world.context(prepared))
    assert staging_table(prepared.attempt_sha256) in world.target().left_tables()


def test_a_decision_survives_three_callers(world: World, prepared: Operation) -> None:
    record = snapshot.intend(world.ledger, intent(world, prepared))
    snapshot.exchange(world.target(), publisher(world, prepared), record)
    settled = world.settled(prepared)
    states = [
        found.state
        for _ in range(3)
        if (found := snapshot.decide(world.target(), world.ledger, world.context(settled))) is not None
    ]
    assert states == ["PUBLISHED"] * 3 and len(world.ledger.records) == 3


def test_no_exchange_is_sent_when_the_target_changed_under_the_attempt(world: World, prepared: Operation) -> None:
    record = snapshot.intend(world.ledger, intent(world, prepared))
    world.do(f"CREATE TABLE {world.database}.stranger (a Int64) ENGINE = MergeTree ORDER BY a")
    world.do(f"EXCHANGE TABLES {world.database}.target AND {world.database}.stranger")
    with pytest.raises(TargetChanged):
        snapshot.exchange(world.target(), publisher(world, prepared), record)


@pytest.mark.parametrize(
    "ddl",
    [
        "CREATE TABLE {t} (a Int64) ENGINE = ReplacingMergeTree ORDER BY a",
        "CREATE TABLE {t} (a Int64, d Date) ENGINE = MergeTree ORDER BY a TTL d + INTERVAL 1 DAY",
        "CREATE TABLE {t} (a Int64) ENGINE = Memory",
        "CREATE VIEW {t} AS SELECT 1 AS a",
    ],
)
def test_a_target_that_may_lose_rows_is_refused(world: World, ddl: str) -> None:
    world.do(ddl.format(t=f"{world.database}.target"))
    with pytest.raises(Exception, match="target_engine"):
        world.target().require()


def test_a_target_that_does_not_exist_and_a_database_without_uuids_are_refused(world: World) -> None:
    with pytest.raises(Exception, match="target_table"):
        world.target().require()
    overlay = ClickHouseTarget(
        service_id=world.service_id, database="default", table="t", access=world.access, observer=world.observer
    )
    with pytest.raises(Exception, match="target_database"):
        overlay.database_uuid()


def test_readers_see_the_old_or_the_new_table_and_never_an_error(world: World, prepared: Operation) -> None:
    record = snapshot.intend(world.ledger, intent(world, prepared))
    dsn = publisher(world, prepared)
    stop, seen, errors = threading.Event(), set[int](), list[BaseException]()

    def read() -> None:
        with closing(connect(world.observer)) as client:
            while not stop.is_set():
                try:
                    seen.add(int(client.query(f"SELECT a FROM {world.database}.target").result_rows[0][0]))
                except BaseException as err:
                    errors.append(err)
                    return
                time.sleep(0.005)

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    try:
        time.sleep(0.3)
        snapshot.exchange(world.target(), dsn, record)
        snapshot.decide(world.target(), world.ledger, world.context(world.settled(prepared)))
        time.sleep(0.3)
    finally:
        # Threads that go on for ever would keep the whole test process from ending.
        stop.set()
        for reader in readers:
            reader.join(20)
    assert not errors and seen == {1, 2}


def test_a_server_killed_right_after_the_exchange_still_tells_what_happened(tmp_path: Path) -> None:
    server = ClickHouseServer(tmp_path / "state")
    world = open_world(server.start(), "kept")
    try:
        operation = prepare(world)
        record = snapshot.intend(world.ledger, intent(world, operation))
        snapshot.exchange(world.target(), publisher(world, operation), record)
        server.kill()

        again = open_world(server.start(), "kept", world.ledger)

        assert again.service_id == world.service_id
        decided = snapshot.decide(again.target(), again.ledger, again.context(again.settled(operation)))
        assert decided is not None and decided.state == "PUBLISHED"
        assert value(again) == 2
    finally:
        server.stop()


def test_a_server_killed_before_the_exchange_has_published_nothing_and_keeps_its_users_closed(tmp_path: Path) -> None:
    server = ClickHouseServer(tmp_path / "state")
    world = open_world(server.start(), "kept")
    try:
        operation = prepare(world)
        snapshot.intend(world.ledger, intent(world, operation))
        credential = publisher(world, operation)
        world.gate.close(operation, operation.principal("publish"))
        server.kill()
        again = open_world(server.start(), "kept", world.ledger)
        with pytest.raises(ControlUnavailable):
            connect(replace(credential, port=again.endpoint.port))
        decided = snapshot.decide(again.target(), again.ledger, again.context(again.settled(operation)))
        assert decided is not None and decided.state == "NOT_PUBLISHED"
        assert value(again) == 1
    finally:
        server.stop()
