"""`dponectl ledger record-profile` and `status`: what opens the door, from the folder of a run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_dpone.contracts.gate_profile import GateReceipt
from airflow_provider_dpone.drivers.mssql import connect
from airflow_provider_dpone.ledger import GateReceiptStore, GateStanding
from tests.integration.cli.conftest import Dponectl
from tests.support.gate_receipts import receipt, write_folder
from tests.support.live_gate import LiveGate


def standing(live: LiveGate) -> GateStanding:
    return GateReceiptStore(lambda: connect(live.dba), live.settings).standing()


@pytest.fixture
def green(live: LiveGate) -> GateReceipt:
    return receipt(standing(live).server, clean=True)


def test_a_green_folder_is_recorded_once_and_shown(
    dponectl: Dponectl, live: LiveGate, green: GateReceipt, tmp_path: Path
) -> None:
    folder = write_folder(tmp_path / "gate", green)
    code, out, err = dponectl("ledger", "record-profile", str(folder))
    assert code == 0, err
    assert f"{green.sha256}  gate profile 16 of 16 on {green.engine}" in out
    recorded = standing(live)
    assert recorded.unlocked_by == green
    assert dponectl("ledger", "record-profile", str(folder))[:2] == (0, out)
    assert standing(live) == recorded

    code, shown, _ = dponectl("ledger", "status")
    assert code == 0
    assert shown.splitlines()[0] == (
        f"{live.settings.service_id}  nonproduction authority on {recorded.server}  activation open"
    )
    assert out.strip() in shown
    assert len(shown.splitlines()) == 1 + len(recorded.receipts)


@pytest.mark.parametrize("wrong", ["build", "provider", "edited", "not a folder of a run"])
def test_a_folder_of_anything_else_is_refused_and_nothing_is_recorded(
    dponectl: Dponectl, live: LiveGate, green: GateReceipt, tmp_path: Path, wrong: str
) -> None:
    before = standing(live)
    folder = write_folder(tmp_path / "gate", green)
    summary = json.loads((folder / "summary.json").read_text())
    if wrong == "build":
        other = replace(green, engine=replace(green.engine, product_version="15.0.1"))
        folder = write_folder(tmp_path / "other", other)
    elif wrong == "not a folder of a run":
        folder = tmp_path
    elif wrong == "edited":
        (folder / "summary.json").write_text(json.dumps(summary | {"product_version": "9.9"}))
    else:
        summary["product_version"] = "0.0.1"
        summary["receipt_sha256"] = replace(green, product_version="0.0.1").sha256
        (folder / "summary.json").write_text(json.dumps(summary))
    err = dponectl.refused("ledger", "record-profile", str(folder))
    reason = "gate_profile_refused" if wrong in ("build", "provider") else "gate_profile_folder"
    assert f"DPONE_CONFIGURATION: {reason}" in err
    assert standing(live) == before


def test_production_is_the_class_that_is_installed_when_none_is_named(dponectl: Dponectl, live: LiveGate) -> None:
    assert "CONVERT(nvarchar(400), @@VERSION), 'production'" in dponectl("ledger", "render")[1]
    script = dponectl("ledger", "render", "--authority", "nonproduction")[1]
    assert "CONVERT(nvarchar(400), @@VERSION), 'nonproduction'" in script
    assert dponectl("ledger", "render", "--authority", "staging")[0] == 2
