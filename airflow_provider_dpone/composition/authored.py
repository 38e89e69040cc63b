"""What the author of a composition wrote, read as a whole: everything that one part names is there in another.

What is parsed are the very bytes that were compared before.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from airflow_provider_dpone.composition import plain_files, workload_pins
from airflow_provider_dpone.composition.manifest import (
    ArchivedTransfer,
    Composition,
    WorkloadManifest,
    read_composition,
    read_workload,
)
from airflow_provider_dpone.composition.plain_files import Entry, entry, read_plain, require_total
from airflow_provider_dpone.contracts.errors import ConfigurationError


def read_manifests(root: Path, files: Mapping[str, Entry]) -> tuple[Composition, list[tuple[WorkloadManifest, bytes]]]:
    """The composition and its workloads in their order, each with its own bytes. `files` are those that were compared."""
    composition = read_composition(
        _text(_listed(root, "composition.yaml", files), "composition.yaml"), "composition.yaml"
    )
    for path in composition.workloads:
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            raise ConfigurationError("workload_path", happened=f"{path!r} leads out of the release.")
    originals, size = [], 0
    for path in composition.workloads:
        originals.append((path, _listed(root, path, files)))
        size += len(originals[-1][1])
        require_total(size, path, limit=plain_files.MANIFESTS_LIMIT, what="the manifests of its workloads")
    manifests = [(read_workload(_text(data, path), path), data) for path, data in originals]
    _require_whole(composition, [manifest for manifest, _ in manifests], files)
    return composition, manifests


def _require_whole(composition: Composition, manifests: list[WorkloadManifest], files: Mapping[str, Entry]) -> None:
    """Everything that one part of a composition names is there in another."""
    ids = [manifest.workload_id for manifest in manifests]
    if len(set(ids)) != len(ids):
        raise ConfigurationError("workload_twice", happened=f"a workload id stands twice in {ids}.")
    if missing := {"native", "standalone"} - {manifest.constituent_id for manifest in manifests}:
        raise ConfigurationError(
            "constituents",
            happened=f"no workload has the constituent_id {' or '.join(sorted(missing))};"
            " a composition is only activated with both.",
        )
    dag_ids = {manifest.dag_id for manifest in manifests}
    for dag_id in (*composition.dags, *(composition.parent.order if composition.parent else ())):
        if dag_id not in dag_ids:
            raise ConfigurationError(
                "dag_unknown", happened=f"composition.yaml names {dag_id}, which no workload runs in."
            )
    if composition.parent is not None and composition.parent.dag_id in dag_ids:
        raise ConfigurationError(
            "dag_unknown", happened=f"the parent {composition.parent.dag_id} is the DAG of a workload, too."
        )
    for dag_id, options in composition.dags.items():
        cells = {manifest.cell for manifest in manifests if manifest.dag_id == dag_id}
        if options.mapped is not None and len(cells) > 1:
            raise ConfigurationError(
                "dag_mapped",
                happened=f"{dag_id} is one mapped task, and its workloads are of more than one cell:"
                f" {', '.join(sorted(cells))}.",
            )
    for manifest in manifests:
        for alias, connector in workload_pins.aliases(composition, manifest):
            binding = composition.bindings.get(alias)
            if binding is None or binding.connector != connector:
                raise ConfigurationError(
                    "binding",
                    happened=f"{manifest.workload_id} needs the binding {alias!r} of the connector {connector}.",
                )
        if isinstance(manifest, ArchivedTransfer) and manifest.source.sql not in (None, *files):
            raise ConfigurationError(
                "sql_file", happened=f"{manifest.workload_id} declares {manifest.source.sql}, which is not there."
            )


def _listed(root: Path, path: str, files: Mapping[str, Entry]) -> bytes:
    """The bytes of a file that was compared before, or a refusal when they are others by now."""
    data = read_plain(root, path)
    if path not in files or entry(data) != files[path]:
        raise ConfigurationError("release_closure", happened=f"{path} changed while it was read, or is not listed.")
    return data


def _text(data: bytes, path: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as err:
        raise ConfigurationError("manifest_unreadable", happened=f"{path} is not UTF-8: {err}.") from err
