"""The life of a parent in the ledger, step by step. All I/O is behind what is passed in.

    prepare       complete admission, then all guards reserved            -> PREPARED
    activate      after `current` names it                                -> ACTIVE
    require_active
    begin_retirement      nobody is admitted any more                     -> RETIRING
    finalize_retirement   every attempt closed, proven and resolved       -> RETIRED

Each step takes the coordinates of one occurrence and reads everything else again: the sealed release, its runtime, the
databases behind its aliases and what the ledger holds. A request is never made a second time: what was prepared is what
is activated, although its tables have changed meanwhile.

Closing asks for no release: an activation whose folder is lost can always be retired.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from airflow_provider_dpone.composition import deployment
from airflow_provider_dpone.composition.deployment import SealedDeployment
from airflow_provider_dpone.composition.execution_plan import CompositionExecutionPlan, plan_composition_execution
from airflow_provider_dpone.composition.physical_admission import CompositionPhysicalAdmission
from airflow_provider_dpone.composition.sources import CompositionSourceSnapshot, snapshot_of
from airflow_provider_dpone.contracts.activation import ActivationRequest, OccurrenceContext
from airflow_provider_dpone.contracts.errors import ActivationUnknown, AdmissionRefused, ParentNotActive
from airflow_provider_dpone.ledger import Activation


class CompositionActivationInputs(Protocol):
    """What stands sealed in a projection."""

    def load_deployment(self, *, projection_root: Path, deployment_id: str) -> SealedDeployment: ...

    def load_sources(self, *, projection_root: Path, release_id: str) -> CompositionSourceSnapshot: ...


class OccurrenceStore(Protocol):
    """Protected occurrences: `ledger.ActivationStore`. A store of files only is none."""

    def read(self, activation_id: str) -> Activation | None: ...
    def prepare(self, request: ActivationRequest) -> Activation: ...
    def activate(self, request: ActivationRequest) -> Activation: ...
    def withdraw(self, request: ActivationRequest) -> Activation: ...
    def begin_retirement(self, request: ActivationRequest) -> Activation: ...
    def finalize_retirement(self, request: ActivationRequest) -> Activation: ...


#: Built again in every step.
StoreFactory = Callable[[], OccurrenceStore]


class SealedInputs:
    """Sealed deployments in folders, as `deployment.seal` leaves them."""

    def load_deployment(self, *, projection_root: Path, deployment_id: str) -> SealedDeployment:
        return deployment.opened(projection_root, deployment_id)

    def load_sources(self, *, projection_root: Path, release_id: str) -> CompositionSourceSnapshot:
        return snapshot_of(deployment.read_sealed(projection_root / deployment.RELEASE_FOLDER, release_id))


class CompositionActivationPreparation:
    """The complete admission of a parent: matrix, cells, capabilities, identities and collisions."""

    def __init__(self, *, physical: CompositionPhysicalAdmission) -> None:
        self.physical = physical

    def prepare(
        self, *, sources: CompositionSourceSnapshot, context: OccurrenceContext, sealed: SealedDeployment
    ) -> ActivationRequest:
        """The request of a new occurrence. Reserves nothing."""
        sealed.require_sources(sources)
        plan = plan_composition_execution(sources)
        domains = self.physical.resolve(plan)
        sealed.require_domains(deployment.places(domains))
        return ActivationRequest(
            context=context,
            source_subject_sha256=sources.subject_sha256,
            workloads=plan.workloads,
            resources=self.physical.observe(plan, domains),
        )

    def require_existing(
        self,
        request: ActivationRequest,
        *,
        sources: CompositionSourceSnapshot,
        context: OccurrenceContext,
        sealed: SealedDeployment,
    ) -> None:
        """Refuse unless the immutable request is still that of these sources, this context and these databases."""
        sealed.require_sources(sources)
        plan = plan_composition_execution(sources)
        if (request.context, request.source_subject_sha256, request.workloads) != (
            context,
            sources.subject_sha256,
            plan.workloads,
        ):
            raise AdmissionRefused(
                "immutable_request",
                happened=f"the ledger holds {request.activation_id} with another context, release or deployment.",
                not_done="the stored request was not changed.",
                check="the coordinates of this call; a new occurrence has a new activation id.",
            )
        domains = self.physical.resolve(plan)
        sealed.require_domains(deployment.places(domains))
        self.physical.require_stable_bindings(request, plan, domains)


class CompositionActivationCoordinator:
    """Complete admission before any reservation, and exact readback after every step.

    `environment` is what this installation says that it is; a release of another one is refused. None: it does not say.
    """

    def __init__(
        self,
        *,
        inputs: CompositionActivationInputs,
        preparation: CompositionActivationPreparation,
        stores: StoreFactory,
        environment: str | None = None,
    ) -> None:
        self._inputs = inputs
        self._preparation = preparation
        self._stores = stores
        self._environment = environment

    def read(self, activation_id: str) -> Activation | None:
        """What the ledger holds of an occurrence."""
        return self._stores().read(activation_id)

    def plan(self, sources: CompositionSourceSnapshot) -> CompositionExecutionPlan:
        """The plan of a parent that is of this environment and whose cells can all be executed here."""
        require_environment(sources.environment, self._environment)
        plan = plan_composition_execution(sources)
        plan.require_installed_cells(self._preparation.physical.execution_cells)
        return plan

    @property
    def physical(self) -> CompositionPhysicalAdmission:
        return self._preparation.physical

    def require_admissible(
        self,
        *,
        projection_root: Path,
        activation_id: str,
        environment: str,
        release_id: str,
        deployment_id: str,
        previous_deployment_id: str | None,
    ) -> None:
        """Everything that `prepare` refuses, before anything is reserved or a predecessor is drained."""
        sealed, context = self._context(
            projection_root, activation_id, environment, release_id, deployment_id, previous_deployment_id
        )
        sources = self._inputs.load_sources(projection_root=projection_root, release_id=release_id)
        self._preparation.prepare(sources=sources, context=context, sealed=sealed)

    def prepare(
        self,
        *,
        projection_root: Path,
        activation_id: str,
        environment: str,
        release_id: str,
        deployment_id: str,
        previous_deployment_id: str | None,
    ) -> Activation:
        """Reserve all guards for one occurrence. Asked again, it answers what is stored, if that is still the same."""
        sealed, context = self._context(
            projection_root, activation_id, environment, release_id, deployment_id, previous_deployment_id
        )
        sources = self._inputs.load_sources(projection_root=projection_root, release_id=release_id)
        store = self._stores()
        existing = store.read(activation_id)
        if existing is None:
            request = self._preparation.prepare(sources=sources, context=context, sealed=sealed)
        else:
            request = existing.request
            if existing.state not in ("PREPARED", "ACTIVE"):
                raise ParentNotActive(
                    "activation_over",
                    happened=f"the activation {activation_id} is {existing.state}.",
                    not_done="the current activation stays what it is.",
                    check="`dponectl composition status`; activate the release again for a new activation.",
                )
            self._preparation.require_existing(request, sources=sources, context=context, sealed=sealed)
        # An existing one passes the ledger's door again.
        prepared = store.prepare(request)
        if prepared.request != request or prepared.state not in ("PREPARED", "ACTIVE"):
            raise ActivationUnknown("prepared_readback")
        return prepared

    def activate(self, prepared: Activation, *, projection_root: Path) -> Activation:
        """PREPARED -> ACTIVE. Called after `current` names the occurrence."""
        store = self._require_unchanged(prepared, projection_root)
        active = store.activate(prepared.request)
        if (active.state, active.request, active.guard_epochs) != ("ACTIVE", prepared.request, prepared.guard_epochs):
            raise ActivationUnknown("activation_readback")
        return active

    def require_active(
        self,
        *,
        projection_root: Path,
        activation_id: str,
        environment: str,
        release_id: str,
        deployment_id: str,
        previous_deployment_id: str | None,
    ) -> Activation:
        """The stored occurrence, if it is ACTIVE and its sources, runtime and databases are what they were."""
        sealed, context = self._context(
            projection_root, activation_id, environment, release_id, deployment_id, previous_deployment_id
        )
        active = self._stores().read(activation_id)
        if active is None or active.state != "ACTIVE":
            state = "not in the ledger" if active is None else active.state
            raise ParentNotActive("parent_state", happened=f"the activation {activation_id} is {state}.")
        sources = self._inputs.load_sources(projection_root=projection_root, release_id=release_id)
        self._preparation.require_existing(active.request, sources=sources, context=context, sealed=sealed)
        return active

    def begin_retirement(self, active: Activation, *, projection_root: Path) -> Activation:
        """Close admission. What runs goes on to its end and keeps its epochs. `projection_root` may be lost.

        One that was only prepared is withdrawn: nobody is admitted on the way.
        """
        store = self._stores()
        closed = (
            store.withdraw(active.request) if active.state == "PREPARED" else store.begin_retirement(active.request)
        )
        return _same(closed, active)

    def finalize_retirement(self, retiring: Activation, *, projection_root: Path) -> Activation:
        """Give the domains back; refused with Overlap while an attempt is unresolved. No SQL is undone."""
        return _same(self._stores().finalize_retirement(retiring.request), retiring)

    def _require_unchanged(self, occurrence: Activation, projection_root: Path) -> OccurrenceStore:
        kept = occurrence.request.context
        sealed, context = self._context(
            projection_root,
            kept.activation_id,
            kept.environment,
            kept.release_id,
            kept.deployment_id,
            kept.previous_deployment_id,
        )
        sources = self._inputs.load_sources(projection_root=projection_root, release_id=kept.release_id)
        self._preparation.require_existing(occurrence.request, sources=sources, context=context, sealed=sealed)
        return self._stores()

    def _context(
        self,
        projection_root: Path,
        activation_id: str,
        environment: str,
        release_id: str,
        deployment_id: str,
        previous_deployment_id: str | None,
    ) -> tuple[SealedDeployment, OccurrenceContext]:
        require_environment(environment, self._environment)
        sealed = self._inputs.load_deployment(projection_root=projection_root, deployment_id=deployment_id)
        if (sealed.environment, sealed.release_id) != (environment, release_id):
            raise AdmissionRefused(
                "projection_context",
                happened=f"the deployment {deployment_id} is of the release {sealed.release_id} for"
                f" {sealed.environment}, not of {release_id} for {environment}.",
                not_done="nothing was reserved.",
            )
        sealed.require_runtime()
        return sealed, OccurrenceContext(
            activation_id=activation_id,
            environment=environment,
            release_id=release_id,
            deployment_id=deployment_id,
            previous_deployment_id=previous_deployment_id,
            runtime_context_sha256=sealed.runtime_context_sha256,
        )


def require_environment(wanted: str, here: str | None) -> None:
    """Refuse what was made for another environment than this installation says that it is."""
    if here is not None and wanted != here:
        raise AdmissionRefused(
            "environment",
            happened=f"this is made for the environment {wanted!r}, and this installation is {here!r}.",
            not_done="nothing was reserved or admitted, and no activation in force was touched.",
            check="`environment` of composition.yaml, and of dpone.toml or the setting [dpone] environment.",
            avoid="change the setting of an installation to have a release taken.",
        )


def _same(found: Activation, asked: Activation) -> Activation:
    if (found.request, found.guard_epochs) != (asked.request, asked.guard_epochs):
        raise ActivationUnknown("transition_readback")
    return found
