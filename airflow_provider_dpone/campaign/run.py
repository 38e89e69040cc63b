"""The steps of a campaign, in their order. Each writes its evidence before the next one begins.

    put in force -> wait for the DAGs -> trigger -> follow every task -> gather attempts -> reconcile -> retire

What happens is said line by line while it happens. The reconciler is somebody else's program: it is given the tries that
Airflow says it ran, and its verdict is the campaign's.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow_provider_dpone.campaign.airflow_api import AirflowApi
from airflow_provider_dpone.campaign.evidence import EvidenceFolder, attempt_document, source_commit, versions
from airflow_provider_dpone.campaign.loaded_dags import wait_for_dags
from airflow_provider_dpone.composition.activation import CompositionActivation
from airflow_provider_dpone.composition.execution_plan import plan_composition_execution
from airflow_provider_dpone.composition.sources import build_composition_source_reader
from airflow_provider_dpone.contracts.errors import ConfigurationError, ControlUnavailable, Overlap
from airflow_provider_dpone.ledger import Activation, AttemptStore

#: A work try as the reconciler is told of it: dag_id, run_id, task_id, map_index, try_number.
Try = tuple[str, str, str, int, int]

_GUARDED = ("GuardedDbtRun", "PostgresToMsSql", "MsSqlToClickHouse")
_TERMINAL = frozenset({"success", "failed"})
#: How much of an error a line shows; the evidence has all of it.
_SHOWN = 1000
_NAMES = ("operator", "dag_id", "dag_run_id", "task_id", "map_index", "try_number", "state", "id")


class Campaign:
    """One run of a parent DAG whose constituents' runs carry the parent's run id (`dags.parent_dag`)."""

    def __init__(
        self,
        *,
        activation: CompositionActivation,
        attempts: AttemptStore,
        airflow: AirflowApi,
        evidence: EvidenceFolder,
        say: Callable[[str], None] = print,
    ) -> None:
        self._activation = activation
        self._attempts = attempts
        self._airflow = airflow
        self._evidence = evidence
        self._say = say
        self._steps: dict[str, Any] = {}
        self._about: dict[str, Any] = {}

    @property
    def succeeded(self) -> bool:
        """Whether the parent's run ended as success."""
        return bool(self._steps.get("run", {}).get("result") == "success")

    def begin(self, source: Path, server: str) -> None:
        """Note what is run: the commit that `source` lies in, the versions, and the server as it calls itself."""
        self._about = {"source": source_commit(source), "versions": versions(), "server": server, "began": _now()}
        self._write()

    def put_in_force(self, release: Path, *, patience: float = 600.0) -> Activation:
        """Hand over from whatever is in force to this release."""
        sources = build_composition_source_reader().read_sources(release)
        plan = plan_composition_execution(sources)
        self._evidence.write(
            "parent.json",
            {
                "name": sources.name,
                "release_id": sources.release_id,
                "source_subject_sha256": sources.subject_sha256,
                "native_release_id": sources.native.release_id,
                "native_snapshot_sha256": sources.native.snapshot_sha256,
                "ordinary_inventory_sha256": sources.ordinary.inventory_sha256,
                "workloads": [workload.members() for workload in plan.workloads],
            },
        )
        active = self._activation.hand_over(release, patience=patience)
        self._evidence.write(
            "activation.json",
            {
                "activation_id": active.activation_id,
                "state": active.state,
                "request_sha256": active.request_sha256,
                "request": active.request.members(),
                "guard_epochs": [list(pair) for pair in active.guard_epochs],
            },
        )
        self._done("put_in_force", active.state)
        return active

    def run_dags(
        self,
        parent: str,
        constituents: Sequence[str],
        run_id: str,
        *,
        timeout: float = 900.0,
        release_id: str | None = None,
        by_hand: frozenset[str] = frozenset(),
        each: Callable[[], None] = lambda: None,
    ) -> list[Try]:
        """Wait for the DAGs, trigger the parent, and follow every task to its end. `each` is called once a second.

        :param release_id: the release that the DAGs have to be of; one of an earlier release is never triggered.
        :param by_hand: those that may be of no release, because somebody wrote them.
        """
        dag_ids = (*constituents, parent)
        wait_for_dags(self._airflow, dict.fromkeys(dag_ids, release_id), by_hand=by_hand, say=self._say)
        for dag_id in dag_ids:
            self._airflow.unpause(dag_id)
        self._done("dags_loaded", {"release_id": release_id, "dags": list(dag_ids)})
        self._airflow.trigger(parent, run_id, {})
        began, seen = time.monotonic(), dict[tuple[str, str, int], tuple[int, str]]()
        deadline = began + timeout
        state, instances, unanswered = "not seen", list[dict[str, Any]](), ""
        while True:
            try:
                state, instances = self._airflow.run_state(parent, run_id), self._instances(constituents, run_id)
                unanswered = ""
            except ControlUnavailable as err:
                # The run goes on without us; only its deadline ends the looking.
                if err.happened != unanswered:
                    self._say(f"    {time.monotonic() - began:5.1f} s  {err.happened} It is asked again every second.")
                state, unanswered = "not seen", err.happened
            self._say_changes(instances, seen, time.monotonic() - began)
            if state in _TERMINAL:
                break
            if time.monotonic() > deadline:
                raise TimeoutError(f"{parent} {run_id} was still {state} after {timeout:.0f} s")
            each()
            time.sleep(1)
        errors = self._say_errors((*constituents, parent), run_id) if state != "success" else []
        self._evidence.write(
            "airflow.json",
            {
                "errors": errors,
                "parent": {"dag_id": parent, "run_id": run_id, "state": state},
                "runs": {dag_id: self._airflow.run_state(dag_id, run_id) for dag_id in self._ran(constituents, run_id)},
                "task_instances": instances,
            },
        )
        self._done("run", state)
        return self._gather(instances)

    def reconciled(self, verdict: bool) -> None:
        """Note what the reconciler said."""
        self._done("reconciled", verdict)

    def retire(self, activation: Activation) -> Activation | None:
        """Take the activation out of force. One with an unresolved attempt stays RETIRING, and the evidence says so."""
        try:
            retired = self._activation.retire(activation.activation_id)
        except Overlap as err:
            self._done("retired", err.as_document())
            raise
        self._done("retired", None if retired is None else retired.state)
        return retired

    def _gather(self, instances: Sequence[Mapping[str, Any]]) -> list[Try]:
        guarded = [each for each in instances if each["operator"] in _GUARDED and each["try_number"] > 0]
        operations = [
            operation
            for each in guarded
            for operation in self._attempts.find(each["dag_id"], each["dag_run_id"], each["task_id"], each["map_index"])
        ]
        documents = [
            attempt_document(operation, self._attempts.evidence_history(operation.attempt_sha256))
            for operation in operations
        ]
        self._evidence.write("attempts.json", documents)
        tries = [
            (each["dag_id"], each["dag_run_id"], each["task_id"], each["map_index"], number)
            for each in guarded
            for number in range(1, each["try_number"] + 1)
        ]
        self._evidence.write("tries.json", tries)
        self._done("attempts", {operation.attempt_sha256: operation.state for operation in operations})
        return tries

    def _instances(self, dag_ids: Sequence[str], run_id: str) -> list[dict[str, Any]]:
        try:
            return [
                {name: instance[name] for name in _NAMES}
                for dag_id in self._ran(dag_ids, run_id)
                for instance in self._airflow.task_instances(dag_id, run_id)
            ]
        except (LookupError, TypeError) as err:
            raise ConfigurationError(
                "airflow_answer", happened=f"a task instance of {run_id} without what every one has: {err!r}."
            ) from err

    def _ran(self, dag_ids: Sequence[str], run_id: str) -> list[str]:
        return [dag_id for dag_id in dag_ids if self._airflow.has_run(dag_id, run_id)]

    def _say_changes(
        self,
        instances: Sequence[Mapping[str, Any]],
        seen: dict[tuple[str, str, int], tuple[int, str]],
        seconds: float,
    ) -> None:
        """One line a task and state; what a task goes through between two looks is not seen."""
        for each in instances:
            key = (each["dag_id"], each["task_id"], each["map_index"])
            now = (each["try_number"], str(each["state"]))
            if each["state"] is None or seen.get(key) == now:
                continue
            seen[key] = now
            retried = "" if each["try_number"] < 2 else f", try {each['try_number']}"
            self._say(f"    {seconds:5.1f} s  {_name(each)}: {each['state']}{retried}")

    def _say_errors(self, dag_ids: Sequence[str], run_id: str) -> list[dict[str, Any]]:
        """Why tasks failed, by their own logs. What only waited for another DAG has nothing to add."""
        failed = [
            each
            for each in self._instances(dag_ids, run_id)
            if each["state"] == "failed" and each["operator"] != "TriggerDagRunOperator"
        ]
        errors = [{**each, "error": self._airflow.last_error(each)} for each in failed]
        for each in errors:
            error = each["error"] or "its log names no error: its process may have been killed"
            self._say(f"    failed: {_name(each)}, try {each['try_number']}: {error[:_SHOWN]}")
        return errors

    def _done(self, step: str, result: object) -> None:
        self._steps[step] = {"result": result, "at": _now()}
        self._write()

    def _write(self) -> None:
        self._evidence.write("campaign.json", {**self._about, "steps": self._steps})


def _name(instance: Mapping[str, Any]) -> str:
    mapped = "" if instance["map_index"] < 0 else f" [{instance['map_index']}]"
    return f"{instance['dag_id']}.{instance['task_id']}{mapped}"


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
