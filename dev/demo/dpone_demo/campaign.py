"""The composition from a provisioned stack to its reconciliation."""

from __future__ import annotations

import datetime
import json
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from airflow_provider_dpone.campaign import AirflowApi, EvidenceFolder
from airflow_provider_dpone.campaign import Campaign as CampaignRun
from airflow_provider_dpone.campaign.run import Try
from airflow_provider_dpone.composition import release
from airflow_provider_dpone.composition.factory import build_composition_activation
from airflow_provider_dpone.composition.profile_folder import read_profile_folder
from airflow_provider_dpone.composition.services import GuardServices
from airflow_provider_dpone.contracts.gate_profile import PROFILE_CASES
from airflow_provider_dpone.ledger import Activation, ActivationStore, AttemptStore, GateReceiptStore
from dpone_demo import leftovers, provisioning
from dpone_demo.chaos import DbtKiller
from dpone_demo.installation import Installation

PARENT = "flights_parent"
CONSTITUENTS = ("flights_reference", "flights_warehouse", "flights_publish")
SOURCE = Path(__file__).resolve().parents[3] / "examples" / "flights"

Phase = Callable[[str], AbstractContextManager[None]]


class Campaign:
    """One run. Its evidence folder is new for every run; data and ledger live on in the stack's state folder."""

    def __init__(self, stack: Installation, release_root: Path, gate_profile: Callable[[], Path]) -> None:
        self._stack = stack
        self._root = release_root
        self._gate_profile = gate_profile
        stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
        self._run_id = f"demo__{stamp}__{uuid.uuid4().hex[:6]}"
        self.evidence = stack.state.path / "evidence" / stamp

    def run(self, phase: Phase, *, chaos: bool, retire: bool = True) -> bool:
        """Everything after the start of the stack. True only if the independent reconciliation holds.

        With `retire` the activation is taken out of force at the end; without, its DAGs can be triggered again.
        """
        self.evidence.mkdir(parents=True)
        with phase("provision databases, accounts, ledger and gates (once)"):
            services = provisioning.provision(self._stack, self._root)
        with phase("load 336,776 flights and the other tables (once)"):
            provisioning.load(self._stack)
        with phase("wait for the gate profile, which opens activation, and record it"):
            self._open_door(services)
        self._settle_leftovers(services)
        with phase("plant a row in each target that its source does not have: it has to vanish"):
            provisioning.plant(self._stack)
        steps = self._steps(services)
        with phase("build the release and put it in force"):
            active = self._activate(services, steps)
        with phase("run the composition in Airflow"):
            tries = self._run_dags(steps, active, chaos)
        with phase("reconcile, with a program that knows nothing of the provider"):
            reconciled = self._reconcile(tries)
            steps.reconciled(reconciled)
        if retire:
            with phase("retire the activation (no SQL is undone)"):
                steps.retire(active)
        return reconciled

    def _steps(self, services: GuardServices) -> CampaignRun:
        steps = CampaignRun(
            activation=build_composition_activation(self._root, services),
            attempts=AttemptStore(services.control, services.ledger),
            airflow=self._api(),
            evidence=EvidenceFolder(self.evidence),
            say=lambda line: print(line, flush=True),
        )
        server = GateReceiptStore(services.control, services.ledger).standing().server
        steps.begin(SOURCE, f"{server.name} {server.product_version}")
        return steps

    def _open_door(self, services: GuardServices) -> None:
        folder = self._gate_profile()
        receipt = read_profile_folder(folder)
        standing = provisioning.record_receipt(self._stack, services, receipt)
        shutil.copytree(folder, self.evidence / "gate-profile")
        print(
            f"  profile gate: {len(receipt.cases)} of {len(PROFILE_CASES['gate'])} on {receipt.engine}, "
            f"unlocks {standing.unlocked_class(receipt)}",
            flush=True,
        )

    def _settle_leftovers(self, services: GuardServices) -> None:
        """What an earlier run that was killed while its DAGs ran left behind. Says so when there was something."""
        dags = (*CONSTITUENTS, PARENT)
        runs = leftovers.end_dag_runs(self._api(), dags)
        settled = leftovers.settle_attempts(services, self._root, dags)
        if runs or settled:
            states = ", ".join(f"{each.attempt.workload_id} {each.state}" for each in settled) or "none"
            print(
                f"  left by a run that was killed: {len(runs)} DAG runs, now failed; attempts settled: {states}",
                flush=True,
            )

    def _activate(self, services: GuardServices, steps: CampaignRun) -> Activation:
        frozen = self._frozen_release()
        store = ActivationStore(services.control, services.ledger)
        activation = build_composition_activation(self._root, services)
        for earlier in store.list():
            # One that a killed run left prepared holds its guards although no task ever ran under it.
            if earlier.state != "RETIRED":
                activation.retire(earlier.activation_id)
        return steps.put_in_force(frozen)

    def _frozen_release(self) -> Path:
        building = self._root / "releases" / f"building-{uuid.uuid4().hex}"
        building.parent.mkdir(parents=True, exist_ok=True)
        built = release.build(SOURCE, building)
        folder = building.with_name(built.release_id.removeprefix("sha256:")[:16])
        if folder.exists():
            release.read(folder, expected_release_id=built.release_id)
            _remove(building)
        else:
            building.rename(folder)
        return folder

    def _run_dags(self, steps: CampaignRun, active: Activation, chaos: bool) -> list[Try]:
        api = self._api()
        for connection_id, fields in provisioning.airflow_connections(self._stack).items():
            api.put_connection(connection_id, fields)
        killer = DbtKiller(self._stack.state.path)
        tries = steps.run_dags(
            PARENT,
            CONSTITUENTS,
            self._run_id,
            release_id=active.request.context.release_id,
            each=killer if chaos else _nothing,
        )
        if chaos and killer.killed is None:
            raise TimeoutError("dbt was never seen running, so nothing was killed: the chaos run proves nothing")
        return tries

    def _api(self) -> AirflowApi:
        airflow = self._stack.addresses.airflow
        assert airflow is not None
        return AirflowApi(airflow.url, airflow.user, airflow.password)

    def _reconcile(self, tries: list[Try]) -> bool:
        addresses = {**provisioning.reconciler_addresses(self._stack), "expected_tries": tries}
        finished = subprocess.run(
            [sys.executable, "-m", "dpone_reconcile", str(self.evidence / "reconciliation.json")],
            input=json.dumps(addresses),
            text=True,
            check=False,
        )
        return finished.returncode == 0


def _nothing() -> None:
    return None


def _remove(folder: Path) -> None:
    shutil.rmtree(folder)
