"""The operators whose every try is one guarded attempt.

Admission and issue belong to the executing try and cannot be tasks of their own: the password lives in this process
only. An operator keeps names (a workload, a folder, connection ids), never a secret.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_dpone.contracts.errors import ConfigurationError, Duplicate, GuardError, Overlap
from airflow_provider_dpone.hooks.roles import GuardRoles
from airflow_provider_dpone.links.attempt import AttemptLink

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_dpone.attempts import GuardedAttempt
    from airflow_provider_dpone.composition.projection import ActiveWorkload
    from airflow_provider_dpone.contracts.principal import Coordinates

_log = logging.getLogger(__name__)
Mode = Literal["composite", "work"]


class GuardedOperator(BaseOperator):
    """One workload of the activated composition.

    :param workload_id: the workload, as the composition names it.
    :param mode: ``composite`` runs every step (admit, issue, work, close, prove quiescence, outcome, finalize) in this
        task; ``work`` stops after the work, for a task group whose other tasks do the rest.
    :param overlap: what to do while another unresolved attempt holds the same data: ``fail``, or ``defer`` and try
        to be admitted again, without a worker slot, until `overlap_timeout`.
    :param release_root: the folder of activated releases; default is the setting ``[dpone] release_root``.
    :param roles: which connections serve which roles.
    """

    cell: ClassVar[str] = ""
    template_fields: Sequence[str] = ("workload_id", "release_root")
    operator_extra_links = (AttemptLink(),)
    ui_color = "#e8f0e4"

    def __init__(
        self,
        *,
        workload_id: str,
        mode: Mode = "composite",
        overlap: Literal["fail", "defer"] = "fail",
        overlap_poll: timedelta = timedelta(seconds=15),
        overlap_timeout: timedelta = timedelta(hours=1),
        release_root: str | None = None,
        roles: GuardRoles | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if mode not in ("composite", "work"):
            raise ValueError(f"mode is 'composite' or 'work', not {mode!r}")
        if overlap not in ("fail", "defer"):
            raise ValueError(f"overlap is 'fail' or 'defer', not {overlap!r}")
        self.workload_id = workload_id
        self.mode = mode
        self.overlap = overlap
        self.overlap_poll = overlap_poll
        self.overlap_timeout = overlap_timeout
        self.release_root = release_root
        self.root_is_named = release_root is not None
        self.roles = roles

    def execute(self, context: Context) -> dict[str, Any]:
        return self._attempt(context, datetime.now(UTC))

    def execute_after_overlap(self, context: Context, event: dict[str, Any], waiting_since: str) -> dict[str, Any]:
        """Nothing was admitted before the wait, so this is still the first admission of this try."""
        return self._attempt(context, datetime.fromisoformat(waiting_since))

    def on_kill(self) -> None:
        """End what the work waits for. The guards stay held until the attempt is closed and proven."""
        attempt = getattr(self, "_running", None)
        if attempt is not None:
            self.log.warning("killed: the work is interrupted; a retry, a close task or a sweep closes the attempt")
            attempt.cancel()

    def _attempt(self, context: Context, waiting_since: datetime) -> dict[str, Any]:
        try:
            return self._run(context)
        except Overlap as err:
            if self.overlap == "fail" or datetime.now(UTC) - waiting_since > self.overlap_timeout:
                raise
            self.log.info("step admit: waiting, %s", err)
        except GuardError as err:
            if err.recovery_required or isinstance(err, Duplicate):
                # A retry would write on top of an unknown result, or race with a twin that may still be working.
                raise AirflowFailException(str(err)) from err
            raise
        self._wait(waiting_since)
        raise AssertionError("a deferral raises")

    def _wait(self, waiting_since: datetime) -> None:
        from airflow_provider_dpone.triggers.waiting import PauseTrigger

        self.defer(
            trigger=PauseTrigger(self.overlap_poll.total_seconds()),
            method_name="execute_after_overlap",
            kwargs={"waiting_since": waiting_since.isoformat()},
        )

    def _run(self, context: Context) -> dict[str, Any]:
        from airflow_provider_dpone.composition.services import guarded_attempt

        active = self._workload()
        coordinates = coordinates_of(context, mapped_input=self._mapped_input())
        services = (self.roles or GuardRoles()).services()
        self.log.info(
            "workload %s of activation %s as try %s", self.workload_id, active.activation_id, coordinates.try_number
        )
        attempt = guarded_attempt(services, active, coordinates, log=_log)
        self._running: GuardedAttempt | None = attempt
        try:
            result = attempt.run() if self.mode == "composite" else attempt.admit_and_work()
        finally:
            self._running = None
        return {
            "attempt_sha256": result.operation.attempt_sha256,
            "workload_id": self.workload_id,
            "state": result.operation.state,
            "rows": None if result.report is None else result.report.rows,
            "bytes": None if result.report is None else result.report.bytes,
        }

    def _workload(self) -> ActiveWorkload:
        from airflow_provider_dpone.composition.projection import load_workload
        from airflow_provider_dpone.hooks.roles import root_of

        active = load_workload(root_of(self), self.workload_id)
        manifest = active.released.manifest
        if manifest.cell != self.cell:
            raise ConfigurationError(
                "execution_cell",
                happened=f"the workload {self.workload_id!r} is a {manifest.cell}; this operator runs {self.cell}.",
                check="the operator of this task, or the workload it names.",
            )
        if manifest.dag_id != self.dag_id:
            raise ConfigurationError(
                "workload_dag",
                happened=f"{self.workload_id!r} is bound to the DAG {manifest.dag_id!r}, not {self.dag_id!r}.",
                check="dag_id in the workload's manifest.",
            )
        return active

    def _mapped_input(self) -> dict[str, str | None]:
        return {"workload_id": self.workload_id, "release_root": self.release_root}


class GuardedDbtRun(GuardedOperator):
    """Native dbt on SQL Server: one ``dbt build`` in a child process with the attempt's login."""

    cell = "sqlserver_dbt_v1"


class MsSqlToClickHouse(GuardedOperator):
    """Full refresh of a ClickHouse table from a SQL Server table: staged, checked, published by one EXCHANGE."""

    cell = "mssql_clickhouse_full_refresh_v1"


class PostgresToMsSql(GuardedOperator):
    """Full refresh of a SQL Server table from a PostgreSQL table, atomic in the target."""

    cell = "postgres_mssql_full_refresh_v1"


def coordinates_of(context: Context, *, mapped_input: dict[str, str | None] | None = None) -> Coordinates:
    """The real coordinates of the running try.

    The task instance's own uuid is new for every try. A map index is positional and changes its meaning when a mapped
    list changes, so the digest of what the index stood for goes with it.
    """
    from airflow_provider_dpone.contracts.canonical import exact_sha256
    from airflow_provider_dpone.contracts.principal import Coordinates

    ti = context["ti"]
    map_index = -1 if ti.map_index is None else int(ti.map_index)
    digest = None
    if map_index >= 0 and mapped_input is not None:
        digest = exact_sha256({"schema": "dpone.mapped-input.v1", "input": mapped_input})
    return Coordinates(
        dag_id=ti.dag_id,
        run_id=ti.run_id,
        task_id=ti.task_id,
        map_index=map_index,
        try_number=ti.try_number,
        task_instance_id=str(ti.id),
        mapped_input_sha256=digest,
    )
