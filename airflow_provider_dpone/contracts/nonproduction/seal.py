"""The source seal: what a retained source is, observed after every writer of it was closed and proven gone.

A seal is protected evidence. It moves no owner and opens nothing: a run becomes SEALED only by a transition of the
ledger, and that transition does not exist yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from airflow_provider_dpone.contracts import canonical, rules
from airflow_provider_dpone.contracts.errors import AuthorityRefused
from airflow_provider_dpone.contracts.nonproduction.scope import stored_object, text

SEAL_SCHEMA = "dpone.postgres-source-seal.v1"
#: The action of a qualification operation that a seal is the result of.
ACTION = "source_seal"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceGeneration:
    """Which incarnation of which table was seen: a restored server, or a table made anew, is another one."""

    database_oid: int
    table_oid: int
    timeline: int
    #: The operation whose seed made the table.
    seeded_by: str

    def __post_init__(self) -> None:
        with rules.refusing_as(AuthorityRefused):
            for number in (self.database_oid, self.table_oid, self.timeline):
                rules.whole_number(number, "seal_generation", at_least=1)
            rules.digest(self.seeded_by)

    def members(self) -> dict[str, object]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceObservation:
    """One read of a whole table under one snapshot, by an account that cannot write: types, rows and generation."""

    service_id: str
    qualified_name: tuple[str, str, str]
    schema_sha256: str
    content_sha256: str
    rows: int
    generation: SourceGeneration

    def __post_init__(self) -> None:
        with rules.refusing_as(AuthorityRefused):
            rules.uuid_text(self.service_id, "uuid", nil=False)
            if type(self.qualified_name) is not tuple or len(self.qualified_name) != 3:
                rules.refuse("seed_name")
            for part in self.qualified_name:
                text(part)
            rules.digest(self.schema_sha256)
            rules.digest(self.content_sha256)
            rules.whole_number(self.rows, "seal_rows", at_least=0)
            rules.record(self.generation, SourceGeneration, "seal_generation")

    def members(self) -> dict[str, object]:
        return {
            "service_id": self.service_id,
            "qualified_name": self.qualified_name,
            "schema_sha256": self.schema_sha256,
            "content_sha256": self.content_sha256,
            "rows": self.rows,
            "generation": self.generation.members(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSealRecord:
    """The seal of one seeded source: its plan, the evidence that its writer is gone, and what was seen after that."""

    seed_operation_sha256: str
    seed_plan_sha256: str
    fixture_plan_sha256: str
    object_id: str
    closed_gates_sha256: str
    quiescence_sha256: str
    observation: SourceObservation

    def __post_init__(self) -> None:
        with rules.refusing_as(AuthorityRefused):
            for value in (
                self.seed_operation_sha256,
                self.seed_plan_sha256,
                self.fixture_plan_sha256,
                self.closed_gates_sha256,
                self.quiescence_sha256,
            ):
                rules.digest(value)
            text(self.object_id)
            rules.record(self.observation, SourceObservation, "seal_observation")
            if self.observation.generation.seeded_by != self.seed_operation_sha256:
                rules.refuse("seal_generation")

    @property
    def sha256(self) -> str:
        return canonical.exact_sha256(self.members())

    def members(self) -> dict[str, object]:
        return {
            "schema": SEAL_SCHEMA,
            "action": ACTION,
            "seed_operation_sha256": self.seed_operation_sha256,
            "seed_plan_sha256": self.seed_plan_sha256,
            "fixture_plan_sha256": self.fixture_plan_sha256,
            "object_id": self.object_id,
            "closed_gates_sha256": self.closed_gates_sha256,
            "quiescence_sha256": self.quiescence_sha256,
            "observation": self.observation.members(),
        }

    def document(self) -> bytes:
        return canonical.exact_bytes(self.members())


def source_seal_from(body: Mapping[str, Any]) -> SourceSealRecord:
    """Rebuild the typed record from decoded members."""
    names = [field.name for field in fields(SourceSealRecord)]
    with rules.refusing_as(AuthorityRefused), rules.shaped("source_seal"):
        values = rules.members(body, ["schema", "action", *names], "source_seal")
        if (values.pop("schema"), values.pop("action")) != (SEAL_SCHEMA, ACTION):
            rules.refuse("source_seal")
        seen = rules.members(
            values.pop("observation"), [field.name for field in fields(SourceObservation)], "seal_observation"
        )
        generation = rules.members(
            seen.pop("generation"), [field.name for field in fields(SourceGeneration)], "seal_generation"
        )
        seen["qualified_name"] = rules.array(seen["qualified_name"], "seed_name")
        observation = SourceObservation(generation=SourceGeneration(**generation), **seen)
        return SourceSealRecord(observation=observation, **values)


def decode_source_seal(document: object, sha256: str) -> SourceSealRecord:
    """Read a stored seal back: same digest *and* same bytes."""
    with rules.refusing_as(AuthorityRefused):
        seal = source_seal_from(stored_object(document, SEAL_SCHEMA))
        if seal.sha256 != rules.digest(sha256) or seal.document() != document:
            rules.refuse("document")
        return seal
