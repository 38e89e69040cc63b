"""Owners and operations of both kinds, written as rows under the control lock, as the stores write them.

The runtime creates no qualification rows yet, and every state of an execution would take it many calls. The database's
own triggers are in force here: what they let through is what whoever holds the lock can write.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_dpone.contracts.activation import (
    ActivationRequest,
    OccurrenceContext,
    PhysicalResource,
    WorkloadAdmission,
)
from airflow_provider_dpone.contracts.attempt import Attempt
from airflow_provider_dpone.contracts.canonical import exact_bytes, sha256_text
from airflow_provider_dpone.contracts.ownership import OwnerKind, PhysicalClaim, guard_id, owner_key
from airflow_provider_dpone.contracts.principal import Coordinates, Principal, new_clickhouse_principal
from airflow_provider_dpone.contracts.proof import TerminalState, proof_for
from airflow_provider_dpone.contracts.qualification import QualificationOperation, QualificationOwner
from airflow_provider_dpone.ledger.reading import instance_sha256
from tests.support import ledger_records as make
from tests.support.ledger_records import CLICKHOUSE, SERVICE, sha

#: A statement with its parameters.
Write = tuple[str, Sequence[Any]]

BEGIN = """
SET XACT_ABORT ON;
BEGIN TRANSACTION;
DECLARE @r int;
EXEC @r = sys.sp_getapplock @Resource = N'dpone:composition-control:v1', @LockMode = N'Exclusive', @LockOwner = N'Transaction', @LockTimeout = 5000;
"""
CONTROL = "dpone_control.composition_"

#: The states that an owner passes on the way to each, as the state machines have it.
PATHS: dict[OwnerKind, dict[str, tuple[str, ...]]] = {
    "execution": {
        "PREPARED": (),
        "ACTIVE": ("ACTIVE",),
        "RETIRING": ("ACTIVE", "RETIRING"),
        "RETIRED": ("ACTIVE", "RETIRING", "RETIRED"),
    },
    "qualification": {
        "PREPARED": (),
        "ACTIVE": ("ACTIVE",),
        "SEALING": ("ACTIVE", "SEALING"),
        "SEALED": ("ACTIVE", "SEALING", "SEALED"),
        "TRANSFERRED": ("ACTIVE", "SEALING", "SEALED", "TRANSFERRED"),
        "RETIRED": ("ACTIVE", "SEALING", "RETIRED"),
    },
}
#: Owners in these states hold nothing any more.
ENDED = ("RETIRED", "TRANSFERRED")


def batch(writes: Iterable[Write], *, commit: bool) -> tuple[str, list[Any]]:
    """All writes in one locked transaction, kept or taken back."""
    given = list(writes)
    text = BEGIN + "\n".join(statement for statement, _ in given)
    text += f"\n{'COMMIT' if commit else 'ROLLBACK'} TRANSACTION;"
    return text, [value for _, values in given for value in values]


@dataclass(frozen=True, kw_only=True, order=True)
class Domain:
    """An invented physical domain."""

    guard: str
    connector: str
    service: str
    subject: str

    @classmethod
    def new(cls, connector: str) -> Domain:
        service = SERVICE if connector == "mssql" else CLICKHOUSE
        subject = sha(f"subject {uuid.uuid4()}")
        guard = guard_id(connector=connector, service_id=service, physical_subject_sha256=subject)
        return cls(guard=guard, connector=connector, service=service, subject=subject)

    def enrolled(self) -> Write:
        row = [self.guard, self.connector, self.service, self.subject]
        return f"INSERT INTO {CONTROL}domains VALUES (?, ?, ?, ?, 0, NULL);", row


def request_over(workloads: dict[str, Sequence[Domain]], *, activation_id: str | None = None) -> ActivationRequest:
    """An activation whose workloads write these domains. The first one is native, the others are standalone."""
    subjects = {(name, domain.guard): sha(f"{name} {domain.guard}") for name in workloads for domain in workloads[name]}
    domains = sorted({domain for scope in workloads.values() for domain in scope})
    return ActivationRequest(
        context=OccurrenceContext(
            activation_id=activation_id or str(uuid.uuid4()),
            environment="synthetic",
            release_id=sha("release"),
            deployment_id=sha("deployment"),
            previous_deployment_id=None,
            runtime_context_sha256=sha("context"),
        ),
        source_subject_sha256=sha("source"),
        workloads=tuple(
            WorkloadAdmission(
                workload_id=name,
                constituent_id="standalone" if number else "native",
                pack_sha256=sha(f"pack {name}"),
                execution_cell="sqlserver_dbt_v1",
                write_subjects=tuple(sorted(subjects[name, domain.guard] for domain in workloads[name])),
            )
            for number, name in enumerate(sorted(workloads))
        ),
        resources=tuple(
            PhysicalResource(
                guard_id=domain.guard,
                connector=domain.connector,
                service_id=domain.service,
                physical_subject_sha256=domain.subject,
                observation_sha256=sha(f"observed {domain.guard}"),
                write_subjects=tuple(
                    sorted(subjects[name, domain.guard] for name in workloads if domain in workloads[name])
                ),
            )
            for domain in domains
        ),
    )


def qualification_over(domains: Sequence[Domain], *, run_id: str | None = None) -> QualificationOwner:
    """A qualification run over these domains, with every claim role among them."""
    roles = ("mutation", "retained_source", "mutation_and_retained_source")
    claims = []
    for number, domain in enumerate(domains):
        role = "retained_source" if domain.connector == "postgres" else roles[number % 3]
        claims.append(
            PhysicalClaim(
                connector=domain.connector,
                service_id=domain.service,
                physical_subject_sha256=domain.subject,
                observation_sha256=sha(f"observed {domain.guard}"),
                role=role,  # type: ignore[arg-type]  # one of the three
                read_subjects=() if role == "mutation" else (sha(f"read {domain.guard}"),),
                write_subjects=() if role == "retained_source" else (sha(f"write {domain.guard}"),),
            )
        )
    return QualificationOwner(
        qualification_run_id=run_id or str(uuid.uuid4()),
        consumption_subject_sha256=sha("consumption"),
        grant_sha256=sha("grant"),
        fixture_plan_sha256=sha("fixture"),
        qualification_plan_sha256=sha("plan"),
        scope_sha256=sha("scope"),
        environment_id=str(uuid.uuid4()),
        campaign_id=str(uuid.uuid4()),
        claims=tuple(sorted(claims, key=lambda claim: claim.guard_id)),
    )


Subject = ActivationRequest | QualificationOwner


@dataclass(frozen=True, kw_only=True)
class PlantedOwner:
    """An owner of either kind. Its domains are acquired at epoch 1 unless ``epochs`` says otherwise."""

    subject: Subject
    epochs: Mapping[str, int] = field(default_factory=dict)

    def epoch(self, guard: str) -> int:
        return self.epochs.get(guard, 1)

    @property
    def kind(self) -> OwnerKind:
        return "execution" if isinstance(self.subject, ActivationRequest) else "qualification"

    @property
    def owner_id(self) -> str:
        subject = self.subject
        return subject.activation_id if isinstance(subject, ActivationRequest) else subject.qualification_run_id

    @property
    def key(self) -> str:
        return owner_key(self.kind, self.owner_id)

    @property
    def claims(self) -> dict[str, bytes]:
        held = self.subject.resources if isinstance(self.subject, ActivationRequest) else self.subject.claims
        return {claim.guard_id: claim.document() for claim in held}

    def acquired(self) -> Iterator[Write]:
        """The owner's original, PREPARED, and all its domains."""
        row = [self.key, self.kind, self.owner_id, self.subject.sha256, self.subject.document()]
        yield f"INSERT INTO {CONTROL}owners VALUES (?, ?, ?, ?, ?, 'PREPARED');", row
        for guard, claim in self.claims.items():
            yield (
                f"UPDATE {CONTROL}domains SET fencing_epoch = fencing_epoch + 1, owner_key = ? WHERE guard_id = ?;",
                [self.key, guard],
            )
            yield (
                f"INSERT INTO {CONTROL}owner_domains VALUES (?, ?, ?, ?);",
                [self.key, guard, claim, self.epoch(guard)],
            )

    def moved(self, state: str) -> Iterator[Write]:
        """To one state further; an ended owner gives its domains back."""
        yield f"UPDATE {CONTROL}owners SET state = ? WHERE owner_key = ?;", [state, self.key]
        if state in ENDED:
            yield f"UPDATE {CONTROL}domains SET owner_key = NULL WHERE owner_key = ?;", [self.key]


