"""A guarded attempt from SQL Server to ClickHouse with a real ledger: done, killed in the middle, retried,
refused.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dpone.attempts import GuardedAttempt
from airflow_provider_dpone.composition.physical import observe_clickhouse
from airflow_provider_dpone.contracts.errors import AttemptFailed, ValueRefused
from airflow_provider_dpone.contracts.ownership import guard_id
from airflow_provider_dpone.contracts.principal import Coordinates
from airflow_provider_dpone.drivers.clickhouse import connect
from airflow_provider_dpone.drivers.mssql import MsSqlDsn
from airflow_provider_dpone.ledger import Activation
from airflow_provider_dpone.ledger.enroll import enroll
from airflow_provider_dpone.routes.mssql_to_clickhouse import MsSqlToClickHousePlan, MsSqlToClickHouseRoute
from tests.integration.clickhouse.conftest import World
from tests.support import ledger_records as make
from tests.support.live_ledger import LiveLedger, control_dsn, open_ledger

ROOT = Path(__file__).resolve().parents[3]
ROWS = 3000
SOURCE = """
CREATE TABLE dbo.flights (
    id int NOT NULL, carrier nvarchar(10) NULL, delay decimal(9, 2) NULL, day date NOT NULL,
    departed datetime2(7) NULL, entry uniqueidentifier NOT NULL, late bit NULL, distance float NULL)
"""
TARGET = """
CREATE TABLE {database}.flights (
    id Int32, carrier Nullable(String), delay Nullable(Decimal(9, 2)), day Date32,
    departed Nullable(DateTime64(7, 'UTC')), entry UUID, late Nullable(Bool), distance Nullable(Float64))
ENGINE = MergeTree ORDER BY id
"""


@dataclass
class Stage:
    """A source database with rows, a ledger with an active workload, and a ClickHouse target."""

    world: World
    ledger: LiveLedger
    source: MsSqlDsn
    activation: Activation
    server: Any

    def route(self, max_source_bytes: int = 10**8) -> MsSqlToClickHouseRoute:
        [resource] = [found for found in self.activation.request.resources if found.service_id == self.world.service_id]
        plan = MsSqlToClickHousePlan(
            source=self.source,
            source_schema="dbo",
            source_table="flights",
            max_source_bytes=max_source_bytes,
            service_id=resource.service_id,
            physical_subject_sha256=resource.physical_subject_sha256,
            write_subject_sha256=resource.write_subjects[0],
            database=self.world.database,
            target_table="flights",
        )
        return MsSqlToClickHouseRoute(
            plan,
            access=self.world.access,
            observer=self.world.observer,
            snapshots=self.ledger.snapshots,
            charges=self.ledger.charges,
        )

    def attempt(self, where: Coordinates, max_source_bytes: int = 10**8) -> GuardedAttempt:
        attempt, where = self.ledger.attempt(self.activation, "w000", where)
        return GuardedAttempt(
            attempt,
            where,
            route=self.route(max_source_bytes),
            gates={"clickhouse": self.world.gate},
            ledger=self.ledger.attempts,
            quiescence_seconds=60,
        )

    def execute(self, sql: str) -> None:
        with closing(self.server.connect(database=self.source.database)) as connection:
            connection.execute(sql)

    def source_rows(self) -> list[tuple[Any, ...]]:
        """Read with another driver than the route's, in a form both engines print alike."""
        with closing(self.server.connect("python-tds", database=self.source.database)) as connection:
            cursor = connection.cursor()
            cursor.execute(
                "SELECT id, carrier, CONVERT(varchar(20), delay), CONVERT(varchar(10), day, 23), "
                "CONVERT(varchar(27), departed, 121), LOWER(CONVERT(char(36), entry)), CONVERT(int, late), distance "
                "FROM dbo.flights ORDER BY id"
            )
            return [tuple(row) for row in cursor.fetchall()]

    def target_rows(self) -> list[tuple[Any, ...]]:
        return self.world.sql(
            "SELECT id, carrier, if(delay IS NULL, NULL, toDecimalString(assumeNotNull(delay), 2)), toString(day), "
            "toString(departed), toString(entry), toInt32(late), distance "
            f"FROM {self.world.database}.flights ORDER BY id"
        )


