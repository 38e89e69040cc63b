"""What a campaign may touch: limits, participants, routes and the scope that binds them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from airflow_provider_dpone.contracts import canonical, rules
from airflow_provider_dpone.contracts.errors import AuthorityRefused
from airflow_provider_dpone.contracts.ownership import CONNECTORS

PURPOSE = "synthetic_composition_validation"
TRUST_TIER = "non_production"

#: The highest value that any policy may set, a member each.
LIMIT_CEILINGS: Mapping[str, int] = {
    "max_validity_seconds": 86_400,
    "max_workloads": 64,
    "max_attempts": 128,
    "max_source_rows": 100_000,
    "max_source_bytes": 1_073_741_824,
    "max_attempt_seconds": 3_600,
}

#: The routes that a campaign qualifies, as (source, sink, strategy), in document order.
QUALIFIED_ROUTES = (("mssql", "clickhouse", "full_refresh"), ("postgres", "mssql", "full_refresh"))

_REPOSITORY = re.compile(r"https://[a-z0-9.-]+/[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
_COMMIT = re.compile(r"[0-9a-f]{40}")


def text(value: object, *, limit: int = rules.IDENTITY_LIMIT) -> str:
    """Text of this family: no surrounding space."""
    return rules.trimmed_text(value, "text", limit=limit)


def repository(value: object) -> str:
    if not _REPOSITORY.fullmatch(text(value)):
        rules.refuse("source_repository")
    return str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of a policy, a grant or one workload. The effective bound is the smallest of the three."""

    max_validity_seconds: int
    max_workloads: int
    max_attempts: int
    max_source_rows: int
    max_source_bytes: int
    max_attempt_seconds: int

    def __post_init__(self) -> None:
        with rules.refusing_as(AuthorityRefused):
            for name, ceiling in LIMIT_CEILINGS.items():
                rules.whole_number(getattr(self, name), "limits", at_least=1, at_most=ceiling)

    def members(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in LIMIT_CEILINGS}

    def within(self, *others: Limits) -> Limits:
        """The smallest bound of each kind."""
        bounds = (self, *others)
        return Limits(**{name: min(getattr(limits, name) for limits in bounds) for name in LIMIT_CEILINGS})


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class RouteDimensions:
    """One route to qualify, with the dimensions that its evidence holds for."""

    source: str
    sink: str
    strategy: str
    transport: str
    schema_evolution: str
    airflow_runtime_mode: str

    def __post_init__(self) -> None:
        with rules.refusing_as(AuthorityRefused):
            for field in fields(self):
                text(getattr(self, field.name))
            if (self.source, self.sink, self.strategy) not in QUALIFIED_ROUTES:
                rules.refuse("route_scope")

    def members(self) -> dict[str, object]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Participant:
    """One physical domain of the campaign with every relation that may be read or written in it."""

    connector: str
    service_id: str
    physical_subject_sha256: str
    read_relations: tuple[str, ...]
    write_relations: tuple[str, ...]

    def __post_init__(self) -> None:
        with rules.refusing_as(AuthorityRefused):
            rules.one_of(self.connector, CONNECTORS, "participant_connector")
            rules.uuid_text(self.service_id, "uuid", nil=False)
            rules.digest(self.physical_subject_sha256)
            rules.digests(self.read_relations, empty=True)
            rules.digests(self.write_relations, empty=True)
            if not self.read_relations and not self.write_relations:
                rules.refuse("relation_scope")

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.connector, self.service_id, self.physical_subject_sha256)

    def members(self) -> dict[str, object]:
        return {
            "connector": self.connector,
            "service_id": self.service_id,
            "physical_subject_sha256": self.physical_subject_sha256,
            "read_relations": self.read_relations,
            "write_relations": self.write_relations,
        }


def require_participants(values: object) -> None:
    """Ascending, without repetition, and all three engines among them."""
    participants = rules.records(values, Participant, "array", at_most=256)
    rules.ascending([participant.key for participant in participants], "closure")
    if {participant.connector for participant in participants} != set(CONNECTORS):
        rules.refuse("participant_closure")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What was reviewed: sources, tools, enrollment, routes and participants of one campaign."""

    source_repository: str
    source_commit: str
    fixture_sha256: str
    generator_sha256: str
    compilation_intent_sha256: str
    toolchain_sha256: str
    image_sha256: str
    campaign_id: str
    environment_id: str
    policy_sha256: str
    enrollment_sha256: str
    routes: tuple[RouteDimensions, ...]
    participants: tuple[Participant, ...]
    purpose: str = PURPOSE
    trust_tier: str = TRUST_TIER

    def __post_init__(self) -> None:
        with rules.refusing_as(AuthorityRefused):
            if self.purpose != PURPOSE or self.trust_tier != TRUST_TIER:
                rules.refuse("purpose")
            repository(self.source_repository)
            if not _COMMIT.fullmatch(text(self.source_commit, limit=40)):
                rules.refuse("source_commit")
            for field in fields(self):
                if field.name.endswith("_sha256"):
                    rules.digest(getattr(self, field.name))
            rules.uuid4_text(self.campaign_id, "uuid")
            rules.uuid_text(self.environment_id, "uuid", nil=False)
            routes = rules.records(self.routes, RouteDimensions, "array", at_most=64)
            rules.ascending(routes, "closure")
            if {(route.source, route.sink, route.strategy) for route in routes} != set(QUALIFIED_ROUTES):
                rules.refuse("route_closure")
            require_participants(self.participants)

    @property
    def sha256(self) -> str:
        return canonical.exact_sha256(self.members())

    def members(self) -> dict[str, object]:
        body: dict[str, object] = {field.name: getattr(self, field.name) for field in fields(self)}
        body["routes"] = [route.members() for route in self.routes]
        body["participants"] = [participant.members() for participant in self.participants]
        return body


def limits_from(value: object) -> Limits:
    return Limits(**rules.members(value, LIMIT_CEILINGS))


def route_from(value: object) -> RouteDimensions:
    return RouteDimensions(**rules.members(value, [field.name for field in fields(RouteDimensions)]))


def participant_from(value: object) -> Participant:
    body = rules.members(value, [field.name for field in fields(Participant)])
    body["read_relations"] = rules.array(body["read_relations"])
    body["write_relations"] = rules.array(body["write_relations"])
    return Participant(**body)


def scope_from(value: object) -> Scope:
    """Rebuild the typed record from decoded members."""
    body = rules.members(value, [field.name for field in fields(Scope)])
    body["routes"] = tuple(route_from(item) for item in rules.array(body["routes"]))
    body["participants"] = tuple(participant_from(item) for item in rules.array(body["participants"]))
    return Scope(**body)


def stored_object(document: object, schema: str) -> dict[str, Any]:
    """Decode one stored document of this family; its schema must be the expected one."""
    if type(document) is not bytes:
        raise AuthorityRefused("document")
    try:
        body = canonical.strict_object(document, limit=canonical.QUALIFICATION_DOCUMENT_LIMIT)
    except canonical.StrictJsonError as err:
        raise AuthorityRefused("document") from err
    if body.get("schema") != schema:
        raise AuthorityRefused("document")
    return body
