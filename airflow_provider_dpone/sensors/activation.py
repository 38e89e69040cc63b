"""Waits, without a worker slot, until the activation in force is ACTIVE."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_dpone.contracts.errors import ControlUnavailable
from airflow_provider_dpone.hooks.roles import GuardRoles, named
from airflow_provider_dpone.triggers.waiting import PauseTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context


class ActivationSensor(BaseOperator):
    """Succeeds with the activation's id. A parent DAG begins with it, so that its children find an open door.

    :param activation_id: the activation to wait for; default is the one in force when the sensor looks.
    """

    template_fields: Sequence[str] = ("activation_id", "release_root")
    ui_color = "#e6f1f2"

    def __init__(
        self,
        *,
        activation_id: str | None = None,
        interval: timedelta = timedelta(seconds=10),
        patience: timedelta = timedelta(hours=1),
        release_root: str | None = None,
        roles: GuardRoles | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.activation_id = activation_id
        self.in_force = activation_id is None
        self.interval = interval
        self.patience = patience
        self.release_root = release_root
        self.root_is_named = release_root is not None
        self.roles = roles

    def execute(self, context: Context) -> str:
        return self._look(datetime.now(UTC))

    def execute_again(self, context: Context, event: dict[str, Any], waiting_since: str) -> str:
        return self._look(datetime.fromisoformat(waiting_since))

    def _look(self, waiting_since: datetime) -> str:
        state = "unreachable"
        try:
            found = self._state()
            if found is not None:
                activation_id, state = found
                if state == "ACTIVE":
                    return activation_id
                if state in ("RETIRING", "RETIRED"):
                    raise AirflowFailException(f"activation {activation_id} is {state} and will not become ACTIVE")
            else:
                state = "absent"
        except ControlUnavailable as err:
            self.log.info("the ledger does not answer: %s", err)
        if datetime.now(UTC) - waiting_since > self.patience:
            raise AirflowFailException(f"no ACTIVE activation within {self.patience} (last seen: {state})")
        self.log.info("waiting for an ACTIVE activation (now: %s)", state)
        self.defer(
            trigger=PauseTrigger(self.interval.total_seconds()),
            method_name="execute_again",
            kwargs={"waiting_since": waiting_since.isoformat()},
        )
        raise AssertionError("a deferral raises")

    def _state(self) -> tuple[str, str] | None:
        from airflow_provider_dpone.composition.projection import current_activation_id
        from airflow_provider_dpone.hooks.ledger import DponeLedgerHook
        from airflow_provider_dpone.hooks.roles import root_of

        root = root_of(self)
        activation_id = current_activation_id(root) if self.in_force else named(self, "activation_id")
        if activation_id is None:
            return None
        activation = DponeLedgerHook((self.roles or GuardRoles()).controller).activations().read(activation_id)
        return None if activation is None else (activation_id, activation.state)
