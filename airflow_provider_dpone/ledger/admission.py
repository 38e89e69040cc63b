"""Whether an attempt may start: one decision over what one exclusive transaction saw.

Pure: the rows come in, None or a refusal comes out. The order of the questions is the order in which an operator can
act on the answers: the parent, then this try, then the epochs, then everybody else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_dpone.contracts.activation import ActivationRequest, decode_request
from airflow_provider_dpone.contracts.attempt import Attempt
from airflow_provider_dpone.contracts.errors import (
    AdmissionRefused,
    ConfigurationError,
    Duplicate,
    LedgerTampered,
    Overlap,
    ParentNotActive,
    StaleEpoch,
)
from airflow_provider_dpone.contracts.principal import Coordinates, Principal
from airflow_provider_dpone.contracts.proof import authorities_of
from airflow_provider_dpone.contracts.rules import coordinate_text, record
from airflow_provider_dpone.ledger.arguments import sequence

Rows = Sequence[tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionState:
    """The five result sets of the statement ``admission_state``."""

    owner: Rows
    domains: Rows
    blockers: Rows
    tries: Rows
    dags: Rows


def require_well_formed(attempt: Attempt, coordinates: Coordinates, principals: Sequence[Principal]) -> None:
    """What can be refused without looking into the ledger."""
    record(attempt, Attempt, "attempt")
    record(coordinates, Coordinates, "coordinates")
    sequence(principals, Principal, "principals")
    attempt.require_admissible()
    for text in (coordinates.dag_id, coordinates.run_id, coordinates.task_id):
        coordinate_text(text)
    named = (coordinates.run_id, coordinates.task_id, coordinates.map_index, coordinates.try_number)
    if named != (attempt.dag_run_id, attempt.task_id, attempt.map_index, attempt.try_number):
        raise AdmissionRefused("coordinates", happened="the coordinates are not those of the attempt.")
    purposes = [principal.purpose for principal in principals]
    keys = [principal.key for principal in principals]
    if len(set(purposes)) != len(purposes) or len(set(keys)) != len(keys):
        raise ConfigurationError("principals", happened="two principals of the attempt share a purpose or an identity.")
    if sum(principal.connector == "mssql" for principal in principals) > 1:
        raise ConfigurationError("principals", happened="an attempt can have one SQL Server principal only.")
    if not authorities_of(principals):
        raise ConfigurationError(
            "principals",
            happened="the attempt has no principal whose closure a proof can name.",
            not_done="nothing was admitted.",
        )


def decide(attempt: Attempt, coordinates: Coordinates, state: AdmissionState) -> str:
    """The owner key under which the attempt is admitted. Raises the refusal otherwise."""
    owner = _require_parent(attempt, state.owner)
    _require_first_of_its_try(attempt, coordinates, state.tries)
    _require_one_dag(coordinates, state.dags)
    _require_current_epochs(attempt, owner, state.domains)
    _require_no_overlap(state.blockers)
    return owner


def _require_parent(attempt: Attempt, rows: Rows) -> str:
    if not rows:
        raise ParentNotActive(
            "parent_absent", happened="the ledger has no activation with the request that the attempt names."
        )
    owner, activation_id, sha256, document, state = rows[0]
    if state != "ACTIVE":
        raise ParentNotActive("parent_state", happened=f"the activation {activation_id} is {state}.")
    try:
        request = decode_request(document, sha256)
    except AdmissionRefused as err:
        raise LedgerTampered("owner_original", happened=f"the original of owner {owner} cannot be read back.") from err
    _require_workload(attempt, request)
    return str(owner)


def _require_workload(attempt: Attempt, request: ActivationRequest) -> None:
    workload = request.workload(attempt.workload_id)
    if (workload.constituent_id, workload.pack_sha256) != (attempt.constituent_id, attempt.pack_sha256):
        raise AdmissionRefused(
            "workload_pack",
            happened=f"the activation holds another pack or constituent for the workload {attempt.workload_id!r}.",
            not_done="nothing was admitted.",
            check="whether the worker runs the release that was activated.",
        )
    if attempt.guard_ids != request.guards_of(attempt.workload_id):
        raise AdmissionRefused(
            "workload_guards",
            happened=f"the attempt does not name exactly the guards that the workload {attempt.workload_id!r} writes.",
            not_done="nothing was admitted.",
        )


def _require_first_of_its_try(attempt: Attempt, coordinates: Coordinates, tries: Rows) -> None:
    """Design 10.3: no try starts where one of an equal or higher number already is."""
    for key, try_number, state, subject in reversed(tries):
        if try_number < coordinates.try_number:
            continue
        where = f"{coordinates.dag_id} / {coordinates.run_id} / {coordinates.task_id} [{coordinates.map_index}]"
        if try_number > coordinates.try_number:
            raise Duplicate(
                "late_try",
                happened=f"try {coordinates.try_number} of {where} comes late: try {try_number} is {state}, as {key}.",
                details={"operation_key": key, "state": state},
            )
        if subject != attempt.activation_request_sha256:
            raise Duplicate(
                "run_id_reused",
                happened=f"try {try_number} of {where} ran under another activation, as {key} ({state}). A DAG run "
                "that was deleted and made again under the same run id is not a new run.",
                details={"operation_key": key, "state": state},
            )
        raise Duplicate(
            "same_try",
            happened=f"try {try_number} of {where} is already {state}, as {key}.",
            details={"operation_key": key, "state": state},
        )


def _require_one_dag(coordinates: Coordinates, dags: Rows) -> None:
    others = [dag for (dag,) in dags if dag != coordinates.dag_id]
    if others:
        raise AdmissionRefused(
            "workload_dag",
            happened=f"the workload already runs in the DAG {others[0]!r}; a workload belongs to one DAG.",
            not_done="nothing was admitted.",
            check="which DAG should run the workload, and remove it from the other.",
        )


def _require_current_epochs(attempt: Attempt, owner: str, domains: Rows) -> None:
    current = {guard: (epoch, holder) for guard, epoch, holder in domains}
    for guard, epoch in attempt.guard_epochs:
        found = current.get(guard)
        if found is None:
            raise StaleEpoch("domain_absent", happened=f"the domain {guard} is not enrolled in the ledger.")
        if found != (epoch, owner):
            raise StaleEpoch(
                "epoch", happened=f"domain {guard} is at epoch {found[0]}, the attempt was planned at epoch {epoch}."
            )


def _require_no_overlap(blockers: Rows) -> None:
    if blockers:
        raise Overlap(
            "overlap",
            blockers=[f"{family} {key} ({state})" for key, family, state in blockers],
        )
