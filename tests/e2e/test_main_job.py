"""The main job as the README's first command runs it, with the dbt task killed in the middle."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from airflow_provider_dpone.composition.profile_folder import read_profile_folder

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def run() -> Iterator[tuple[subprocess.CompletedProcess[str], Path]]:
    """One run from nothing, with everything that it leaves in one folder."""
    with tempfile.TemporaryDirectory(prefix="dpone-e2e-") as folder:
        state = Path(folder)
        # PostgreSQL runs as another user when we are root, and has to pass.
        state.chmod(0o711)
        command = [sys.executable, "-m", "dpone_demo", "run", "--chaos", "--state-dir", str(state)]
        yield subprocess.run(command, capture_output=True, text=True, check=False), state


def _report(state: Path) -> dict[str, object]:
    (path,) = (state / "evidence").glob("*/reconciliation.json")
    report: dict[str, object] = json.loads(path.read_text())
    return report


def test_everything_reconciles(run: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    finished, state = run

    assert finished.returncode == 0, f"{finished.stdout[-6000:]}\n{finished.stderr[-2000:]}"
    assert _report(state)["reconciled"] is True


def test_the_gate_profile_ran_first_and_unlocked_nonproduction_only(
    run: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    finished, state = run

    (folder,) = (state / "evidence").glob("*/gate-profile")
    receipt = read_profile_folder(folder)
    assert receipt.green
    assert f"profile gate: 16 of 16 on {receipt.engine}, unlocks nonproduction" in finished.stdout
    checks = _report(state)["checks"]
    assert isinstance(checks, list)
    (door,) = (check for check in checks if "gate profile" in check["name"])
    assert door["passed"] and door["detail"].startswith("nonproduction authority, 16 of 16")


def test_the_killed_try_is_settled_by_its_retry(run: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    _, state = run

    attempts = _report(state)["attempts"]
    assert isinstance(attempts, list)
    warehouse = [attempt for attempt in attempts if attempt["workload_id"] == "warehouse"]
    assert [(attempt["coordinates"][4], attempt["outcome"]) for attempt in warehouse] == [
        (1, "FAILED"),
        (2, "SUCCEEDED"),
    ]
    assert all(attempt["gate"] == "CLOSED" and attempt["quiescent"] for attempt in warehouse)


def test_no_process_of_the_stack_is_left(run: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    _, state = run

    left = [
        p.info["cmdline"] for p in psutil.process_iter(["cmdline"]) if str(state) in " ".join(p.info["cmdline"] or [])
    ]
    assert left == []


def test_no_secret_stands_in_a_log_or_artifact(run: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    _, state = run

    secrets = [value for value in json.loads((state / "secrets.json").read_text()).values() if len(value) > 12]
    files = [path for folder in ("logs", "evidence") for path in (state / folder).rglob("*") if path.is_file()]
    files += [path for path in (state / "airflow" / "dpone").rglob("*") if path.is_file()]
    assert files
    found = [str(path) for path in files if any(secret.encode() in path.read_bytes() for secret in secrets)]
    assert found == []
