"""A release on disk: the author's files, every relation they write, and one content-addressed `release.json`.

    RELEASE/release.json          identity of everything below; its digest is the release id
    RELEASE/composition.yaml      as written by the author
    RELEASE/workloads/*.yaml      as written by the author
    RELEASE/<dbt project>/…       as written by the author
    RELEASE/<declared>.sql        as written by the author
    RELEASE/runtime/*.json        one a workload, generated (workload_pins.py)

`build` freezes an author's folder into such a tree; `read` re-verifies the whole closure, and refuses by name any file
that is changed, missing, extra, linked or too large. What is parsed are the very bytes that were compared.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from airflow_provider_dpone.composition import plain_files, workload_pins
from airflow_provider_dpone.composition.authored import read_manifests
from airflow_provider_dpone.composition.dbt_manifest import PARSE_TIMEOUT
from airflow_provider_dpone.composition.manifest import (
    Binding,
    Composition,
    NativeDbt,
    WorkloadManifest,
)
from airflow_provider_dpone.composition.plain_files import (
    Entry,
    entry,
    freeze,
    names,
    read_plain,
    require_count,
    require_total,
)
from airflow_provider_dpone.composition.relations import WrittenRelation
from airflow_provider_dpone.composition.staging import staging_folder
from airflow_provider_dpone.composition.workload_pins import RUNTIME_FOLDER, WorkloadPins, pins, runtime_path
from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.errors import ConfigurationError

RELEASE_FILE = "release.json"
SCHEMA = "dpone.release.v1"

#: What tools leave in a project folder; never part of a release.
_LEFT_BEHIND = frozenset({"target", "logs", "dbt_packages", "__pycache__", ".user.yml"})

#: How many files of a kind a refusal names.
_NAMED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedWorkload:
    """One workload with its final pins."""

    manifest: WorkloadManifest
    pack_sha256: str
    plan_sha256: str
    relations: tuple[WrittenRelation, ...]
    #: The manifest's own bytes.
    original: bytes
    #: The generated runtime manifest's bytes, whose digest is `plan_sha256`.
    runtime: bytes

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
        return workload_pins.sink_binding(self.manifest)

    @property
    def outlets(self) -> tuple[str, ...]:
        """What the workload makes, as logical names."""
        return workload_pins.outlets(self.sink_binding, self.relations)

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
            happened=f"the release has no workload {workload_id!r}; it has {', '.join(self.order)}.",
        )

    def binding(self, alias: str) -> Binding:
        return self.composition.bindings[alias]


def build(source: Path, destination: Path, *, dbt_timeout: float = PARSE_TIMEOUT) -> Release:
    """Freeze the author's folder `source` into the new folder `destination`.

    dbt projects are parsed (no connection is made) to learn what they write, each for at most `dbt_timeout` seconds.
    Refuses an existing destination. What it makes is verified before it has its name.
    """
    try:
        _require_new(source, destination)
    except (OSError, ValueError, RuntimeError) as err:
        # A name that no file can have, or a link that leads to itself.
        raise _not_written(destination, err) from err
    _require_nothing_generated(source)
    try:
        with staging_folder(destination.absolute().parent) as staging:
            made = staging / "release"
            freeze(source, made, left_out=_LEFT_BEHIND)
            _generate(made, dbt_timeout)
            release = read(made)
            os.replace(made, destination)
    except (OSError, shutil.Error, RecursionError) as err:
        raise _not_written(destination, err) from err
    return replace(release, root=destination)


def _require_new(source: Path, destination: Path) -> None:
    if os.path.lexists(destination):
        raise ConfigurationError(
            "release_exists", happened=f"{destination} exists; a release is never changed in place."
        )
    if destination.resolve().is_relative_to(source.resolve()):
        raise ConfigurationError(
            "release_inside_source", happened=f"{destination} lies in {source}; a release cannot hold itself."
        )


def require_rebuilt(root: Path, release_id: str, *, dbt_timeout: float = PARSE_TIMEOUT) -> None:
    """Refuse a release that `build` does not make of the author's files in it. dbt projects are parsed again.

    Only this tells whether the relations that a release declares of a dbt project are those that dbt says.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="dpone-rebuild-") as folder:
            made = Path(folder) / "release"
            freeze(root, made, left_out=())
            (made / RELEASE_FILE).unlink()
            shutil.rmtree(made / RUNTIME_FOLDER)
            _generate(made, dbt_timeout)
            found = read(made).release_id
    except (OSError, shutil.Error, RecursionError) as err:
        raise ConfigurationError("release_not_rebuilt", happened=f"{root} could not be built again: {err}.") from err
    if found != release_id:
        raise ConfigurationError(
            "release_not_rebuilt",
            happened=f"{root} is the release {release_id}, and its own files make {found}: another dbt or adapter"
            " built it, or the relations that it declares were changed.",
            check="which versions built it; build it again from the author's folder.",
        )


def _require_nothing_generated(source: Path) -> None:
    for name in (RELEASE_FILE, RUNTIME_FOLDER):
        if os.path.lexists(source / name):
            raise ConfigurationError(
                "release_generated",
                happened=f"{source} holds {name}, which is only ever generated: it is made from the manifests.",
                not_done="there is no new release.",
                check="that this is the author's folder and no release; a file or project of this name needs another.",
            )


