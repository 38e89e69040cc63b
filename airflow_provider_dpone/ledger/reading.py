"""Rebuilding operations from their rows, refusing whatever is not exactly what was written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.attempt import Attempt, decode_attempt
from airflow_provider_dpone.contracts.errors import AdmissionRefused, LedgerTampered
from airflow_provider_dpone.contracts.operation import LoginGate, Operation
from airflow_provider_dpone.contracts.principal import Coordinates, Principal
from airflow_provider_dpone.contracts.proof import AttemptProof, authorities_of, decode_proof
from airflow_provider_dpone.ledger import documents
from airflow_provider_dpone.ledger.questions import Part, Question
from airflow_provider_dpone.ledger.records import Evidence

Row = tuple[Any, ...]
Rows = Sequence[Row]

#: Proofs are shown in the order of a life; an outcome that reconciled an unknown one comes last.
_PROOF_ORDER = {"CLOSED_GATES": 0, "QUIESCENCE": 1, "OUTCOME": 2}


def instance_sha256(dag_id: str, run_id: str, task_id: str, map_index: int) -> str:
    """The key of a task instance, whatever the try and whatever the length of its names."""
    return canonical.exact_sha256(
        {
            "schema": "dpone.task-instance-key.v1",
            "dag_id": dag_id,
            "run_id": run_id,
            "task_id": task_id,
            "map_index": map_index,
        }
    )


def the_operation(key: str) -> Question[Operation | None]:
    """One execution operation, or None."""
    return Question((("operation_by_key", [key]),), operation_from)


def operation_from(results: Sequence[Rows]) -> Operation | None:
    """The one operation of the six result sets of ``operation_by_key``, or None."""
    found = _operations(results)
    return found[0][0] if found else None


def the_operations(selection: Part) -> Question[tuple[Operation, ...]]:
    """The operations that a selection of operations.sql answers, by task instance and try."""

    def by_instance(results: Sequence[Rows]) -> tuple[Operation, ...]:
        found = [operation for operation, _ in _operations(results)]
        return tuple(sorted(found, key=lambda each: (each.coordinates.instance, each.coordinates.try_number)))

    return Question((selection,), by_instance)


def the_newest(selection: Part) -> Question[tuple[Operation, ...]]:
    """The same, the one that was admitted last first."""

    def by_admission(results: Sequence[Rows]) -> tuple[Operation, ...]:
        found = sorted(_operations(results), key=lambda pair: (pair[1], pair[0].attempt_sha256), reverse=True)
        return tuple(operation for operation, _ in found)

    return Question((selection,), by_admission)


def the_evidence(key: str) -> Question[tuple[Evidence, ...]]:
    """Every evidence document of an operation in the order in which it was recorded."""
    return Question((("evidence_rows", [key]),), _evidence)


def _evidence(results: Sequence[Rows]) -> tuple[Evidence, ...]:
    [rows] = results
    return tuple(
        Evidence(kind=kind, sha256=sha256, document=documents.decode(data, sha256), order=order)
        for kind, sha256, data, order in rows
    )


def _operations(results: Sequence[Rows]) -> list[tuple[Operation, str]]:
    """Rebuild from the six result sets of ``operation_rows``, each with its time of admission as text."""
    heads, *details = results
    scope, coordinates, principals, proofs, gates = (_by_operation(rows) for rows in details)
    found = []
    for head in heads:
        key = head[0]
        operation = _operation(head, scope[key], coordinates[key], principals[key], proofs[key], gates[key])
        found.append((operation, str(coordinates[key][0][10])))
    return found


def _by_operation(rows: Rows) -> Mapping[str, list[Row]]:
    grouped: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        grouped[row[0]].append(row)
    return grouped


def _operation(head: Row, scope: Rows, coordinates: Rows, principals: Rows, proofs: Rows, gates: Rows) -> Operation:
    key, owner, activation_id, subject, replay_key, document, state, closed, quiet, outcome = head
    try:
        attempt = decode_attempt(document, key)
    except AdmissionRefused as err:
        raise _tampered(key, "original", "its original cannot be read back") from err
    if replay_key != key or attempt.activation_request_sha256 != subject:
        raise _tampered(key, "original", "its keys are not those of its original")
    if tuple((guard, epoch) for _, guard, _, epoch in scope) != attempt.guard_epochs or {row[2] for row in scope} != {
        owner
    }:
        raise _tampered(key, "partition", "its partitions are not those of its original")
    operation = Operation(
        attempt=attempt,
        attempt_sha256=key,
        owner_key=owner,
        activation_id=activation_id,
        state=state,
        coordinates=_coordinates(key, attempt, coordinates),
        principals=tuple(_principal(key, row) for row in principals),
        gate=_gate(gates),
        proofs=_proofs(key, attempt, proofs),
        closed_gates_proof_sha256=closed,
        quiescence_proof_sha256=quiet,
        outcome_proof_sha256=outcome,
    )
    _verify_authorities(operation)
    _verify_end(operation)
    return operation


def _coordinates(key: str, attempt: Attempt, rows: Rows) -> Coordinates:
    if len(rows) != 1:
        raise _tampered(key, "coordinates", "it does not have exactly one row of coordinates")
    _, dag_id, run_id, task_id, map_index, try_number, task_instance_id, mapped, instance, workload_id, _ = rows[0]
    try:
        coordinates = Coordinates(
            dag_id=dag_id,
            run_id=run_id,
            task_id=task_id,
            map_index=map_index,
            try_number=try_number,
            task_instance_id=task_instance_id,
            mapped_input_sha256=mapped,
        )
    except AdmissionRefused as err:
        raise _tampered(key, "coordinates", "its coordinates cannot be read back") from err
    stored = (run_id, task_id, map_index, try_number, workload_id)
    original = (attempt.dag_run_id, attempt.task_id, attempt.map_index, attempt.try_number, attempt.workload_id)
    if stored != original or instance != instance_sha256(*coordinates.instance):
        raise _tampered(key, "coordinates", "its coordinates are not those of its original")
    return coordinates


def _principal(key: str, row: Row) -> Principal:
    _, connector, service_id, principal_id, name, purpose = row
    try:
        return Principal(
            connector=connector, service_id=service_id, principal_id=principal_id, name=name, purpose=purpose
        )
    except AdmissionRefused as err:
        raise _tampered(key, "principal", "a journaled principal cannot be read back") from err


def _gate(rows: Rows) -> LoginGate | None:
    if not rows:
        return None
    key, sid, name, state, evidence = rows[0]
    return LoginGate(
        operation_key=key, login_sid=bytes(sid), login_name=name, state=state, disabled_evidence_sha256=evidence
    )


def _proofs(key: str, attempt: Attempt, rows: Rows) -> tuple[AttemptProof, ...]:
    proofs = []
    for _, kind, sha256, document in rows:
        try:
            proof = decode_proof(document, sha256)
        except AdmissionRefused as err:
            raise _tampered(key, "proof", "a proof cannot be read back") from err
        bound = (proof.attempt_sha256, proof.activation_request_sha256, proof.guard_epochs_sha256)
        own = (key, attempt.activation_request_sha256, attempt.guard_epochs_sha256)
        if proof.kind != kind or bound != own:
            raise _tampered(key, "proof", "a proof belongs to something else")
        proofs.append(proof)
    return tuple(sorted(proofs, key=_proof_order))


def _proof_order(proof: AttemptProof) -> tuple[int, bool, str]:
    return (_PROOF_ORDER[proof.kind], proof.outcome_state != "COMMIT_UNKNOWN", proof.sha256)


def _verify_authorities(operation: Operation) -> None:
    """Every proof names exactly the journaled authorities, and a SQL Server principal has its gate."""
    key = operation.attempt_sha256
    logins = [principal for principal in operation.principals if principal.connector == "mssql"]
    gate = operation.gate
    if [(principal.sid, principal.name) for principal in logins] != (
        [] if gate is None else [(gate.login_sid, gate.login_name)]
    ):
        raise _tampered(key, "login_gate", "its login gate is not that of its journaled SQL Server principal")
    if gate is not None and gate.state != "CLOSED" and operation.proofs:
        raise _tampered(key, "login_gate", f"its login gate is {gate.state} although proofs of its closing are stored")
    expected = authorities_of(operation.principals)
    if not expected:
        raise _tampered(key, "principal", "it has no journaled principal whose closing a proof could name")
    if any(proof.authorities != expected for proof in operation.proofs):
        raise _tampered(key, "proof", "a proof does not name exactly the journaled principals")


def _verify_end(operation: Operation) -> None:
    """An ended operation is bound to three stored proofs, and its outcome proof says its state."""
    bound = {
        "CLOSED_GATES": operation.closed_gates_proof_sha256,
        "QUIESCENCE": operation.quiescence_proof_sha256,
        "OUTCOME": operation.outcome_proof_sha256,
    }
    if operation.state == "RUNNING":
        if any(bound.values()):
            raise _tampered(operation.attempt_sha256, "state", "it is RUNNING and bound to proofs")
        return
    stored = {(proof.kind, proof.sha256): proof for proof in operation.proofs}
    if any((kind, sha256) not in stored for kind, sha256 in bound.items()):
        raise _tampered(operation.attempt_sha256, "proof", "it ended and one of its proofs is not stored")
    if stored["OUTCOME", str(bound["OUTCOME"])].outcome_state != operation.state:
        raise _tampered(operation.attempt_sha256, "state", "its state is not the one its outcome proof says")


def _tampered(key: str, part: str, what: str) -> LedgerTampered:
    return LedgerTampered(
        f"operation_{part}", happened=f"operation {key}: {what}.", details={"operation_key": key, "part": part}
    )
