"""Putting a release in force and out of force again, as an operator does it.

    prepare      seal the release as a deployment, and reserve its guards
    activate     the same, then switch `current` and open admission
    hand_over    drain the activation in force first, then activate its successor
    reconcile    end an activation that a dead process or a lost acknowledgement left half done
    retire       close admission, and give the guards back when every attempt is resolved

Whatever happens, one of three things is true afterwards: the old parent is in force, the new one is, or the error (and
`status`, for whoever comes later) names the command that ends it. Undoing a deployment undoes no SQL.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from airflow_provider_dpone.composition import deployment, projection
from airflow_provider_dpone.composition.coordinator import CompositionActivationCoordinator
from airflow_provider_dpone.composition.deployment import SealedDeployment
from airflow_provider_dpone.composition.deployment_cache import (
    DeploymentCacheMaterializer,
    Occurrence,
    UnreadableNote,
    reconcile_command,
    retire_command,
)
from airflow_provider_dpone.composition.plain_files import shown
from airflow_provider_dpone.composition.rollback import rollback_target
from airflow_provider_dpone.composition.sources import build_composition_source_reader
from airflow_provider_dpone.contracts.errors import AdmissionRefused, ConfigurationError, Overlap
from airflow_provider_dpone.ledger import Activation

#: How often a drain looks whether the last attempt has ended, in seconds.
_POLL = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """An occurrence that nobody finished, what the ledger holds of it (None: nothing), and what ends it.

    `problem`: why its note says nothing any more.
    """

    activation_id: str
    state: str | None
    command: str
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """`current` as the ledger sees it, and what is left to be ended."""

    current: Activation | None
    unfinished: tuple[Unfinished, ...]


class CompositionActivation:
    """Activations under one release root. `coordinator` may do what the installation's accounts may."""

    def __init__(self, root: Path, coordinator: CompositionActivationCoordinator) -> None:
        self._root = root
        self._coordinator = coordinator
        self._cache = DeploymentCacheMaterializer(root, composition_activation_coordinator=coordinator)

    def prepare(self, release_folder: Path, *, expected_release_id: str | None = None) -> Activation:
        """Reserve the guards of a release for a new occurrence. `reconcile` puts it in force, `retire` gives it up."""
        return self._cache.prepare(self._begin(self._sealed(release_folder, expected_release_id)))

    def activate(self, release_folder: Path, *, expected_release_id: str | None = None) -> Activation:
        """Activate a release that no other activation blocks. A predecessor is retired first, or handed over from."""
        return self._cache.promote(self._begin(self._sealed(release_folder, expected_release_id)))

    def hand_over(
        self, release_folder: Path, *, expected_release_id: str | None = None, patience: float = 600.0
    ) -> Activation:
        """Activate a release after the activation in force was drained. Nobody is admitted in between.

        Everything that can be refused is refused before the predecessor is touched.
        """
        return self._drain_and_promote(self._sealed(release_folder, expected_release_id), patience)

    def roll_back(self, *, deployment_id: str | None = None, patience: float = 600.0) -> Activation:
        """Hand over to a deployment that was sealed here before: the one before the current one, if none is named.

        Only what runs from now on is the old release. Tables stay as they are: no SQL is undone.
        """
        wanted = rollback_target(self._root, deployment_id).deployment_id
        return self._drain_and_promote(self._cache.deployment(wanted), patience)

    def reconcile(self, activation_id: str, *, patience: float = 600.0) -> Activation:
        """Go on where the ledger stands. Safe to repeat, and for an activation that needs nothing."""
        occurrence = self._occurrence(activation_id)
        found = self._coordinator.read(activation_id)
        if found is not None and found.state == "RETIRING":
            folder = self._cache.folder(found.request.context.deployment_id)
            return self._coordinator.finalize_retirement(found, projection_root=folder)
        if found is None:
            self._require_worth_draining(occurrence)
        self._drain(occurrence, patience)
        return self._cache.promote(occurrence)

    def retire(self, activation_id: str) -> Activation | None:
        """Close admission, and release the guards once every attempt is resolved. Repeatable; needs no release.

        One that was only prepared is withdrawn: nobody is admitted on the way. None: the ledger never held it, and now
        it never will.
        """
        _require_id(activation_id)
        found = self._coordinator.read(activation_id) or self._reserved_to_give_up(activation_id)
        if found is None:
            return None
        folder = self._cache.folder(found.request.context.deployment_id)
        if found.state in ("PREPARED", "ACTIVE"):
            found = self._coordinator.begin_retirement(found, projection_root=folder)
        retired = self._coordinator.finalize_retirement(found, projection_root=folder)
        self._cache.forget(activation_id)
        return retired

    def status(self) -> Standing:
        """What the ledger says of the activation that `current` names, and of every one that was left half done."""
        try:
            request = projection.current_request(self._root)
        except ConfigurationError as err:
            return Standing(current=None, unfinished=self._left_without_pointer(err.happened))
        current = None if request is None else self._coordinator.read(request.activation_id)
        return Standing(current=current, unfinished=self._left_half_done(current))

    def _left_half_done(self, current: Activation | None) -> tuple[Unfinished, ...]:
        left: dict[str, Unfinished] = {}
        handed_over: set[str | None] = set()
        if current is not None and current.state in ("PREPARED", "RETIRING"):
            left[current.activation_id] = _left(current.activation_id, current.state)
        for note in self._cache.unfinished():
            found = self._left(note)
            left[note.activation_id] = found
            if isinstance(note, Occurrence) and found.state not in ("RETIRING", "RETIRED"):
                handed_over.add(note.drains)
        # The command that goes on with a handover retires the predecessor as well.
        return tuple(left[key] for key in sorted(left) if key not in handed_over)

    def _left_without_pointer(self, problem: str) -> tuple[Unfinished, ...]:
        """What is left where `current` says nothing any more: what was recorded here and lives, and every note.

        Going on with one writes `current` again. Where nothing lives, nothing is in force, and the file can go.
        """
        left = {each.activation_id: each for each in self._left_half_done(None)}
        for living in self._cache.living():
            left.setdefault(living.activation_id, _left(living.activation_id, living.state))
        if not left:
            command = f"rm {shlex.quote(str(self._root / projection.CURRENT))}"
            left[projection.CURRENT] = Unfinished(activation_id=projection.CURRENT, state=None, command=command)
        return tuple(replace(left[key], problem=left[key].problem or problem) for key in sorted(left))

    def _sealed(self, release_folder: Path, expected_release_id: str | None) -> SealedDeployment:
        sources = build_composition_source_reader().read_sources(
            release_folder, expected_release_id=expected_release_id
        )
        domains = self._coordinator.physical.resolve(self._coordinator.plan(sources))
        with self._cache.locked():
            return deployment.seal(self._root / "deployments", release_folder, sources, domains)

    def _begin(self, sealed: SealedDeployment, *, drains: str | None = None) -> Occurrence:
        current = projection.current_request(self._root)
        if drains is None and current is not None:
            self._require_over(current.activation_id)
        previous = None if current is None else current.context.deployment_id
        return self._cache.begin(sealed, previous_deployment_id=previous, drains=drains)

    def _require_over(self, activation_id: str) -> None:
        """One root has one activation in force, even where two would not share a database."""
        found = self._coordinator.read(activation_id)
        if found is not None and found.state != "RETIRED":
            raise Overlap(
                "predecessor_in_force",
                blockers=[f"activation {activation_id} ({found.state})"],
                not_done="nothing was reserved.",
                check=f"{retire_command(activation_id)}, or activate with --drain to hand over from it.",
            )

    def _drain_and_promote(self, sealed: SealedDeployment, patience: float) -> Activation:
        current = projection.current_request(self._root)
        occurrence = Occurrence(
            activation_id=_TRIAL,
            environment=sealed.environment,
            release_id=sealed.release_id,
            deployment_id=sealed.deployment_id,
            previous_deployment_id=None if current is None else current.context.deployment_id,
        )
        self._coordinator.require_admissible(
            projection_root=sealed.folder,
            **occurrence.coordinates(),  # type: ignore[arg-type]  # the coordinates by their names
        )
        begun = self._begin(sealed, drains=None if current is None else current.activation_id)
        self._drain(begun, patience)
        return self._cache.promote(begun)

    def _require_worth_draining(self, occurrence: Occurrence) -> None:
        """A predecessor in force is not drained for a successor that would then be refused. Both may have changed since."""
        predecessor = None if occurrence.drains is None else self._coordinator.read(occurrence.drains)
        if predecessor is None or predecessor.state != "ACTIVE":
            return
        try:
            self._coordinator.require_admissible(
                projection_root=self._cache.folder(occurrence.deployment_id),
                **occurrence.coordinates(),  # type: ignore[arg-type]  # the coordinates by their names
            )
        except (AdmissionRefused, ConfigurationError) as err:
            raise AdmissionRefused(
                err.reason,
                happened=err.happened,
                not_done=f"the predecessor {predecessor.activation_id} was not touched and is in force.",
                check=f"{err.check} {retire_command(occurrence.activation_id)} gives this handover up.",
                details=err.details,
            ) from err

    def _drain(self, occurrence: Occurrence, patience: float) -> None:
        """Retire the predecessor; wait for its last attempt, but not for ever."""
        if occurrence.drains is None:
            return
        deadline = time.monotonic() + patience
        while True:
            try:
                self.retire(occurrence.drains)
                return
            except Overlap as err:
                if time.monotonic() >= deadline:
                    raise Overlap(
                        "predecessor_unresolved",
                        blockers=err.blockers,
                        not_done="the successor was not put in force; the predecessor is RETIRING and admits nobody.",
                        check=f"settle what is named here (`dponectl attempts show`); then"
                        f" {reconcile_command(occurrence.activation_id)} goes on with the handover.",
                    ) from err
            _sleep(min(_POLL, max(0.0, deadline - time.monotonic())))

    def _occurrence(self, activation_id: str) -> Occurrence:
        """The coordinates of an activation: noted here, or those that the ledger holds, which are drained for already."""
        if self._cache.is_noted(activation_id):
            try:
                return self._cache.noted(activation_id)
            except ConfigurationError:
                if self._coordinator.read(activation_id) is None:
                    raise
        return self._known(activation_id)

    def _known(self, activation_id: str) -> Occurrence:
        """The coordinates of an activation without a note: from the ledger."""
        _require_id(activation_id)
        found = self._coordinator.read(activation_id)
        if found is None:
            raise _absent(activation_id)
        context = found.request.context
        return Occurrence(
            activation_id=activation_id,
            environment=context.environment,
            release_id=context.release_id,
            deployment_id=context.deployment_id,
            previous_deployment_id=context.previous_deployment_id,
        )

    def _reserved_to_give_up(self, activation_id: str) -> Activation | None:
        """An occurrence of which the ledger holds nothing yet: what its dead process sent may still arrive.

        So it is reserved, or refused by the ledger under its lock, before it is given up. Of one whose note says nothing
        only the note can be given up: should it arrive after all, nobody is admitted, and its id is enough to retire it.
        """
        if not self._cache.is_noted(activation_id):
            raise _absent(activation_id)
        try:
            occurrence = replace(self._cache.noted(activation_id), drains=None)
        except ConfigurationError:
            self._cache.forget(activation_id)
            return None
        try:
            return self._cache.prepare(occurrence)
        except (AdmissionRefused, ConfigurationError):
            if self._cache.is_noted(activation_id):
                raise
            return None

    def _left(self, note: Occurrence | UnreadableNote) -> Unfinished:
        activation_id = note.activation_id
        found = self._coordinator.read(activation_id) if projection.is_uuid(activation_id) else None
        left = _left(activation_id, None if found is None else found.state)
        if isinstance(note, Occurrence):
            return left
        command = left.command if found is not None else retire_command(activation_id).strip("`")
        # A folder that nobody here made is not deleted by a command of ours: only its owner knows what is in it.
        folder = note.path.is_dir() and not note.path.is_symlink()
        over = found is None or found.state in ("ACTIVE", "RETIRED")
        if not projection.is_uuid(activation_id) or (folder and over):
            command = f"rm -r {_as_typed(note.path)}"
        return replace(left, activation_id=shown(activation_id), problem=note.problem, command=command)


