"""Putting a composition in force and out of force, as tasks of an operations DAG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_dpone.contracts.errors import GuardError
from airflow_provider_dpone.hooks.roles import GuardRoles

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_dpone.composition.activation import CompositionActivation
    from airflow_provider_dpone.ledger import Activation


class _CompositionOperator(BaseOperator):
    """Common to both: where the releases are and by which accounts the domains are observed."""

    ui_color = "#efe6f3"

    def __init__(self, *, release_root: str | None = None, roles: GuardRoles | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.release_root = release_root
        self.roles = roles

    def composition(self) -> CompositionActivation:
        from airflow_provider_dpone.composition.activation import CompositionActivation
        from airflow_provider_dpone.composition.services import observe_domains
        from airflow_provider_dpone.hooks.roles import release_root
        from airflow_provider_dpone.ledger import ActivationStore

        services = (self.roles or GuardRoles()).services()
        store = ActivationStore(services.control, services.ledger)
        root = release_root(self.release_root)
        return CompositionActivation(root, store, lambda release: observe_domains(services, release))

    def act(self, composition: CompositionActivation) -> Activation:
        raise NotImplementedError

    def execute(self, context: Context) -> dict[str, Any]:
        try:
            activation = self.act(self.composition())
        except GuardError as err:
            if err.recovery_required:
                raise AirflowFailException(str(err)) from err
            raise
        self.log.info("activation %s is %s", activation.activation_id, activation.state)
        return {"activation_id": activation.activation_id, "state": activation.state}


class ActivateComposition(_CompositionOperator):
    """Activates a release that no other activation blocks. After a lost acknowledgement it fails and names the command
    that continues the same activation.

    :param release: the folder of the release.
    :param expected_release_id: refuse a folder that holds another one.
    """

    template_fields: Sequence[str] = ("release", "expected_release_id", "release_root")

    def __init__(self, *, release: str, expected_release_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.release = release
        self.expected_release_id = expected_release_id

    def act(self, composition: CompositionActivation) -> Activation:
        return composition.activate(Path(self.release), expected_release_id=self.expected_release_id)


class RetireComposition(_CompositionOperator):
    """Closes admission for an activation and releases its domains once every attempt is settled. Repeatable.

    :param activation_id: the activation; default is the one in force.
    """

    template_fields: Sequence[str] = ("activation_id", "release_root")

    def __init__(self, *, activation_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.activation_id = activation_id

    def act(self, composition: CompositionActivation) -> Activation:
        from airflow_provider_dpone.composition.projection import current_activation_id
        from airflow_provider_dpone.contracts.errors import ConfigurationError
        from airflow_provider_dpone.hooks.roles import release_root

        activation_id = self.activation_id or current_activation_id(release_root(self.release_root))
        if activation_id is None:
            raise ConfigurationError("no_activation", happened="no composition has been activated in this folder.")
        return composition.retire(activation_id)
