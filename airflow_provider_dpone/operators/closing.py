"""The tasks after the work: they find attempts in the ledger and may run beside, or instead of, a worker that died."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_dpone.contracts.errors import AttemptFailed, GuardError
from airflow_provider_dpone.hooks.roles import GuardRoles, root_of
from airflow_provider_dpone.hooks.task_attempts import TaskAttempts
from airflow_provider_dpone.links.attempt import AttemptLink

if TYPE_CHECKING:
    from airflow.sdk import Context


class AttemptsOf(BaseOperator):
    """Acts on the attempts of one task instance of the same DAG run. Repeatable, so two retries are the default.

    :param work_task_id: the task whose attempts are meant, with the names of its groups.
    """

    template_fields: Sequence[str] = ("work_task_id", "release_root")
    operator_extra_links = (AttemptLink(),)
    ui_color = "#eee8dc"

    def __init__(
        self, *, work_task_id: str, release_root: str | None = None, roles: GuardRoles | None = None, **kwargs: Any
    ) -> None:
        kwargs.setdefault("retries", 2)
        kwargs.setdefault("retry_delay", timedelta(seconds=5))
        super().__init__(**kwargs)
        self.work_task_id = work_task_id
        self.release_root = release_root
        self.root_is_named = release_root is not None
        self.roles = roles

    def attempts(self, context: Context) -> TaskAttempts:
        ti = context["ti"]
        map_index = -1 if ti.map_index is None else int(ti.map_index)
        instance = (ti.dag_id, ti.run_id, self.work_task_id, map_index)
        return TaskAttempts(self.roles or GuardRoles(), str(root_of(self)), instance)


class CloseGate(AttemptsOf):
    """Closes the writers of every attempt that is not settled, irreversibly. Nothing to close is fine."""

    def execute(self, context: Context) -> list[str]:
        return self.attempts(context).close()


class FinalizeAttempt(AttemptsOf):
    """Resolves and records the outcome. Fails unless the newest attempt SUCCEEDED: a failure never looks green."""

    def execute(self, context: Context) -> dict[str, Any]:
        try:
            operation = self.attempts(context).finalize()
        except GuardError as err:
            if err.recovery_required or isinstance(err, AttemptFailed):
                # Settled, or for an operator to settle: looking again would find the same.
                raise AirflowFailException(str(err)) from err
            raise
        return {"attempt_sha256": operation.attempt_sha256, "state": operation.state}
