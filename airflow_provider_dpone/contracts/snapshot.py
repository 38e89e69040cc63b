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
from airflow_provider_dpone.contracts.ownership import guard_id
from airflow_provider_dpone.contracts.proof import Authority

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
class SnapshotTarget:
    """The pair of names in one Atomic database that the exchange swaps."""

    service_id: str
    physical_subject_sha256: str
    database_id: str
    database: str
    target_table: str
    generation_table: str
    write_subject_sha256: str
    enrollment_sha256: str

    def __post_init__(self) -> None:
        rules.uuid_text(self.service_id, "protected_service_id")
        rules.uuid_text(self.database_id, "snapshot_target", nil=False)
        for value in (self.physical_subject_sha256, self.write_subject_sha256, self.enrollment_sha256):
            rules.digest(value)
        for name in (self.database, self.target_table, self.generation_table):
            rules.identity_text(name, "snapshot_target")
        if self.target_table == self.generation_table:
            rules.refuse("snapshot_target")

    @property
    def guard_id(self) -> str:
        return guard_id(
            connector="clickhouse",
            service_id=self.service_id,
            physical_subject_sha256=self.physical_subject_sha256,
        )

    def members(self) -> dict[str, object]:
        return {
            "service_id": self.service_id,
            "physical_subject_sha256": self.physical_subject_sha256,
            "database_id": self.database_id,
            "database": self.database,
            "target_table": self.target_table,
            "generation_table": self.generation_table,
            "write_subject_sha256": self.write_subject_sha256,
            "enrollment_sha256": self.enrollment_sha256,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLimits:
    """Upper bounds agreed before the read. Sizes are bytes."""

    max_rows: int
    max_source_bytes: int
    max_wire_bytes: int
    max_generation_bytes: int
    max_retained_bytes: int
    max_total_transient_bytes: int

    def __post_init__(self) -> None:
        for value in self.members().values():
            rules.whole_number(value, "snapshot_limits", at_least=1)

    def members(self) -> dict[str, object]:
        return {
            "max_rows": self.max_rows,
            "max_source_bytes": self.max_source_bytes,
            "max_wire_bytes": self.max_wire_bytes,
            "max_generation_bytes": self.max_generation_bytes,
            "max_retained_bytes": self.max_retained_bytes,
            "max_total_transient_bytes": self.max_total_transient_bytes,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotGeneration:
    """What stands in the staging table, as observed after its writer was closed and drained."""

    record_sha256: str
    source_snapshot_sha256: str
    content_sha256: str
    schema_sha256: str
    physical_sha256: str
    old_target_uuid: str
    new_generation_uuid: str
    rows: int
    source_bytes: int
    wire_bytes: int
    generation_bytes: int
    old_target_bytes: int
    retained_bytes: int

    def __post_init__(self) -> None:
        for value in (
            self.record_sha256,
            self.source_snapshot_sha256,
            self.content_sha256,
            self.schema_sha256,
            self.physical_sha256,
        ):
            rules.digest(value)
        for value in (self.old_target_uuid, self.new_generation_uuid):
            rules.uuid_text(value, "snapshot_generation", nil=False)
        if self.old_target_uuid == self.new_generation_uuid:
            rules.refuse("snapshot_generation")
        for number in (
            self.rows,
            self.source_bytes,
            self.wire_bytes,
            self.generation_bytes,
            self.old_target_bytes,
            self.retained_bytes,
        ):
            rules.whole_number(number, "snapshot_generation", at_least=0)

    def members(self) -> dict[str, object]:
        return {
            "record_sha256": self.record_sha256,
            "source_snapshot_sha256": self.source_snapshot_sha256,
            "content_sha256": self.content_sha256,
            "schema_sha256": self.schema_sha256,
            "physical_sha256": self.physical_sha256,
            "old_target_uuid": self.old_target_uuid,
            "new_generation_uuid": self.new_generation_uuid,
            "rows": self.rows,
            "source_bytes": self.source_bytes,
            "wire_bytes": self.wire_bytes,
            "generation_bytes": self.generation_bytes,
            "old_target_bytes": self.old_target_bytes,
            "retained_bytes": self.retained_bytes,
        }


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
class ExchangeObservation:
    """What the catalog shows behind the two names. Pairs stand as (target, generation); None: it does not exist."""

    target: SnapshotTarget
    target_uuid: str | None
    generation_uuid: str | None
    database_engine: str
    table_engines: tuple[str | None, str | None]
    node_count: int
    replica_count: int
    schema_sha256: tuple[str | None, str | None]
    physical_sha256: tuple[str | None, str | None]
    unsupported_features: tuple[str, ...]
    generation_content_sha256: str | None
    generation_rows: int | None
    generation_bytes: int | None
    old_target_bytes: int | None
    retained_bytes: int | None
    catalog_evidence_sha256: str

    def __post_init__(self) -> None:
        reason = "snapshot_observation"
        for value in (self.target_uuid, self.generation_uuid):
            if value is not None:
                rules.uuid_text(value, reason, nil=False)
        rules.identity_text(self.database_engine, reason)
        rules.digest(self.catalog_evidence_sha256)
        for pair in (self.table_engines, self.schema_sha256, self.physical_sha256):
            if type(pair) is not tuple or len(pair) != 2:
                rules.refuse(reason)
        for optional in (*self.schema_sha256, *self.physical_sha256, self.generation_content_sha256):
            if optional is not None:
                rules.digest(optional)
        for engine in self.table_engines:
            if engine is not None:
                rules.identity_text(engine, reason)
        for number in (self.generation_rows, self.generation_bytes, self.old_target_bytes, self.retained_bytes):
            if number is not None:
                rules.whole_number(number, reason, at_least=0)
        for count in (self.node_count, self.replica_count):
            rules.whole_number(count, reason, at_least=0)
        if type(self.unsupported_features) is not tuple:
            rules.refuse(reason)
        for feature in self.unsupported_features:
            rules.identity_text(feature, reason)
        rules.ascending(self.unsupported_features, reason)

    def members(self) -> dict[str, object]:
        return {
            "target": self.target.members(),
            "target_uuid": self.target_uuid,
            "generation_uuid": self.generation_uuid,
            "database_engine": self.database_engine,
            "table_engines": self.table_engines,
            "node_count": self.node_count,
            "replica_count": self.replica_count,
            "schema_sha256": self.schema_sha256,
            "physical_sha256": self.physical_sha256,
            "unsupported_features": self.unsupported_features,
            "generation_content_sha256": self.generation_content_sha256,
            "generation_rows": self.generation_rows,
            "generation_bytes": self.generation_bytes,
            "old_target_bytes": self.old_target_bytes,
            "retained_bytes": self.retained_bytes,
            "catalog_evidence_sha256": self.catalog_evidence_sha256,
        }


def exchange_observation_from(body: Mapping[str, Any]) -> ExchangeObservation:
    """Rebuild the typed record from decoded members."""
    values = dict(body)
    for name in ("table_engines", "schema_sha256", "physical_sha256", "unsupported_features"):
        values[name] = rules.array(values.get(name), "snapshot_observation")
    return ExchangeObservation(target=SnapshotTarget(**values.pop("target")), **values)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRecord:
    """One revision of a publication. A later state is a new record, never a changed one."""

    intent: SnapshotIntent
    state: SnapshotState = "PREPARED"
    revision: int = 1
    closure: PublisherClosure | None = None
    observation: ExchangeObservation | None = None

    def __post_init__(self) -> None:
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
    before = (intent.generation.old_target_uuid, intent.generation.new_generation_uuid)
    seen = (observation.target_uuid, observation.generation_uuid)
    if observation.target != intent.target or observation.node_count != 1 or observation.replica_count != 1:
        return "COMMIT_UNKNOWN"
    if seen == before[::-1]:
        return "PUBLISHED"
    if seen == before:
        return "NOT_PUBLISHED"
    return "COMMIT_UNKNOWN"


def snapshot_record_from(body: Mapping[str, Any]) -> SnapshotRecord:
    """Rebuild the typed record from decoded members."""
    values = dict(body)
    if values.pop("schema", None) != RECORD_SCHEMA:
        rules.refuse("snapshot_record")
    try:
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
    except (TypeError, KeyError) as err:
        raise AdmissionRefused("snapshot_record") from err


def decode_snapshot_record(document: bytes, sha256: str) -> SnapshotRecord:
    """Read a stored record back: same digest *and* same bytes."""
    try:
        record = snapshot_record_from(canonical.strict_object(document))
    except canonical.StrictJsonError as err:
        raise AdmissionRefused("snapshot_record") from err
    if record.sha256 != rules.digest(sha256) or record.document() != document:
        rules.refuse("snapshot_record")
    return record
