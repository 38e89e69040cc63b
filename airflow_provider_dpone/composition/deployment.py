"""A sealed deployment: a release, copied whole, together with the databases and the packages that it is for.

    DEPLOYMENT/deployment.json    its digest is the deployment id: environment, release id, the selected native trios,
                                  the database behind every alias, and the versions that run it
    DEPLOYMENT/release/…          the release, as it was verified

It is written once and never changed; an activation, a retry and a recovery all read the same bytes. Undoing a deployment
means activating another one: no SQL is undone by it.
"""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from airflow_provider_dpone.composition.physical import PhysicalDomain
from airflow_provider_dpone.composition.plain_files import read_plain
from airflow_provider_dpone.composition.release import Release, read
from airflow_provider_dpone.composition.sources import CompositionSourceSnapshot
from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.errors import AdmissionRefused, ConfigurationError
from airflow_provider_dpone.drivers.trigger_points import reach

DEPLOYMENT_FILE, RELEASE_FOLDER = "deployment.json", "release"
SCHEMA = "dpone.deployment.v1"

_PACKAGES = ("airflow-provider-dpone", "apache-airflow", "mssql-python", "clickhouse-connect", "psycopg")
_MEMBERS = frozenset({"schema", "environment", "release_id", "native_trios", "domains", "runtime"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedDeployment:
    """`domains` holds, by alias, the connector and the guard of the database that the alias leads to; `native_trios` the
    native workloads that were selected, with the digests of manifest, pack and plan.
    """

    folder: Path
    deployment_id: str
    environment: str
    release_id: str
    native_trios: tuple[tuple[str, ...], ...]
    domains: Mapping[str, tuple[str, str]]
    runtime: Mapping[str, str]

    @property
    def release(self) -> Path:
        return self.folder / RELEASE_FOLDER

    @property
    def runtime_context_sha256(self) -> str:
        return canonical.exact_sha256({"schema": "dpone.runtime-context.v1", "runtime": self.runtime})

    def require_sources(self, sources: CompositionSourceSnapshot) -> None:
        """Refuse unless the native workloads are exactly those that were selected."""
        if _trios(sources) != self.native_trios:
            raise AdmissionRefused(
                "native_trios",
                happened=f"the native workloads of {self.folder} are not those that were selected when it was sealed.",
                not_done="nothing was reserved or admitted, and no activation in force was touched.",
                check="who changed it; activate the release again for a new deployment.",
            )

    def require_domains(self, now: Mapping[str, tuple[str, str]]) -> None:
        """Refuse unless each alias, those of sources included, leads to the database that it was sealed for."""
        if changed := sorted(alias for alias in {*now, *self.domains} if now.get(alias) != self.domains.get(alias)):
            raise AdmissionRefused(
                "physical_binding_drift",
                happened=f"{', '.join(changed)}: another database than the one that the deployment was sealed for.",
                not_done="nothing was reserved or admitted, and no activation in force was touched.",
                check="which database was restored, created again or moved; activate the release again for a new"
                " deployment.",
            )

    def require_runtime(self) -> None:
        """Refuse unless the packages here are those that the deployment was sealed with."""
        here = runtime()
        changed = sorted(each for each in {*here, *self.runtime} if here.get(each) != self.runtime.get(each))
        if changed:
            said = ", ".join(f"{each} {self.runtime.get(each)} -> {here.get(each)}" for each in changed)
            raise AdmissionRefused(
                "runtime_context",
                happened=f"the deployment was sealed with other packages: {said}.",
                not_done="nothing was changed by this step.",
                check="activate the release again for a new deployment; what was prepared is withdrawn by"
                " `dponectl composition retire`.",
            )


def _trios(sources: CompositionSourceSnapshot) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(trio.document()) for trio in sources.native.trios)


def runtime() -> dict[str, str]:
    """The versions that decide how a workload runs here."""
    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}


def places(domains: Mapping[str, PhysicalDomain]) -> dict[str, tuple[str, str]]:
    """By alias, the connector and the guard."""
    return {alias: (domain.connector, domain.guard_id) for alias, domain in domains.items()}


