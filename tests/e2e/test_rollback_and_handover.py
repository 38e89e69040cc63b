"""A successor takes over while Airflow has the DAGs of the main job's release, and is taken back.

After the reruns, which are of the main job's own release, and before the stack is stopped.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner
from dpone_demo import provisioning
from dpone_demo.campaign import CONSTITUENTS, PARENT, SOURCE
from dpone_embedded import Stack

from airflow_provider_dpone.campaign.airflow_api import AirflowApi
from airflow_provider_dpone.campaign.loaded_dags import wait_for_dags
from airflow_provider_dpone.cli.main import cli
from airflow_provider_dpone.composition import projection, release
from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.ledger import AttemptStore
from tests.e2e.conftest import MainJob

REFERENCE, WAREHOUSE, PUBLISH = CONSTITUENTS
RUN = f"after_handover_{int(time.time())}"

pytestmark = pytest.mark.timeout(1500)


@dataclass(frozen=True, kw_only=True)
class Stage:
    api: AirflowApi
    ledger: AttemptStore
    root: Path
    configuration: Path
    first: str
    second: str

    def dponectl(self, *arguments: str) -> str:
        said = CliRunner().invoke(cli, ["--config", str(self.configuration), *arguments])
        assert said.exit_code == 0, said.output
        return said.output


def successor(folder: Path) -> release.Release:
    """Without the constituent that publishes, and with one whose schedule names a day that never comes."""
    source = shutil.copytree(SOURCE, folder / "source")
    kept = []
    for line in (source / "composition.yaml").read_text().splitlines():
        if "workloads/publish_" in line or line.strip().startswith(f"{PUBLISH}:"):
            continue
        line = line.replace(f", {PUBLISH}]", "]")
        kept.append(line.replace(f"{WAREHOUSE}: {{", f"{WAREHOUSE}: {{schedule: '0 0 30 2 *', "))
    (source / "composition.yaml").write_text("\n".join(kept) + "\n")
    for manifest in (source / "workloads").glob("publish_*"):
        manifest.unlink()
    return release.build(source, folder / "release")


@pytest.fixture(scope="module")
def stage(run: MainJob, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    stack, root = Stack(run.state), run.state / "dpone"
    services = provisioning.guard_services(stack, root)
    first = projection.load_release(root).release_id
    built = successor(tmp_path_factory.mktemp("successor"))
    stage = Stage(
        api=AirflowApi(*run.airflow()),
        ledger=AttemptStore(services.control, services.ledger),
        root=root,
        configuration=provisioning.write_operator_file(stack, root),
        first=first,
        second=built.release_id,
    )
    stage.dponectl("composition", "activate", "--drain", str(built.root))
    # At once, while Airflow has the DAG that the successor lacks.
    stage.api.trigger(PUBLISH, RUN, {})
    yield stage


def test_airflow_has_the_dags_of_the_successor_before_anything_is_triggered(stage: Stage) -> None:
    wait_for_dags(stage.api, {REFERENCE: stage.second, PARENT: stage.second})
    with pytest.raises(TimeoutError, match=f"Of another release: {REFERENCE}"):
        wait_for_dags(stage.api, {REFERENCE: stage.first}, timeout=0)


def test_a_dag_that_cannot_be_made_stands_there_with_its_reason(stage: Stage) -> None:
    with pytest.raises(ConfigurationError, match="a day that never comes"):
        wait_for_dags(stage.api, {WAREHOUSE: stage.second})
    stage.api.trigger(WAREHOUSE, RUN, {})
    assert stage.api.wait_for_run(WAREHOUSE, RUN, timeout=120) == "failed"
    (refused,) = stage.api.task_instances(WAREHOUSE, RUN)
    assert "a day that never comes" in str(stage.api.last_error(refused))


def test_nothing_of_a_constituent_that_the_successor_lacks_is_admitted(stage: Stage) -> None:
    deadline = time.monotonic() + 120

    def word() -> str | None:
        found = [each for each in stage.api.task_instances(PUBLISH, RUN) if each["try_number"] > 0]
        return stage.api.last_error(found[0]) if found else None

    while "Dag not found" not in (said := str(word())):
        assert time.monotonic() < deadline, f"its first task did not start: {said}"
        time.sleep(0.5)
    assert [each for each in stage.ledger.recent() if each.coordinates.run_id == RUN] == []
    stage.api.fail_run(PUBLISH, RUN)


def test_a_rollback_says_where_it_goes_and_airflow_has_the_first_dags_again(stage: Stage) -> None:
    said = stage.dponectl("composition", "rollback")
    assert stage.first in said and "No SQL is undone" in said
    wait_for_dags(stage.api, dict.fromkeys((*CONSTITUENTS, PARENT), stage.first))
    assert projection.load_release(stage.root).release_id == stage.first
