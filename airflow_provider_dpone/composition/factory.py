"""The public way to an activation: closed unless every protected capability is supplied.

Nothing here opens anything by itself. Without the accounts of an installation every call is refused as
DPONE_COMPOSITION_ADMISSION_UNAVAILABLE; with them, the ledger still refuses until a recorded gate profile unlocks its
authority on the server as it is.
"""

from __future__ import annotations

from pathlib import Path

from airflow_provider_dpone.composition.activation import CompositionActivation
from airflow_provider_dpone.composition.coordinator import (
    CompositionActivationCoordinator,
    CompositionActivationPreparation,
    SealedInputs,
)
from airflow_provider_dpone.composition.physical_admission import CompositionPhysicalAdmission
from airflow_provider_dpone.composition.servers import GuardedServers
from airflow_provider_dpone.composition.services import GuardServices
from airflow_provider_dpone.contracts.errors import AdmissionRefused
from airflow_provider_dpone.ledger import ActivationStore


def build_composition_activation_coordinator(
    services: GuardServices | None = None,
) -> CompositionActivationCoordinator:
    """The coordinator over the accounts of an installation."""
    if services is None:
        raise AdmissionRefused(
            "protected_capabilities",
            happened="no ledger, gate or observer accounts were supplied, and an activation needs all of them.",
            not_done="nothing was reserved.",
            check="docs/roles.md for the accounts, and `dponectl ledger status` for what opens an activation's door.",
        )
    accounts = services
    return CompositionActivationCoordinator(
        inputs=SealedInputs(),
        preparation=CompositionActivationPreparation(
            physical=CompositionPhysicalAdmission(backend=GuardedServers(accounts))
        ),
        stores=lambda: ActivationStore(accounts.control, accounts.ledger),
        environment=accounts.environment,
    )


def build_composition_activation(root: Path, services: GuardServices | None = None) -> CompositionActivation:
    """Activations under one release root."""
    return CompositionActivation(root, build_composition_activation_coordinator(services))
