"""Which activation is in force on this machine: files that a worker reads without asking any server.

    ROOT/activations/<activation id>.json    the request, and where its release lies; written before anything is sent
    ROOT/current.json                        the activation that tasks admit under, with its guard epochs

The ledger decides: a task whose projection is stale is refused at admission. The files only save the lookup.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_provider_dpone.composition.release import Release, ReleasedWorkload, read
from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.activation import ActivationRequest, PhysicalResource, request_from
from airflow_provider_dpone.contracts.errors import ConfigurationError

CURRENT = "current.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveWorkload:
    """All that a try needs to know of its workload and of the activation it runs under."""

    request: ActivationRequest
    release: Release
    released: ReleasedWorkload
    guard_epochs: tuple[tuple[str, int], ...]

    @property
    def activation_id(self) -> str:
        return self.request.activation_id

    @property
    def activation_request_sha256(self) -> str:
        return self.request.sha256

    @property
    def sink_resource(self) -> PhysicalResource:
        """The one physical domain that the workload writes."""
        (guard,) = self.request.guards_of(self.workload_id)
        return next(resource for resource in self.request.resources if resource.guard_id == guard)

    @property
    def workload_id(self) -> str:
        return self.released.workload_id

    def database(self, alias: str) -> str:
        return self.release.binding(alias).database


def record(root: Path, request: ActivationRequest, release: Path) -> None:
    """Keep a request before it is sent, so that a lost acknowledgement can be resumed with the same one."""
    document = {
        "schema": "dpone.recorded-activation.v1",
        "request": request.members(),
        "request_sha256": request.sha256,
        "release": os.path.relpath(release, root),
    }
    _write(root / "activations" / f"{request.activation_id}.json", document)


def recorded(root: Path, activation_id: str) -> tuple[ActivationRequest, Path]:
    """A recorded request, re-verified, and the folder of its release."""
    document = _read(root / "activations" / f"{activation_id}.json")
    request = request_from(document["request"])
    if request.sha256 != document["request_sha256"] or request.activation_id != activation_id:
        raise ConfigurationError("recorded_activation", happened=f"the recorded request {activation_id} was changed.")
    return request, root / str(document["release"])


def switch(root: Path, request: ActivationRequest, guard_epochs: tuple[tuple[str, int], ...]) -> None:
    """Point `current` at an activation, atomically."""
    document = {
        "schema": "dpone.current-activation.v1",
        "activation_id": request.activation_id,
        "request_sha256": request.sha256,
        "guard_epochs": guard_epochs,
    }
    _write(root / CURRENT, document)


def current_activation_id(root: Path) -> str | None:
    """The activation that `current` names; None when there is none yet."""
    if not (root / CURRENT).exists():
        return None
    return str(_read(root / CURRENT)["activation_id"])


def load_workload(root: Path, workload_id: str) -> ActiveWorkload:
    """The workload as the current activation pins it. Local file reads only; the whole release is re-verified."""
    current = _read(root / CURRENT)
    epochs = tuple((str(guard), int(epoch)) for guard, epoch in current["guard_epochs"])
    return workload_of(root, str(current["activation_id"]), workload_id, epochs)


def workload_of(
    root: Path, activation_id: str, workload_id: str, guard_epochs: tuple[tuple[str, int], ...]
) -> ActiveWorkload:
    """A workload of any recorded activation, as an operation of it names them: for closing and observing later."""
    request, folder = recorded(root, activation_id)
    release = read(folder, expected_release_id=request.context.release_id)
    released = release.workload(workload_id)
    needed = set(request.guards_of(workload_id))
    return ActiveWorkload(
        request=request,
        release=release,
        released=released,
        guard_epochs=tuple((guard, epoch) for guard, epoch in guard_epochs if guard in needed),
    )


def _write(path: Path, document: Mapping[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    with open(new, "wb") as file:
        file.write(canonical.exact_bytes(document))
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)


def _read(path: Path) -> dict[str, Any]:
    try:
        return canonical.strict_object(path.read_bytes())
    except FileNotFoundError as err:
        raise ConfigurationError(
            "no_activation",
            happened=f"{path} does not exist: no composition has been activated in this folder.",
            check="`dponectl composition activate`, and the setting [dpone] release_root.",
        ) from err
    except (OSError, canonical.StrictJsonError) as err:
        raise ConfigurationError("projection", happened=f"{path} cannot be read: {err}.") from err
