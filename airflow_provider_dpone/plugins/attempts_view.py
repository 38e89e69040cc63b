"""What the attempts page shows, as plain documents: no framework, no secret, no write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_dpone.hooks.ledger import DponeLedgerHook

if TYPE_CHECKING:
    from airflow_provider_dpone.contracts.operation import Operation


#: How many attempts a page shows at most: the newest.
SHOWN = 500


def _hook() -> DponeLedgerHook:
    return DponeLedgerHook.configured()


def listed(dag_id: str | None, run_id: str | None, task_id: str | None, map_index: int | None) -> list[dict[str, Any]]:
    """Attempts of one task in order of their tries, or the newest that match, newest first.

    The UI names no map index for a task that is not mapped, and none for all instances of one that is.
    """
    store = _hook().attempts()
    if dag_id and run_id and task_id and map_index is not None:
        return [row(operation) for operation in store.find(dag_id, run_id, task_id, map_index)]
    newest = store.recent(SHOWN, dag_id=dag_id or "", run_id=run_id or "", task_id=task_id or "")
    found = [row(operation) for operation in newest]
    if dag_id and run_id and task_id:
        found.sort(key=lambda each: (each["map_index"], each["try_number"]))
    return found


def unresolved() -> list[dict[str, Any]]:
    """RUNNING and COMMIT_UNKNOWN operations, the newest first: each of them blocks its guards."""
    return [row(operation) for operation in _hook().attempts().recent(SHOWN, unresolved=True)]


def one(attempt_sha256: str) -> dict[str, Any] | None:
    """One attempt with its principals, proofs and evidence documents."""
    store = _hook().attempts()
    operation = store.read_exact(attempt_sha256)
    if operation is None:
        return None
    guards = [guard for guard, _ in operation.attempt.guard_epochs]
    return row(operation) | {
        "coordinates": {
            "dag_id": operation.coordinates.dag_id,
            "run_id": operation.coordinates.run_id,
            "task_id": operation.coordinates.task_id,
            "map_index": operation.coordinates.map_index,
            "try_number": operation.coordinates.try_number,
            "task_instance_id": operation.coordinates.task_instance_id,
            "mapped_input_sha256": operation.coordinates.mapped_input_sha256,
        },
        "pack_sha256": operation.attempt.pack_sha256,
        "plan_sha256": operation.attempt.plan_sha256,
        "activation_request_sha256": operation.attempt.activation_request_sha256,
        "guard_epochs": [{"guard": guard, "epoch": epoch} for guard, epoch in operation.attempt.guard_epochs],
        "principals": [
            {
                "connector": principal.connector,
                "service_id": principal.service_id,
                "principal_id": principal.principal_id,
                "name": principal.name,
                "purpose": principal.purpose,
            }
            for principal in operation.principals
        ],
        "proofs": [
            {"kind": proof.kind, "evidence_sha256": proof.evidence_sha256, "outcome_state": proof.outcome_state}
            for proof in operation.proofs
        ],
        "evidence": [
            {"kind": evidence.kind, "sha256": evidence.sha256, "document": evidence.document}
            for evidence in store.evidence_history(attempt_sha256)
        ],
        "blockers": [
            {"attempt_sha256": blocker.operation_key, "state": blocker.state}
            for blocker in store.blockers(guards)
            if blocker.operation_key != attempt_sha256
        ],
    }


def authority() -> dict[str, Any]:
    """The ledger's class of authority, the server it is on, and the gate profile that opens activation, if one does."""
    standing = _hook().receipts().standing()
    opened_by = standing.unlocked_by
    return {
        "class": standing.authority,
        "server": str(standing.server),
        "receipt_sha256": None if opened_by is None else opened_by.sha256,
    }


def owners(retired: bool, activation_id: str | None) -> list[dict[str, Any]]:
    """Activations with the domains that each acquired and their epochs: one, all, or all that are not retired."""
    store = _hook().activations()
    if activation_id:
        found = store.read(activation_id)
        activations = [] if found is None else [found]
    else:
        activations = list(store.list(retired=retired))
    return [
        {
            "owner_key": activation.owner_key,
            "activation_id": activation.activation_id,
            "state": activation.state,
            "request_sha256": activation.request_sha256,
            "guards": [{"guard": guard, "epoch": epoch} for guard, epoch in activation.guard_epochs],
        }
        for activation in activations
    ]


def row(operation: Operation) -> dict[str, Any]:
    """One line of the list."""
    proven: set[str] = {proof.kind for proof in operation.proofs}
    return {
        "attempt_sha256": operation.attempt_sha256,
        "workload_id": operation.attempt.workload_id,
        "activation_id": operation.activation_id,
        "dag_id": operation.coordinates.dag_id,
        "run_id": operation.coordinates.run_id,
        "task_id": operation.coordinates.task_id,
        "map_index": operation.coordinates.map_index,
        "try_number": operation.coordinates.try_number,
        "state": operation.state,
        "gate": operation.gate.state if operation.gate else None,
        "closed": "CLOSED_GATES" in proven,
        "quiescent": "QUIESCENCE" in proven,
        "outcome": "OUTCOME" in proven,
        "epochs": [epoch for _, epoch in operation.attempt.guard_epochs],
        "principals": sorted(f"{principal.connector}:{principal.purpose}" for principal in operation.principals),
        "next_step": _next_step(operation.state, proven),
    }


def _next_step(state: str, proven: set[str]) -> str | None:
    """What has to happen before the operation stops blocking its guards; None when nothing has to."""
    if state in ("SUCCEEDED", "FAILED"):
        return None
    if state == "COMMIT_UNKNOWN":
        return "reconcile: dponectl attempts reconcile"
    if "CLOSED_GATES" not in proven:
        return (
            "its work ends; if its task is gone: a later try, the close_gate task or dponectl attempts sweep closes it"
        )
    if "QUIESCENCE" not in proven:
        return "prove quiescence"
    return "finalize"
