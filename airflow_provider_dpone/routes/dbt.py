"""Native dbt on SQL Server: one `dbt build` with the attempt's login, and a verdict that does not ask dbt.

Each model commits by itself, so a killed build leaves part of its work. What SUCCEEDED rests on is in `dbt_verdict`;
here are the observations that it judges: of every declared relation at admission, when dbt has ended, and after closure
and quiescence (DESIGN 10.6). Each is one statement for all relations and, with the content check `digest`, one that
hashes every row of each table on the server.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from airflow_provider_dpone.contracts.principal import Connector, Purpose
from airflow_provider_dpone.drivers import Connect
from airflow_provider_dpone.drivers.mssql import MsSqlDsn, connect
from airflow_provider_dpone.drivers.trigger_points import reach
from airflow_provider_dpone.gates import target_fence
from airflow_provider_dpone.gates.interface import MsSqlWriterGrant
from airflow_provider_dpone.routes import dbt_test_views, dbt_workspace, os_user, relation_inventory
from airflow_provider_dpone.routes.dbt_process import CHILD, DbtInvocation, DbtProcess, inherited_environment
from airflow_provider_dpone.routes.dbt_results import DbtBuildFailed, read_results, require_success
from airflow_provider_dpone.routes.dbt_verdict import DeclaredRelation, judge
from airflow_provider_dpone.routes.interface import AttemptContext, Observation, Outcome, RouteReport
from airflow_provider_dpone.routes.relation_inventory import ContentCheck

__all__ = ["DbtBuildFailed", "DbtPlan", "DbtRoute"]

CELL = "sqlserver_dbt_v1"

#: The kind of the evidence that is recorded when dbt has ended, and whose digest the marker carries.
_MARKED = "marked"


@dataclass(frozen=True, slots=True, kw_only=True)
class DbtPlan:
    """What is built and where. `target` names the server and database; its user and password are not used.

    `run_as` is the setting's text for another OS user of the child (see `os_user`), or None.
    """

    project: Path
    target: MsSqlDsn
    default_schema: str
    threads: int
    relations: tuple[DeclaredRelation, ...]
    work_root: Path
    content_check: ContentCheck = "digest"
    run_as: str | None = None

    @property
    def names(self) -> tuple[tuple[str, str], ...]:
        return tuple((relation.schema, relation.name) for relation in self.relations)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that must be built, by dbt's unique id."""
        return tuple(sorted({relation.resource_id for relation in self.relations}))


class DbtRoute:
    """`observe` connects as the outcome reader: SELECT and VIEW DEFINITION on the target database, no write right."""

    cell = CELL

    def __init__(self, plan: DbtPlan, observe: Connect) -> None:
        self._plan = plan
        self._observe = observe

    def principals(self) -> tuple[tuple[Connector, Purpose], ...]:
        return (("mssql", "build"),)

    def require_ready(self) -> None:
        """Refuse a child's user that this process cannot become or that cannot run dbt. Called before admission."""
        if self._plan.run_as is not None:
            user = os_user.resolve(self._plan.run_as)
            os_user.require_usable(user, self._plan.work_root, [CHILD], inherited_environment())

    def admission_record(self, ctx: Observation) -> Mapping[str, object]:
        return {"schema": "dpone.dbt-admission.v2", "relations": self._relations(ctx)}

    def work(self, ctx: AttemptContext) -> RouteReport:
        plan = self._plan
        user = None if plan.run_as is None else os_user.resolve(plan.run_as)
        workspace = dbt_workspace.make(plan.work_root, ctx.operation.attempt_sha256, plan.project)
        credential = ctx.issue("build", MsSqlWriterGrant(database=plan.target.database))
        invocation = DbtInvocation(
            workspace=workspace,
            nonce=secrets.token_hex(16),
            profile=_profile_name(plan.project),
            target=plan.target,
            schema=plan.default_schema,
            threads=plan.threads,
            user=user,
        )
        runs_as = f"as {user.named} ({user.uid}:{user.gid})" if user else "as this task's own user ([dpone] dbt_user)"
        ctx.log.info("dbt build of %s %s; artifacts in %s", plan.project.name, runs_as, workspace.artifacts)
        reach("dbt_build", "before")
        process = DbtProcess(invocation, credential)
        try:
            with ctx.interruptible(process.interrupt):
                reach("dbt_build", "applied")
                code = process.wait(ctx.log)
        finally:
            # A timeout can be raised anywhere: a started dbt is never left to itself.
            process.kill()
        reach("dbt_build", "acknowledged")
        ctx.log.info("dbt ended with exit code %d, which decides nothing", code)
        for refused in workspace.collect():
            ctx.log.warning("not collected from dbt's folder: %s", refused)
        results = read_results(workspace.artifacts, invocation.nonce)
        require_success(results, plan.nodes)
        record = {
            "schema": "dpone.dbt-marked.v1",
            "invocation": invocation.nonce,
            "results": [result.document() for result in results],
            "relations": self._relations(ctx),
        }
        digest = ctx.evidence.put_evidence(ctx.operation.attempt_sha256, _MARKED, record)
        self._mark(ctx, plan.target.for_login(credential.username, credential.secret), len(results), digest)
        rows = sum(result.rows or 0 for result in results)
        return RouteReport(rows=rows, bytes=0, details={"nodes": len(results), "exit_code": code})

    def outcome(self, ctx: Observation) -> Outcome:
        plan, key = self._plan, ctx.operation.attempt_sha256
        outcome = judge(
            plan.relations,
            admission=ctx.evidence.evidence(key, "admission"),
            marked=ctx.evidence.evidence(key, _MARKED),
            marker=target_fence.observe_marker(self._observe, plan.target.database, key),
            after=self._relations(ctx),
        )
        if outcome.state != "SUCCEEDED":
            ctx.log.warning("not as it would be after success: %s", outcome.evidence["differs"])
            ctx.log.warning("partial effects: %s", outcome.evidence["changes"])
        return outcome

    def _relations(self, ctx: Observation) -> Mapping[str, Mapping[str, Any]]:
        """The declared relations as they are now. dbt is not running: a view of a test has been left."""
        plan, others = self._plan, list[tuple[str, str]]()
        found = relation_inventory.observe(
            self._observe, plan.target.database, plan.names, content=plan.content_check, others=others
        )
        if left := dbt_test_views.left_behind(plan.target.database, others):
            ctx.log.warning("%s", left)
        return found

    def _mark(self, ctx: AttemptContext, dsn: MsSqlDsn, nodes: int, evidence_sha256: str) -> None:
        connection = connect(dsn)
        try:
            target_fence.mark(connection, ctx.operation.attempt_sha256, nodes, evidence_sha256)
            connection.commit()
        finally:
            connection.close()


def _profile_name(project: Path) -> str:
    return str(yaml.safe_load((project / "dbt_project.yml").read_text(encoding="utf-8"))["profile"])
