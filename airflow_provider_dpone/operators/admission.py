"""Asking whether an attempt would be admitted, without admitting one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider_dpone.hooks.roles import GuardRoles

if TYPE_CHECKING:
    from airflow.sdk import Context


class AdmissionCheck(BaseOperator):
    """A dry run: fails with what would refuse the workload now. It reserves nothing, so its answer may be old."""

    template_fields: Sequence[str] = ("workload_id", "release_root")
    ui_color = "#f3f3e2"

    def __init__(
        self, *, workload_id: str, release_root: str | None = None, roles: GuardRoles | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.workload_id = workload_id
        self.release_root = release_root
        self.root_is_named = release_root is not None
        self.roles = roles

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_provider_dpone.composition import projection
        from airflow_provider_dpone.contracts.errors import Overlap, StaleEpoch
        from airflow_provider_dpone.hooks.ledger import DponeLedgerHook
        from airflow_provider_dpone.hooks.roles import root_of

        root = root_of(self)
        active = projection.load_workload(root, self.workload_id)
        request, _ = projection.recorded(root, active.activation_id)
        ledger = DponeLedgerHook((self.roles or GuardRoles()).controller)
        activation = ledger.activations().require_active(request)
        epochs = dict(activation.guard_epochs)
        stale = [guard for guard, epoch in active.guard_epochs if epochs.get(guard) != epoch]
        if stale:
            raise StaleEpoch("guard_epochs", details={"guards": stale})
        blockers = ledger.attempts().blockers([guard for guard, _ in active.guard_epochs])
        if blockers:
            raise Overlap(blockers=[blocker.operation_key for blocker in blockers])
        self.log.info("an attempt of %s would be admitted now", self.workload_id)
        return {"workload_id": self.workload_id, "activation_id": active.activation_id}
