"""A release on disk: the author's files, every relation they write, and one content-addressed `release.json`.

    RELEASE/release.json          identity of everything below; its digest is the release id
    RELEASE/composition.yaml      as written by the author
    RELEASE/workloads/*.yaml      as written by the author
    RELEASE/<dbt project>/…       as written by the author
    RELEASE/<declared>.sql        as written by the author

`build` freezes an author's folder into such a tree; `read` re-verifies the whole closure, and refuses by name any file
that is changed, missing, extra, linked or too large. What is parsed are the very bytes that were compared.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from airflow_provider_dpone.composition.dbt_manifest import parse_project
from airflow_provider_dpone.composition.manifest import (
    ArchivedTransfer,
    Binding,
    Composition,
    NativeDbt,
    PostgresToMssql,
    WorkloadManifest,
    read_composition,
    read_workload,
)
from airflow_provider_dpone.composition.plain_files import freeze, names, read_plain
from airflow_provider_dpone.composition.relations import WrittenRelation, dbt_relations, transfer_relation
from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.errors import ConfigurationError

RELEASE_FILE = "release.json"
SCHEMA = "dpone.release.v1"

#: What tools leave in a project folder; never part of a release.
_LEFT_BEHIND = frozenset({"target", "logs", "dbt_packages", "__pycache__", ".user.yml"})

#: How many files of a kind a refusal names.
_NAMED = 20

Entry = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedWorkload:
    """One workload with its final pins."""

    manifest: WorkloadManifest
    pack_sha256: str
    plan_sha256: str
    relations: tuple[WrittenRelation, ...]
    #: The manifest's own bytes.
    original: bytes

    @property
    def workload_id(self) -> str:
        return self.manifest.workload_id

    @property
    def is_transfer(self) -> bool:
        return not isinstance(self.manifest, NativeDbt)

    @property
    def bindings(self) -> tuple[str, ...]:
        """The aliases of the databases that the workload reads and writes."""
        if isinstance(self.manifest, NativeDbt):
            return (self.manifest.dbt.binding,)
        return (self.manifest.source.binding, self.manifest.sink.binding)

    @property
    def sink_binding(self) -> str:
        """The alias of the database that the workload writes."""
        return self.manifest.dbt.binding if isinstance(self.manifest, NativeDbt) else self.manifest.sink.binding

    @property
    def outlets(self) -> tuple[str, ...]:
        """What the workload makes, as logical names: an alias says nothing of where the data lie.

        Each part is quoted, so that a `/`, `#`, `?` or `@` of a name is not one of the URI.
        """
        targets = (relation for relation in self.relations if relation.role == "target")
        parts = ((self.sink_binding, each.schema, each.name) for each in targets)
        return tuple(sorted("dpone://" + "/".join(quote(part, safe="") for part in each) for each in parts))

    def document(self) -> dict[str, object]:
        return {
            "workload_id": self.workload_id,
            "pack_sha256": self.pack_sha256,
            "plan_sha256": self.plan_sha256,
            "relations": [relation.document() for relation in self.relations],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A verified release. `root` is its folder; nothing in it may change while it is in use."""

    root: Path
    release_id: str
    composition: Composition
    workloads: tuple[ReleasedWorkload, ...]
    #: The workload ids in the order of the files in composition.yaml.
    order: tuple[str, ...]

    @property
    def listed(self) -> tuple[ReleasedWorkload, ...]:
        """The workloads in their author's order."""
        by_id = {workload.workload_id: workload for workload in self.workloads}
        return tuple(by_id[workload_id] for workload_id in self.order)

    def workload(self, workload_id: str) -> ReleasedWorkload:
        for workload in self.workloads:
            if workload.workload_id == workload_id:
                return workload
        raise ConfigurationError(
            "workload_unknown",
            happened=f"the release has no workload {workload_id!r}; it has {[w.workload_id for w in self.workloads]}.",
        )

    def binding(self, alias: str) -> Binding:
        return self.composition.bindings[alias]