def seal(
    deployments: Path, source: Path, sources: CompositionSourceSnapshot, domains: Mapping[str, PhysicalDomain]
) -> SealedDeployment:
    """Copy a verified release into a deployment folder, whole or not at all. The same deployment is sealed once."""
    document = canonical.exact_bytes(
        {
            "schema": SCHEMA,
            "environment": sources.environment,
            "release_id": sources.release_id,
            "native_trios": _trios(sources),
            "domains": places(domains),
            "runtime": runtime(),
        }
    )
    deployment_id = canonical.sha256_text(document)
    folder = deployments / folder_name(deployment_id)
    reach("seal", "before")
    try:
        if not folder.exists():
            deployments.mkdir(parents=True, exist_ok=True)
            _write(deployments, folder, source, document)
    except (OSError, shutil.Error) as err:
        raise ConfigurationError(
            "projection_not_written",
            happened=f"the deployment {folder} could not be written: {err}.",
            not_done="nothing was sent; the activation in force is what it was.",
            check="that this account may write in the release root and that its disk is not full.",
        ) from err
    reach("seal", "applied")
    return opened(folder, deployment_id, expected_release_id=sources.release_id)


def _write(deployments: Path, folder: Path, source: Path, document: bytes) -> None:
    staging = Path(tempfile.mkdtemp(prefix=".sealing-", dir=deployments))
    try:
        reach("copy", "before")
        shutil.copytree(source, staging / RELEASE_FOLDER, symlinks=True)
        reach("copy", "applied")
        (staging / DEPLOYMENT_FILE).write_bytes(document)
        staging.chmod(0o755)
        for name, _, files in os.walk(staging, topdown=False):
            for each in files:
                sync(Path(name) / each)
            sync(Path(name))
        try:
            os.rename(staging, folder)
        except OSError:
            # Another operator sealed the very same deployment; what is there is verified like any other.
            if not folder.exists():
                raise
        sync(deployments)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def opened(folder: Path, deployment_id: str, *, expected_release_id: str | None = None) -> SealedDeployment:
    """Read a sealed deployment; its document has to be the one that the id is the digest of."""
    try:
        data = read_plain(folder, DEPLOYMENT_FILE)
    except ConfigurationError as err:
        raise _damaged(folder, err) from err
    try:
        document = canonical.strict_object(data)
        if canonical.sha256_text(data) != deployment_id or document["schema"] != SCHEMA or set(document) != _MEMBERS:
            raise _changed(folder)
        sealed = SealedDeployment(
            folder=folder,
            deployment_id=deployment_id,
            environment=str(document["environment"]),
            release_id=str(document["release_id"]),
            native_trios=tuple(tuple(str(part) for part in trio) for trio in document["native_trios"]),
            domains={str(alias): (str(each[0]), str(each[1])) for alias, each in document["domains"].items()},
            runtime={str(name): str(value) for name, value in document["runtime"].items()},
        )
    except (canonical.StrictJsonError, KeyError, TypeError, AttributeError, IndexError) as err:
        raise _changed(folder) from err
    if expected_release_id is not None and sealed.release_id != expected_release_id:
        raise _changed(folder)
    return sealed


def read_sealed(release_folder: Path, release_id: str) -> Release:
    """The release of a sealed deployment, every byte verified again."""
    try:
        return read(release_folder, expected_release_id=release_id)
    except ConfigurationError as err:
        raise _damaged(release_folder.parent, err, release_id) from err


def folder_name(deployment_id: str) -> str:
    return deployment_id.removeprefix("sha256:")


def sync(path: Path) -> None:
    """Have the disk hold what was written under a name, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _changed(folder: Path) -> ConfigurationError:
    return ConfigurationError(
        "sealed_deployment",
        happened=f"{folder / DEPLOYMENT_FILE} is not what was sealed.",
        not_done=_NOT_DONE,
        check=f"who changed it. {_SEALED_AGAIN}",
        avoid=_KEPT,
    )


def _damaged(folder: Path, cause: ConfigurationError, release_id: str | None = None) -> ConfigurationError:
    """A deployment that is no longer whole. Its bytes are those of its release, so they can be put back."""
    back = (
        ""
        if release_id is None
        else f"Copy what is damaged into {folder / RELEASE_FOLDER} from a folder for which `dponectl compose verify FOLDER"
        f" --expect {release_id}` holds, and take away what is extra. "
    )
    return ConfigurationError(
        cause.reason,
        happened=f"the sealed deployment {folder} is not whole: {cause.happened}",
        not_done=_NOT_DONE,
        check=f"who changed it. {back}{_SEALED_AGAIN}",
        avoid=_KEPT,
    )


_NOT_DONE = "nothing was admitted, reserved or switched by this step."
_SEALED_AGAIN = (
    "Or move the folder away and activate the release again (with --drain, if it is in force), which seals it anew; to"
    " take the activation out of force, `dponectl composition retire` needs no folder."
)
_KEPT = (
    "edit release.json or deployment.json, or delete the folder while an attempt of it is unresolved: its outcome is"
    " judged by this release."
)
