"""What the stores answer with. The operation itself is ``contracts.operation.Operation``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from airflow_provider_dpone.contracts.activation import ActivationRequest
from airflow_provider_dpone.contracts.attempt import Attempt, GuardEpochs
from airflow_provider_dpone.contracts.rules import digest

OwnerState = Literal["PREPARED", "ACTIVE", "RETIRING", "RETIRED"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """An execution owner as stored: its exact request, its state and the epochs at which it acquired its domains."""

    owner_key: str
    activation_id: str
    request: ActivationRequest
    request_sha256: str
    state: OwnerState
    guard_epochs: GuardEpochs

    def epochs_of(self, workload_id: str) -> GuardEpochs:
        """The guard epochs that an attempt of this workload has to name."""
        guards = set(self.request.guards_of(workload_id))
        return tuple(pair for pair in self.guard_epochs if pair[0] in guards)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """An unresolved operation of any family on one of the guards that were asked about."""

    operation_key: str
    operation_family: str
    state: str
    owner_id: str
    guard_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One stored evidence document. ``order`` counts from 1 within its operation."""

    kind: str
    sha256: str
    document: Mapping[str, Any]
    order: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What a workload of an activation has been charged for so far, this charge included."""

    charged_bytes: int
    cumulative_bytes: int
    ceiling_bytes: int


def operation_key(attempt: Attempt | str) -> str:
    """The key of an operation from its attempt or from the attempt's digest text."""
    return attempt.sha256 if isinstance(attempt, Attempt) else digest(attempt)
