"""From a verified release and observed domains to the immutable activation request."""

from __future__ import annotations

import platform
from collections import defaultdict
from collections.abc import Mapping
from importlib.metadata import version

from airflow_provider_dpone.composition.manifest import NativeDbt
from airflow_provider_dpone.composition.physical import PhysicalDomain
from airflow_provider_dpone.composition.release import Release, ReleasedWorkload
from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.activation import (
    ActivationRequest,
    OccurrenceContext,
    PhysicalResource,
    WorkloadAdmission,
    source_subject_sha256,
)
from airflow_provider_dpone.contracts.errors import AdmissionRefused
from airflow_provider_dpone.contracts.ownership import relation_write_subject


def build_request(
    release: Release,
    domains: Mapping[str, PhysicalDomain],
    *,
    activation_id: str,
    previous_deployment_id: str | None,
) -> ActivationRequest:
    """The request of one occurrence. `domains` maps the alias of every written binding to its observed domain.

    Two workloads that write the same relation, by whatever alias or spelling, are refused before anything is reserved.
    """
    owners: dict[tuple[str, str, str], str] = {}
    by_domain: dict[str, set[str]] = defaultdict(set)
    admissions: list[WorkloadAdmission] = []
    for workload in release.workloads:
        domain = domains[workload.sink_binding]
        subjects: set[str] = set()
        for relation in workload.relations:
            coordinate = domain.coordinate(relation.schema, relation.name)
            other = owners.setdefault(coordinate, workload.workload_id)
            if other != workload.workload_id:
                raise AdmissionRefused(
                    "write_collision",
                    happened=f"{workload.workload_id} and {other} both write {relation.schema}.{relation.name}"
                    f" of {domain.database}.",
                    not_done="nothing was reserved.",
                )
            subjects.add(
                _subject(release, workload, relation.resource_id, relation.schema, relation.name, relation.role)
            )
        by_domain[workload.sink_binding] |= subjects
        admissions.append(
            WorkloadAdmission(
                workload_id=workload.workload_id,
                constituent_id=workload.manifest.constituent_id,
                pack_sha256=workload.pack_sha256,
                execution_cell=workload.manifest.cell,
                write_subjects=tuple(sorted(subjects)),
            )
        )
    return ActivationRequest(
        context=OccurrenceContext(
            activation_id=activation_id,
            environment=release.composition.environment,
            release_id=release.release_id,
            deployment_id=deployment_id(release, domains),
            previous_deployment_id=previous_deployment_id,
            runtime_context_sha256=_runtime_context(),
        ),
        source_subject_sha256=_source_subject(release),
        workloads=tuple(sorted(admissions, key=lambda admission: admission.workload_id)),
        resources=_resources(domains, by_domain),
    )


def deployment_id(release: Release, domains: Mapping[str, PhysicalDomain]) -> str:
    """The release together with the physical domains it is deployed to."""
    return canonical.exact_sha256(
        {
            "schema": "dpone.deployment.v1",
            "release_id": release.release_id,
            "domains": {alias: domain.guard_id for alias, domain in domains.items()},
        }
    )


def _subject(release: Release, workload: ReleasedWorkload, resource_id: str, schema: str, name: str, role: str) -> str:
    manifest = workload.manifest
    native = isinstance(manifest, NativeDbt)
    return relation_write_subject(
        project_path=manifest.dbt.project if isinstance(manifest, NativeDbt) else release.composition.name,
        workflow_id=workload.workload_id,
        resource_id=resource_id,
        kind="model" if native else "transfer",
        connector=release.binding(workload.sink_binding).connector,
        connection_ref=workload.sink_binding,
        database=release.binding(workload.sink_binding).database,
        schema=schema,
        relation=name,
        role=role,
    )


def _resources(domains: Mapping[str, PhysicalDomain], by_alias: Mapping[str, set[str]]) -> tuple[PhysicalResource, ...]:
    merged: dict[str, tuple[PhysicalDomain, set[str]]] = {}
    for alias, subjects in by_alias.items():
        domain = domains[alias]
        merged.setdefault(domain.guard_id, (domain, set()))[1].update(subjects)
    return tuple(
        PhysicalResource(
            guard_id=guard,
            connector=domain.connector,
            service_id=domain.service_id,
            physical_subject_sha256=domain.physical_subject_sha256,
            observation_sha256=domain.observation_sha256,
            write_subjects=tuple(sorted(subjects)),
        )
        for guard, (domain, subjects) in sorted(merged.items())
    )


def _source_subject(release: Release) -> str:
    pins = tuple((workload.workload_id, workload.pack_sha256) for workload in release.workloads)
    native = [pin for pin, workload in zip(pins, release.workloads, strict=True) if _constituent(workload) == "native"]
    ordinary = [
        pin for pin, workload in zip(pins, release.workloads, strict=True) if _constituent(workload) != "native"
    ]
    return source_subject_sha256(
        release_id=release.release_id,
        native_release_id=canonical.exact_sha256({"schema": "dpone.native-release.v1", "workloads": native}),
        native_snapshot_sha256=canonical.exact_sha256(
            {
                "schema": "dpone.native-snapshot.v1",
                "workloads": [w.document() for w in release.workloads if _constituent(w) == "native"],
            }
        ),
        ordinary_inventory_sha256=canonical.exact_sha256(
            {"schema": "dpone.ordinary-inventory.v1", "workloads": ordinary}
        ),
        workloads=pins,
    )


def _constituent(workload: ReleasedWorkload) -> str:
    return workload.manifest.constituent_id


def _runtime_context() -> str:
    packages = ("airflow-provider-dpone", "apache-airflow", "mssql-python", "clickhouse-connect", "psycopg")
    return canonical.exact_sha256(
        {
            "schema": "dpone.runtime-context.v1",
            "python": platform.python_version(),
            "packages": {name: version(name) for name in packages},
        }
    )