@pytest.fixture(scope="module")
def ledger(tsql_server: Any) -> LiveLedger:
    with closing(tsql_server.connect()) as connection:
        connection.execute("CREATE DATABASE [control_clickhouse]")
    return open_ledger(
        control_dsn(tsql_server.host, tsql_server.port, tsql_server.sa, tsql_server.sa_password, "control_clickhouse")
    )


@pytest.fixture
def stage(world: World, ledger: LiveLedger, tsql_server: Any, tsql_database: str) -> Iterator[Stage]:
    with closing(tsql_server.connect(database=tsql_database)) as connection:
        connection.execute(f"ALTER DATABASE [{tsql_database}] SET ALLOW_SNAPSHOT_ISOLATION ON")
        connection.execute(SOURCE)
        for start in range(0, ROWS, 500):
            values = ", ".join(_row(number) for number in range(start, start + 500))
            connection.execute(f"INSERT INTO dbo.flights VALUES {values}")
    world.do(TARGET.format(database=world.database))
    with closing(connect(world.observer)) as client:
        physical = observe_clickhouse(client, database=world.database)
    guard = guard_id(
        connector="clickhouse",
        service_id=physical.service_id,
        physical_subject_sha256=physical.physical_subject_sha256,
    )
    domain = (guard, "clickhouse", physical.service_id, physical.physical_subject_sha256)
    enroll(ledger.connect, ledger.settings, [ledger.enrollment(domain)])
    source = control_dsn(tsql_server.host, tsql_server.port, tsql_server.sa, tsql_server.sa_password, tsql_database)
    yield Stage(world, ledger, source, ledger.active(domains=[domain, *ledger.enroll(1)]), tsql_server)


def _row(number: int) -> str:
    if number % 11 == 0:
        return f"({number}, NULL, NULL, '2013-01-01', NULL, '{number:08X}-8B86-D011-B42D-00C04FC964FF', NULL, NULL)"
    return (
        f"({number}, N'c{number % 16}é', {number % 700}.{number % 100:02}, '2013-{number % 12 + 1:02}-28', "
        f"'2013-06-30 23:59:{number % 60:02}.{number:07}', '{number:08X}-8B86-D011-B42D-00C04FC964FF', "
        f"{number % 2}, {number * 0.1!r})"
    )


WORKER = """
import json, sys, time
from airflow_provider_dpone.drivers import Secret
from airflow_provider_dpone.drivers.clickhouse import ClickHouseDsn
from airflow_provider_dpone.ledger import LedgerSettings
from airflow_provider_dpone.routes import arrow_stream, mssql_source
from tests.integration.clickhouse import conftest, test_end_to_end as end
from tests.support import ledger_records as make
from tests.support.live_ledger import LiveLedger, connecting, control_dsn

given = json.load(sys.stdin)
source, control = (control_dsn(*given["sql"], database) for database in given["databases"])
host, port = given["clickhouse"]
access = ClickHouseDsn(host=host, port=port, user=given["access"][0], password=Secret(given["access"][1]))
observer = access.for_user(given["observer"][0], Secret(given["observer"][1]))
world = conftest.World(None, access, observer, *given["world"])
ledger = LiveLedger(dsn=control, connect=connecting(control), settings=LedgerSettings(service_id=make.SERVICE))
stage = end.Stage(world, ledger, source, ledger.activations.read(given["activation_id"]), None)
mssql_source.BATCH_ROWS = 1000
sent = arrow_stream.ArrowStream._sent

def slowly(self, outbox):
    sent(self, outbox)
    print("batch", flush=True)
    time.sleep(3600)

arrow_stream.ArrowStream._sent = slowly
stage.attempt(end.where(given["run_id"], 1)).run()
"""


def where(run_id: str, try_number: int = 1) -> Coordinates:
    return make.coordinates(run_id, task_id="publish.work", try_number=try_number)


