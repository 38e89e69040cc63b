"""The guarded attempt: the one place that orders admit, issue, work, close, quiesce, outcome and finalize.

``run`` does everything in one call. A task group calls ``admit_and_work`` in the executing try and ``resume`` in the
tasks after it; those find the operation in the ledger, so they also work when the executing try is gone.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airflow_provider_dpone.attempts.context import (
    AttemptLog,
    Cancellation,
    Gates,
    Log,
    ObservationContext,
    WorkContext,
)
from airflow_provider_dpone.attempts.ports import AttemptLedger
from airflow_provider_dpone.attempts.settlement import Settlement, require_succeeded
from airflow_provider_dpone.contracts.attempt import Attempt
from airflow_provider_dpone.contracts.errors import ConfigurationError, Duplicate
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.principal import Coordinates
from airflow_provider_dpone.gates.interface import WriterGate
from airflow_provider_dpone.routes.interface import Route, RouteReport

REPORT_SCHEMA = "dpone.worker-report.v1"

#: How long a try waits for its own or its predecessor's closed writers to be gone, in seconds.
QUIESCENCE_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptResult:
    """The operation, and what the worker reported: None when the work raised although its effect is proven."""

    operation: Operation
    report: RouteReport | None


class GuardedAttempt:
    """One try of one workload."""

    def __init__(
        self,
        attempt: Attempt,
        coordinates: Coordinates,
        *,
        route: Route,
        gates: Gates,
        ledger: AttemptLedger,
        log: Log | None = None,
        quiescence_seconds: float = QUIESCENCE_SECONDS,
    ) -> None:
        _require_same_try(attempt, coordinates)
        purposes = [purpose for _, purpose in route.principals()]
        if len(set(purposes)) != len(purposes):
            raise ConfigurationError("route_purposes", happened="a route names the same purpose twice.")
        self.attempt = attempt.require_admissible()
        self.coordinates = coordinates
        self._route = route
        self._gates = gates
        self._ledger = ledger
        self._quiescence_seconds = quiescence_seconds
        self._cancellation = Cancellation()
        self._earlier: list[Operation] | None = None
        self.log: Log = AttemptLog(log or logging.getLogger(__name__), attempt.sha256)

    def run(self) -> AttemptResult:
        """Everything, in one process. Returns only when the operation is proven SUCCEEDED.

        Raises AttemptFailed or OutcomeUnknown with the work's exception as cause, NotQuiescent when a closed writer
        did not vanish in time, or whatever refused the admission.
        """
        self.settle_predecessors()
        operation = self.admit()
        report: RouteReport | None = None
        error: Exception | None = None
        try:
            report = self._work(operation)
        except Exception as err:  # noqa: BLE001  # an exception in the work never decides the outcome: evidence does
            error = err
        except BaseException:
            # Killed or timed out: there may be seconds left. Bar the writer now; a later try or a sweep does the rest.
            self._close_before_leaving(operation)
            raise
        said = () if report is None else (_report_evidence(report),)
        final = require_succeeded(self._settlement(operation, said).settle(), cause=error)
        if error is not None:
            self.log.warning("the work raised %s, but its effect is proven: SUCCEEDED", type(error).__name__)
        return AttemptResult(operation=final, report=report)

    def admit_and_work(self) -> AttemptResult:
        """Settle predecessors, admit once and work. The operation stays RUNNING for the closing steps."""
        self.settle_predecessors()
        operation = self.admit()
        return AttemptResult(operation=operation, report=self.work(operation))

    def settle_predecessors(self) -> tuple[Operation, ...]:
        """Settle what earlier tries of exactly this task instance left behind; a twin is never touched.

        Raises Duplicate for a try that is not later than all others, and OutcomeUnknown when a predecessor stays
        unresolved: then the task must fail without a retry.
        """
        settled: list[Operation] = []
        self._earlier = []
        for earlier in self._ledger.find(*self.coordinates.instance):
            if earlier.coordinates.try_number >= self.coordinates.try_number:
                raise _duplicate(earlier, self.coordinates)
            if not self._is_predecessor(earlier):
                continue
            if earlier.settled:
                self._earlier.append(earlier)
                continue
            self.log.info(
                "try %d left operation %s as %s; settling it first",
                earlier.coordinates.try_number,
                earlier.attempt_sha256,
                earlier.state,
            )
            final = self.resume(earlier).settle()
            if final.state == "COMMIT_UNKNOWN":
                require_succeeded(final)
            settled.append(final)
            self._earlier.append(final)
        return tuple(settled)

    def admit(self) -> Operation:
        """Admit once. Random identities for every principal are journaled in the same transaction."""
        principals = [
            _gate_for(self._gates, connector).new_principal(purpose) for connector, purpose in self._route.principals()
        ]
        operation = self._ledger.admit_once(self.attempt, self.coordinates, principals)
        if {principal.key for principal in operation.principals} != {principal.key for principal in principals}:
            # The row is a twin's: it reads back with the same digest, and with identities that are not ours.
            raise _duplicate(operation, self.coordinates)
        self.log.info(
            "admitted %s try %d of %s in run %s (guards: %d)",
            self.attempt.workload_id,
            self.coordinates.try_number,
            self.coordinates.task_id,
            self.coordinates.run_id,
            len(self.attempt.guard_epochs),
        )
        return operation

    def work(self, operation: Operation) -> RouteReport:
        """Record what must be known before writing, work with issued credentials alone, and store the report."""
        report = self._work(operation)
        self._ledger.put_evidence(operation.attempt_sha256, *_report_evidence(report))
        return report

    def _work(self, operation: Operation) -> RouteReport:
        earlier = self._predecessors()
        observed = ObservationContext(operation=operation, evidence=self._ledger, log=self.log, predecessors=earlier)
        self._ledger.put_evidence(operation.attempt_sha256, "admission", self._route.admission_record(observed))
        context = WorkContext(
            operation=operation,
            predecessors=earlier,
            ledger=self._ledger,
            gates=self._gates,
            log=self.log,
            cancellation=self._cancellation,
            quiescence_seconds=self._quiescence_seconds,
        )
        self.log.info("working: %s", self._route.cell)
        report = self._route.work(context)
        self.log.info("the worker reports %d rows and %d bytes; evidence decides", report.rows, report.bytes)
        return report

    def resume(self, operation: Operation) -> Settlement:
        """The closing steps of an operation of this workload: this try's own, or a predecessor's."""
        return self._settlement(operation)

    def _settlement(self, operation: Operation, said: Sequence[tuple[str, Mapping[str, object]]] = ()) -> Settlement:
        return Settlement(
            operation,
            route=self._route,
            gates=self._gates,
            ledger=self._ledger,
            log=self.log,
            quiescence_seconds=self._quiescence_seconds,
            evidence=said,
        )

    def cancel(self) -> None:
        """Stop what is going on now (a killed task). Decides nothing: the closing steps still have to run."""
        self._cancellation.cancel(self.log)

    def _predecessors(self) -> tuple[Operation, ...]:
        """Earlier tries' operations, by try number. After the admission of a later try they never change again."""
        if self._earlier is None:
            found = self._ledger.find(*self.coordinates.instance)
            self._earlier = [other for other in found if self._is_predecessor(other)]
        return tuple(self._earlier)

    def _is_predecessor(self, other: Operation) -> bool:
        """Strictly earlier, and of the same activation and workload: nothing else may be closed automatically."""
        return (
            other.attempt.activation_request_sha256 == self.attempt.activation_request_sha256
            and other.attempt.workload_id == self.attempt.workload_id
            and other.coordinates.instance == self.coordinates.instance
            and other.coordinates.try_number < self.coordinates.try_number
        )

    def _close_before_leaving(self, operation: Operation) -> None:
        try:
            self.resume(operation).close()
        except Exception:  # the original reason to leave is raised next and must not be replaced
            self.log.exception("the writer could not be closed before leaving; a retry or a sweep has to close it")


