"""A ledger on a real endpoint, with the steps of a life that tests compose."""

from __future__ import annotations

import itertools
import secrets
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_dpone.contracts.activation import ActivationRequest
from airflow_provider_dpone.contracts.attempt import Attempt
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.principal import (
    Coordinates,
    Principal,
    new_clickhouse_principal,
    new_mssql_principal,
)
from airflow_provider_dpone.contracts.proof import Authority, ProofKind, TerminalState, proof_for
from airflow_provider_dpone.contracts.snapshot import (
    ExchangeObservation,
    PublisherClosure,
    SnapshotGeneration,
    SnapshotIntent,
    SnapshotLimits,
    SnapshotRecord,
    SnapshotTarget,
)
from airflow_provider_dpone.drivers import Connect, Connection, Cursor, Secret, drain
from airflow_provider_dpone.drivers.mssql import MsSqlDsn, connect
from airflow_provider_dpone.ledger import (
    Activation,
    ActivationStore,
    AttemptStore,
    ChargeStore,
    GateReceiptStore,
    LedgerSettings,
    LoginGateStore,
    SnapshotStore,
    install,
)
from airflow_provider_dpone.ledger.enroll import EnrolledDomain, enroll
from tests.support import ledger_records as make
from tests.support.gate_receipts import open_door
from tests.support.ledger_records import CLICKHOUSE, SERVICE

_NUMBERS = itertools.count(1)