def build(source: Path, destination: Path) -> Release:
    """Freeze the author's folder `source` into the new folder `destination`.

    dbt projects are parsed (no connection is made) to learn what they write. Refuses an existing destination.
    """
    if destination.exists():
        raise ConfigurationError(
            "release_exists", happened=f"{destination} exists; a release is never changed in place."
        )
    if destination.resolve().is_relative_to(source.resolve()):
        raise ConfigurationError(
            "release_inside_source", happened=f"{destination} lies in {source}; a release cannot hold itself."
        )
    try:
        staging = Path(tempfile.mkdtemp(prefix=".building-", dir=destination.absolute().parent))
    except OSError as err:
        raise _not_written(destination, err) from err
    try:
        freeze(source, staging, left_out=_LEFT_BEHIND)
        files = dict(_digests(staging))
        composition, manifests = _read_manifests(staging, files)
        workloads = tuple(_pin(staging, composition, each, files) for each in sorted(manifests, key=_by_id))
        _require_one_writer(workloads)
        document = _document(composition, workloads, files)
        (staging / RELEASE_FILE).write_bytes(canonical.exact_bytes(document))
        os.replace(staging, destination)
    except (OSError, shutil.Error, RecursionError) as err:
        shutil.rmtree(staging, ignore_errors=True)
        raise _not_written(destination, err) from err
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    return read(destination)


def _not_written(destination: Path, err: Exception) -> ConfigurationError:
    return ConfigurationError(
        "release_not_written",
        happened=f"the release {destination} could not be written: {err}.",
        not_done="there is no new release.",
        check="that its folder exists, may be written, and that the disk is not full.",
    )


def read(root: Path, *, expected_release_id: str | None = None) -> Release:
    """Re-verify every byte of a release and return it."""
    try:
        return _verified(Path(root), expected_release_id)
    except (OSError, KeyError, TypeError, AttributeError, ValueError) as err:
        # A file that vanished meanwhile, or a release.json that `build` did not write.
        raise ConfigurationError(
            "release_unreadable", happened=f"{root} is not a release: {type(err).__name__}: {err}."
        ) from err


def _verified(root: Path, expected_release_id: str | None) -> Release:
    try:
        data = read_plain(root, RELEASE_FILE)
        document = canonical.strict_object(data)
    except canonical.StrictJsonError as err:
        raise ConfigurationError("release_unreadable", happened=f"{root / RELEASE_FILE}: {err}.") from err
    release_id = canonical.sha256_text(data)
    if expected_release_id is not None and release_id != expected_release_id:
        raise ConfigurationError(
            "release_id",
            happened=f"{root / RELEASE_FILE} is that of the release {release_id}, not of {expected_release_id}.",
        )
    found = {path: entry for path, entry in _digests(root) if path != RELEASE_FILE}
    _compare(document["files"], found)
    composition, listed = _read_manifests(root, found)
    manifests = sorted(listed, key=_by_id)
    recorded = {entry["workload_id"]: entry for entry in document["workloads"]}
    workloads = tuple(
        ReleasedWorkload(
            manifest=manifest,
            pack_sha256=recorded[manifest.workload_id]["pack_sha256"],
            plan_sha256=recorded[manifest.workload_id]["plan_sha256"],
            relations=tuple(WrittenRelation(**relation) for relation in recorded[manifest.workload_id]["relations"]),
            original=original,
        )
        for manifest, original in manifests
    )
    release = Release(
        root=root,
        release_id=release_id,
        composition=composition,
        workloads=workloads,
        order=tuple(manifest.workload_id for manifest, _ in listed),
    )
    for workload in workloads:
        if _pins(composition, workload.manifest, workload.relations, found) != (
            workload.pack_sha256,
            workload.plan_sha256,
        ):
            raise ConfigurationError(
                "release_pins", happened=f"the pins of {workload.workload_id} do not match its files."
            )
    if document != _document(composition, workloads, found):
        raise ConfigurationError("release_unreadable", happened=f"{root / RELEASE_FILE} is not what `build` writes.")
    return release


def _read_manifests(root: Path, files: Mapping[str, Entry]) -> tuple[Composition, list[tuple[WorkloadManifest, bytes]]]:
    composition = read_composition(
        _text(_listed(root, "composition.yaml", files), "composition.yaml"), "composition.yaml"
    )
    for path in composition.workloads:
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            raise ConfigurationError("workload_path", happened=f"{path!r} leads out of the release.")
    originals = [(path, _listed(root, path, files)) for path in composition.workloads]
    manifests = [(read_workload(_text(data, path), path), data) for path, data in originals]
    _require_whole(composition, [manifest for manifest, _ in manifests], files)
    return composition, manifests


def _by_id(read: tuple[WorkloadManifest, bytes]) -> str:
    return read[0].workload_id


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
        for alias, connector in _aliases(composition, manifest):
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
    if path not in files or _entry(data) != files[path]:
        raise ConfigurationError("release_closure", happened=f"{path} changed while it was read, or is not listed.")
    return data