def _report_evidence(report: RouteReport) -> tuple[str, dict[str, object]]:
    """The worker's own word. People see it; no outcome is ever read from it."""
    return "report", {
        "schema": REPORT_SCHEMA,
        "rows": report.rows,
        "bytes": report.bytes,
        "details": dict(report.details),
    }


def _gate_for(gates: Gates, connector: str) -> WriterGate:
    gate = gates.get(connector)
    if gate is None:
        raise ConfigurationError(
            "gate_service",
            happened=f"the route needs a {connector} principal and no gate for it is configured.",
            not_done="nothing was admitted.",
            check="the connections of this deployment.",
        )
    return gate


def _require_same_try(attempt: Attempt, coordinates: Coordinates) -> None:
    theirs = (coordinates.run_id, coordinates.task_id, coordinates.map_index, coordinates.try_number)
    if (attempt.dag_run_id, attempt.task_id, attempt.map_index, attempt.try_number) != theirs:
        raise ConfigurationError("coordinates", happened="the attempt and its coordinates name different task tries.")


def _duplicate(operation: Operation, mine: Coordinates) -> Duplicate:
    other = operation.coordinates
    return Duplicate(
        "try_not_later",
        happened=(
            f"try {mine.try_number} of {mine.dag_id}.{mine.task_id} (run {mine.run_id}, map {mine.map_index}) was"
            f" started, and operation {operation.attempt_sha256} of try {other.try_number} is already in the ledger as"
            f" {operation.state}. A task that was started twice, a clear that kept the try number, or a deleted and"
            " repeated run with the same run id does this."
        ),
        details={"attempt_sha256": operation.attempt_sha256, "state": operation.state},
    )