@dataclass(frozen=True, kw_only=True)
class PlantedAttempt:
    """An operation of the execution family, with one principal and whatever its end takes."""

    owner: PlantedOwner
    attempt: Attempt
    coordinates: Coordinates
    principals: tuple[Principal, ...] = field(default_factory=lambda: (new_clickhouse_principal(CLICKHOUSE, "ingest"),))

    @property
    def key(self) -> str:
        return self.attempt.sha256

    def admitted(self) -> Iterator[Write]:
        attempt, at = self.attempt, self.coordinates
        yield _operation(self.key, "execution", self.owner, self.key, attempt.document())
        yield from _scope(self.key, self.owner, attempt.guard_epochs)
        row = [self.key, instance_sha256(*at.instance), at.try_number, at.map_index, at.dag_id, at.run_id, at.task_id]
        yield (
            "INSERT INTO dpone_ext.attempt_coordinates VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, SYSUTCDATETIME());",
            [*row, attempt.workload_id, at.task_instance_id],
        )
        for principal in self.principals:
            yield (
                f"INSERT INTO {CONTROL}issued_authorities VALUES (?, ?, ?, ?, ?, ?);",
                [self.key, *principal.key, principal.name, principal.purpose],
            )

    def ended(self, state: TerminalState) -> Iterator[Write]:
        proofs = []
        for number, (kind, outcome) in enumerate(
            (("CLOSED_GATES", None), ("QUIESCENCE", None), ("OUTCOME", state)), start=1
        ):
            document = exact_bytes({"schema": "test.evidence.v1", "kind": kind})
            evidence = sha256_text(document)
            yield (
                "INSERT INTO dpone_ext.evidence VALUES (?, ?, ?, ?, ?, SYSUTCDATETIME());",
                [self.key, number, kind.lower(), evidence, document],
            )
            proof = proof_for(self.attempt, self.principals, kind, evidence, outcome)  # type: ignore[arg-type]  # the three kinds
            proofs.append(proof.sha256)
            yield (
                f"INSERT INTO {CONTROL}proofs VALUES (?, ?, ?, 'execution', ?);",
                [self.key, kind, proof.sha256, proof.document()],
            )
        yield _end(self.key, state, proofs)


