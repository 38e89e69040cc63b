"""What opened the main job's activation: the gate profile that the run itself ran."""

from __future__ import annotations

import pytest

from airflow_provider_dpone.composition.profile_folder import read_profile_folder
from tests.e2e.conftest import MainJob

pytestmark = pytest.mark.timeout(1500)


def test_the_gate_profile_ran_first_and_unlocked_nonproduction_only(run: MainJob) -> None:
    (folder,) = (run.state / "evidence").glob("*/gate-profile")
    receipt = read_profile_folder(folder)
    assert receipt.green
    assert f"profile gate: 16 of 16 on {receipt.engine}, unlocks nonproduction" in run.finished.stdout
    (door,) = (check for check in run.report()["checks"] if "gate profile" in check["name"])
    assert door["passed"] and door["detail"].startswith("nonproduction authority, 16 of 16")
