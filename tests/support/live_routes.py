"""A target deployment with a PostgreSQL source, and the transfer route over it, also from a process that is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from psycopg import sql

from airflow_provider_dpone.composition.relations import WrittenRelation, dbt_relations
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.principal import Principal
from airflow_provider_dpone.drivers import drain, quote_mssql
from airflow_provider_dpone.routes.dbt import DbtPlan, DbtRoute
from airflow_provider_dpone.routes.interface import Route
from airflow_provider_dpone.routes.postgres_to_mssql import PostgresToMsSqlPlan, PostgresToMsSqlRoute
from tests.support.live_gate import SCHEMA, LiveGate, autocommit
from tests.support.live_postgres import LivePostgres

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, kw_only=True)
class LiveTransfer:
    """A target, and the source that its attempts read."""

    gate: LiveGate
    postgres: LivePostgres

    def plan(
        self, source_table: str, target_table: str | None = None, *, schema: str = "public"
    ) -> PostgresToMsSqlPlan:
        return PostgresToMsSqlPlan(
            source=self.postgres.issuer,
            source_schema=schema,
            source_table=source_table,
            target=replace(self.gate.controller, database=self.gate.target),
            target_schema=SCHEMA,
            target_table=target_table or source_table,
        )

    def route(self, plan: PostgresToMsSqlPlan) -> PostgresToMsSqlRoute:
        return PostgresToMsSqlRoute(plan, self.gate.observe)

    def as_owner(self, statement: str | sql.Composed, rows: Sequence[Sequence[Any]] = ()) -> None:
        self.postgres.as_owner(statement, rows)

    def in_target(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with autocommit(replace(self.gate.dba, database=self.gate.target)) as connection:
            results = drain(connection, statement, *parameters)
            return results[-1] if results else []

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return sorted(self.in_target(f"SELECT * FROM {quote_mssql(SCHEMA, table)};"))

    def tables(self) -> set[str]:
        return {
            name
            for (name,) in self.in_target("SELECT [name] FROM sys.tables WHERE SCHEMA_NAME([schema_id]) = ?;", SCHEMA)
        }

    def take_fence(self, key: str = "sha256:" + "0" * 64) -> None:
        """What a later operation's issuer would do, at a moment that no issuer can be made to hit."""
        self.in_target("UPDATE [dpone_fence].[fence] SET [operation_key] = ?, [login_name] = N'somebody';", key)

    def gone(self, operation: Operation) -> bool:
        """Each of its logins is disabled and each of its roles closed, and none has a session."""
        return all(self._gone(principal) for principal in operation.principals)

    def _gone(self, principal: Principal) -> bool:
        if principal.connector == "postgres":
            return self.postgres.closed(principal.name)
        return self.gate.logins(principal.name) == [(principal.sid, True)] and not self.gate.sessions(principal.sid)


def start_worker(
    live: LiveGate, run_id: str, stop_at: str, route: dict[str, Any], *, secret: str = ""
) -> subprocess.Popen[str]:
    """A process that runs a try up to a named step and waits there. It prints the step's name when it is reached.

    `secret` is used for the attempt's login instead of a random one, so that a test can look for it.
    """
    given = {
        **live.to_document(),
        "run_id": run_id,
        "stop_at": stop_at,
        "secret": secret,
        "route": route,
    }
    worker = subprocess.Popen(
        [sys.executable, "-m", "tests.support.route_worker"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdin is not None
    worker.stdin.write(json.dumps(given) + "\n")
    worker.stdin.flush()
    return worker


def reached(worker: subprocess.Popen[str]) -> str:
    assert worker.stdout is not None
    return worker.stdout.readline().strip()


def transfer_document(transfer: LiveTransfer, plan: PostgresToMsSqlPlan) -> dict[str, Any]:
    return {
        "kind": "transfer",
        "postgres": transfer.postgres.to_document(),
        "names": [plan.source_schema, plan.source_table, plan.target_schema, plan.target_table],
    }


def dbt_relations_of(models: Mapping[str, Mapping[str, Any]], database: str) -> tuple[WrittenRelation, ...]:
    """What a release would declare for models of the managed schema, by name and config."""
    nodes = {
        f"model.shop.{name}": {
            "resource_type": "model",
            "database": database,
            "schema": SCHEMA,
            "alias": name,
            "config": {"materialized": "table", **config},
        }
        for name, config in models.items()
    }
    return dbt_relations({"nodes": nodes}, database=database)


def dbt_plan(
    live: LiveGate,
    project: Path,
    work_root: Path,
    models: Mapping[str, Mapping[str, Any]],
    run_as: str | None = None,
) -> DbtPlan:
    return DbtPlan(
        project=project,
        target=replace(live.controller, database=live.target),
        default_schema=SCHEMA,
        threads=1,
        relations=dbt_relations_of(models, live.target),
        work_root=work_root,
        run_as=run_as,
    )


def dbt_document(
    project: Path, work_root: Path, models: Mapping[str, Mapping[str, Any]], run_as: str | None = None
) -> dict[str, Any]:
    return {"kind": "dbt", "project": str(project), "work_root": str(work_root), "models": models, "run_as": run_as}


def route_from(live: LiveGate, document: dict[str, Any]) -> Route:
    if document["kind"] == "dbt":
        project, work_root = Path(document["project"]), Path(document["work_root"])
        plan = dbt_plan(live, project, work_root, document["models"], document["run_as"])
        return DbtRoute(plan, live.observe)
    postgres = LivePostgres.from_document(document["postgres"])
    live.others["postgres"] = postgres.gate()
    names = document["names"]
    plan = PostgresToMsSqlPlan(
        source=postgres.issuer,
        source_schema=names[0],
        source_table=names[1],
        target=replace(live.controller, database=live.target),
        target_schema=names[2],
        target_table=names[3],
    )
    return PostgresToMsSqlRoute(plan, live.observe)