def _text(data: bytes, path: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as err:
        raise ConfigurationError("manifest_unreadable", happened=f"{path} is not UTF-8: {err}.") from err


def _aliases(composition: Composition, manifest: WorkloadManifest) -> Iterator[tuple[str, str]]:
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


def _pin(
    root: Path, composition: Composition, read: tuple[WorkloadManifest, bytes], files: Mapping[str, Entry]
) -> ReleasedWorkload:
    manifest, original = read
    relations = _relations(root, composition, manifest)
    pack_sha256, plan_sha256 = _pins(composition, manifest, relations, files)
    return ReleasedWorkload(
        manifest=manifest, pack_sha256=pack_sha256, plan_sha256=plan_sha256, relations=relations, original=original
    )


def _relations(root: Path, composition: Composition, manifest: WorkloadManifest) -> tuple[WrittenRelation, ...]:
    if isinstance(manifest, NativeDbt):
        database = composition.bindings[manifest.dbt.binding].database
        parsed = parse_project(root / manifest.dbt.project, database=database, schema=manifest.dbt.default_schema)
        return dbt_relations(parsed, database=database)
    database = composition.bindings[manifest.sink.binding].database
    schema = database
    if isinstance(manifest, PostgresToMssql | ArchivedTransfer) and manifest.sink.schema_ is not None:
        schema = manifest.sink.schema_
    return transfer_relation(manifest.workload_id, schema=schema, name=manifest.sink.table)


def _require_one_writer(workloads: tuple[ReleasedWorkload, ...]) -> None:
    """Two workloads that write one relation would be refused at the activation, without saying which."""
    writers: dict[tuple[str, str, str], str] = {}
    for workload in workloads:
        for relation in workload.relations:
            written = (workload.sink_binding, relation.schema.casefold(), relation.name.casefold())
            other = writers.setdefault(written, workload.workload_id)
            if other != workload.workload_id:
                raise ConfigurationError(
                    "relation_written_twice",
                    happened=f"{other} and {workload.workload_id} both write {relation.schema}.{relation.name}.",
                )


def _pins(
    composition: Composition,
    manifest: WorkloadManifest,
    relations: tuple[WrittenRelation, ...],
    files: Mapping[str, Entry],
) -> tuple[str, str]:
    options = manifest.model_dump(mode="json", by_alias=True)
    pack = {
        "schema": "dpone.workload-pack.v1",
        "manifest": options,
        "files": _files_of(manifest, files),
        "relations": [relation.document() for relation in relations],
    }
    plan = {
        "schema": "dpone.workload-plan.v1",
        "cell": manifest.cell,
        "bindings": {
            alias: composition.bindings[alias].model_dump(mode="json") for alias, _ in _aliases(composition, manifest)
        },
        "options": options,
    }
    return canonical.exact_sha256(pack), canonical.exact_sha256(plan)


def _files_of(manifest: WorkloadManifest, files: Mapping[str, Entry]) -> dict[str, Entry]:
    """The files that a workload is made of, its manifest aside. Only a dbt project takes a look at all of them."""
    if isinstance(manifest, NativeDbt):
        return {path: entry for path, entry in files.items() if path.startswith(f"{manifest.dbt.project}/")}
    if isinstance(manifest, ArchivedTransfer) and manifest.source.sql is not None:
        return {manifest.source.sql: files[manifest.source.sql]}
    return {}


def _document(
    composition: Composition, workloads: tuple[ReleasedWorkload, ...], files: Mapping[str, Entry]
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "name": composition.name,
        "environment": composition.environment,
        "workloads": [workload.document() for workload in workloads],
        "files": files,
    }


def _entry(data: bytes) -> dict[str, object]:
    return {"sha256": "sha256:" + hashlib.sha256(data).hexdigest(), "bytes": len(data)}


def _digests(root: Path) -> Iterator[tuple[str, dict[str, object]]]:
    return ((path, _entry(read_plain(root, path))) for path in names(root))


def _compare(recorded: Mapping[str, Entry], found: Mapping[str, Entry]) -> None:
    missing = sorted(set(recorded) - set(found))
    extra = sorted(set(found) - set(recorded))
    changed = sorted(path for path in set(found) & set(recorded) if found[path] != recorded[path])
    if missing or extra or changed:
        raise ConfigurationError(
            "release_closure",
            happened="the release's files are not those it was built with: "
            f"missing {_some(missing)}, extra {_some(extra)}, changed {_some(changed)}.",
        )


def _some(paths: list[str]) -> str:
    """As many as a message can name: a folder beside the release may hold thousands."""
    rest = len(paths) - _NAMED
    return f"{paths[:_NAMED]}" + (f" and {rest} more" if rest > 0 else "")