#: The id of an occurrence that is only tried on. It is never noted and never sent.
_TRIAL = "00000000-0000-4000-8000-000000000000"

_sleep: Callable[[float], None] = time.sleep


def _left(activation_id: str, state: str | None) -> Unfinished:
    command = retire_command if state in ("RETIRING", "RETIRED") else reconcile_command
    return Unfinished(activation_id=activation_id, state=state, command=command(activation_id).strip("`"))


def _as_typed(path: Path) -> str:
    """A path as a shell reads it, also one of bytes that no terminal shows."""
    if shown(str(path)) == str(path):
        return shlex.quote(str(path))
    typed = (
        chr(each) if 32 <= each < 127 and chr(each) not in "'\\" else f"\\x{each:02x}" for each in os.fsencode(path)
    )
    return f"$'{''.join(typed)}'"


def _require_id(activation_id: str) -> None:
    if not projection.is_uuid(activation_id):
        raise ConfigurationError("activation_id", happened=f"{activation_id!r} is not the id of an activation.")


def _absent(activation_id: str) -> AdmissionRefused:
    return AdmissionRefused(
        "activation_absent",
        happened=f"neither the ledger nor this release root knows the activation {activation_id}.",
        not_done="nothing was changed.",
        check="`dponectl composition status`.",
    )
