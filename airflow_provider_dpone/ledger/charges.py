"""Source bytes, charged before they are read, cumulative over all tries of a workload in one activation."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.attempt import Attempt
from airflow_provider_dpone.contracts.errors import (
    AdmissionRefused,
    ConfigurationError,
    LedgerTampered,
    ParentNotActive,
)
from airflow_provider_dpone.contracts.ownership import owner_key
from airflow_provider_dpone.contracts.rules import coordinate_text, whole_number
from airflow_provider_dpone.drivers import Connect
from airflow_provider_dpone.ledger.questions import Part, Question, Results
from airflow_provider_dpone.ledger.records import Charge, operation_key
from airflow_provider_dpone.ledger.settings import LedgerSettings
from airflow_provider_dpone.ledger.transaction import ControlLedger, ControlTransaction

Rows = Sequence[tuple[Any, ...]]


class ChargeStore:
    """Durable budgets. A charge is never given back: what a dead try may have read counts."""

    def __init__(self, connect: Connect, settings: LedgerSettings) -> None:
        self._ledger = ControlLedger(connect, settings)

    def charge(
        self, activation_id: str, workload_id: str, bytes: int, ceiling: int, *, attempt: Attempt | str | None = None
    ) -> Charge:
        """Charge ``bytes`` that are about to be read. Refused (``source_bytes_ceiling``) past the ceiling.

        The ceiling belongs to the workload in its activation and cannot change between charges.
        """
        whole_number(bytes, "source_bytes", at_least=1)
        whole_number(ceiling, "source_bytes_ceiling", at_least=1)
        owner, workload = owner_key("execution", activation_id), _workload_sha256(workload_id)
        charge_id = str(uuid.uuid4())
        question: Part = ("charge_rows", [owner, workload])
        by = "" if attempt is None else operation_key(attempt)

        def work(transaction: ControlTransaction) -> None:
            owners, charges = transaction.run(question)
            if not owners or owners[0][0] not in ("ACTIVE", "RETIRING"):
                raise ParentNotActive("parent_state", happened=f"the activation {activation_id} does not run.")
            total = _total(charges, activation_id, workload_id)
            if charges and charges[0][4] != ceiling:
                raise ConfigurationError(
                    "source_bytes_ceiling",
                    happened=f"the workload has {charges[0][4]} source bytes in this activation, not {ceiling}.",
                )
            if total + bytes > ceiling:
                raise AdmissionRefused(
                    "source_bytes_ceiling",
                    happened=f"{total} source bytes are charged, {bytes} more would pass the ceiling of {ceiling}.",
                    not_done="nothing was charged, and these bytes must not be read.",
                    check="max_source_bytes of the workload; a new activation starts a new budget.",
                    details={"charged": total, "asked": bytes, "ceiling": ceiling},
                )
            number = len(charges) + 1
            transaction.write(
                ("insert_charge", [owner, workload, number, charge_id, by, bytes, total + bytes, ceiling])
            )

        def readback(results: Results) -> Charge | None:
            _, charges = results
            for _, found, charged, cumulative, limit in charges:
                if found == charge_id:
                    return Charge(charged_bytes=charged, cumulative_bytes=cumulative, ceiling_bytes=limit)
            return None

        return self._ledger.mutate("charge", work, Question((question,), readback))

    def total(self, activation_id: str, workload_id: str) -> int:
        """The bytes charged so far."""
        question: Part = ("charge_rows", [owner_key("execution", activation_id), _workload_sha256(workload_id)])
        return self._ledger.read(Question((question,), lambda found: _total(found[1], activation_id, workload_id)))


def _total(charges: Rows, *whose: str) -> int:
    require_sequence(charges, " of ".join(reversed(whose)))
    return int(charges[-1][3]) if charges else 0


def require_sequence(charges: Rows, whose: str) -> None:
    """The charges of one workload follow each other: numbered from 1, summed up, under one ceiling."""
    total = 0
    for expected, (number, _, charged, cumulative, ceiling) in enumerate(charges, 1):
        total += charged
        if (number, cumulative, ceiling) != (expected, total, charges[0][4]) or not 0 < total <= ceiling:
            raise LedgerTampered(
                "source_charges",
                happened=f"charge {number} of the workload {whose} does not follow the one before it.",
            )


def _workload_sha256(workload_id: str) -> str:
    return canonical.exact_sha256({"schema": "dpone.workload-key.v1", "workload_id": coordinate_text(workload_id)})
