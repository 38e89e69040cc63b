"""Many connection attempts with one credential, from sixteen threads, while its gate is closed and proven.

After the proof no session of it is there, and none of its writes arrives, however many are still trying.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, replace

from airflow_provider_dpone.attempts.context import wait_quiescent
from airflow_provider_dpone.composition import projection
from airflow_provider_dpone.composition.services import gates_for, guarded_attempt
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.principal import Coordinates, Purpose
from airflow_provider_dpone.drivers import drain
from airflow_provider_dpone.drivers.clickhouse import connect as connect_clickhouse
from airflow_provider_dpone.drivers.mssql import connect as connect_mssql
from airflow_provider_dpone.drivers.postgres import connect as connect_postgres
from airflow_provider_dpone.gates.interface import (
    ClickHouseIngestGrant,
    Credential,
    Grant,
    MsSqlWriterGrant,
    PostgresExtractGrant,
)
from tests.faults.ground import Engine, Ground, Workload
from tests.faults.worker import HANG_SECONDS

_log = logging.getLogger(__name__)

THREADS = 16
#: The gate begins to close after this part of the attempts; the last part is begun after the proof.
_CLOSING_AFTER, _AFTER_THE_PROOF = 0.4, 0.2
_WORK: dict[Engine, tuple[Workload, Purpose]] = {
    "mssql": ("planes", "ingest"),
    "postgres": ("planes", "extract"),
    "clickhouse": ("flights", "ingest"),
}


@dataclass(frozen=True)
class Raced:
    """One closing. `entered` attempts did what they wanted; `after` of all were begun after the proof."""

    attempts: int
    entered: int
    after: int
    wrong: tuple[str, ...]


class _Runners:
    """Threads that try, one attempt after the other, until so many were begun. The last wait for `proven`."""

    def __init__(self, attempts: int, enter: Callable[[], None]) -> None:
        self._left = self._attempts = attempts
        self._enter = enter
        self._counting = threading.Lock()
        self.proven = threading.Event()
        self.entered = 0
        self.unexpected: list[str] = []
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(THREADS)]
        for thread in self._threads:
            thread.start()

    @property
    def begun(self) -> int:
        return self._attempts - self._left

    def join(self) -> None:
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive()

    def _run(self) -> None:
        while self._take():
            try:
                self._enter()
            except Exception as err:  # refused, or ended in the middle: by the driver's own kinds of error
                if isinstance(err, AssertionError | AttributeError | TypeError):
                    self.unexpected.append(repr(err))
            else:
                with self._counting:
                    self.entered += 1

    def _take(self) -> bool:
        with self._counting:
            if self._left == 0:
                return False
            self._left -= 1
            last = self._left < self._attempts * _AFTER_THE_PROOF
        if last:
            assert self.proven.wait(120), "the closing was not proven"
        return True


def race(ground: Ground, engine: Engine, attempts: int) -> Raced:
    """Issue, let them try, close and prove in the middle, and look at what came after the proof."""
    services = ground.services
    workload, purpose = _WORK[engine]
    active = projection.load_workload(ground.folder / "root", workload)
    operation = guarded_attempt(services, active, Coordinates(**ground.coordinates())).admit()
    principal, gate = operation.principal(purpose), gates_for(services)[engine]
    credential = gate.issue(operation, principal, _grant(ground, engine))
    runners = _Runners(attempts, _enter(ground, engine, operation, credential))
    while runners.begun < attempts * _CLOSING_AFTER:
        time.sleep(0.005)
    gate.close(operation, principal)
    wait_quiescent(gate, operation, principal, seconds=60, log=_log, poll=0.05)
    rows, entered = _rows(ground, engine, operation), runners.entered
    runners.proven.set()
    runners.join()
    time.sleep(HANG_SECONDS)
    wrong = list(runners.unexpected)
    if _rows(ground, engine, operation) != rows:
        wrong.append("a row arrived after the proof")
    if sessions := _sessions(ground, engine, operation, purpose):
        wrong.append(f"{sessions} sessions after the proof")
    if engine != "postgres" and runners.entered > rows:
        wrong.append(f"{runners.entered} writes were acknowledged, and {rows} rows are there")
    if entered == 0:
        wrong.append("nobody entered before the closing: this proves nothing")
    ground.settle(operation)
    settled = ground.operation(asdict(operation.coordinates))
    assert settled is not None
    wrong += ground.wrong_about(settled)
    return Raced(attempts, runners.entered, int(attempts * _AFTER_THE_PROOF), tuple(wrong))


def _grant(ground: Ground, engine: Engine) -> Grant:
    if engine == "mssql":
        return MsSqlWriterGrant(database=ground.live.target)
    if engine == "postgres":
        return PostgresExtractGrant(database=ground.postgres.issuer.database)
    ground.clickhouse(f"CREATE TABLE IF NOT EXISTS {ground.mart}.raced (who String) ENGINE = MergeTree ORDER BY who")
    return ClickHouseIngestGrant(database=ground.mart, staging_table="raced")


def _enter(ground: Ground, engine: Engine, operation: Operation, credential: Credential) -> Callable[[], None]:
    """Log in and write one row, or read where the attempt may only read."""
    key, user, secret = operation.attempt_sha256, credential.username, credential.secret

    def mssql() -> None:
        dsn = replace(ground.live.controller, database=ground.live.target).for_login(user, secret)
        with closing(connect_mssql(dsn)) as session:
            drain(session, "INSERT INTO [raw].[effects] ([operation_key]) VALUES (?);", key)
            session.commit()

    def postgres() -> None:
        dsn = ground.postgres.issuer.for_role(user, secret, app="race")
        with connect_postgres(dsn) as session:
            session.execute("SELECT count(*) FROM public.planes")

    def clickhouse() -> None:
        dsn = ground.services.require_clickhouse()[0].for_user(user, secret)
        with closing(connect_clickhouse(dsn, settings={"async_insert": 0})) as client:
            client.command(f"INSERT INTO {ground.mart}.raced VALUES ('{key}')")

    return {"mssql": mssql, "postgres": postgres, "clickhouse": clickhouse}[engine]


def _rows(ground: Ground, engine: Engine, operation: Operation) -> int:
    if engine == "mssql":
        return ground.live.effects(operation)
    if engine == "clickhouse":
        found = ground.clickhouse(f"SELECT count() FROM {ground.mart}.raced WHERE who = '{operation.attempt_sha256}'")
        return int(found[0][0])
    return 0


def _sessions(ground: Ground, engine: Engine, operation: Operation, purpose: Purpose) -> int:
    principal = operation.principal(purpose)
    if engine == "mssql":
        return ground.live.sessions(principal.sid)
    if engine == "postgres":
        query = "SELECT count(*) FROM pg_stat_activity WHERE usename = %s"
        return int(ground.postgres.asked(query, principal.name)[0][0])
    found = ground.clickhouse(f"SELECT count() FROM system.processes WHERE user = '{principal.name}'")
    return int(found[0][0])
