"""One real ClickHouse engine a session, a fresh Atomic database a test, and attempts whose ledger is in memory."""

from __future__ import annotations

import logging
import secrets
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from dpone_embedded.clickhouse import Endpoint
from dpone_embedded.clickhouse.pytest_plugin import clickhouse_endpoint, clickhouse_server

from airflow_provider_dpone.attempts.context import Cancellation, WorkContext
from airflow_provider_dpone.contracts.attempt import Attempt
from airflow_provider_dpone.contracts.canonical import exact_sha256
from airflow_provider_dpone.contracts.errors import AdmissionRefused
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.ownership import guard_id
from airflow_provider_dpone.contracts.principal import Coordinates
from airflow_provider_dpone.contracts.proof import proof_for
from airflow_provider_dpone.contracts.rules import whole_number
from airflow_provider_dpone.contracts.snapshot import SnapshotRecord
from airflow_provider_dpone.drivers import Secret
from airflow_provider_dpone.drivers.clickhouse import ClickHouseDsn, connect
from airflow_provider_dpone.gates.clickhouse import ClickHouseGate
from airflow_provider_dpone.routes.clickhouse_target import ClickHouseTarget
from tests.integration.clickhouse.stage import Stage, open_stage
from tests.support.live_ledger import LiveLedger, control_dsn, open_ledger

__all__ = ["clickhouse_endpoint", "clickhouse_server"]

SUBJECT = exact_sha256({"schema": "test.subject"})


class MemoryLedger:
    """Evidence, snapshot records and charges of the attempts of one test."""

    def __init__(self) -> None:
        self.documents: list[tuple[str, str, Mapping[str, object]]] = []
        self.records: list[SnapshotRecord] = []
        self.charged = 0

    def put_evidence(self, attempt_sha256: str, kind: str, document: Mapping[str, object]) -> str:
        self.documents.append((attempt_sha256, kind, document))
        return exact_sha256(document)

    def evidence(self, attempt_sha256: str, kind: str) -> Mapping[str, Any] | None:
        found = [document for sha, name, document in self.documents if (sha, name) == (attempt_sha256, kind)]
        return found[-1] if found else None

    def put(self, record: SnapshotRecord) -> SnapshotRecord:
        if self.records and self.records[-1] == record:
            return record
        assert record.revision == len(self.records) + 1
        self.records.append(record)
        return record

    def read(self, attempt: Attempt | str) -> SnapshotRecord | None:
        return self.records[-1] if self.records else None

    def charge(
        self, activation_id: str, workload_id: str, bytes: int, ceiling: int, *, attempt: str | None = None
    ) -> object:
        whole_number(bytes, "source_bytes", at_least=1)  # the ledger's own rule
        if self.charged + bytes > ceiling:
            raise AdmissionRefused("source_bytes_ceiling")
        self.charged += bytes
        return self.charged


@dataclass
class World:
    """A server, its accounts, one database with a gate and a target, and a ledger in memory."""

    endpoint: Endpoint
    access: ClickHouseDsn
    observer: ClickHouseDsn
    service_id: str
    database: str
    ledger: MemoryLedger = field(default_factory=MemoryLedger)

    @property
    def gate(self) -> ClickHouseGate:
        # A proof's two reads may be closer together than where a server queues work behind them.
        return ClickHouseGate(
            service_id=self.service_id, access=self.access, observer=self.observer, read_interval_seconds=0.02
        )

    def target(self, table: str = "target") -> ClickHouseTarget:
        return ClickHouseTarget(
            service_id=self.service_id,
            database=self.database,
            table=table,
            access=self.access,
            observer=self.observer,
        )

    def sql(self, text: str) -> list[Any]:
        with closing(connect(self.access)) as client:
            return list(client.query(text).result_rows)

    def do(self, text: str) -> None:
        with closing(connect(self.access)) as client:
            client.command(text)

    def operation(self) -> Operation:
        guard = guard_id(connector="clickhouse", service_id=self.service_id, physical_subject_sha256=SUBJECT)
        attempt = Attempt(
            activation_request_sha256=exact_sha256({"schema": "test.request"}),
            workload_id="publish",
            constituent_id="native",
            pack_sha256=SUBJECT,
            plan_sha256=SUBJECT,
            dag_run_id=f"manual__{uuid.uuid4()}",
            task_id="publish.work",
            try_number=1,
            map_index=-1,
            guard_epochs=((guard, 1),),
        )
        return Operation(
            attempt=attempt,
            attempt_sha256=attempt.sha256,
            owner_key=SUBJECT,
            activation_id=str(uuid.uuid4()),
            state="RUNNING",
            coordinates=Coordinates(
                dag_id="flights_publish",
                run_id=attempt.dag_run_id,
                task_id=attempt.task_id,
                map_index=-1,
                try_number=1,
                task_instance_id=str(uuid.uuid4()),
            ),
            principals=(self.gate.new_principal("ingest"), self.gate.new_principal("publish")),
            gate=None,
            proofs=(),
            closed_gates_proof_sha256=None,
            quiescence_proof_sha256=None,
            outcome_proof_sha256=None,
        )

    def settled(self, operation: Operation) -> Operation:
        """Close and prove every principal, and give the operation the two proofs that an outcome rests on."""
        evidence = []
        for principal in operation.principals:
            evidence.append(self.gate.close(operation, principal))
            evidence.append(self.gate.prove_quiescent(operation, principal))
        sha = exact_sha256({"evidence": evidence})
        return replace(
            operation,
            proofs=(
                proof_for(operation.attempt, operation.principals, "CLOSED_GATES", sha),
                proof_for(operation.attempt, operation.principals, "QUIESCENCE", sha),
            ),
        )

    def context(self, operation: Operation) -> WorkContext:
        return WorkContext(
            operation=operation,
            predecessors=(),
            ledger=self.ledger,  # type: ignore[arg-type]  # only the evidence part is asked
            gates={"clickhouse": self.gate},
            log=logging.getLogger("test"),
            cancellation=Cancellation(),
            quiescence_seconds=20,
        )


def open_world(endpoint: Endpoint, database: str, ledger: MemoryLedger | None = None) -> World:
    """The accounts of a server and one Atomic database in it, made if it is not there."""
    access = ClickHouseDsn(
        host=endpoint.host, port=endpoint.port, user=endpoint.admin_user, password=Secret(endpoint.admin_password)
    )
    observer = access.for_user(endpoint.observer_user, Secret(endpoint.observer_password))
    with closing(connect(access)) as client:
        service_id = str(client.command("SELECT toString(serverUUID())"))
        client.command(f"CREATE DATABASE IF NOT EXISTS {database} ENGINE = Atomic")
    return World(endpoint, access, observer, service_id, database, ledger or MemoryLedger())


@pytest.fixture
def world(clickhouse_endpoint: Endpoint) -> Iterator[World]:
    made = open_world(clickhouse_endpoint, f"t_{secrets.token_hex(6)}")
    yield made
    made.do(f"DROP DATABASE {made.database} SYNC")


@pytest.fixture(scope="module")
def ledger(tsql_server: Any) -> LiveLedger:
    control = f"control_clickhouse_{secrets.token_hex(4)}"
    with closing(tsql_server.connect()) as connection:
        connection.execute(f"CREATE DATABASE [{control}]")
    return open_ledger(
        control_dsn(tsql_server.host, tsql_server.port, tsql_server.sa, tsql_server.sa_password, control)
    )


@pytest.fixture
def stage(world: World, ledger: LiveLedger, tsql_server: Any, tsql_database: str) -> Stage:
    return open_stage(world, ledger, tsql_server, tsql_database)
