"""`python -m dpone_reconcile REPORT.json < addresses.json`: exit code 0 only if everything reconciles.

The addresses come on standard input, because they hold passwords: `sqlserver` (host, port, user, password, control,
warehouse), `postgres` and `clickhouse` (host, port, user, password, database), `expected_tries`, the work tries
that Airflow says it ran, as [dag_id, run_id, task_id, map_index, try_number], and `planted`, the rows that stood in a target
and in no source before they ran (`checks.vanished`).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
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
    attempts, found = reconcile(addresses)
    _print(_of_the_runs(attempts, addresses["expected_tries"]), found)
    report = {
        "reconciled": all(check.passed for check in found),
        "checks": [{"name": check.name, "passed": check.passed, "detail": check.detail} for check in found],
        "attempts": [_document(attempt) for attempt in attempts],
    }
    Path(arguments[0]).write_text(json.dumps(report, indent=1, ensure_ascii=False), encoding="utf-8")
    return 0 if report["reconciled"] else 1


def reconcile(addresses: dict[str, Any]) -> tuple[list[AttemptRow], list[Check]]:
    """Every attempt of the ledger, and every check."""
    server = {name: addresses["sqlserver"][name] for name in ("host", "port", "user", "password")}
    control = SqlServer(**server, database=addresses["sqlserver"]["control"])
    warehouse = SqlServer(**server, database=addresses["sqlserver"]["warehouse"])
    postgres = Postgres(**addresses["postgres"])
    target = dict(addresses["clickhouse"])
    database = target.pop("database")
    clickhouse = ClickHouse(**target)
    try:
        attempts = read_attempts(control)
        ours = _of_the_runs(attempts, addresses["expected_tries"])
        found = [
            *checks.reference_tables(postgres, warehouse),
            *checks.marts(warehouse),
            *checks.published(warehouse, clickhouse, database),
            checks.vanished(addresses["planted"], warehouse, clickhouse),
            state.source_bytes(control, warehouse, ours),
            state.markers(warehouse, ours),
            state.published_tables(control, clickhouse, ours),
            state.guards(control, ours),
            door(control),
            _ledger(attempts),
            _tries(attempts, addresses["expected_tries"]),
            _writers(writers_left(control)),
            _readers(roles_left(postgres)),
        ]
    finally:
        for engine in (control, warehouse, postgres, clickhouse):
            engine.close()
    return attempts, found


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


def _print(attempts: list[AttemptRow], found: list[Check]) -> None:
    console = Console(width=max(Console().width, 140))
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
    console.print(table)
    for check in found:
        mark = "[green]ok  [/green]" if check.passed else "[red]FAIL[/red]"
        console.print(f"{mark} {check.name}: {check.detail}", highlight=False)


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
