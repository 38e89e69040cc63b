"""The door of a deployment that tests make for themselves.

A ledger opens for a green gate profile of its own server. The gate profile's own tests need an open ledger too, so the
fixtures state a receipt instead of running the profile: of a working tree, which never unlocks more than nonproduction.
"""

from __future__ import annotations

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


def open_door(installer: Connect, settings: LedgerSettings) -> GateStanding:
    """Record a stated receipt for the server as it is, by the real way in."""
    store = GateReceiptStore(installer, settings)
    return store.record(receipt(store.standing().server))
