"""Makes `tests.support` importable however pytest was started, and lets the slowest files run first."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

#: Half of the time of all tests, by file, the longest first. Two workers take whole files: with a long one at the end,
#: one of them would wait for the other. A file that is not named here runs after these, in the order of its name.
SLOWEST = (
    "tests/embedded/test_killed_worker.py",
    "tests/integration/faults/test_faults.py",
    "tests/integration/routes/test_postgres_to_mssql.py",
    "tests/airflow/test_task_processes.py",
    "tests/airflow/test_secret_canaries.py",
    "tests/integration/ledger/test_tampering_matrix.py",
    "tests/integration/test_ledger_life.py",
    "tests/integration/composition/test_saga.py",
    "tests/integration/clickhouse/test_lost_exchange.py",
    "tests/integration/routes/test_dbt.py",
    "tests/integration/gates_mssql/test_lost_commit.py",
    "tests/integration/routes/test_lost_target_commit.py",
    "dev/tsqldev/tests/dbt/test_dbt.py",
    "tests/integration/routes/test_dbt_verdict.py",
    "tests/integration/clickhouse/test_route.py",
    "tests/integration/clickhouse/test_end_to_end.py",
    "tests/integration/gates_mssql/test_life.py",
    "tests/integration/ledger/test_registration.py",
    "tests/integration/ledger/test_lost_acknowledgement.py",
    "tests/integration/ledger/test_attempts.py",
    "tests/integration/ledger/test_gate_receipts.py",
    "tests/integration/clickhouse/test_server.py",
    "tests/embedded/test_stack.py",
    "tests/integration/gates_mssql/test_barrier.py",
    "tests/integration/cli/test_dponectl.py",
    "tests/integration/gates_mssql/test_separation.py",
    "tests/integration/clickhouse/test_publication.py",
    "dev/tsqldev/tests/endpoint/test_killed.py",
    "tests/integration/ledger/test_tampering.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if missing := [name for name in SLOWEST if not (ROOT / name).is_file()]:
        raise pytest.UsageError(f"SLOWEST in tests/conftest.py names files that are not there: {missing}")
    order = {ROOT / name: number for number, name in enumerate(SLOWEST)}
    items.sort(key=lambda item: order.get(item.path, len(order)))
