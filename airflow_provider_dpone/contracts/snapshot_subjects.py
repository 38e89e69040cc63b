"""What a snapshot publication is about: the two names, the bounds, the new generation, and what the catalog shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_dpone.contracts import rules
from airflow_provider_dpone.contracts.ownership import guard_id


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
        rules.record(self.target, SnapshotTarget, reason)
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


@rules.shaped("snapshot_observation")
def exchange_observation_from(body: Mapping[str, Any]) -> ExchangeObservation:
    """Rebuild the typed record from decoded members."""
    values = dict(body)
    for name in ("table_engines", "schema_sha256", "physical_sha256", "unsupported_features"):
        values[name] = rules.array(values.get(name), "snapshot_observation")
    return ExchangeObservation(target=SnapshotTarget(**values.pop("target")), **values)
