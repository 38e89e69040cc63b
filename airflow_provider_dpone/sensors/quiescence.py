"""Waits, without a worker slot, until the closed writers of a task are gone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_dpone.contracts.errors import NotQuiescent
from airflow_provider_dpone.hooks.roles import GuardRoles, root_of
from airflow_provider_dpone.operators.closing import AttemptsOf
from airflow_provider_dpone.triggers.quiescence import QuiescenceTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context


class QuiescenceSensor(AttemptsOf):
    """Proves that no session, transaction or queued work of the attempts' principals is left.

    Looks once, then defers. It has no verdict of its own: what it proved stands in the ledger. Closing belongs to
    proving (a writer with an open gate is never quiescent), so it also serves a run whose close task did not run.
    """

    template_fields: Sequence[str] = ("work_task_id", "release_root")
    ui_color = "#e6f1f2"

    def __init__(
        self, *, interval: timedelta = timedelta(seconds=5), patience: timedelta = timedelta(hours=1), **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.interval = interval
        self.patience = patience

    def execute(self, context: Context) -> list[str]:
        attempts = self.attempts(context)
        try:
            return attempts.prove_quiescence()
        except NotQuiescent as err:
            self.log.info("waiting: %s", err)
        ti = context["ti"]
        map_index = -1 if ti.map_index is None else int(ti.map_index)
        self.defer(
            trigger=QuiescenceTrigger(
                instance=(ti.dag_id, ti.run_id, self.work_task_id, map_index),
                roles=(self.roles or GuardRoles()).to_document(),
                release_root=str(root_of(self)),
                interval=self.interval.total_seconds(),
            ),
            method_name="execute_complete",
            timeout=self.patience,
        )
        raise AssertionError("a deferral raises")

    def execute_complete(self, context: Context, event: dict[str, str]) -> list[str]:
        if "error" in event:
            raise AirflowFailException(event["error"])
        return self.attempts(context).prove_quiescence()
