"""Small complete records for tests: an activation request, attempts under it, principals and proofs."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence

from airflow_provider_dpone.contracts.activation import (
    ActivationRequest,
    OccurrenceContext,
    PhysicalResource,
    WorkloadAdmission,
)
from airflow_provider_dpone.contracts.attempt import Attempt, GuardEpochs
from airflow_provider_dpone.contracts.ownership import guard_id
from airflow_provider_dpone.contracts.principal import Coordinates

SERVICE = "0f8fad5b-d9cd-469f-a165-70867728950e"
CLICKHOUSE = "7c9e6679-7425-40de-944b-e07fc1f90ae7"


def sha(text: str) -> str:
    """A digest text that stands for something named."""
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def domain(name: str, connector: str = "mssql") -> tuple[str, str, str, str]:
    """(guard, connector, service, subject) of an invented physical domain."""
    service = SERVICE if connector == "mssql" else CLICKHOUSE
    subject = sha(f"subject {name}")
    return (
        guard_id(connector=connector, service_id=service, physical_subject_sha256=subject),
        connector,
        service,
        subject,
    )


def request(
    domains: Sequence[tuple[str, str, str, str]], *, activation_id: str | None = None, release: str = "release"
) -> ActivationRequest:
    """One workload for each domain, named w0, w1 ...; the last one is the standalone constituent."""
    workloads, resources = [], []
    for number, (guard, connector, service, subject) in enumerate(domains):
        writes = (sha(f"write {number} {guard}"),)
        workloads.append(
            WorkloadAdmission(
                workload_id=f"w{number:03}",
                constituent_id="native" if number == 0 else "standalone",
                pack_sha256=sha(f"pack {number}"),
                execution_cell="sqlserver_dbt_v1",
                write_subjects=writes,
            )
        )
        resources.append(
            PhysicalResource(
                guard_id=guard,
                connector=connector,
                service_id=service,
                physical_subject_sha256=subject,
                observation_sha256=sha(f"observed {guard}"),
                write_subjects=writes,
            )
        )
    return ActivationRequest(
        context=OccurrenceContext(
            activation_id=activation_id or str(uuid.uuid4()),
            environment="synthetic",
            release_id=sha(release),
            deployment_id=sha("deployment"),
            previous_deployment_id=None,
            runtime_context_sha256=sha("context"),
        ),
        source_subject_sha256=sha("source"),
        workloads=tuple(workloads),
        resources=tuple(sorted(resources, key=lambda resource: resource.guard_id)),
    )


def coordinates(
    run_id: str = "manual__1", *, task_id: str = "load", try_number: int = 1, map_index: int = -1, dag_id: str = "dag"
) -> Coordinates:
    return Coordinates(
        dag_id=dag_id,
        run_id=run_id,
        task_id=task_id,
        map_index=map_index,
        try_number=try_number,
        task_instance_id=str(uuid.uuid4()),
    )


def attempt(parent: ActivationRequest, workload_id: str, epochs: GuardEpochs, where: Coordinates) -> Attempt:
    workload = parent.workload(workload_id)
    return Attempt(
        activation_request_sha256=parent.sha256,
        workload_id=workload_id,
        constituent_id=workload.constituent_id,
        pack_sha256=workload.pack_sha256,
        plan_sha256=sha(f"plan {workload_id}"),
        dag_run_id=where.run_id,
        task_id=where.task_id,
        try_number=where.try_number,
        map_index=where.map_index,
        guard_epochs=epochs,
    )
