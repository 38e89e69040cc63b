"""Settling an attempt whose outcome was unknown, by what an observer finds now."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_dpone.hooks.roles import GuardRoles

if TYPE_CHECKING:
    from airflow.sdk import Context

_log = logging.getLogger(__name__)


class ReconcileUnknown(BaseOperator):
    """Observes the target of one COMMIT_UNKNOWN attempt again and records SUCCEEDED or FAILED if that can be told now.

    An explicit step of an operator: put it in a DAG that a person triggers, with the attempt as its parameter. It fails
    when the evidence is still not sufficient, and changes nothing then.

    :param attempt_sha256: the attempt.
    """

    template_fields: Sequence[str] = ("attempt_sha256", "release_root")
    ui_color = "#f5e3d8"

    def __init__(
        self, *, attempt_sha256: str, release_root: str | None = None, roles: GuardRoles | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.attempt_sha256 = attempt_sha256
        self.release_root = release_root
        self.root_is_named = release_root is not None
        self.roles = roles

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_provider_dpone.composition.services import resume_attempt
        from airflow_provider_dpone.contracts.errors import OutcomeUnknown
        from airflow_provider_dpone.hooks.roles import root_of
        from airflow_provider_dpone.ledger import AttemptStore

        services = (self.roles or GuardRoles()).services()
        operation = AttemptStore(services.control, services.ledger).read_exact(self.attempt_sha256)
        if operation is None:
            raise AirflowFailException(f"the ledger holds no attempt {self.attempt_sha256}")
        if operation.state == "COMMIT_UNKNOWN":
            settlement = resume_attempt(services, root_of(self), operation, log=_log)
            try:
                operation = settlement.reconcile()
            except OutcomeUnknown as err:
                raise AirflowFailException(str(err)) from err
        if not operation.settled:
            raise AirflowFailException(
                f"attempt {self.attempt_sha256} is {operation.state}: nothing to reconcile before it has ended"
            )
        self.log.info("attempt %s is %s", operation.attempt_sha256, operation.state)
        return {"attempt_sha256": operation.attempt_sha256, "state": operation.state}
