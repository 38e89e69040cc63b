"""Putting a composition in force and out of force, as tasks of an operations DAG."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_dpone.contracts.errors import ConfigurationError, GuardError
from airflow_provider_dpone.hooks.roles import GuardRoles, named

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_dpone.composition.activation import CompositionActivation
    from airflow_provider_dpone.ledger import Activation


class _CompositionOperator(BaseOperator):
    """Common to all: where the releases are and by which accounts the servers are asked."""

    ui_color = "#efe6f3"

    def __init__(self, *, release_root: str | None = None, roles: GuardRoles | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.release_root = release_root
        self.root_is_named = release_root is not None
        self.roles = roles

    def composition(self) -> CompositionActivation:
        from airflow_provider_dpone.composition.factory import build_composition_activation
        from airflow_provider_dpone.hooks.roles import root_of

        return build_composition_activation(root_of(self), (self.roles or GuardRoles()).services())

    def act(self, composition: CompositionActivation) -> Activation | None:
        raise NotImplementedError

    def execute(self, context: Context) -> dict[str, Any]:
        try:
            activation = self.act(self.composition())
        except GuardError as err:
            if err.recovery_required:
                # A retry under a new id would only be refused; the text names the command that ends this one.
                raise AirflowFailException(str(err)) from err
            raise
        if activation is None:
            self.log.info("the ledger never held this activation, and it was given up")
            return {"activation_id": None, "state": None}
        self.log.info("activation %s is %s", activation.activation_id, activation.state)
        return {"activation_id": activation.activation_id, "state": activation.state}


class PrepareComposition(_CompositionOperator):
    """Seals a release and reserves its guards; nobody is admitted yet. Returns the activation's id for
    `ReconcileComposition`, which puts it in force, or `RetireComposition`, which gives it up.

    :param release: the folder of the release.
    :param expected_release_id: refuse a folder that holds another one.
    """

    template_fields: Sequence[str] = ("release", "expected_release_id", "release_root")

    def __init__(self, *, release: str, expected_release_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.release = release
        self.expected_release_id = expected_release_id
        self.any_release = expected_release_id is None

    def expected(self) -> str | None:
        """The release that is wanted; a template that rendered to nothing is not "any"."""
        return None if self.any_release else named(self, "expected_release_id")

    def act(self, composition: CompositionActivation) -> Activation:
        return composition.prepare(Path(named(self, "release")), expected_release_id=self.expected())


class ActivateComposition(PrepareComposition):
    """Activates a release. After a lost acknowledgement it fails and names the command that continues the same
    activation.

    :param drain: hand over from the activation in force: retire it first. Otherwise one in force is refused.
    :param patience: how long to wait for the last attempt of the predecessor.
    """

    def __init__(self, *, drain: bool = False, patience: timedelta = timedelta(minutes=10), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.drain = drain
        self.patience = patience

    def act(self, composition: CompositionActivation) -> Activation:
        folder, expected = Path(named(self, "release")), self.expected()
        if self.drain:
            patience = self.patience.total_seconds()
            return composition.hand_over(folder, expected_release_id=expected, patience=patience)
        return composition.activate(folder, expected_release_id=expected)


class ReconcileComposition(_CompositionOperator):
    """Ends an activation that was prepared, or left half done by a dead process: it goes on where the ledger stands.

    :param activation_id: the activation.
    """

    template_fields: Sequence[str] = ("activation_id", "release_root")

    def __init__(self, *, activation_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.activation_id = activation_id

    def act(self, composition: CompositionActivation) -> Activation:
        return composition.reconcile(named(self, "activation_id"))


class RetireComposition(_CompositionOperator):
    """Closes admission for an activation and releases its domains once every attempt is settled. Repeatable. No SQL is
    undone.

    Which one is always said: an id that is missing is not the activation in force.

    :param activation_id: the activation.
    :param in_force: instead of an id, the one that `current` names when the task runs.
    """

    template_fields: Sequence[str] = ("activation_id", "release_root")

    def __init__(self, *, activation_id: str | None = None, in_force: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if (activation_id is None) is not in_force:
            raise ValueError(
                "give either activation_id or in_force=True: which activation is retired is never a default"
            )
        self.activation_id = activation_id
        self.in_force = in_force

    def act(self, composition: CompositionActivation) -> Activation | None:
        from airflow_provider_dpone.composition.projection import current_activation_id
        from airflow_provider_dpone.hooks.roles import root_of

        if not self.in_force:
            return composition.retire(named(self, "activation_id"))
        activation_id = current_activation_id(root_of(self))
        if activation_id is None:
            raise ConfigurationError("no_activation", happened="no composition has been activated in this folder.")
        return composition.retire(activation_id)
