"""An attempt that does everything but work: what admission, credentials, closure, proof and end cost by themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_dpone.attempts import GuardedAttempt
from airflow_provider_dpone.contracts.principal import Connector, Purpose
from airflow_provider_dpone.drivers import Connect
from airflow_provider_dpone.drivers.mssql import MsSqlDsn, connect
from airflow_provider_dpone.gates import target_fence
from airflow_provider_dpone.gates.interface import ClickHouseIngestGrant, Grant, MsSqlWriterGrant, WriterGate
from airflow_provider_dpone.ledger import AttemptStore
from airflow_provider_dpone.routes.interface import AttemptContext, Observation, Outcome, RouteReport
from tests.support import ledger_records as make
from tests.support.live_gate import LiveGate

#: One writer of a target database; and the same with a writer of ClickHouse beside it.
MSSQL: Sequence[tuple[Connector, Purpose]] = (("mssql", "build"),)
MIXED: Sequence[tuple[Connector, Purpose]] = (*MSSQL, ("clickhouse", "ingest"))


@dataclass(kw_only=True)
class NoOpRoute:
    """Is issued its credentials, logs in to the target once and writes nothing."""

    target: MsSqlDsn
    observer: Connect
    wanted: Sequence[tuple[Connector, Purpose]] = MSSQL
    clickhouse_database: str = ""
    cell: str = field(default="sqlserver_dbt_v1", init=False)

    def principals(self) -> Sequence[tuple[Connector, Purpose]]:
        return self.wanted

    def admission_record(self, ctx: Observation) -> Mapping[str, object]:
        return {"schema": "test.admission.v1"}

    def work(self, ctx: AttemptContext) -> RouteReport:
        for connector, purpose in self.wanted:
            grant: Grant = MsSqlWriterGrant(database=self.target.database)
            if connector == "clickhouse":
                grant = ClickHouseIngestGrant(database=self.clickhouse_database, staging_table="nothing_staged")
            credential = ctx.issue(purpose, grant)
            if connector == "mssql":
                with closing(connect(self.target.for_login(credential.username, credential.secret))):
                    pass
        return RouteReport(rows=0, bytes=0)

    def outcome(self, ctx: Observation) -> Outcome:
        marker = target_fence.observe_marker(self.observer, self.target.database, ctx.operation.attempt_sha256)
        evidence = {"schema": "test.outcome.v1", "marker_rows": None if marker is None else marker.row_count}
        return Outcome(state="SUCCEEDED" if marker is None else "FAILED", evidence=evidence)


def through(live: LiveGate, port: int) -> LiveGate:
    """The standing accounts of a deployment over a proxy that reads what they send. Workers stay on the direct way."""
    accounts = {
        role: replace(getattr(live, role), host="127.0.0.1", port=port, encrypt="no")
        for role in ("controller", "issuer", "closer", "observer")
    }
    return replace(live, **accounts)


def no_op_attempt(
    live: LiveGate,
    *,
    target: MsSqlDsn,
    clickhouse: WriterGate | None = None,
    clickhouse_database: str = "",
    traced: Callable[[Any, str], Any] = lambda inner, name: inner,
) -> GuardedAttempt:
    """The first try of a new run. ``target`` is how workers reach the target; ``traced`` may wrap what is called."""
    where = make.coordinates(live.run_id())
    route = NoOpRoute(target=target, observer=live.observe)
    gates: dict[str, WriterGate] = {"mssql": traced(live.gate, "mssql")}
    if clickhouse is not None:
        gates["clickhouse"] = traced(clickhouse, "clickhouse")
        route.wanted, route.clickhouse_database = MIXED, clickhouse_database
    return GuardedAttempt(
        make.attempt(live.activation.request, "w000", live.activation.epochs_of("w000"), where),
        where,
        route=traced(route, "route"),
        gates=gates,
        ledger=traced(AttemptStore(live.control, live.settings), "ledger"),
        quiescence_seconds=30.0,
    )
