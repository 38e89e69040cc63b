"""The release root of a machine, and the saga that puts a sealed deployment in force on it.

    seal the deployment -> note the occurrence -> PREPARED in the ledger -> keep its request -> switch `current`
    -> ACTIVE in the ledger -> take the note away

    ROOT/deployments/<id>/            sealed deployments (deployment.py)
    ROOT/unfinished/<activation>.json occurrences that have begun and are not known to be ACTIVE or given up
    ROOT/activations/…, current.json  what tasks read (projection.py)

A process that dies anywhere leaves its note: `dponectl composition status` names it with the command that ends it.
`current` is switched only for a PREPARED occurrence, and by nobody else at that moment; tasks are refused until the
ledger says ACTIVE. Old pointer bytes alone therefore never say that the old parent still runs.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from airflow_provider_dpone.composition import deployment, projection
from airflow_provider_dpone.composition.deployment import SealedDeployment
from airflow_provider_dpone.contracts.activation import ActivationRequest
from airflow_provider_dpone.contracts.errors import (
    ActivationUnknown,
    AdmissionRefused,
    ConfigurationError,
    GuardError,
)
from airflow_provider_dpone.drivers.trigger_points import reach
from airflow_provider_dpone.ledger import Activation


class ParentCoordinator(Protocol):
    """What the cache asks: `CompositionActivationCoordinator`. A native-only capability is none."""

    def prepare(
        self,
        *,
        projection_root: Path,
        activation_id: str,
        environment: str,
        release_id: str,
        deployment_id: str,
        previous_deployment_id: str | None,
    ) -> Activation: ...

    def activate(self, prepared: Activation, *, projection_root: Path) -> Activation: ...

    def read(self, activation_id: str) -> Activation | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One activation that was begun: its coordinates, and the predecessor that it drains first."""

    activation_id: str
    environment: str
    release_id: str
    deployment_id: str
    previous_deployment_id: str | None
    drains: str | None = None

    def document(self) -> dict[str, object]:
        return {"schema": projection.OCCURRENCE_SCHEMA, **self.coordinates(), "drains": self.drains}

    def coordinates(self) -> dict[str, str | None]:
        return {
            "activation_id": self.activation_id,
            "environment": self.environment,
            "release_id": self.release_id,
            "deployment_id": self.deployment_id,
            "previous_deployment_id": self.previous_deployment_id,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableNote:
    """A note that says nothing any more, and why. Its name is the id of its activation."""

    path: Path
    problem: str

    @property
    def activation_id(self) -> str:
        return self.path.stem


class DeploymentCacheMaterializer:
    """Seals deployments under one root and puts them in force.

    Without a coordinator nothing is ever put in force: that takes every protected capability
    (`factory.build_composition_activation_coordinator`).
    """

    def __init__(
        self, cache_root: Path, *, composition_activation_coordinator: ParentCoordinator | None = None
    ) -> None:
        self.root = cache_root
        self._coordinator = composition_activation_coordinator

    def folder(self, deployment_id: str) -> Path:
        return self.root / "deployments" / deployment.folder_name(deployment_id)

    def deployment(self, deployment_id: str) -> SealedDeployment:
        return deployment.opened(self.folder(deployment_id), deployment_id)

    def begin(
        self, sealed: SealedDeployment, *, previous_deployment_id: str | None, drains: str | None = None
    ) -> Occurrence:
        """Note a new occurrence of a sealed deployment. Nothing is sent."""
        occurrence = Occurrence(
            activation_id=str(uuid.uuid4()),
            environment=sealed.environment,
            release_id=sealed.release_id,
            deployment_id=sealed.deployment_id,
            previous_deployment_id=previous_deployment_id,
            drains=drains,
        )
        with self.locked():
            reach("note", "before")
            projection.write(self._note(occurrence.activation_id), occurrence.document())
            reach("note", "applied")
        return occurrence

    def unfinished(self) -> tuple[Occurrence | UnreadableNote, ...]:
        """Occurrences that nobody has finished, by their id. One whose note cannot be read hides no other."""
        folder = self.root / "unfinished"
        try:
            names = sorted(name for name in os.listdir(folder) if name.endswith(".json"))
        except FileNotFoundError:
            return ()
        except OSError as err:
            raise ConfigurationError("projection", happened=f"{folder} cannot be listed: {err}.") from err
        return tuple(self._noted_or_named(folder / name) for name in names)

    def _noted_or_named(self, path: Path) -> Occurrence | UnreadableNote:
        try:
            return self.noted(path.stem)
        except ConfigurationError as err:
            return UnreadableNote(path=path, problem=err.happened)

    def noted(self, activation_id: str) -> Occurrence:
        """The note of an occurrence."""
        try:
            return Occurrence(**projection.occurrence(self._note(activation_id)))
        except ConfigurationError as err:
            raise ConfigurationError(
                err.reason,
                happened=err.happened,
                not_done="the activation was not gone on with.",
                check=f"who changed the file; {retire_command(activation_id)} gives the activation up, whatever the file"
                " says.",
            ) from err

    def is_noted(self, activation_id: str) -> bool:
        # A link that leads nowhere is a note that cannot be read, not none.
        return projection.is_uuid(activation_id) and os.path.lexists(self._note(activation_id))

    def forget(self, activation_id: str) -> None:
        """Take the note of a finished occurrence away. A disk that refuses leaves a note that says what is true anyway."""
        reach("take_note_away", "before")
        with contextlib.suppress(OSError):
            self._note(activation_id).unlink(missing_ok=True)
            deployment.sync(self.root / "unfinished")
        reach("take_note_away", "applied")

    def prepare(self, occurrence: Occurrence) -> Activation:
        """Have the ledger reserve all guards: a typed PREPARED receipt (ACTIVE, when it got that far before).

        A refusal, which says that nothing is reserved, takes the note away.
        """
        with self.locked():
            return self._prepare(occurrence)

    def promote(self, occurrence: Occurrence) -> Activation:
        """Prepare, switch `current`, and have the ledger open admission.

        Once the ledger holds it, every failure says that the state may have changed and which command ends that.
        """
        coordinator = self._require_coordinator()
        with self.locked():
            prepared = self._prepare(occurrence)
            try:
                self._require_pointer(occurrence)
                self._switch(prepared.request, prepared.guard_epochs)
                active = coordinator.activate(prepared, projection_root=self.folder(occurrence.deployment_id))
                _receipt(active, occurrence, ("ACTIVE",))
            except (GuardError, OSError) as err:
                raise self._unknown(occurrence, err) from err
            if active.request != prepared.request or active.guard_epochs != prepared.guard_epochs:
                raise self._unknown(occurrence, None)
            self.forget(occurrence.activation_id)
        return active

    def _prepare(self, occurrence: Occurrence) -> Activation:
        coordinator = self._require_coordinator()
        try:
            receipt = coordinator.prepare(
                projection_root=self.folder(occurrence.deployment_id),
                **occurrence.coordinates(),  # type: ignore[arg-type]  # the coordinates by their names
            )
            return _receipt(receipt, occurrence, ("PREPARED", "ACTIVE"))
        except (AdmissionRefused, ConfigurationError) as err:
            held = coordinator.read(occurrence.activation_id)
            if held is None and occurrence.drains is None:
                self.forget(occurrence.activation_id)
            elif held is None or held.state in ("PREPARED", "ACTIVE"):
                raise self._refused_halfway(occurrence, err) from err
            raise
        except GuardError as err:
            raise self._unknown(occurrence, err) from err

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """One saga at a time under this root, on this machine. The ledger decides between machines."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.root / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as err:
            raise projection.not_written(self.root / ".lock", err) from err
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            self._clear_leftovers()
            yield
        finally:
            os.close(descriptor)

    def _clear_leftovers(self) -> None:
        """Remove what processes that were killed left half written. Nobody writes here without the lock."""
        for left in (self.root / "deployments").glob(".sealing-*"):
            shutil.rmtree(left, ignore_errors=True)
        for folder in (self.root, self.root / "unfinished", self.root / "activations"):
            for left in folder.glob(projection.HALF_WRITTEN):
                with contextlib.suppress(OSError):
                    left.unlink()

    def _switch(self, request: ActivationRequest, guard_epochs: tuple[tuple[str, int], ...]) -> None:
        reach("keep_request", "before")
        projection.record(self.root, request, self.folder(request.context.deployment_id) / deployment.RELEASE_FOLDER)
        reach("keep_request", "applied")
        reach("switch", "before")
        projection.switch(self.root, request, guard_epochs)
        reach("switch", "applied")

    def _require_pointer(self, occurrence: Occurrence) -> None:
        """Compare and swap: `current` is what it was when the occurrence was begun, or the occurrence already.

        One that cannot be read is written again, unless the ledger holds another activation of this root in force.
        """
        try:
            now = projection.current_request(self.root)
        except ConfigurationError as err:
            others = [each for each in self.living() if each.activation_id != occurrence.activation_id]
            if others:
                named = ", ".join(f"{each.activation_id} ({each.state})" for each in others)
                raise AdmissionRefused(
                    "current_unreadable",
                    happened=f"{err.happened} Other activations of this root are living: {named}.",
                    not_done="`current` was not switched.",
                    check=f"which of them is meant: {reconcile_command(others[0].activation_id)} writes `current` again for"
                    " it once this activation is retired.",
                ) from err
            return
        if now is not None and now.activation_id == occurrence.activation_id:
            return
        found = None if now is None else now.context.deployment_id
        if found != occurrence.previous_deployment_id:
            raise AdmissionRefused(
                "current_moved",
                happened=f"`current` names the deployment {found}, and this activation was begun when it named"
                f" {occurrence.previous_deployment_id}.",
                not_done="`current` was not switched.",
                check="`dponectl composition status`; this activation can only be retired.",
            )

    def living(self) -> tuple[Activation, ...]:
        """What the ledger holds and does not call RETIRED of all that was ever recorded here."""
        coordinator = self._require_coordinator()
        found = (coordinator.read(activation_id) for activation_id in projection.recorded_ids(self.root))
        return tuple(each for each in found if each is not None and each.state != "RETIRED")

    def _unknown(self, occurrence: Occurrence, cause: Exception | None) -> ActivationUnknown:
        said = "" if cause is None else f" What was said: {_first_line(cause)}"
        return ActivationUnknown(
            "activation_acknowledgement",
            happened=f"a step of the activation {occurrence.activation_id} was begun and not acknowledged.{said}",
            not_done="no further step was started; the guards that the ledger may have reserved stay reserved.",
            check=f"{reconcile_command(occurrence.activation_id)} ends it: it goes on where the ledger stands."
            f" {retire_command(occurrence.activation_id)} gives it up instead.",
            details={
                "activation_id": occurrence.activation_id,
                "command": reconcile_command(occurrence.activation_id).strip("`"),
            },
        )

    def _refused_halfway(self, occurrence: Occurrence, cause: GuardError) -> AdmissionRefused:
        """A refusal that leaves something: guards that were reserved before, or a predecessor that was drained."""
        return AdmissionRefused(
            cause.reason,
            happened=f"{cause.happened} The activation {occurrence.activation_id} had begun.",
            not_done=cause.not_done,
            check=f"{cause.check} Then {reconcile_command(occurrence.activation_id)} goes on, and"
            f" {retire_command(occurrence.activation_id)} gives it up.",
            state_may_have_changed=True,
            recovery_required=True,
            details={
                **cause.details,
                "activation_id": occurrence.activation_id,
                "command": reconcile_command(occurrence.activation_id).strip("`"),
            },
        )

    def _require_coordinator(self) -> ParentCoordinator:
        if self._coordinator is None:
            raise AdmissionRefused(
                "coordinator_absent",
                happened="no coordinator of activations was supplied, so this cache puts nothing in force.",
                not_done="nothing was reserved and `current` was not switched.",
            )
        return self._coordinator

    def _note(self, activation_id: str) -> Path:
        return self.root / "unfinished" / f"{activation_id}.json"


def reconcile_command(activation_id: str) -> str:
    return f"`dponectl composition reconcile {activation_id}`"


def retire_command(activation_id: str) -> str:
    return f"`dponectl composition retire {activation_id}`"


def _receipt(receipt: object, occurrence: Occurrence, states: tuple[str, ...]) -> Activation:
    """A typed receipt of exactly this occurrence, with an epoch for every resource of its request."""
    if type(receipt) is not Activation:
        raise ActivationUnknown("receipt_type", happened=f"a {type(receipt).__name__} is no receipt of an activation.")
    context = receipt.request.context
    whole = {
        "activation_id": context.activation_id,
        "environment": context.environment,
        "release_id": context.release_id,
        "deployment_id": context.deployment_id,
        "previous_deployment_id": context.previous_deployment_id,
    } == occurrence.coordinates()
    guards = tuple(resource.guard_id for resource in receipt.request.resources)
    held = tuple(guard for guard, _ in receipt.guard_epochs) == guards
    digest = receipt.request_sha256 == receipt.request.sha256 and receipt.activation_id == context.activation_id
    if not (whole and held and digest and receipt.state in states):
        raise ActivationUnknown(
            "receipt", happened=f"the receipt ({receipt.state}) is not that of {occurrence.activation_id}."
        )
    return receipt


def _first_line(cause: Exception) -> str:
    if isinstance(cause, GuardError):
        return f"{cause.code} ({cause.reason}): {cause.happened}"
    return f"{type(cause).__name__}: {cause}."
