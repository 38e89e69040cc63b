"""Settling what tries left behind when no later try comes: after a SIGKILL on the last try, or a skipped closing task.

Age never decides. Somebody has to say that a try is over: Airflow about its task instance, or an operator.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from airflow_provider_dpone.attempts.ports import AttemptLedger
from airflow_provider_dpone.attempts.settlement import Settlement
from airflow_provider_dpone.contracts.errors import GuardError
from airflow_provider_dpone.contracts.operation import Operation

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What became of one operation. ``error`` says why it could not be settled this time."""

    operation: Operation
    error: GuardError | None = None


def sweep(
    ledger: AttemptLedger,
    *,
    is_over: Callable[[Operation], bool],
    settlement_of: Callable[[Operation], Settlement],
) -> tuple[Swept, ...]:
    """Settle every RUNNING operation whose try is said to be over. One that cannot be settled stops no other."""
    swept = []
    for operation in ledger.unresolved():
        if operation.state != "RUNNING" or not is_over(operation):
            continue
        try:
            swept.append(Swept(operation=settlement_of(operation).settle()))
        except GuardError as err:
            _log.warning("operation %s could not be settled: %s", operation.attempt_sha256, err)
            swept.append(Swept(operation=operation, error=err))
    return tuple(swept)
