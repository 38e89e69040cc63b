"""A pause that holds no worker slot, no connection and no secret."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent


class PauseTrigger(BaseTrigger):
    """Fires once, `seconds` after it started."""

    def __init__(self, seconds: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow has no annotation here
        self.seconds = seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return ("airflow_provider_dpone.triggers.waiting.PauseTrigger", {"seconds": self.seconds})

    async def run(self) -> AsyncIterator[TriggerEvent]:
        await asyncio.sleep(self.seconds)
        yield TriggerEvent({"waited": self.seconds})  # type: ignore[no-untyped-call]  # nor here
