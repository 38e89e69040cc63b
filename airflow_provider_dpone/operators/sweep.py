"""Settling what dead tries left behind when no later try comes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException

from airflow_provider_dpone.hooks.roles import GuardRoles

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_dpone.contracts.operation import Operation

_log = logging.getLogger(__name__)

# Airflow's word that no try of a task instance runs. A state that is missing (a deleted run) is no word at all.
OVER = frozenset({"success", "failed", "skipped", "upstream_failed", "removed", "up_for_retry"})


class SweepAttempts(BaseOperator):
    """Closes, proves and settles every RUNNING attempt whose try is over *by Airflow's own word*; age decides nothing.

    An attempt of which Airflow knows nothing any more (its run was deleted) is left for an operator and
    ``dponectl attempts settle``. Fails when one could not be settled, after it has tried them all.
    """

    template_fields: Sequence[str] = ("release_root",)
    ui_color = "#eee8dc"

    def __init__(self, *, release_root: str | None = None, roles: GuardRoles | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.release_root = release_root
        self.root_is_named = release_root is not None
        self.roles = roles

    def execute(self, context: Context) -> dict[str, str]:
        from airflow_provider_dpone.attempts import sweep
        from airflow_provider_dpone.composition.services import free_ledger, resume_attempt
        from airflow_provider_dpone.hooks.roles import root_of
        from airflow_provider_dpone.ledger import AttemptStore

        services = (self.roles or GuardRoles()).services()
        root = root_of(self)
        # A worker that stands still in the middle of a change would keep everybody from settling anything.
        free_ledger(services)
        ti = context["ti"]

        def is_over(operation: Operation) -> bool:
            at = operation.coordinates
            states = ti.get_task_states(
                dag_id=at.dag_id, run_ids=[at.run_id], task_ids=[at.task_id], map_index=at.map_index
            )
            key = at.task_id if at.map_index < 0 else f"{at.task_id}_{at.map_index}"
            state = states.get(at.run_id, {}).get(key)
            over = state in OVER
            _log.info(
                "attempt %s: Airflow says %s (%s)", operation.digest_prefix, state, "over" if over else "leave it"
            )
            return over

        swept = sweep(
            AttemptStore(services.control, services.ledger),
            is_over=is_over,
            settlement_of=lambda operation: resume_attempt(services, root, operation, log=_log),
        )
        left = [each for each in swept if each.error is not None]
        if left:
            raise AirflowException("\n\n".join(f"{each.operation.attempt_sha256}: {each.error}" for each in left))
        return {each.operation.attempt_sha256: each.operation.state for each in swept}