@dataclass(frozen=True, kw_only=True)
class PlantedInvocation:
    """An operation of the qualification family."""

    owner: PlantedOwner
    operation: QualificationOperation

    @property
    def key(self) -> str:
        return self.operation.sha256

    def admitted(self) -> Iterator[Write]:
        operation = self.operation
        yield _operation(self.key, "qualification", self.owner, operation.invocation_key, operation.document())
        yield from _scope(self.key, self.owner, operation.guard_epochs)

    def ended(self, state: TerminalState) -> Iterator[Write]:
        """What would end it if anything could: no proof of this family exists, so its digests name none."""
        yield _end(self.key, state, [sha("closed"), sha("quiescent"), sha("outcome")])


PlantedOperation = PlantedAttempt | PlantedInvocation


def attempt_of(
    owner: PlantedOwner, workload_id: str, where: Coordinates | None = None, *, ahead: int = 0
) -> PlantedAttempt:
    """An attempt of a workload of an execution owner, at the epochs that the owner has or so many ahead of them."""
    assert isinstance(owner.subject, ActivationRequest)
    where = where or make.coordinates(f"run {uuid.uuid4()}")
    epochs = tuple((guard, owner.epoch(guard) + ahead) for guard in owner.subject.guards_of(workload_id))
    return PlantedAttempt(
        owner=owner, attempt=make.attempt(owner.subject, workload_id, epochs, where), coordinates=where
    )


def invocation_of(
    owner: PlantedOwner,
    guards: Sequence[str],
    *,
    invocation_id: str | None = None,
    try_number: int = 1,
    ahead: int = 0,
) -> PlantedInvocation:
    """An invocation under an owner of either kind: of another kind only to see that it is refused."""
    subject = owner.subject
    run_id = owner.owner_id
    return PlantedInvocation(
        owner=owner,
        operation=QualificationOperation(
            owner_key=owner_key("qualification", run_id),
            owner_subject_sha256=subject.sha256,
            qualification_run_id=run_id,
            grant_sha256=sha("grant"),
            fixture_plan_sha256=sha("fixture"),
            qualification_plan_sha256=sha("plan"),
            work_item_id="заказ/\\☃ x",
            work_item_sha256=sha("item"),
            action="fixture_seed",
            runner_invocation_id=invocation_id or str(uuid.uuid4()),
            try_number=try_number,
            guard_epochs=tuple((guard, owner.epoch(guard) + ahead) for guard in sorted(guards)),
        ),
    )


def life(
    owner: PlantedOwner, state: str, operation: PlantedOperation | None, operation_state: str | None
) -> list[Write]:
    """Everything that brings an owner into a state, with its operation in a state if there is one.

    The operation starts as soon as the owner is where the state machine lets it, or stays; and ends before anything
    else moves.
    """
    writes = list(owner.acquired())
    path = PATHS[owner.kind][state]
    writes += [write for step in path[:1] for write in owner.moved(step)]
    if operation is not None:
        writes += operation.admitted()
        if operation_state in ("SUCCEEDED", "FAILED", "COMMIT_UNKNOWN"):
            writes += operation.ended(operation_state)  # type: ignore[arg-type]  # one of the three
    return writes + [write for step in path[1:] for write in owner.moved(step)]


def _operation(key: str, family: str, owner: PlantedOwner, replay_key: str, document: bytes) -> Write:
    return (
        f"INSERT INTO {CONTROL}operations VALUES (?, ?, ?, ?, ?, ?, 'RUNNING', NULL, NULL, NULL);",
        [key, family, owner.key, owner.subject.sha256, replay_key, document],
    )


def _scope(key: str, owner: PlantedOwner, epochs: Iterable[tuple[str, int]]) -> Iterator[Write]:
    for guard, epoch in epochs:
        yield f"INSERT INTO {CONTROL}operation_domains VALUES (?, ?, ?, ?);", [key, guard, owner.key, epoch]


def _end(key: str, state: str, proofs: Sequence[str]) -> Write:
    return (
        f"UPDATE {CONTROL}operations SET state = ?, closed_gates_proof_sha256 = ?, quiescence_proof_sha256 = ?, "
        "outcome_proof_sha256 = ? WHERE operation_key = ?;",
        [state, *proofs, key],
    )
