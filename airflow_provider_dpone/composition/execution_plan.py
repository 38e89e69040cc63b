"""Which workloads of a parent can be executed: a closed matrix of three cells. Nothing is read but the snapshot.

    sqlserver_dbt_v1                    native      one dbt project on SQL Server
    mssql_clickhouse_full_refresh_v1    native      SQL Server table to ClickHouse, full refresh, with a positive
                                                    cumulative max_source_bytes
    postgres_mssql_full_refresh_v1      standalone  PostgreSQL table to SQL Server, full refresh, target_atomic

One workload outside of it refuses the whole parent, before anything is reserved. That a workload is in the matrix is
no permission: servers, enrollment, gates and the recorded gate profile are asked later.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from airflow_provider_dpone.composition.manifest import (
    ArchivedTransfer,
    MssqlToClickHouse,
    NativeDbt,
    Options,
    WorkloadManifest,
)
from airflow_provider_dpone.composition.relations import WrittenRelation
from airflow_provider_dpone.composition.release import ReleasedWorkload
from airflow_provider_dpone.composition.sources import CompositionSourceSnapshot
from airflow_provider_dpone.contracts.activation import WorkloadAdmission
from airflow_provider_dpone.contracts.errors import AdmissionRefused
from airflow_provider_dpone.contracts.ownership import relation_write_subject
from airflow_provider_dpone.routes.dbt_test_views import is_test_view


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWrite:
    """One relation that a workload writes, by the alias of its database, and its subject in the request."""

    workload_id: str
    alias: str
    relation: WrittenRelation
    subject_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompositionExecutionPlan:
    """Every workload with its cell, and every write. Manifests are kept as they are: no option is left out."""

    sources: CompositionSourceSnapshot
    workloads: tuple[WorkloadAdmission, ...]
    writes: tuple[PlannedWrite, ...]

    @property
    def cells(self) -> frozenset[str]:
        return frozenset(workload.execution_cell for workload in self.workloads)

    def options(self, workload_id: str) -> dict[str, Any]:
        """All members of a workload's manifest."""
        (found,) = (each for each in self.sources.workloads if each.workload_id == workload_id)
        return found.manifest.model_dump(mode="json", by_alias=True)

    def require_installed_cells(self, cells: frozenset[str]) -> None:
        """Refuse the whole parent when one of its cells cannot be executed here."""
        if missing := sorted(self.cells - cells):
            raise AdmissionRefused(
                "execution_cells",
                happened=f"{', '.join(missing)} cannot be executed here: the accounts of an engine are not configured.",
                not_done="nothing was reserved, and no activation in force was touched.",
                check="the roles of every engine in docs/roles.md.",
            )


def plan_composition_execution(sources: CompositionSourceSnapshot) -> CompositionExecutionPlan:
    """Classify every workload, or refuse with the first one that is outside of the matrix and why."""
    for workload in sources.workloads:
        _require_in_matrix(workload)
    writes = tuple(
        _write(sources, workload, relation) for workload in sources.workloads for relation in workload.relations
    )
    for write in writes:
        if is_test_view(write.relation.name):
            _refuse(
                "reserved_name",
                write.workload_id,
                f"it writes {write.relation.name}, and dbt-sqlserver gives such names to the views of its tests",
            )
    admissions = tuple(
        WorkloadAdmission(
            workload_id=workload.workload_id,
            constituent_id=workload.manifest.constituent_id,
            pack_sha256=workload.pack_sha256,
            execution_cell=workload.manifest.cell,
            write_subjects=_subjects(workload.workload_id, writes),
        )
        for workload in sources.workloads
    )
    return CompositionExecutionPlan(sources=sources, workloads=admissions, writes=writes)


def _subjects(workload_id: str, writes: tuple[PlannedWrite, ...]) -> tuple[str, ...]:
    subjects = sorted(write.subject_sha256 for write in writes if write.workload_id == workload_id)
    if not subjects:
        _refuse("no_write", workload_id, "it writes nothing, so nothing could be guarded")
    return tuple(subjects)


def _require_in_matrix(workload: ReleasedWorkload) -> None:
    manifest, refused = workload.manifest, workload.workload_id
    if isinstance(manifest, ArchivedTransfer):
        if manifest.source.sql is not None:
            _refuse("extraction", refused, f"it extracts by {manifest.source.sql}; only whole tables are extracted")
        if manifest.sink.mode != "full_refresh":
            _refuse("strategy", refused, f"its mode is {manifest.sink.mode}; only full_refresh is executed")
        if manifest.sink.guarantee != "target_atomic":
            _refuse("guarantee", refused, "it does not say guarantee: target_atomic")
        _refuse("archived", refused, "it is an archived transfer; one that runs is declared as its execution cell")
    if isinstance(manifest, NativeDbt):
        if manifest.constituent_id != "native":
            _refuse("constituent", refused, "dbt runs as part of the constituent native only")
    elif isinstance(manifest, MssqlToClickHouse):
        if manifest.constituent_id != "native":
            _refuse("route", refused, "an ordinary SQL Server to ClickHouse transfer is not in the matrix")
    elif manifest.constituent_id != "standalone":
        _refuse("route", refused, "a native PostgreSQL to SQL Server transfer is not in the matrix")
    for name, options in _with_effect(manifest):
        if options:
            _refuse("option", refused, f"it declares {name}.{options[0][0]}, which no route here carries out")


def _with_effect(manifest: WorkloadManifest) -> Iterator[tuple[str, Options]]:
    """Options that would change what is done. They are never left out: what is not carried out is not executed."""
    yield "runtime", manifest.runtime
    yield "quality", manifest.quality
    if not isinstance(manifest, NativeDbt):
        yield "source.options", manifest.source.options
        yield "sink.options", manifest.sink.options


def _refuse(reason: str, workload_id: str, why: str) -> NoReturn:
    raise AdmissionRefused(
        f"plan_{reason}",
        happened=f"the workload {workload_id} cannot be executed: {why}.",
        not_done="nothing was reserved, and no activation in force was touched.",
        check="its manifest, against the matrix in docs/composition.md.",
        details={"workload_id": workload_id},
    )


def _write(sources: CompositionSourceSnapshot, workload: ReleasedWorkload, relation: WrittenRelation) -> PlannedWrite:
    manifest, alias = workload.manifest, workload.sink_binding
    binding = sources.binding(alias)
    subject = relation_write_subject(
        project_path=manifest.dbt.project if isinstance(manifest, NativeDbt) else sources.name,
        workflow_id=workload.workload_id,
        resource_id=relation.resource_id,
        kind="model" if isinstance(manifest, NativeDbt) else "transfer",
        connector=binding.connector,
        connection_ref=alias,
        database=binding.database,
        schema=relation.schema,
        relation=relation.name,
        role=relation.role,
    )
    return PlannedWrite(workload_id=workload.workload_id, alias=alias, relation=relation, subject_sha256=subject)
