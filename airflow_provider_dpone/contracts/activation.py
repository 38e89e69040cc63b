"""The activation request: the complete parent of workloads and the physical resources that they write.

Two families share one body. The plain one is what ``dpone.composition-activation-request.v1`` names; the
nonproduction one adds the execution grant and another schema, and is never read as the plain one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_dpone.contracts import canonical, rules
from airflow_provider_dpone.contracts.errors import AdmissionRefused
from airflow_provider_dpone.contracts.ownership import PhysicalClaim, guard_id, owner_key

SCHEMA = "dpone.composition-activation-request.v1"
NONPRODUCTION_SCHEMA = "dpone.composition-activation-request.nonproduction.v1"
SOURCE_SUBJECT_SCHEMA = "dpone.composition-source-subject.v1"

EXECUTION_CELLS = ("sqlserver_dbt_v1", "mssql_clickhouse_full_refresh_v1", "postgres_mssql_full_refresh_v1")
CONSTITUENTS = ("native", "standalone")

_ENVIRONMENT = re.compile(r"[a-z0-9](?:[a-z0-9_.-]{0,126}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class OccurrenceContext:
    """Which release, as which deployment, in which environment, this one time."""

    activation_id: str
    environment: str
    release_id: str
    deployment_id: str
    previous_deployment_id: str | None
    runtime_context_sha256: str

    def __post_init__(self) -> None:
        rules.uuid4_text(self.activation_id, "activation_id")
        if type(self.environment) is not str or not _ENVIRONMENT.fullmatch(self.environment):
            rules.refuse("environment")
        for value in (self.release_id, self.deployment_id, self.runtime_context_sha256):
            rules.digest(value)
        if self.previous_deployment_id is not None:
            rules.digest(self.previous_deployment_id)

    def members(self) -> dict[str, object]:
        return {
            "activation_id": self.activation_id,
            "environment": self.environment,
            "release_id": self.release_id,
            "deployment_id": self.deployment_id,
            "previous_deployment_id": self.previous_deployment_id,
            "runtime_context_sha256": self.runtime_context_sha256,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadAdmission:
    """One workload of the parent, its pack, its execution cell and every relation that it writes."""

    workload_id: str
    constituent_id: str
    pack_sha256: str
    execution_cell: str
    write_subjects: tuple[str, ...]

    def __post_init__(self) -> None:
        rules.identity_text(self.workload_id)
        rules.one_of(self.constituent_id, CONSTITUENTS, "constituent")
        rules.digest(self.pack_sha256)
        rules.one_of(self.execution_cell, EXECUTION_CELLS, "execution_capability")
        rules.digests(self.write_subjects)

    def members(self) -> dict[str, object]:
        return {
            "workload_id": self.workload_id,
            "constituent_id": self.constituent_id,
            "pack_sha256": self.pack_sha256,
            "execution_cell": self.execution_cell,
            "write_subjects": self.write_subjects,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalResource:
    """One physical domain that the parent writes, with what was observed of it."""

    guard_id: str
    connector: str
    service_id: str
    physical_subject_sha256: str
    observation_sha256: str
    write_subjects: tuple[str, ...]

    def __post_init__(self) -> None:
        rules.digest(self.guard_id)
        rules.one_of(self.connector, ("mssql", "clickhouse"), "physical_capability")
        rules.digest(self.physical_subject_sha256)
        rules.digest(self.observation_sha256)
        with rules.refusing_as(AdmissionRefused, "physical_guard"):
            expected = guard_id(
                connector=self.connector,
                service_id=self.service_id,
                physical_subject_sha256=self.physical_subject_sha256,
            )
        if self.guard_id != expected:
            rules.refuse("physical_guard")
        rules.digests(self.write_subjects)

    def members(self) -> dict[str, object]:
        return {
            "guard_id": self.guard_id,
            "connector": self.connector,
            "service_id": self.service_id,
            "physical_subject_sha256": self.physical_subject_sha256,
            "observation_sha256": self.observation_sha256,
            "write_subjects": self.write_subjects,
        }

    def document(self) -> bytes:
        """The bytes that the ledger stores for one owned domain of an execution owner."""
        return canonical.exact_bytes(self.members())

    def claim(self) -> PhysicalClaim:
        """The same resource as a claim that only mutates."""
        return PhysicalClaim(
            connector=self.connector,
            service_id=self.service_id,
            physical_subject_sha256=self.physical_subject_sha256,
            observation_sha256=self.observation_sha256,
            role="mutation",
            read_subjects=(),
            write_subjects=self.write_subjects,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationRequest:
    """The immutable subject of an execution owner. ``execution_grant_sha256`` makes it the nonproduction family."""

    context: OccurrenceContext
    source_subject_sha256: str
    workloads: tuple[WorkloadAdmission, ...]
    resources: tuple[PhysicalResource, ...]
    execution_grant_sha256: str | None = None

    def __post_init__(self) -> None:
        if type(self.context) is not OccurrenceContext:
            rules.refuse("context")
        rules.digest(self.source_subject_sha256)
        if self.execution_grant_sha256 is not None:
            rules.digest(self.execution_grant_sha256)
        rules.records(self.workloads, WorkloadAdmission, "closure", at_most=1_000_000)
        rules.records(self.resources, PhysicalResource, "closure", at_most=1_000_000)
        rules.ascending([workload.workload_id for workload in self.workloads], "closure")
        rules.ascending([resource.guard_id for resource in self.resources], "closure")
        if {workload.constituent_id for workload in self.workloads} != set(CONSTITUENTS):
            rules.refuse("complete_parent_required")
        self._require_partition()

    def _require_partition(self) -> None:
        """Each written relation belongs to exactly one workload and to exactly one resource."""
        by_workload = [subject for workload in self.workloads for subject in workload.write_subjects]
        by_resource = [subject for resource in self.resources for subject in resource.write_subjects]
        if len(set(by_workload)) != len(by_workload) or sorted(by_workload) != sorted(by_resource):
            rules.refuse("physical_partition")

    @property
    def schema(self) -> str:
        return SCHEMA if self.execution_grant_sha256 is None else NONPRODUCTION_SCHEMA

    @property
    def activation_id(self) -> str:
        return self.context.activation_id

    @property
    def owner_key(self) -> str:
        return owner_key("execution", self.context.activation_id)

    @property
    def sha256(self) -> str:
        """The digest that attempts name. The plain family is a fingerprint, the nonproduction family is exact."""
        if self.execution_grant_sha256 is None:
            return canonical.fingerprint_sha256(self.members())
        return canonical.exact_sha256(self.members())

    def members(self) -> dict[str, object]:
        body: dict[str, object] = {
            "schema": self.schema,
            "context": self.context.members(),
            "source_subject_sha256": self.source_subject_sha256,
            "workloads": [workload.members() for workload in self.workloads],
            "resources": [resource.members() for resource in self.resources],
        }
        if self.execution_grant_sha256 is not None:
            body["execution_grant_sha256"] = self.execution_grant_sha256
        return body

    def document(self) -> bytes:
        """The bytes that the ledger stores."""
        return canonical.exact_bytes(self.members())

    def workload(self, workload_id: str) -> WorkloadAdmission:
        found = next((workload for workload in self.workloads if workload.workload_id == workload_id), None)
        if found is None:
            rules.refuse("workload")
        return found

    def guards_of(self, workload_id: str) -> tuple[str, ...]:
        """The guards that an attempt of this workload needs, ascending."""
        subjects = set(self.workload(workload_id).write_subjects)
        return tuple(resource.guard_id for resource in self.resources if subjects & set(resource.write_subjects))


@rules.shaped("fields")
def request_from(body: Mapping[str, Any]) -> ActivationRequest:
    """Rebuild the typed record, of either family, from decoded members."""
    names = {"schema", "context", "source_subject_sha256", "workloads", "resources"}
    schema = body.get("schema")
    if schema == NONPRODUCTION_SCHEMA:
        names.add("execution_grant_sha256")
    elif schema != SCHEMA:
        rules.refuse("request_schema")
    values = rules.members(body, names)
    return ActivationRequest(
        context=OccurrenceContext(**values["context"]),
        source_subject_sha256=values["source_subject_sha256"],
        workloads=tuple(WorkloadAdmission(**_with_tuples(item)) for item in rules.array(values["workloads"])),
        resources=tuple(PhysicalResource(**_with_tuples(item)) for item in rules.array(values["resources"])),
        execution_grant_sha256=values.get("execution_grant_sha256"),
    )


def _with_tuples(item: Mapping[str, Any]) -> dict[str, Any]:
    values = dict(item)
    values["write_subjects"] = rules.array(values.get("write_subjects"))
    return values


def decode_request(document: object, sha256: object, *, nonproduction: bool = False) -> ActivationRequest:
    """Read a stored request of one family back: same digest *and* same bytes, or ``persistence_readback``."""
    expected = rules.digest(sha256)
    if type(document) is not bytes:
        rules.refuse("persistence_readback")
    try:
        request = request_from(canonical.strict_object(document))
    except (canonical.StrictJsonError, AdmissionRefused) as err:
        raise AdmissionRefused("persistence_readback") from err
    family = request.execution_grant_sha256 is not None
    if family != nonproduction or request.sha256 != expected or request.document() != document:
        rules.refuse("persistence_readback")
    return request


@rules.shaped("closure")
def source_subject_sha256(
    *,
    release_id: str,
    native_release_id: str,
    native_snapshot_sha256: str,
    ordinary_inventory_sha256: str,
    workloads: tuple[tuple[str, str], ...],
) -> str:
    """What a request was compiled from: the release and the pins (workload id, pack digest) of all its workloads."""
    for value in (release_id, native_release_id, native_snapshot_sha256, ordinary_inventory_sha256):
        rules.digest(value)
    for workload_id, pack in workloads:
        rules.identity_text(workload_id)
        rules.digest(pack)
    rules.ascending([workload_id for workload_id, _ in workloads], "closure")
    return canonical.fingerprint_sha256(
        {
            "schema": SOURCE_SUBJECT_SCHEMA,
            "release_id": release_id,
            "native_release_id": native_release_id,
            "native_snapshot_sha256": native_snapshot_sha256,
            "ordinary_inventory_sha256": ordinary_inventory_sha256,
            "workloads": workloads,
        }
    )
