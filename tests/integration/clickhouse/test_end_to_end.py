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
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_dpone.contracts.errors import AttemptFailed, ValueRefused
from tests.integration.clickhouse.stage import ROWS, Stage, where
from tests.integration.clickhouse.test_source import a_reader

ROOT = Path(__file__).resolve().parents[3]
WORKER = """
import json, sys, time
from airflow_provider_dpone.drivers import Secret
from airflow_provider_dpone.drivers.clickhouse import ClickHouseDsn
from airflow_provider_dpone.ledger import LedgerSettings
from airflow_provider_dpone.routes import arrow_stream, mssql_source
from tests.integration.clickhouse import conftest, stage as on
from tests.support import ledger_records as make
from tests.support.live_ledger import LiveLedger, connecting, control_dsn

given = json.load(sys.stdin)
source, control = (control_dsn(*given["sql"], database) for database in given["databases"])
host, port = given["clickhouse"]
access = ClickHouseDsn(host=host, port=port, user=given["access"][0], password=Secret(given["access"][1]))
observer = access.for_user(given["observer"][0], Secret(given["observer"][1]))
world = conftest.World(None, access, observer, *given["world"])
ledger = LiveLedger(dsn=control, connect=connecting(control), settings=LedgerSettings(service_id=make.SERVICE))
stage = on.Stage(world, ledger, source, ledger.activations.read(given["activation_id"]), None)
mssql_source.BATCH_ROWS = 1000
sent = arrow_stream.ArrowStream._sent

def slowly(self, outbox):
    sent(self, outbox)
    print("batch", flush=True)
    time.sleep(3600)

arrow_stream.ArrowStream._sent = slowly
stage.attempt(on.where(given["run_id"], 1)).run()
"""


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


def test_a_reader_without_select_ends_as_failed_with_the_target_untouched(stage: Stage) -> None:
    reader = a_reader(stage.server, stage.source, "GRANT VIEW DEFINITION ON dbo.flights TO {user}")
    with pytest.raises(AttemptFailed) as failed:
        replace(stage, source=reader).attempt(where("manual__poor")).run()
    assert "role_right_missing" in str(failed.value.__cause__)
    [operation] = stage.ledger.attempts.find("dag", "manual__poor", "publish.work", -1)
    assert operation.state == "FAILED" and stage.target_rows() == []
    stage.execute(f"GRANT SELECT ON dbo.flights TO [{reader.user}]")
    assert replace(stage, source=reader).attempt(where("manual__poor", 2)).run().operation.state == "SUCCEEDED"
    assert stage.target_rows() == stage.source_rows()


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