def test_a_guarded_attempt_publishes_exactly_what_the_source_holds(stage: Stage) -> None:
    result = stage.attempt(where("manual__first")).run()

    assert result.operation.state == "SUCCEEDED"
    assert result.report is not None and result.report.rows == ROWS
    assert stage.target_rows() == stage.source_rows()
    key = result.operation.attempt_sha256
    assert stage.ledger.snapshots.read(key).state == "PUBLISHED"  # type: ignore[union-attr]  # it was just published
    charged = stage.ledger.charges.total(stage.activation.activation_id, "w000")
    assert charged == result.report.bytes > ROWS * 20
    outcome = stage.ledger.attempts.evidence(key, "outcome")
    assert outcome is not None and outcome["rows"] == ROWS and outcome["snapshot_state"] == "PUBLISHED"
    closed = stage.ledger.attempts.evidence(key, "closed")
    assert closed is not None and len(closed["principals"]) == 2


def test_a_value_that_would_change_ends_as_failed_with_the_target_untouched(stage: Stage) -> None:
    stage.execute("ALTER TABLE dbo.flights ALTER COLUMN id int NULL")
    stage.execute(
        "INSERT INTO dbo.flights VALUES (NULL, NULL, NULL, '2013-01-01', NULL, "
        "'6F9619FF-8B86-D011-B42D-00C04FC964FF', NULL, NULL)"
    )
    with pytest.raises((ValueRefused, AttemptFailed)) as caught:
        stage.attempt(where("manual__null")).run()
    assert "null_into_not_nullable" in f"{caught.value} {caught.value.__cause__}"
    [operation] = stage.ledger.attempts.find("dag", "manual__null", "publish.work", -1)
    assert operation.state == "FAILED" and stage.target_rows() == []


def _slow_worker(stage: Stage, tmp_path: Path, run_id: str) -> subprocess.Popen[bytes]:
    """The first try in a process of its own, whose INSERT stops after its first batch."""
    given = {
        "run_id": run_id,
        "activation_id": stage.activation.activation_id,
        "sql": [stage.source.host, stage.source.port, stage.source.user, stage.source.password.reveal()],
        "databases": [stage.source.database, stage.ledger.dsn.database],
        "clickhouse": [stage.world.access.host, stage.world.access.port],
        "access": [stage.world.access.user, stage.world.access.password.reveal()],
        "observer": [stage.world.observer.user, stage.world.observer.password.reveal()],
        "world": [stage.world.service_id, stage.world.database],
    }
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    worker = subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    assert worker.stdin is not None
    worker.stdin.write(json.dumps(given).encode())
    worker.stdin.close()
    return worker


def test_a_worker_killed_in_its_insert_is_closed_and_resolved_by_the_next_try(stage: Stage, tmp_path: Path) -> None:
    worker = _slow_worker(stage, tmp_path, "manual__killed")
    assert worker.stdout is not None
    assert worker.stdout.readline() == b"batch\n"
    [first] = stage.ledger.attempts.find("dag", "manual__killed", "publish.work", -1)
    assert first.state == "RUNNING"
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()

    result = stage.attempt(where("manual__killed", 2)).run()

    assert result.operation.state == "SUCCEEDED" and result.operation.attempt_sha256 != first.attempt_sha256
    assert stage.target_rows() == stage.source_rows()
    tries = stage.ledger.attempts.find("dag", "manual__killed", "publish.work", -1)
    assert [operation.state for operation in tries] == ["FAILED", "SUCCEEDED"]
    for operation in tries:
        assert operation.proof("CLOSED_GATES") and operation.proof("QUIESCENCE") and operation.proof("OUTCOME")


def test_a_worker_that_is_still_alive_when_the_next_try_comes_can_write_nothing_more(
    stage: Stage, tmp_path: Path
) -> None:
    worker = _slow_worker(stage, tmp_path, "manual__alive")
    assert worker.stdout is not None
    worker.stdout.readline()
    try:
        result = stage.attempt(where("manual__alive", 2)).run()
        assert result.operation.state == "SUCCEEDED"
        published = stage.target_rows()
        os.kill(worker.pid, signal.SIGTERM)
        worker.wait(30)
        time.sleep(0.5)
        assert stage.target_rows() == published == stage.source_rows()
    finally:
        worker.kill()
