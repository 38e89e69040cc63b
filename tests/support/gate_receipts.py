"""The door of a deployment that tests make for themselves.

A ledger opens for a green gate profile of its own server. The gate profile's own tests need an open ledger too, so the
fixtures state a receipt instead of running the profile: of a working tree, which never unlocks more than nonproduction.
"""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

from airflow_provider_dpone import __version__
from airflow_provider_dpone.contracts.gate_profile import PROFILE_CASES, Case, Engine, GateReceipt, Source
from airflow_provider_dpone.drivers import Connect
from airflow_provider_dpone.ledger import GateReceiptStore, GateStanding, LedgerSettings

COMMIT = "4" * 40


def passed() -> tuple[Case, ...]:
    return tuple(sorted(Case(name=name, outcome="passed") for name in PROFILE_CASES["gate"]))


def receipt(
    engine: Engine, *, clean: bool = False, product_version: str = __version__, commit: str | None = COMMIT
) -> GateReceipt:
    """A green one."""
    return GateReceipt(
        result="PASS",
        engine=engine,
        product_version=product_version,
        source=Source(commit=commit, clean=clean),
        cases=passed(),
    )


@cache
def profile_runner() -> ModuleType:
    """dev/profiles/component_profile.py, which is a script and no package."""
    path = Path(__file__).resolve().parents[2] / "dev" / "profiles" / "component_profile.py"
    spec = importlib.util.spec_from_file_location("component_profile", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["component_profile"] = module
    spec.loader.exec_module(module)
    return module


def write_folder(folder: Path, of: GateReceipt) -> Path:
    """What the profile's runner would have written for this receipt."""
    runner = profile_runner()
    folder.mkdir()
    nodes = {name: f"tests/x.py::test_{number}" for number, name in enumerate(PROFILE_CASES["gate"])}
    cases = [runner.RanCase(node=nodes[case.name], outcome=case.outcome, seconds="0.1") for case in of.cases]
    runner.write(folder, "gate", "stated", nodes, runner.Ran(cases=cases, engine=of.engine), of.source, [])
    return folder


def open_door(installer: Connect, settings: LedgerSettings) -> GateStanding:
    """Record a stated receipt for the server as it is, by the real way in."""
    store = GateReceiptStore(installer, settings)
    return store.record(receipt(store.standing().server))
