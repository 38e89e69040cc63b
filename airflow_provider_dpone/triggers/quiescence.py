"""Waits in the triggerer until the closed writers of a task instance are gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent


class QuiescenceTrigger(BaseTrigger):
    """Proves quiescence as soon as it can be proven, and says so; the sensor then reads the proof in the ledger.

    Proving is idempotent and may run anywhere, so a triggerer that is restarted, or two of them, do no harm. It carries
    coordinates and connection ids only.
    """

    def __init__(
        self, instance: tuple[str, str, str, int], roles: Mapping[str, Any], release_root: str, interval: float
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow has no annotation here
        self.instance = instance
        self.roles = roles
        self.release_root = release_root
        self.interval = interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            "airflow_provider_dpone.triggers.quiescence.QuiescenceTrigger",
            {
                "instance": list(self.instance),
                "roles": dict(self.roles),
                "release_root": self.release_root,
                "interval": self.interval,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        from asgiref.sync import sync_to_async

        while True:
            event = await sync_to_async(self.probe)()
            if event is not None:
                yield TriggerEvent(event)  # type: ignore[no-untyped-call]  # nor here
                return
            await asyncio.sleep(self.interval)

    def probe(self) -> dict[str, str] | None:
        """One look; None while something of a writer is left. Runs in a thread: drivers block."""
        from airflow_provider_dpone.contracts.errors import ControlUnavailable, GuardError, NotQuiescent
        from airflow_provider_dpone.hooks.roles import GuardRoles
        from airflow_provider_dpone.hooks.task_attempts import TaskAttempts

        try:
            roles = GuardRoles.from_document(self.roles)
            dag_id, run_id, task_id, map_index = self.instance
            TaskAttempts(roles, self.release_root, (dag_id, run_id, task_id, map_index)).prove_quiescence()
        except (NotQuiescent, ControlUnavailable) as err:
            self.log.info("not yet: %s", err)
            return None
        except GuardError as err:
            return {"error": str(err)}
        return {"quiescent": "yes"}
