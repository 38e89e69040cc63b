"""Which deployments lie under a release root, and to which of them a rollback goes. Local file reads only.

A rollback is a handover to a release that was in force before: what runs from then on is that one, and tables stay as
they are.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_dpone.composition import deployment, projection
from airflow_provider_dpone.contracts.errors import ConfigurationError

_DIGEST = "sha256:"
#: So many digits of an id are the fewest that tell one.
_DIGITS = 4
#: The name of a deployment's folder; one of any other name was moved away by somebody.
_FOLDER = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptDeployment:
    """A sealed deployment: its release, when it was sealed here, and how many activations of it were kept here.

    `problem`: why it cannot be activated any more; then nothing is known of its release.
    """

    deployment_id: str
    release_id: str | None
    environment: str | None
    sealed: datetime.datetime
    activations: int
    #: Whether `current` names an activation of it, and whether a rollback that names none goes to it.
    current: bool
    previous: bool
    problem: str | None = None


def kept_deployments(root: Path) -> tuple[KeptDeployment, ...]:
    """Every deployment under a release root, the latest sealed first. One that is damaged is told with the rest."""
    current = projection.current_request(root)
    used = Counter(each.context.deployment_id for each in projection.recorded_requests(root))
    found = []
    for folder in (root / "deployments").glob("[0-9a-f]*"):
        if not _FOLDER.fullmatch(folder.name):
            continue
        deployment_id = _DIGEST + folder.name
        try:
            # Of what stands there itself: a link may lead nowhere.
            sealed_at = folder.lstat().st_mtime
        except FileNotFoundError:
            continue
        release_id = environment = problem = None
        try:
            sealed = deployment.opened(folder, deployment_id)
            release_id, environment = sealed.release_id, sealed.environment
        except ConfigurationError as err:
            problem = err.happened
        found.append(
            KeptDeployment(
                deployment_id=deployment_id,
                release_id=release_id,
                environment=environment,
                sealed=datetime.datetime.fromtimestamp(sealed_at, datetime.UTC),
                activations=used[deployment_id],
                current=current is not None and current.context.deployment_id == deployment_id,
                previous=current is not None and current.context.previous_deployment_id == deployment_id,
                problem=problem,
            )
        )
    return tuple(sorted(found, key=lambda each: (each.sealed, each.deployment_id), reverse=True))


def rollback_target(root: Path, deployment_id: str | None) -> KeptDeployment:
    """The deployment that a rollback goes to: the one that is named, or the one that was in force before the current.

    The first digits of an id, four at least, are enough where they tell one, with or without `sha256:`.
    """
    kept = kept_deployments(root)
    if deployment_id is None:
        named = [each for each in kept if each.previous]
        current = projection.current_request(root)
        if not named and (current is None or current.context.previous_deployment_id is None):
            raise ConfigurationError(
                "no_previous_deployment",
                happened="no deployment was in force here before the current one.",
                not_done="nothing was changed.",
                check="`dponectl composition deployments`; one of them can be named with --deployment.",
            )
    else:
        start = deployment_id if deployment_id.startswith(_DIGEST) else _DIGEST + deployment_id
        told = len(start) >= len(_DIGEST) + _DIGITS
        named = [each for each in kept if told and each.deployment_id.startswith(start)]
        if len(named) > 1:
            raise ConfigurationError(
                "deployment_ambiguous",
                happened=f"{len(named)} deployments begin with {deployment_id}.",
                not_done="nothing was changed.",
                check="`dponectl composition deployments`; more digits tell one.",
            )
    if not named or named[0].problem is not None:
        raise ConfigurationError(
            "deployment_unknown",
            happened=f"{deployment_id or 'the deployment before the current one'} is not there"
            + (f" as it was sealed: {named[0].problem}" if named else "."),
            not_done="nothing was changed.",
            check="`dponectl composition deployments` lists those that are; a release can be activated again.",
        )
    return named[0]
