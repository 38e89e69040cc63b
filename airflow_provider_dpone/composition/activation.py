"""Putting a release in force, and taking it out of force again.

    record request -> prepare (guards reserved) -> switch `current` -> activate

The request is recorded before anything is sent: after a lost acknowledgement the same command with the same activation
id goes on where the ledger stands. Tasks are refused until the ledger says ACTIVE. Undoing a deployment undoes no SQL.

The ledger refuses prepare and activate unless a recorded gate profile unlocks its authority on the server as it is, so a
resumed activation passes that door again before `current` is switched.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from airflow_provider_dpone.composition import projection
from airflow_provider_dpone.composition.physical import PhysicalDomain
from airflow_provider_dpone.composition.release import Release, read
from airflow_provider_dpone.composition.request import build_request
from airflow_provider_dpone.contracts.activation import ActivationRequest
from airflow_provider_dpone.contracts.errors import ActivationUnknown, AdmissionRefused, GuardError, ParentNotActive
from airflow_provider_dpone.ledger import Activation, ActivationStore

Observe = Callable[[Release], Mapping[str, PhysicalDomain]]


class CompositionActivation:
    """`root` holds the projection; `observe` reads the physical domains of a release's written bindings."""

    def __init__(self, root: Path, store: ActivationStore, observe: Observe) -> None:
        self._root = root
        self._store = store
        self._observe = observe

    def activate(self, release_folder: Path, *, expected_release_id: str | None = None) -> Activation:
        """Activate a release that no other activation blocks. A predecessor is retired first, by `retire`."""
        release = read(release_folder, expected_release_id=expected_release_id)
        previous = self._current()
        request = build_request(
            release,
            self._observe(release),
            activation_id=str(uuid.uuid4()),
            previous_deployment_id=previous.context.deployment_id if previous else None,
        )
        projection.record(self._root, request, release_folder)
        return self._put_in_force(request)

    def resume(self, activation_id: str) -> Activation:
        """Go on with a recorded activation whose acknowledgement was lost."""
        request, _ = projection.recorded(self._root, activation_id)
        return self._put_in_force(request)

    def retire(self, activation_id: str) -> Activation:
        """Close admission, and release the guards once every attempt is resolved. Repeatable.

        One that was only prepared is withdrawn: nobody is admitted on the way.
        """
        request, _ = projection.recorded(self._root, activation_id)
        state = self._require(request).state
        if state == "PREPARED":
            self._store.withdraw(request)
        elif state == "ACTIVE":
            self._store.begin_retirement(request)
        return self._store.finalize_retirement(request)

    def status(self) -> Activation | None:
        """What the ledger says of the activation that `current` names."""
        current = self._current()
        return None if current is None else self._require(current)

    def _put_in_force(self, request: ActivationRequest) -> Activation:
        resume = f"`dponectl composition resume {request.activation_id}` continues this activation."
        try:
            prepared = self._store.prepare(request)
        except ActivationUnknown as err:
            raise ActivationUnknown("activation_acknowledgement", check=resume) from err
        if prepared.state not in ("PREPARED", "ACTIVE"):
            # It had its time: pointing tasks at it would only have them refused.
            raise ParentNotActive(
                "activation_over",
                happened=f"the activation {request.activation_id} is {prepared.state}.",
                not_done="the current activation stays what it is.",
                check="`dponectl composition status`; activate the release again for a new activation.",
            )
        try:
            projection.switch(self._root, request, prepared.guard_epochs)
            active = self._store.activate(request)
        except AdmissionRefused:
            raise
        except (GuardError, OSError) as err:
            raise ActivationUnknown("activation_acknowledgement", check=resume) from err
        if active.state != "ACTIVE" or active.guard_epochs != prepared.guard_epochs:
            raise ActivationUnknown("activation_epochs")
        return active

    def _current(self) -> ActivationRequest | None:
        activation_id = projection.current_activation_id(self._root)
        return None if activation_id is None else projection.recorded(self._root, activation_id)[0]

    def _require(self, request: ActivationRequest) -> Activation:
        activation = self._store.read(request.activation_id)
        if activation is None:
            raise AdmissionRefused(
                "activation_unknown", happened=f"the ledger holds no activation {request.activation_id}."
            )
        return activation