@dataclass(frozen=True, kw_only=True)
class LiveLedger:
    """Stores over one control database. ``through`` gives the same ledger over other connections."""

    dsn: MsSqlDsn
    connect: Connect
    settings: LedgerSettings
    #: The closer's connections, where the others may not move a gate.
    closer: Connect | None = None

    @property
    def activations(self) -> ActivationStore:
        return ActivationStore(self.connect, self.settings)

    @property
    def attempts(self) -> AttemptStore:
        return AttemptStore(self.connect, self.settings)

    @property
    def gates(self) -> LoginGateStore:
        return LoginGateStore(self.closer or self.connect, self.settings, role="closer")

    @property
    def snapshots(self) -> SnapshotStore:
        return SnapshotStore(self.connect, self.settings)

    @property
    def receipts(self) -> GateReceiptStore:
        return GateReceiptStore(self.connect, self.settings)

    @property
    def charges(self) -> ChargeStore:
        return ChargeStore(self.connect, self.settings)

    def through(self, other: Connect) -> LiveLedger:
        return replace(self, connect=other)

    def rows(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """A look, or a tampering, of a test's own: autocommitted, around all stores."""
        connection = self.connect()
        try:
            connection.setautocommit(True)  # type: ignore[attr-defined]  # mssql-python's connection
            results = drain(connection, sql, *parameters)
            return results[-1] if results else []
        finally:
            connection.close()

    def count(self, table: str) -> int:
        [(number,)] = self.rows(f"SELECT COUNT(*) FROM {table}")
        return int(number)

    def enroll(self, count: int = 2) -> list[tuple[str, str, str, str]]:
        """New invented ClickHouse domains, enrolled."""
        domains = [make.domain(f"{self.dsn.database} {next(_NUMBERS)}", "clickhouse") for _ in range(count)]
        enroll(self.connect, self.settings, [self.enrollment(domain) for domain in domains])
        return domains

    def enrollment(self, domain: tuple[str, str, str, str]) -> EnrolledDomain:
        _, connector, service, subject = domain
        return EnrolledDomain(connector=connector, service_id=service, physical_subject_sha256=subject)

    def active(self, count: int = 2, domains: Sequence[tuple[str, str, str, str]] | None = None) -> Activation:
        """An ACTIVE activation over new domains, or over these."""
        request = make.request(list(domains or self.enroll(count)))
        self.activations.prepare(request)
        return self.activations.activate(request)

    def admit(
        self,
        activation: Activation,
        workload_id: str = "w000",
        where: Coordinates | None = None,
        principals: Sequence[Principal] | None = None,
    ) -> Operation:
        attempt, where = self.attempt(activation, workload_id, where)
        return self.attempts.admit_once(attempt, where, principals or self.clickhouse())

    def attempt(
        self, activation: Activation, workload_id: str = "w000", where: Coordinates | None = None
    ) -> tuple[Attempt, Coordinates]:
        where = where or make.coordinates(f"run {next(_NUMBERS)}")
        return make.attempt(activation.request, workload_id, activation.epochs_of(workload_id), where), where

    def clickhouse(self) -> list[Principal]:
        return [new_clickhouse_principal(CLICKHOUSE, "ingest"), new_clickhouse_principal(CLICKHOUSE, "publish")]

    def login(self) -> list[Principal]:
        return [new_mssql_principal(SERVICE, "build")]

    def close(self, operation: Operation) -> None:
        """Move a login gate to its end, as a gate does, without anything on the server."""
        if operation.gate is None:
            return
        key = operation.attempt_sha256
        self.gates.to_closing(key)
        self.gates.to_closed(key, lambda cursor: {"schema": "test.closed.v1", "attempt_sha256": key})

    def prove(self, operation: Operation, kind: ProofKind, state: TerminalState | None = None, note: str = "") -> str:
        """Store evidence and the proof that names it; the digest that is kept."""
        document = {"schema": "test.evidence.v1", "kind": kind, "state": state, "note": note}
        evidence = self.attempts.put_evidence(operation.attempt, kind.lower(), document)
        proof = proof_for(operation.attempt, operation.principals, kind, evidence, state)
        return self.attempts.put_proof(operation.attempt, proof)

    def end(self, operation: Operation, state: TerminalState = "SUCCEEDED") -> Operation:
        """Everything between admission and the end."""
        self.close(operation)
        self.prove(operation, "CLOSED_GATES")
        self.prove(operation, "QUIESCENCE")
        outcome = self.prove(operation, "OUTCOME", state)
        return self.attempts.finalize(operation.attempt, state=state, outcome_proof_sha256=outcome)

    def snapshot(self, operation: Operation) -> SnapshotRecord:
        """A PREPARED publication of an operation with an ingest and a publish principal."""
        activation = self.activations.read(operation.activation_id)
        assert activation is not None
        return snapshot_of(activation.request, operation.attempt, operation.principals)

    def decided(self, record: SnapshotRecord, *, swapped: bool) -> SnapshotRecord:
        """The verdict when the pair of uuids is seen swapped, or as it was."""
        return decided_of(record, swapped=swapped)

    def retire(self, activation: Activation) -> Activation:
        self.activations.begin_retirement(activation.request)
        return self.activations.finalize_retirement(activation.request)


def snapshot_of(request: ActivationRequest, attempt: Attempt, principals: Sequence[Principal]) -> SnapshotRecord:
    """A PREPARED publication into the domain of an attempt."""
    [resource] = [found for found in request.resources if found.guard_id in attempt.guard_ids]
    target = SnapshotTarget(
        service_id=resource.service_id,
        physical_subject_sha256=resource.physical_subject_sha256,
        database_id=str(uuid.uuid4()),
        database="flights",
        target_table="target",
        generation_table="generation",
        write_subject_sha256=make.sha("write"),
        enrollment_sha256=make.sha("enrollment"),
    )
    digests = {name: make.sha(name) for name in ("record", "source_snapshot", "content", "schema", "physical")}
    sizes = ("rows", "source_bytes", "wire_bytes", "generation_bytes", "old_target_bytes", "retained_bytes")
    limits = ("rows", "source_bytes", "wire_bytes", "generation_bytes", "retained_bytes", "total_transient_bytes")
    by_purpose = {
        p.purpose: Authority(connector=p.connector, service_id=p.service_id, principal_id=p.principal_id)
        for p in principals
        if p.connector == "clickhouse"
    }
    intent = SnapshotIntent(
        attempt=attempt,
        target=target,
        generation=SnapshotGeneration(
            **{f"{name}_sha256": value for name, value in digests.items()},  # type: ignore[arg-type]  # by name
            old_target_uuid=str(uuid.uuid4()),
            new_generation_uuid=str(uuid.uuid4()),
            **dict.fromkeys(sizes, 1),  # type: ignore[arg-type]  # by name
        ),
        limits=SnapshotLimits(**{f"max_{name}": 1000 for name in limits}),
        ingest_principal=by_purpose["ingest"],
        publisher_principal=by_purpose["publish"],
        closed_ingest_sha256=make.sha("closed ingest"),
    )
    return SnapshotRecord(intent=intent)


def decided_of(record: SnapshotRecord, *, swapped: bool) -> SnapshotRecord:
    """The verdict when the pair of uuids is seen swapped, or as it was."""
    intent = record.intent
    pair = (intent.generation.old_target_uuid, intent.generation.new_generation_uuid)
    target_uuid, generation_uuid = pair[::-1] if swapped else pair
    observation = ExchangeObservation(
        target=intent.target,
        target_uuid=target_uuid,
        generation_uuid=generation_uuid,
        database_engine="Atomic",
        table_engines=("MergeTree", "MergeTree"),
        node_count=1,
        replica_count=1,
        schema_sha256=(intent.generation.schema_sha256, intent.generation.schema_sha256),
        physical_sha256=(intent.generation.physical_sha256, intent.generation.physical_sha256),
        unsupported_features=(),
        generation_content_sha256=intent.generation.content_sha256,
        generation_rows=1,
        generation_bytes=1,
        old_target_bytes=1,
        retained_bytes=1,
        catalog_evidence_sha256=make.sha("catalog"),
    )
    closure = PublisherClosure(
        intent_sha256=intent.sha256, closed_gates_sha256=make.sha("closed"), quiescence_sha256=make.sha("quiet")
    )
    return record.decided(closure, observation)


def nothing(cursor: Cursor) -> None:
    """A server step that only looks, so that the callback's round trip is there."""
    cursor.execute("SELECT 1")
    cursor.fetchall()


def control_dsn(host: str, port: int, user: str, password: str, database: str) -> MsSqlDsn:
    return MsSqlDsn(
        host=host,
        port=port,
        database=database,
        user=user,
        password=Secret(password),
        trust_server_certificate=True,
    )


def connecting(dsn: MsSqlDsn) -> Connect:
    def fresh() -> Connection:
        return connect(dsn)

    return fresh


@contextmanager
def target_database(server: Any, role: str, schemas: Sequence[str]) -> Iterator[str]:
    """A new database of the ledger's instance with a writer role and schemas; its name."""
    name = f"target {secrets.token_hex(4)}"
    connection = server.connect()
    try:
        connection.execute(f"CREATE DATABASE [{name}]")
        connection.execute(f"USE [{name}]; CREATE ROLE [{role}] AUTHORIZATION [dbo];")
        for schema in schemas:
            connection.execute(f"CREATE SCHEMA [{schema}] AUTHORIZATION [dbo]")
        connection.execute("USE [master]")
        yield name
        connection.execute(f"DROP DATABASE [{name}]")
    finally:
        connection.close()


def open_ledger(dsn: MsSqlDsn) -> LiveLedger:
    """Install a ledger into the database of the DSN, and open it for activations."""
    settings = LedgerSettings(service_id=SERVICE)
    install.apply(connecting(dsn), settings, authority="nonproduction")
    open_door(connecting(dsn), settings)
    return LiveLedger(dsn=dsn, connect=connecting(dsn), settings=settings)
