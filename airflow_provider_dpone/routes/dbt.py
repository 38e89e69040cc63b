"""Native dbt on SQL Server: one `dbt build` with the attempt's login, and a verdict that does not ask dbt.

Each model commits by itself, so a killed build leaves part of its work. When dbt reports success, the attempt's own
login writes the outcome marker into the target database. After closure and quiescence an observer reads the marker and
compares every declared relation with the record taken at admission (DESIGN 10.6):

* marker there, every target there: SUCCEEDED;
* no marker: FAILED with the partial effects by name, as long as every relation that may have changed can be rebuilt;
* no marker, and an append without a key may have happened: COMMIT_UNKNOWN, for an operator to reconcile.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import yaml

from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.errors import ConfigurationError, GuardError
from airflow_provider_dpone.contracts.principal import Connector, Purpose
from airflow_provider_dpone.drivers import Connect
from airflow_provider_dpone.drivers.mssql import MsSqlDsn, connect
from airflow_provider_dpone.gates import target_fence
from airflow_provider_dpone.gates.interface import MsSqlWriterGrant
from airflow_provider_dpone.routes import relation_inventory
from airflow_provider_dpone.routes.dbt_process import DbtInvocation, DbtProcess
from airflow_provider_dpone.routes.interface import AttemptContext, Observation, Outcome, RouteReport

CELL = "sqlserver_dbt_v1"


class DeclaredRelation(Protocol):
    """A relation write as the release declares it."""

    @property
    def schema(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def materialized(self) -> str: ...
    @property
    def rebuildable(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DbtPlan:
    """What is built and where. `target` names the server and database; its user and password are not used."""

    project: Path
    target: MsSqlDsn
    default_schema: str
    threads: int
    relations: tuple[DeclaredRelation, ...]
    work_root: Path

    @property
    def names(self) -> tuple[tuple[str, str], ...]:
        return tuple((relation.schema, relation.name) for relation in self.relations)


class DbtRoute:
    """`observe` connects as the outcome reader: SELECT and VIEW DEFINITION on the target database, no write right."""

    cell = CELL

    def __init__(self, plan: DbtPlan, observe: Connect) -> None:
        self._plan = plan
        self._observe = observe

    def principals(self) -> tuple[tuple[Connector, Purpose], ...]:
        return (("mssql", "build"),)

    def admission_record(self, ctx: Observation) -> Mapping[str, object]:
        return {"schema": "dpone.dbt-admission.v1", "relations": self._relations()}

    def work(self, ctx: AttemptContext) -> RouteReport:
        plan = self._plan
        folder = attempt_folder(plan.work_root, ctx.operation.attempt_sha256)
        credential = ctx.issue("build", MsSqlWriterGrant(database=plan.target.database))
        invocation = DbtInvocation(
            project=plan.project,
            folder=folder,
            profile=_profile_name(plan.project),
            target=plan.target,
            schema=plan.default_schema,
            threads=plan.threads,
        )
        ctx.log.info("dbt build of %s; artifacts in %s", plan.project.name, folder)
        process = DbtProcess(invocation, credential)
        with ctx.interruptible(process.interrupt):
            code = process.wait(ctx.log)
        results = _run_results(folder)
        if code != 0:
            raise DbtBuildFailed(code, results)
        report = canonical.exact_sha256({"results": results})
        self._mark(ctx, plan.target.for_login(credential.username, credential.secret), len(results), report)
        return RouteReport(rows=sum(int(r["rows"] or 0) for r in results), bytes=0, details={"nodes": len(results)})

    def outcome(self, ctx: Observation) -> Outcome:
        plan = self._plan
        recorded = ctx.evidence.evidence(ctx.operation.attempt_sha256, "admission")
        after = self._relations()
        before = recorded["relations"] if recorded else after
        changes = relation_inventory.changes(before, after, plan.names)
        marker = target_fence.observe_marker(self._observe, plan.target.database, ctx.operation.attempt_sha256)
        missing = [key for key in self._targets() if key not in after]
        left = [key for key in self._intermediates() if key in after and key not in before]
        evidence: dict[str, object] = {
            "schema": "dpone.dbt-outcome.v1",
            "marker": marker is not None,
            "marker_evidence_sha256": marker.evidence_sha256 if marker else None,
            "admission_recorded": recorded is not None,
            "changes": changes,
            "targets_missing": missing,
            "helpers_left": left,
            "relations": after,
        }
        if marker is not None:
            return Outcome(state="COMMIT_UNKNOWN" if missing else "SUCCEEDED", evidence=evidence)
        if recorded is None:
            # The record is stored before the credential exists: without it nothing was ever written.
            return Outcome(state="FAILED", evidence=evidence)
        appended = [
            f"{relation.schema}.{relation.name}".lower() for relation in plan.relations if not relation.rebuildable
        ]
        evidence["appends_without_key"] = appended
        return Outcome(state="COMMIT_UNKNOWN" if appended else "FAILED", evidence=evidence)

    def _relations(self) -> dict[str, Mapping[str, Any]]:
        return dict(relation_inventory.observe(self._observe, self._plan.target.database, self._plan.names))

    def _targets(self) -> list[str]:
        return [f"{r.schema}.{r.name}".lower() for r in self._plan.relations if r.role == "target"]

    def _intermediates(self) -> list[str]:
        return [f"{r.schema}.{r.name}".lower() for r in self._plan.relations if r.role == "intermediate"]

    def _mark(self, ctx: AttemptContext, dsn: MsSqlDsn, nodes: int, report_sha256: str) -> None:
        connection = connect(dsn)
        try:
            target_fence.mark(connection, ctx.operation.attempt_sha256, nodes, report_sha256)
            connection.commit()
        finally:
            connection.close()


class DbtBuildFailed(GuardError):
    """dbt ended with another exit code than 0. The code classifies nothing; the outcome comes from observation."""

    code = "DPONE_DBT_BUILD_FAILED"
    state_may_have_changed = True
    not_done = "the outcome marker was not written; models that were built before stay built."
    check = "dbt's lines above and the artifacts of this attempt."

    def __init__(self, exit_code: int, results: list[dict[str, Any]]) -> None:
        bad = [r["unique_id"] for r in results if r["status"] not in ("success", "pass", "skipped", "warn", "no-op")]
        super().__init__(
            "dbt_exit", happened=f"dbt ended with exit code {exit_code}; not successful: {bad or 'see its log'}."
        )


def attempt_folder(root: Path, attempt_sha256: str) -> Path:
    """A new folder of its own for each attempt, readable by nobody else."""
    folder = root / attempt_sha256.removeprefix("sha256:")
    try:
        folder.mkdir(mode=0o700, parents=True)
    except FileExistsError as err:
        raise ConfigurationError(
            "attempt_folder", happened=f"{folder} exists already, although every attempt has a folder of its own."
        ) from err
    except OSError as err:
        raise ConfigurationError(
            "attempt_folder",
            happened=f"the attempt's folder could not be made: {err}.",
            not_done="no credential was issued and dbt was not started.",
            check="that the worker may write there and that the disk is not full.",
        ) from err
    return folder


def _run_results(folder: Path) -> list[dict[str, Any]]:
    path = folder / "target" / "run_results.json"
    if not path.is_file():
        return []
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        # dbt was killed while it wrote: its exit code is what there is to report.
        return []
    return [
        {
            "unique_id": result["unique_id"],
            "status": str(result["status"]),
            "rows": (result.get("adapter_response") or {}).get("rows_affected"),
        }
        for result in document["results"]
    ]


def _profile_name(project: Path) -> str:
    return str(yaml.safe_load((project / "dbt_project.yml").read_text(encoding="utf-8"))["profile"])
