"""The public way to read a complete parent: everything is verified again, and what comes back is frozen.

    sources = build_composition_source_reader().read_sources(path, expected_release_id=...)

A successful read certifies that the files are those of the release. It certifies no execution.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from airflow_provider_dpone.composition.manifest import Binding
from airflow_provider_dpone.composition.relations import WrittenRelation
from airflow_provider_dpone.composition.release import Release, ReleasedWorkload, read
from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.activation import source_subject_sha256


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeTrio:
    """One native workload as its producer left it: its manifest, its pack and its plan, each by its digest.

    Which of them a deployment has selected is sealed with it, and compared in every step of an activation.
    """

    workload_id: str
    manifest_sha256: str
    pack_sha256: str
    plan_sha256: str

    def document(self) -> list[str]:
        return [self.workload_id, self.manifest_sha256, self.pack_sha256, self.plan_sha256]


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeChild:
    """The identity of the constituent `native`: its workloads, and all that they write."""

    release_id: str
    snapshot_sha256: str
    trios: tuple[NativeTrio, ...]

    @property
    def workload_ids(self) -> tuple[str, ...]:
        return tuple(trio.workload_id for trio in self.trios)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrdinaryInventory:
    """The identity of the constituent `standalone`: the pins of its transfers."""

    inventory_sha256: str
    workload_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompositionSourceSnapshot:
    """A verified release, detached from its folder. No credential, host or physical identity is in it."""

    release_id: str
    name: str
    environment: str
    bindings: tuple[tuple[str, Binding], ...]
    workloads: tuple[ReleasedWorkload, ...]

    @property
    def workload_pins(self) -> tuple[tuple[str, str], ...]:
        """Every workload with the digest of its pack, by its id."""
        return tuple((workload.workload_id, workload.pack_sha256) for workload in self.workloads)

    @property
    def transfer_manifests(self) -> tuple[tuple[str, bytes], ...]:
        """The manifests as their authors wrote them, those of native transfers included."""
        return tuple((each.workload_id, each.original) for each in self.workloads if each.is_transfer)

    @property
    def runtime_manifests(self) -> tuple[tuple[str, bytes], ...]:
        """The generated manifest of every workload: the plan that its attempts are bound to, by its digest."""
        return tuple((each.workload_id, each.runtime) for each in self.workloads)

    @property
    def relation_writes(self) -> tuple[tuple[str, WrittenRelation], ...]:
        """Every relation that is written, helpers included, with the workload that writes it."""
        return tuple((workload.workload_id, each) for workload in self.workloads for each in workload.relations)

    @property
    def native(self) -> NativeChild:
        chosen = self._of("native")
        pins = [(workload.workload_id, workload.pack_sha256) for workload in chosen]
        documents = [workload.document() for workload in chosen]
        return NativeChild(
            release_id=canonical.exact_sha256({"schema": "dpone.native-release.v1", "workloads": pins}),
            snapshot_sha256=canonical.exact_sha256({"schema": "dpone.native-snapshot.v1", "workloads": documents}),
            trios=tuple(
                NativeTrio(
                    workload_id=each.workload_id,
                    manifest_sha256=canonical.sha256_text(each.original),
                    pack_sha256=each.pack_sha256,
                    plan_sha256=each.plan_sha256,
                )
                for each in chosen
            ),
        )

    @property
    def ordinary(self) -> OrdinaryInventory:
        chosen = self._of("standalone")
        pins = [(workload.workload_id, workload.pack_sha256) for workload in chosen]
        return OrdinaryInventory(
            inventory_sha256=canonical.exact_sha256({"schema": "dpone.ordinary-inventory.v1", "workloads": pins}),
            workload_ids=tuple(workload.workload_id for workload in chosen),
        )

    @property
    def subject_sha256(self) -> str:
        """What an activation request binds: the parent, both children, and every pin."""
        native = self.native
        return source_subject_sha256(
            release_id=self.release_id,
            native_release_id=native.release_id,
            native_snapshot_sha256=native.snapshot_sha256,
            ordinary_inventory_sha256=self.ordinary.inventory_sha256,
            workloads=self.workload_pins,
        )

    def binding(self, alias: str) -> Binding:
        return dict(self.bindings)[alias]

    def _of(self, constituent_id: str) -> tuple[ReleasedWorkload, ...]:
        return tuple(each for each in self.workloads if each.manifest.constituent_id == constituent_id)


class CompositionSourceReader:
    """Verifies a release folder and takes its snapshot. Local file reads only."""

    def read_sources(self, path: Path, *, expected_release_id: str | None = None) -> CompositionSourceSnapshot:
        """Refuses by name any file that is changed, missing, extra, linked or too large."""
        return snapshot_of(read(path, expected_release_id=expected_release_id))


def build_composition_source_reader() -> CompositionSourceReader:
    """The reader that every activation uses."""
    return CompositionSourceReader()


def snapshot_of(release: Release) -> CompositionSourceSnapshot:
    """The snapshot of a release that was just verified."""
    return CompositionSourceSnapshot(
        release_id=release.release_id,
        name=release.composition.name,
        environment=release.composition.environment,
        bindings=tuple(sorted(release.composition.bindings.items())),
        workloads=release.workloads,
    )
