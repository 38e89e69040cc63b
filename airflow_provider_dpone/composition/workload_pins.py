"""What is generated of a workload, and the two digests that pin it.

    pack    its manifest, its files, every relation that it writes and its logical outlets    -> pack_sha256
    plan    its cell, its bindings, all of its options and its logical outlets                -> plan_sha256

The plan's bytes stand in the release as `runtime/<workload_id>.json`. Nobody writes one by hand: `build` refuses a folder
that brings any, and whoever reads a release makes them again and compares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from airflow_provider_dpone.composition.dbt_manifest import parse_project, unreadable
from airflow_provider_dpone.composition.manifest import (
    ArchivedTransfer,
    Composition,
    NativeDbt,
    PostgresToMssql,
    WorkloadManifest,
)
from airflow_provider_dpone.composition.plain_files import Entry
from airflow_provider_dpone.composition.relations import WrittenRelation, dbt_relations, transfer_relation
from airflow_provider_dpone.contracts import canonical

#: The folder of the generated manifests.
RUNTIME_FOLDER = "runtime"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadPins:
    """The final pins of a workload. `runtime` are the bytes whose digest is `plan_sha256`."""

    pack_sha256: str
    plan_sha256: str
    runtime: bytes


def pins(
    composition: Composition,
    manifest: WorkloadManifest,
    relations: tuple[WrittenRelation, ...],
    files: Mapping[str, Entry],
) -> WorkloadPins:
    """Everything that is generated of a workload. `files` are those of its release, by their paths."""
    options = manifest.model_dump(mode="json", by_alias=True)
    logical = outlets(sink_binding(manifest), relations)
    pack = {
        "schema": "dpone.workload-pack.v1",
        "manifest": options,
        "files": _files_of(manifest, files),
        "relations": [relation.document() for relation in relations],
        "outlets": logical,
    }
    plan = {
        "schema": "dpone.workload-plan.v1",
        "workload_id": manifest.workload_id,
        "cell": manifest.cell,
        "bindings": {
            alias: composition.bindings[alias].model_dump(mode="json") for alias, _ in aliases(composition, manifest)
        },
        "options": options,
        "outlets": logical,
    }
    runtime = canonical.exact_bytes(plan)
    return WorkloadPins(
        pack_sha256=canonical.exact_sha256(pack), plan_sha256=canonical.sha256_text(runtime), runtime=runtime
    )


def runtime_path(workload_id: str) -> str:
    """Where the generated manifest of a workload stands in its release."""
    return f"{RUNTIME_FOLDER}/{workload_id}.json"


def sink_binding(manifest: WorkloadManifest) -> str:
    """The alias of the database that a workload writes."""
    return manifest.dbt.binding if isinstance(manifest, NativeDbt) else manifest.sink.binding


def aliases(composition: Composition, manifest: WorkloadManifest) -> Iterator[tuple[str, str]]:
    """The bindings of a workload, with the connector that each of them has to be of."""
    if isinstance(manifest, NativeDbt):
        yield manifest.dbt.binding, "mssql"
    elif isinstance(manifest, ArchivedTransfer):
        for alias in (manifest.source.binding, manifest.sink.binding):
            binding = composition.bindings.get(alias)
            yield alias, "any" if binding is None else binding.connector
    elif isinstance(manifest, PostgresToMssql):
        yield manifest.source.binding, "postgres"
        yield manifest.sink.binding, "mssql"
    else:
        yield manifest.source.binding, "mssql"
        yield manifest.sink.binding, "clickhouse"


def outlets(alias: str, relations: tuple[WrittenRelation, ...]) -> tuple[str, ...]:
    """What a workload makes, as logical names: an alias says nothing of where the data lie.

    Each part is quoted, so that a `/`, `#`, `?` or `@` of a name is not one of the URI.
    """
    targets = (relation for relation in relations if relation.role == "target")
    parts = ((alias, each.schema, each.name) for each in targets)
    return tuple(sorted("dpone://" + "/".join(quote(part, safe="") for part in each) for each in parts))


def dbt_project_relations(
    root: Path, composition: Composition, manifest: NativeDbt, *, timeout: float
) -> tuple[WrittenRelation, ...]:
    """Every relation that a dbt project writes, by dbt's own parse of it."""
    database = composition.bindings[manifest.dbt.binding].database
    project = root / manifest.dbt.project
    parsed = parse_project(project, database=database, schema=manifest.dbt.default_schema, timeout=timeout)
    try:
        return dbt_relations(parsed, database=database)
    except (LookupError, TypeError, AttributeError) as err:
        raise unreadable(project.name, err) from err


def transfer_relations(composition: Composition, manifest: WorkloadManifest) -> tuple[WrittenRelation, ...]:
    """Every relation that a transfer writes; none of a dbt project, whose relations only dbt knows."""
    if isinstance(manifest, NativeDbt):
        return ()
    schema = composition.bindings[manifest.sink.binding].database
    if isinstance(manifest, PostgresToMssql | ArchivedTransfer) and manifest.sink.schema_ is not None:
        schema = manifest.sink.schema_
    return transfer_relation(manifest.workload_id, schema=schema, name=manifest.sink.table)


def _files_of(manifest: WorkloadManifest, files: Mapping[str, Entry]) -> dict[str, Entry]:
    """The files that a workload is made of, its manifest aside. Only a dbt project takes a look at all of them."""
    if isinstance(manifest, NativeDbt):
        return {path: entry for path, entry in files.items() if path.startswith(f"{manifest.dbt.project}/")}
    if isinstance(manifest, ArchivedTransfer) and manifest.source.sql is not None:
        return {manifest.source.sql: files[manifest.source.sql]}
    return {}
