"""The publication of one complete ClickHouse table by EXCHANGE: the intent, its record and its verdict.

The intent is persisted with the two UUIDs as they stand *before* the exchange. The verdict afterwards comes from the
UUID pair alone: swapped is PUBLISHED, unchanged is NOT_PUBLISHED, anything else is COMMIT_UNKNOWN and stays so until
an operator looks. An exchange is never sent twice: the second would exchange the tables back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from airflow_provider_dpone.contracts import canonical, rules
from airflow_provider_dpone.contracts.attempt import Attempt, attempt_from
from airflow_provider_dpone.contracts.errors import AdmissionRefused
from airflow_provider_dpone.contracts.proof import Authority
from airflow_provider_dpone.contracts.snapshot_subjects import (
    ExchangeObservation,
    SnapshotGeneration,
    SnapshotLimits,
    SnapshotTarget,
    exchange_observation_from,
)

__all__ = [
    "SNAPSHOT_STATES",
    "ExchangeObservation",
    "PublisherClosure",
    "SnapshotGeneration",
    "SnapshotIntent",
    "SnapshotLimits",
    "SnapshotRecord",
    "SnapshotState",
    "SnapshotTarget",
    "classify_exchange",
    "decode_snapshot_record",
    "exchange_observation_from",
    "snapshot_record_from",
]

INTENT_SCHEMA = "dpone.composition-clickhouse-snapshot-intent.v1"
RECORD_SCHEMA = "dpone.composition-clickhouse-snapshot-record.v1"

SnapshotState = Literal["PREPARED", "EXCHANGE_INTENT", "PUBLISHED", "NOT_PUBLISHED", "COMMIT_UNKNOWN"]
SNAPSHOT_STATES: tuple[SnapshotState, ...] = (
    "PREPARED",
    "EXCHANGE_INTENT",
    "PUBLISHED",
    "NOT_PUBLISHED",
    "COMMIT_UNKNOWN",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotIntent:
    """Everything the exchange rests on, fixed before it is sent."""

    attempt: Attempt
    target: SnapshotTarget
    generation: SnapshotGeneration
    limits: SnapshotLimits
    ingest_principal: Authority
    publisher_principal: Authority
    closed_ingest_sha256: str

    def __post_init__(self) -> None:
        rules.record(self.attempt, Attempt, "snapshot_scope")
        rules.record(self.target, SnapshotTarget, "snapshot_target")
        rules.record(self.generation, SnapshotGeneration, "snapshot_generation")
        rules.record(self.limits, SnapshotLimits, "snapshot_limits")
        rules.record(self.ingest_principal, Authority, "snapshot_principal")
        rules.record(self.publisher_principal, Authority, "snapshot_principal")
        rules.digest(self.closed_ingest_sha256)
        for authority in (self.ingest_principal, self.publisher_principal):
            if authority.connector != "clickhouse" or authority.service_id != self.target.service_id:
                rules.refuse("snapshot_principal")
        if self.ingest_principal == self.publisher_principal:
            rules.refuse("snapshot_principal")
        if self.target.guard_id not in self.attempt.guard_ids:
            rules.refuse("snapshot_scope")
        self._require_limits()

    def _require_limits(self) -> None:
        generation, limits = self.generation, self.limits
        transient = generation.generation_bytes + generation.old_target_bytes + generation.retained_bytes
        within = (
            generation.rows <= limits.max_rows
            and generation.source_bytes <= limits.max_source_bytes
            and generation.wire_bytes <= limits.max_wire_bytes
            and generation.generation_bytes <= limits.max_generation_bytes
            and generation.retained_bytes <= limits.max_retained_bytes
            and transient <= limits.max_total_transient_bytes
        )
        if not within:
            rules.refuse("snapshot_limits")

    @property
    def sha256(self) -> str:
        return canonical.exact_sha256(self.members())

    def members(self) -> dict[str, object]:
        return {"schema": INTENT_SCHEMA, **self.nested()}

    def nested(self) -> dict[str, object]:
        """The intent as it stands inside its record: without a schema of its own."""
        return {
            "attempt": self.attempt.members(),
            "target": self.target.members(),
            "generation": self.generation.members(),
            "limits": self.limits.members(),
            "ingest_principal": self.ingest_principal.members(),
            "publisher_principal": self.publisher_principal.members(),
            "closed_ingest_sha256": self.closed_ingest_sha256,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherClosure:
    """The digests that say the publisher was closed and quiescent when the deciding UUIDs were read."""

    intent_sha256: str
    closed_gates_sha256: str
    quiescence_sha256: str

    def __post_init__(self) -> None:
        for value in (self.intent_sha256, self.closed_gates_sha256, self.quiescence_sha256):
            rules.digest(value)

    def members(self) -> dict[str, object]:
        return {
            "intent_sha256": self.intent_sha256,
            "closed_gates_sha256": self.closed_gates_sha256,
            "quiescence_sha256": self.quiescence_sha256,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRecord:
    """One revision of a publication. A later state is a new record, never a changed one."""

    intent: SnapshotIntent
    state: SnapshotState = "PREPARED"
    revision: int = 1
    closure: PublisherClosure | None = None
    observation: ExchangeObservation | None = None

    def __post_init__(self) -> None:
        rules.record(self.intent, SnapshotIntent, "snapshot_record")
        if self.closure is not None:
            rules.record(self.closure, PublisherClosure, "snapshot_closure")
        if self.observation is not None:
            rules.record(self.observation, ExchangeObservation, "snapshot_observation")
        rules.one_of(self.state, SNAPSHOT_STATES, "snapshot_state")
        rules.whole_number(self.revision, "snapshot_revision", at_least=1)
        if not self._revision_fits():
            rules.refuse("snapshot_revision")
        given = (self.closure is not None, self.observation is not None)
        if self.state in ("PREPARED", "EXCHANGE_INTENT") and any(given):
            rules.refuse("snapshot_record")
        if self.state in ("PUBLISHED", "NOT_PUBLISHED") and not all(given):
            rules.refuse("snapshot_outcome_evidence")
        if self.closure is not None and self.closure.intent_sha256 != self.intent.sha256:
            rules.refuse("snapshot_closure")
        if self.observation is not None:
            if self.observation.target != self.intent.target:
                rules.refuse("snapshot_target")
            verdict = classify_exchange(self.intent, self.observation)
            if self.state in ("PUBLISHED", "NOT_PUBLISHED") and verdict != self.state:
                rules.refuse("snapshot_outcome_pair")

    def _revision_fits(self) -> bool:
        exact = {"PREPARED": 1, "EXCHANGE_INTENT": 2}.get(self.state)
        return self.revision == exact if exact is not None else self.revision >= 3

    @property
    def sha256(self) -> str:
        return canonical.exact_sha256(self.members())

    def members(self) -> dict[str, object]:
        return {
            "schema": RECORD_SCHEMA,
            "intent": self.intent.nested(),
            "state": self.state,
            "revision": self.revision,
            "closure": None if self.closure is None else self.closure.members(),
            "observation": None if self.observation is None else self.observation.members(),
        }

    def document(self) -> bytes:
        return canonical.exact_bytes(self.members())

    def exchange_intended(self) -> SnapshotRecord:
        """The record that must be stored before the one EXCHANGE is sent."""
        if self.state != "PREPARED":
            rules.refuse("snapshot_state")
        return replace(self, state="EXCHANGE_INTENT", revision=self.revision + 1)

    def decided(self, closure: PublisherClosure, observation: ExchangeObservation) -> SnapshotRecord:
        """The verdict, from the UUID pair alone. Only COMMIT_UNKNOWN may be decided again."""
        return self._next(classify_exchange(self.intent, observation), closure, observation)

    def undecided(self) -> SnapshotRecord:
        """COMMIT_UNKNOWN, while the publisher is not closed or the pair could not be read."""
        return self._next("COMMIT_UNKNOWN", None, None)

    def _next(
        self, state: SnapshotState, closure: PublisherClosure | None, observation: ExchangeObservation | None
    ) -> SnapshotRecord:
        if self.state not in ("EXCHANGE_INTENT", "COMMIT_UNKNOWN"):
            rules.refuse("snapshot_state")
        return replace(self, state=state, revision=self.revision + 1, closure=closure, observation=observation)


def classify_exchange(intent: SnapshotIntent, observation: ExchangeObservation) -> SnapshotState:
    """PUBLISHED when the pair is swapped, NOT_PUBLISHED when it is as before, else COMMIT_UNKNOWN.

    The pair is decisive only where one node holds it: an exchange on a cluster happens node by node.
    """
    rules.record(intent, SnapshotIntent, "snapshot_record")
    rules.record(observation, ExchangeObservation, "snapshot_observation")
    before = (intent.generation.old_target_uuid, intent.generation.new_generation_uuid)
    seen = (observation.target_uuid, observation.generation_uuid)
    if observation.target != intent.target or observation.node_count != 1 or observation.replica_count != 1:
        return "COMMIT_UNKNOWN"
    if seen == before[::-1]:
        return "PUBLISHED"
    if seen == before:
        return "NOT_PUBLISHED"
    return "COMMIT_UNKNOWN"


@rules.shaped("snapshot_record")
def snapshot_record_from(body: Mapping[str, Any]) -> SnapshotRecord:
    """Rebuild the typed record from decoded members."""
    values = dict(body)
    if values.pop("schema", None) != RECORD_SCHEMA:
        rules.refuse("snapshot_record")
    nested = dict(values.pop("intent"))
    intent = SnapshotIntent(
        attempt=attempt_from(nested.pop("attempt")),
        target=SnapshotTarget(**nested.pop("target")),
        generation=SnapshotGeneration(**nested.pop("generation")),
        limits=SnapshotLimits(**nested.pop("limits")),
        ingest_principal=Authority(**nested.pop("ingest_principal")),
        publisher_principal=Authority(**nested.pop("publisher_principal")),
        **nested,
    )
    closure, observation = values.pop("closure"), values.pop("observation")
    return SnapshotRecord(
        intent=intent,
        closure=None if closure is None else PublisherClosure(**closure),
        observation=None if observation is None else exchange_observation_from(observation),
        **values,
    )


def decode_snapshot_record(document: bytes, sha256: str) -> SnapshotRecord:
    """Read a stored record back: same digest *and* same bytes."""
    if type(document) is not bytes:
        rules.refuse("snapshot_record")
    try:
        record = snapshot_record_from(canonical.strict_object(document))
    except canonical.StrictJsonError as err:
        raise AdmissionRefused("snapshot_record") from err
    if record.sha256 != rules.digest(sha256) or record.document() != document:
        rules.refuse("snapshot_record")
    return record
