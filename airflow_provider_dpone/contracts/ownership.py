"""Who owns which physical domain: owner keys, physical guards and the claims of an owner on a domain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from airflow_provider_dpone.contracts import canonical, rules
from airflow_provider_dpone.contracts.errors import AdmissionRefused

OWNER_KEY_SCHEMA = "dpone.composition-control-owner-key.v2"
GUARD_SCHEMA = "dpone.composition-physical-domain.v1"

OwnerKind = Literal["execution", "qualification"]
ClaimRole = Literal["mutation", "retained_source", "mutation_and_retained_source"]

OWNER_KINDS: tuple[OwnerKind, ...] = ("execution", "qualification")
CLAIM_ROLES: tuple[ClaimRole, ...] = ("mutation", "retained_source", "mutation_and_retained_source")
CONNECTORS = ("mssql", "clickhouse", "postgres")


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The activation or qualification run that owns domains. The same UUID of another kind is another owner."""

    owner_kind: OwnerKind
    owner_id: str

    def __post_init__(self) -> None:
        rules.one_of(self.owner_kind, OWNER_KINDS, "owner_kind")
        rules.uuid_text(self.owner_id, "owner_id", nil=False)

    @property
    def key(self) -> str:
        return canonical.exact_sha256(self.members())

    def members(self) -> dict[str, object]:
        return {"schema": OWNER_KEY_SCHEMA, "owner_kind": self.owner_kind, "owner_id": self.owner_id}


def owner_key(owner_kind: OwnerKind, owner_id: str) -> str:
    return Owner(owner_kind=owner_kind, owner_id=owner_id).key


def guard_id(*, connector: str, service_id: str, physical_subject_sha256: str) -> str:
    """The lock of one physical domain. Aliases, hosts and credentials never enter it."""
    rules.one_of(connector, CONNECTORS, "physical_connector")
    rules.uuid_text(service_id, "protected_service_id")
    rules.digest(physical_subject_sha256)
    return canonical.fingerprint_sha256(
        {
            "schema": GUARD_SCHEMA,
            "connector": connector,
            "service_id": service_id,
            "physical_subject_sha256": physical_subject_sha256,
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalClaim:
    """What an owner reads and writes in one domain. Retained sources may be read while others must not change them."""

    connector: str
    service_id: str
    physical_subject_sha256: str
    observation_sha256: str
    role: ClaimRole
    read_subjects: tuple[str, ...]
    write_subjects: tuple[str, ...]

    def __post_init__(self) -> None:
        rules.one_of(self.connector, CONNECTORS, "physical_connector")
        rules.one_of(self.role, CLAIM_ROLES, "physical_claim_role")
        rules.uuid_text(self.service_id, "physical_claim")
        rules.digest(self.physical_subject_sha256, "physical_claim")
        rules.digest(self.observation_sha256, "physical_claim")
        for subjects in (self.read_subjects, self.write_subjects):
            rules.digests(subjects, "physical_claim", empty=True, member_reason="physical_claim")
        mutates = self.role != "retained_source"
        retains = self.role != "mutation"
        if mutates != bool(self.write_subjects) or (retains and not self.read_subjects):
            rules.refuse("physical_claim_role_scope")

    @property
    def guard_id(self) -> str:
        return guard_id(
            connector=self.connector,
            service_id=self.service_id,
            physical_subject_sha256=self.physical_subject_sha256,
        )

    @property
    def effect_subjects(self) -> tuple[str, ...]:
        """Every subject the claim touches, ascending."""
        return tuple(sorted({*self.read_subjects, *self.write_subjects}))

    def members(self) -> dict[str, object]:
        return {
            "connector": self.connector,
            "service_id": self.service_id,
            "physical_subject_sha256": self.physical_subject_sha256,
            "observation_sha256": self.observation_sha256,
            "role": self.role,
            "read_subjects": self.read_subjects,
            "write_subjects": self.write_subjects,
        }

    def document(self) -> bytes:
        """The bytes that the ledger stores for one owned domain."""
        return canonical.exact_bytes(self.members())


def claim_from(value: object) -> PhysicalClaim:
    """Rebuild a claim from decoded members."""
    names = {
        "connector",
        "service_id",
        "physical_subject_sha256",
        "observation_sha256",
        "role",
        "read_subjects",
        "write_subjects",
    }
    body: dict[str, Any] = rules.members(value, names, "physical_claim")
    body["read_subjects"] = rules.array(body["read_subjects"], "physical_claim")
    body["write_subjects"] = rules.array(body["write_subjects"], "physical_claim")
    return PhysicalClaim(**body)


def decode_claim(document: bytes) -> PhysicalClaim:
    """Read a stored claim back; the bytes must be the ones this record encodes to."""
    if type(document) is not bytes:
        rules.refuse("physical_claim")
    try:
        claim = claim_from(canonical.strict_object(document))
    except canonical.StrictJsonError as err:
        raise AdmissionRefused("physical_claim") from err
    if claim.document() != document:
        rules.refuse("physical_claim")
    return claim


_RELATION_SCHEMA = "dpone.dbt-workspace-relation-write.v1"
_RELATION_CONNECTORS: Mapping[str, str] = {"sqlserver": "mssql", "postgresql": "postgres"}


@rules.shaped("relation_write")
def relation_write_subject(
    *,
    project_path: str,
    workflow_id: str,
    resource_id: str,
    kind: str,
    connector: str,
    connection_ref: str,
    database: str,
    schema: str,
    relation: str,
    role: str,
    write_coordination_key: str | None = None,
    write_phase: str | None = None,
) -> str:
    """The subject of one relation that a workload writes. Connector aliases are folded; absent members are left out."""
    document: dict[str, object] = {
        "schema": _RELATION_SCHEMA,
        "project_path": project_path,
        "workflow_id": workflow_id,
        "resource_id": resource_id,
        "kind": kind,
        "connector": _RELATION_CONNECTORS.get(connector, connector),
        "connection_ref": connection_ref,
        "database": database,
        "relation_schema": schema,
        "relation": relation,
        "role": role,
    }
    if write_coordination_key is not None:
        document["write_coordination_key"] = write_coordination_key
    if write_phase is not None:
        document["write_phase"] = write_phase
    for value in document.values():
        rules.identity_text(value, "relation_write")
    return canonical.fingerprint_sha256(document)
