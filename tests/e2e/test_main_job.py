"""The main job as the README's commands run it, with the dbt task killed in the middle."""

from __future__ import annotations

import json

import pytest

from tests.e2e.conftest import MainJob

pytestmark = pytest.mark.timeout(1500)


def test_everything_reconciles(run: MainJob) -> None:
    finished = run.finished
    assert finished.returncode == 0, f"{finished.stdout[-6000:]}\n{finished.stderr[-2000:]}"
    assert run.report()["reconciled"] is True


def test_the_killed_try_is_settled_by_its_retry(run: MainJob) -> None:
    attempts = run.report()["attempts"]
    warehouse = [attempt for attempt in attempts if attempt["workload_id"] == "warehouse"]
    assert [(attempt["coordinates"][4], attempt["outcome"]) for attempt in warehouse] == [
        (1, "FAILED"),
        (2, "SUCCEEDED"),
    ]
    assert all(attempt["gate"] == "CLOSED" and attempt["quiescent"] for attempt in warehouse)


def test_no_secret_stands_in_a_log_or_artifact(run: MainJob) -> None:
    state = run.state
    secrets = [value for value in json.loads((state / "secrets.json").read_text()).values() if len(value) > 12]
    files = [path for folder in ("logs", "evidence") for path in (state / folder).rglob("*") if path.is_file()]
    files += [path for path in (state / "airflow" / "dpone").rglob("*") if path.is_file()]
    assert files
    found = [str(path) for path in files if any(secret.encode() in path.read_bytes() for secret in secrets)]
    assert found == []
