"""What a run left that was killed while its DAGs ran: DAG runs that would go on, and attempts that nobody settled.

Both stand in the way of the next run: an unsettled attempt keeps its activation from being retired, and an old DAG run
would start its next try under the new activation. The demo is its own operator, so it may say that those tries are
over: it ends their DAG runs in Airflow first. Whatever a worker still does then, its writers are closed before anything
is concluded.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from airflow_provider_dpone.attempts import Settlement
from airflow_provider_dpone.campaign.airflow_api import AirflowApi
from airflow_provider_dpone.composition.services import GuardServices, resume_attempt
from airflow_provider_dpone.contracts.errors import NotQuiescent, OutcomeUnknown
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.ledger import AttemptStore

#: How long a closed writer may take to vanish.
QUIESCENCE_SECONDS = 60.0

_WHY = "the run of the demo that started it was killed; the next run failed its DAG run in Airflow first"


def end_dag_runs(api: AirflowApi, dag_ids: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Fail every DAG run of these DAGs that has not ended. Returns them as (DAG id, run id)."""
    left = tuple(found for found in api.unfinished_runs() if found[0] in dag_ids)
    for dag_id, run_id in left:
        api.fail_run(dag_id, run_id)
    return left


def settle_attempts(services: GuardServices, release_root: Path, dag_ids: Sequence[str]) -> tuple[Operation, ...]:
    """Settle every unresolved attempt of these DAGs; raises OutcomeUnknown when evidence does not decide one."""
    ledger = AttemptStore(services.control, services.ledger)
    settled = []
    for operation in ledger.unresolved():
        if operation.coordinates.dag_id not in dag_ids:
            continue
        document = {"schema": "dpone.settled-by-operator.v1", "why": _WHY}
        ledger.put_evidence(operation.attempt_sha256, "settled_by_operator", document)
        final = _settled(resume_attempt(services, release_root, operation))
        if final.state == "COMMIT_UNKNOWN":
            raise _unknown(final)
        settled.append(final)
    return tuple(settled)


def _settled(settlement: Settlement) -> Operation:
    """Settle; a session that is being ended may be seen for a moment."""
    deadline = time.monotonic() + QUIESCENCE_SECONDS
    while True:
        try:
            return settlement.settle()
        except NotQuiescent:
            if time.monotonic() > deadline:
                raise
            time.sleep(1)


def _unknown(operation: Operation) -> OutcomeUnknown:
    return OutcomeUnknown(
        "left_by_a_killed_run",
        happened=f"attempt {operation.attempt_sha256} ({operation.attempt.workload_id}) of a run that was killed is"
        " COMMIT_UNKNOWN: evidence does not tell whether its work took effect.",
        not_done="nothing new was put in force or started.",
        check=f"the target, then `dponectl attempts reconcile {operation.attempt_sha256}`; or give the demo's data up:"
        " `make demo ARGS=--fresh` starts from an empty state folder.",
        details={"attempt_sha256": operation.attempt_sha256},
    )
