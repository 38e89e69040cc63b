"""`python -m dpone_reconcile REPORT.json < addresses.json`: exit code 0 only if everything reconciles.

The addresses come on standard input, because they hold passwords: `sqlserver` (host, port, user, password, control,
warehouse), `postgres` and `clickhouse` (host, port, user, password, database), `expected_tries`, the work tries
that Airflow says it ran, as [dag_id, run_id, task_id, map_index, try_number], and `planted`, the rows that stood in a target
and in no source before they ran (`checks.vanished`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dpone_reconcile import checks, state
from dpone_reconcile.check import Check, unless
from dpone_reconcile.door import door
from dpone_reconcile.engines import ClickHouse, Postgres, SqlServer
from dpone_reconcile.ledger import AttemptRow, read_attempts, roles_left, writers_left

_COLUMNS = (
    *("workload", "task", "try", "map", "attempt", "epochs", "principals", "gate", "quiescent", "outcome"),
    *("rows", "bytes"),
)
_NUMBERS = frozenset({"try", "map", "rows", "bytes"})


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    addresses = json.load(sys.stdin)
    console = Console(width=max(Console().width, 140))
    with _engines(addresses) as engines:
        attempts = read_attempts(engines.control)
        console.print(_table(_of_the_runs(attempts, addresses["expected_tries"])))
        found = []
        for check in _checks(engines, attempts, addresses):
            mark = "[green]ok  [/green]" if check.passed else "[red]FAIL[/red]"
            console.print(f"{mark} {escape(check.name)}: {escape(check.detail)}", highlight=False)
            found.append(check)
    report = {
        "reconciled": all(check.passed for check in found),
        "checks": [{"name": check.name, "passed": check.passed, "detail": check.detail} for check in found],
        "attempts": [_document(attempt) for attempt in attempts],
    }
    Path(arguments[0]).write_text(json.dumps(report, indent=1, ensure_ascii=False), encoding="utf-8")
    return 0 if report["reconciled"] else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Engines:
    """A session of each database that is looked at."""

    control: SqlServer
    warehouse: SqlServer
    postgres: Postgres
    clickhouse: ClickHouse


@contextmanager
def _engines(addresses: dict[str, Any]) -> Iterator[Engines]:
    server = {name: addresses["sqlserver"][name] for name in ("host", "port", "user", "password")}
    target = {name: addresses["clickhouse"][name] for name in ("host", "port", "user", "password")}
    with (
        closing(SqlServer(**server, database=addresses["sqlserver"]["control"])) as control,
        closing(SqlServer(**server, database=addresses["sqlserver"]["warehouse"])) as warehouse,
        closing(Postgres(**addresses["postgres"])) as postgres,
        closing(ClickHouse(**target)) as clickhouse,
    ):
        yield Engines(control=control, warehouse=warehouse, postgres=postgres, clickhouse=clickhouse)


def _checks(engines: Engines, attempts: list[AttemptRow], addresses: dict[str, Any]) -> Iterator[Check]:
    """Every check, each when its turn comes: together they take half a minute."""
    control, warehouse, clickhouse = engines.control, engines.warehouse, engines.clickhouse
    ours = _of_the_runs(attempts, addresses["expected_tries"])
    yield from checks.reference_tables(engines.postgres, warehouse)
    yield from checks.marts(warehouse)
    yield from checks.published(warehouse, clickhouse, addresses["clickhouse"]["database"])
    yield checks.vanished(addresses["planted"], warehouse, clickhouse)
    yield state.source_bytes(control, warehouse, ours)
    yield state.markers(warehouse, ours)
    yield state.published_tables(control, clickhouse, ours)
    yield state.guards(control, ours)
    yield door(control)
    yield _ledger(attempts)
    yield _tries(attempts, addresses["expected_tries"])
    yield _writers(writers_left(control))
    yield _readers(roles_left(engines.postgres))


def _of_the_runs(attempts: list[AttemptRow], tries: list[list[Any]]) -> list[AttemptRow]:
    runs = {(dag_id, run_id) for dag_id, run_id, *_ in tries}
    return [attempt for attempt in attempts if (attempt.dag_id, attempt.run_id) in runs]


def _ledger(attempts: list[AttemptRow]) -> Check:
    problems = [f"{a.workload_id} try {a.try_number}: {p}" for a in attempts for p in a.problems]
    return unless(
        problems, name="ledger: every attempt resolved, its proofs complete", good=f"{len(attempts)} attempts"
    )


def _tries(attempts: list[AttemptRow], expected: list[list[Any]]) -> Check:
    """A try that Airflow ran and that the ledger never admitted, or the other way round, is a hole in the fence."""
    admitted = {(a.dag_id, a.run_id, a.task_id, a.map_index, a.try_number) for a in attempts}
    runs = {(dag_id, run_id) for dag_id, run_id, *_ in expected}
    wanted = {tuple(item) for item in expected}
    missing = sorted(wanted - admitted)
    foreign = sorted(key for key in admitted - wanted if key[:2] in runs)
    detail = (
        f"{len(wanted)} tries"
        if not missing and not foreign
        else f"not admitted: {missing}; unknown to Airflow: {foreign}"
    )
    return Check("Airflow's work tries = attempts of these runs", not missing and not foreign and bool(wanted), detail)


def _writers(left: list[str]) -> Check:
    return unless(left, name="no attempt login is enabled, none has a session", good="none")


def _readers(left: list[str]) -> Check:
    return unless(left, name="no attempt role of PostgreSQL can log in, none has a session", good="none")


def _table(attempts: list[AttemptRow]) -> Table:
    runs = ", ".join(sorted({attempt.run_id for attempt in attempts}))
    table = Table(title=f"Guarded attempts of the run {runs}")
    for column in _COLUMNS:
        table.add_column(column, justify="right" if column in _NUMBERS else "left", overflow="fold")
    for a in attempts:
        table.add_row(
            a.workload_id,
            a.task_id,
            str(a.try_number),
            str(a.map_index),
            a.operation_key[7:19],
            ", ".join(map(str, a.epochs)),
            "\n".join(a.principals),
            a.gate,
            "proven" if a.quiescent else "no",
            a.state,
            "" if a.rows is None else f"{a.rows:,}",
            "" if a.bytes is None else f"{a.bytes:,}",
        )
    return table


def _document(attempt: AttemptRow) -> dict[str, Any]:
    return {
        "workload_id": attempt.workload_id,
        "coordinates": [attempt.dag_id, attempt.run_id, attempt.task_id, attempt.map_index, attempt.try_number],
        "attempt_sha256": attempt.operation_key,
        "activation_id": attempt.activation_id,
        "owner_state": attempt.owner_state,
        "epochs": attempt.epochs,
        "principals": attempt.principals,
        "gate": attempt.gate,
        "quiescent": attempt.quiescent,
        "outcome": attempt.state,
        "rows": attempt.rows,
        "bytes": attempt.bytes,
        "problems": attempt.problems,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