def _generate(made: Path, dbt_timeout: float) -> None:
    """Add what is made from the author's files to them: a runtime manifest for each workload, and `release.json`."""
    files = dict(_digests(made))
    composition, manifests = read_manifests(made, files)
    workloads = []
    for manifest, original in sorted(manifests, key=_by_id):
        relations = workload_pins.transfer_relations(composition, manifest)
        if isinstance(manifest, NativeDbt):
            relations = workload_pins.dbt_project_relations(made, composition, manifest, timeout=dbt_timeout)
        workloads.append(_released(manifest, original, relations, pins(composition, manifest, relations, files)))
    _require_one_writer(composition, workloads)
    require_count(len(files) + len(workloads) + 1, RELEASE_FILE)
    (made / RUNTIME_FOLDER).mkdir()
    for workload in workloads:
        path = runtime_path(workload.workload_id)
        (made / path).write_bytes(workload.runtime)
        files[path] = entry(workload.runtime)
    (made / RELEASE_FILE).write_bytes(canonical.exact_bytes(_document(composition, workloads, files)))


def _not_written(destination: Path, err: Exception) -> ConfigurationError:
    return ConfigurationError(
        "release_not_written",
        happened=f"the release {plain_files.shown(str(destination))} could not be written: {err}.",
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
    found = {path: each for path, each in _digests(root) if path != RELEASE_FILE}
    _compare(document["files"], found)
    composition, listed = read_manifests(root, found)
    manifests = sorted(listed, key=_by_id)
    recorded = {each["workload_id"]: each for each in document["workloads"]}
    workloads = []
    for manifest, original in manifests:
        relations = workload_pins.transfer_relations(composition, manifest)
        if isinstance(manifest, NativeDbt):
            # Only dbt could say it again.
            relations = tuple(WrittenRelation(**each) for each in recorded[manifest.workload_id]["relations"])
        workloads.append(_released(manifest, original, relations, pins(composition, manifest, relations, found)))
    _require_generated(workloads, found)
    for workload in workloads:
        pinned = recorded[workload.workload_id]
        if (pinned["pack_sha256"], pinned["plan_sha256"]) != (workload.pack_sha256, workload.plan_sha256):
            raise ConfigurationError(
                "release_pins", happened=f"the pins of {workload.workload_id} do not match its files."
            )
    if data != canonical.exact_bytes(_document(composition, workloads, found)):
        raise ConfigurationError("release_unreadable", happened=f"{root / RELEASE_FILE} is not what `build` writes.")
    return Release(
        root=root,
        release_id=release_id,
        composition=composition,
        workloads=tuple(workloads),
        order=tuple(manifest.workload_id for manifest, _ in listed),
    )


def _released(
    manifest: WorkloadManifest, original: bytes, relations: tuple[WrittenRelation, ...], pinned: WorkloadPins
) -> ReleasedWorkload:
    return ReleasedWorkload(
        manifest=manifest,
        pack_sha256=pinned.pack_sha256,
        plan_sha256=pinned.plan_sha256,
        relations=relations,
        original=original,
        runtime=pinned.runtime,
    )


def _require_generated(workloads: Iterable[ReleasedWorkload], found: Mapping[str, Entry]) -> None:
    """Exactly the runtime manifests that are made from the workloads, although release.json may list others."""
    made = {runtime_path(workload.workload_id): entry(workload.runtime) for workload in workloads}
    there = {path: each for path, each in found.items() if path.startswith(f"{RUNTIME_FOLDER}/")}
    if there != made:
        raise ConfigurationError(
            "runtime_manifest",
            happened=f"the runtime manifests are not those of the workloads: {_differences(made, there)}.",
            check="who wrote them; `dponectl compose build` makes them from the author's folder.",
        )


def _by_id(read: tuple[WorkloadManifest, bytes]) -> str:
    return read[0].workload_id


def _require_one_writer(composition: Composition, workloads: Iterable[ReleasedWorkload]) -> None:
    """Two workloads that write one relation would be refused at the activation as well, after asking the servers.

    ClickHouse tells names of other case apart. SQL Server does not: only databases of collations with _CI_ are written.
    """
    writers: dict[tuple[str, str, str], str] = {}
    for workload in workloads:
        alias = workload.sink_binding
        exact = composition.bindings[alias].connector == "clickhouse"
        for relation in workload.relations:
            name = (relation.schema, relation.name)
            schema, table = name if exact else (part.casefold() for part in name)
            other = writers.setdefault((alias, schema, table), workload.workload_id)
            if other != workload.workload_id:
                raise ConfigurationError(
                    "relation_written_twice",
                    happened=f"{other} and {workload.workload_id} both write {relation.schema}.{relation.name}.",
                )


def _document(
    composition: Composition, workloads: Iterable[ReleasedWorkload], files: Mapping[str, Entry]
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "name": composition.name,
        "environment": composition.environment,
        "workloads": [workload.document() for workload in workloads],
        "files": files,
    }


def _digests(root: Path) -> Iterator[tuple[str, dict[str, object]]]:
    size = 0
    for path in names(root):
        data = read_plain(root, path)
        size += len(data)
        require_total(size, path, limit=plain_files.RELEASE_LIMIT, what="the files of a release")
        yield path, entry(data)


def _compare(recorded: Mapping[str, Entry], found: Mapping[str, Entry]) -> None:
    if recorded != found:
        raise ConfigurationError(
            "release_closure",
            happened=f"the release's files are not those it was built with: {_differences(recorded, found)}.",
        )


def _differences(recorded: Mapping[str, Entry], found: Mapping[str, Entry]) -> str:
    missing = sorted(set(recorded) - set(found))
    extra = sorted(set(found) - set(recorded))
    changed = sorted(path for path in set(found) & set(recorded) if found[path] != recorded[path])
    return f"missing {_some(missing)}, extra {_some(extra)}, changed {_some(changed)}"


def _some(paths: list[str]) -> str:
    """As many as a message can name: a folder beside the release may hold thousands."""
    rest = len(paths) - _NAMED
    return f"{paths[:_NAMED]}" + (f" and {rest} more" if rest > 0 else "")
