"""Which activation is in force on this machine: files that a worker reads without asking any server.

    ROOT/activations/<activation id>.json    the request, and where its release lies; written before `current` names it
    ROOT/current.json                        the activation that tasks admit under, with its guard epochs

The ledger decides: a task whose projection is stale is refused at admission. The files only save the lookup.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_provider_dpone.composition.deployment import read_sealed, sync
from airflow_provider_dpone.composition.plain_files import read_regular, shown
from airflow_provider_dpone.composition.release import Release, ReleasedWorkload
from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.activation import ActivationRequest, PhysicalResource, request_from
from airflow_provider_dpone.contracts.errors import AdmissionRefused, ConfigurationError

CURRENT = "current.json"
CURRENT_SCHEMA = "dpone.current-activation.v1"
RECORDED_SCHEMA = "dpone.recorded-activation.v1"
OCCURRENCE_SCHEMA = "dpone.activation-occurrence.v1"

#: What a writer that was killed leaves beside the file that it was to replace.
HALF_WRITTEN = f"*.json.{'[0-9a-f]' * 16}.new"

_MARK = re.compile(r"Of `[^`]*`, release `([^`]+)`\.")

_WHO_CHANGED_IT = "who changed it; `dponectl composition status` names the command that ends this."

_CURRENT: Mapping[str, type] = {"activation_id": str, "request_sha256": str, "guard_epochs": list}
_OCCURRENCE: Mapping[str, type] = {
    "activation_id": str,
    "environment": str,
    "release_id": str,
    "deployment_id": str,
}
_RECORDED: Mapping[str, type] = {"request": dict, "request_sha256": str, "release": str}


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
    """Keep the request of an occurrence, and where its release lies."""
    document = {
        "schema": RECORDED_SCHEMA,
        "request": request.members(),
        "request_sha256": request.sha256,
        "release": os.path.relpath(release, root),
    }
    write(root / "activations" / f"{request.activation_id}.json", document)


def recorded(root: Path, activation_id: str) -> tuple[ActivationRequest, Path]:
    """A recorded request, re-verified, and the folder of its release."""
    if not is_uuid(activation_id):
        raise ConfigurationError("activation_id", happened=f"{activation_id!r} is not the id of an activation.")
    document = _read(root / "activations" / f"{activation_id}.json", RECORDED_SCHEMA, _RECORDED)
    try:
        request = request_from(document["request"])
    except AdmissionRefused as err:
        raise _changed(activation_id) from err
    if request.sha256 != document["request_sha256"] or request.activation_id != activation_id:
        raise _changed(activation_id)
    return request, root / str(document["release"])


def recorded_requests(root: Path) -> tuple[ActivationRequest, ...]:
    """Every recorded request that can be read, by activation id."""
    found = []
    for path in sorted((root / "activations").glob("*.json")):
        # One that is damaged is refused where it is needed by its id; here it is only counted.
        with contextlib.suppress(ConfigurationError):
            found.append(recorded(root, path.stem)[0])
    return tuple(found)


def _changed(activation_id: str) -> ConfigurationError:
    return ConfigurationError(
        "recorded_activation",
        happened=f"the recorded request {activation_id} was changed.",
        check=_WHO_CHANGED_IT,
    )


def switch(root: Path, request: ActivationRequest, guard_epochs: tuple[tuple[str, int], ...]) -> None:
    """Point `current` at an activation, atomically."""
    document = {
        "schema": CURRENT_SCHEMA,
        "activation_id": request.activation_id,
        "request_sha256": request.sha256,
        "guard_epochs": guard_epochs,
    }
    write(root / CURRENT, document)


def current_activation_id(root: Path) -> str | None:
    """The activation that `current` names; None when there is none yet."""
    # A link that leads nowhere is not "none yet": something was here.
    if not os.path.lexists(root / CURRENT):
        return None
    return str(_current(root)["activation_id"])


def current_request(root: Path) -> ActivationRequest | None:
    """The request that `current` names; None when there is none yet."""
    activation_id = current_activation_id(root)
    return None if activation_id is None else recorded(root, activation_id)[0]


def recorded_ids(root: Path) -> list[str]:
    """Every activation of which something was recorded here, and the one that `current` names."""
    folder = root / "activations"
    stems = {path.removesuffix(".json") for path in os.listdir(folder)} if folder.is_dir() else set[str]()
    with contextlib.suppress(ConfigurationError):
        stems.add(current_activation_id(root) or "")
    return sorted(filter(is_uuid, stems))


def load_workload(root: Path, workload_id: str) -> ActiveWorkload:
    """The workload as the current activation pins it. Local file reads only; the whole release is re-verified."""
    current = _current(root)
    epochs = tuple((str(guard), int(epoch)) for guard, epoch in current["guard_epochs"])
    workload = workload_of(root, str(current["activation_id"]), workload_id, epochs)
    if workload.activation_request_sha256 != current["request_sha256"]:
        raise _changed(workload.activation_id)
    return workload


def load_release(root: Path) -> Release:
    """The release of the current activation, every byte verified. Local file reads only."""
    request, folder = recorded(root, str(_current(root)["activation_id"]))
    return read_sealed(folder, request.context.release_id)


def mark(name: str, release_id: str) -> str:
    """The last line of the documentation of a DAG that was made from a release: whoever triggers it can look for this."""
    return f"Of `{name}`, release `{release_id}`."


def marked(documentation: str) -> str | None:
    """The release that a DAG was made from; None when it says none. What it quotes of others before that counts for nothing."""
    last = documentation.rstrip().rpartition("\n")[2].strip()
    found = _MARK.fullmatch(last)
    return None if found is None else found[1]


def workload_of(
    root: Path, activation_id: str, workload_id: str, guard_epochs: tuple[tuple[str, int], ...]
) -> ActiveWorkload:
    """A workload of any recorded activation, as an operation of it names them: for closing and observing later."""
    request, folder = recorded(root, activation_id)
    release = read_sealed(folder, request.context.release_id)
    released = release.workload(workload_id)
    needed = set(request.guards_of(workload_id))
    return ActiveWorkload(
        request=request,
        release=release,
        released=released,
        guard_epochs=tuple((guard, epoch) for guard, epoch in guard_epochs if guard in needed),
    )


def write(path: Path, document: Mapping[str, object]) -> None:
    """Replace a file whole. Two writers at once each write a file of their own; the later rename stands."""
    new = path.with_name(f"{path.name}.{secrets.token_hex(8)}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(new, "wb") as file:
            file.write(canonical.exact_bytes(document))
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
        sync(path.parent)
    except OSError as err:
        with contextlib.suppress(OSError):
            new.unlink()
        raise not_written(path, err) from err


def not_written(path: Path, err: OSError) -> ConfigurationError:
    return ConfigurationError(
        "projection_not_written",
        happened=f"{path} could not be written: {err}.",
        not_done="the file is as it was before.",
        check="that this account may write in the release root and that its disk is not full.",
    )


def occurrence(path: Path) -> dict[str, Any]:
    """The members of the note of an occurrence that has begun."""
    members = _read(path, OCCURRENCE_SCHEMA, _OCCURRENCE)
    del members["schema"]
    if set(members) != {*_OCCURRENCE, "previous_deployment_id", "drains"} or members["activation_id"] != path.stem:
        raise _malformed(path)
    previous, drains = members["previous_deployment_id"], members["drains"]
    if not (previous is None or isinstance(previous, str)):
        raise _malformed(path)
    if not (drains is None or (isinstance(drains, str) and is_uuid(drains))):
        raise _malformed(path)
    return members


def _current(root: Path) -> dict[str, Any]:
    current = _read(root / CURRENT, CURRENT_SCHEMA, _CURRENT)
    if not all(
        isinstance(pair, list) and [type(part) for part in pair] == [str, int] for pair in current["guard_epochs"]
    ):
        raise _malformed(root / CURRENT)
    return current


def _malformed(path: Path) -> ConfigurationError:
    return ConfigurationError(
        "projection",
        happened=f"{shown(str(path))} is not a document that `dponectl composition activate` wrote.",
        check=_WHO_CHANGED_IT,
    )


def is_uuid(text: str) -> bool:
    """Whether a text can be the id of an activation, and so the name of a file."""
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def _read(path: Path, schema: str, members: Mapping[str, type]) -> dict[str, Any]:
    try:
        document = canonical.strict_object(read_regular(path))
    except (OSError, canonical.StrictJsonError) as err:
        if isinstance(err, FileNotFoundError) and not path.is_symlink():
            raise ConfigurationError(
                "no_activation",
                happened=f"{path} does not exist: no composition has been activated in this folder.",
                check="`dponectl composition activate`, and the setting [dpone] release_root.",
            ) from err
        raise ConfigurationError(
            "projection", happened=f"{shown(str(path))} cannot be read: {shown(str(err))}.", check=_WHO_CHANGED_IT
        ) from err
    if document.get("schema") != schema or any(type(document.get(name)) is not kind for name, kind in members.items()):
        raise _malformed(path)
    return document
