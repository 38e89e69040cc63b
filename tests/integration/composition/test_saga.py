"""Every step of putting a parent in force, and every way to be stopped there, on a real ledger.

After each: the old parent is fully in force, or the new one is, or `status` names the command that ends it; that command
is run, and ends it. The points are those that an undisturbed run reports, so a new step of the saga is a new case.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dpone.composition import projection, release
from airflow_provider_dpone.composition.activation import Standing
from airflow_provider_dpone.contracts.errors import AdmissionRefused, Overlap, ParentNotActive
from airflow_provider_dpone.drivers.trigger_points import COMPOSITION_STEPS
from airflow_provider_dpone.ledger import ActivationStore
from tests.support import ledger_records as make
from tests.support.compositions import NATIVE, write_source
from tests.support.live_gate import LiveGate
from tests.support.saga_worker import NOBODY, activation

ROOT = Path(__file__).resolve().parents[3]
Point = tuple[str, str, int]


@dataclass
class Operators:
    """Processes that act on one ledger, and release roots that they act on."""

    live: LiveGate
    folder: Path
    worker: subprocess.Popen[str]
    made: int = 0
    releases: dict[str, Path] = field(default_factory=dict)

    def root(self) -> Path:
        self.made += 1
        return self.folder / f"root {self.made}"

    def run(self, *tasks: dict[str, Any]) -> list[dict[str, Any]]:
        """The tasks at once, each in its own process."""
        assert self.worker.stdin is not None and self.worker.stdout is not None
        self.worker.stdin.write(json.dumps(tasks) + "\n")
        self.worker.stdin.flush()
        answers: list[dict[str, Any]] = json.loads(self.worker.stdout.readline())
        return answers

    def status(self, root: Path) -> Standing:
        return activation(self.live, root).status()

    def obey(self, root: Path, command: str) -> None:
        """Run what was named, as a person would type it."""
        tool, group, verb, activation_id = command.split()
        assert (tool, group) == ("dponectl", "composition") and verb in ("reconcile", "retire")
        getattr(activation(self.live, root), verb)(activation_id)

    def end(self, root: Path) -> str | None:
        """Run what `status` names until it names nothing; the activation that is in force then."""
        for _ in range(3):
            standing = self.status(root)
            for left in standing.unfinished:
                self.obey(root, left.command)
        standing = self.status(root)
        assert standing.unfinished == (), "the command that was named did not end it"
        current = standing.current
        if current is None or current.state == "RETIRED":
            return None
        assert current.state == "ACTIVE"
        self.store.require_active(current.request)
        loaded = projection.load_workload(root, "planes")
        assert (loaded.activation_id, loaded.guard_epochs) == (current.activation_id, current.epochs_of("planes"))
        return current.activation_id

    def clear(self, root: Path) -> None:
        """Leave the guards free."""
        for owner in self.store.list():
            if owner.state != "RETIRED":
                activation(self.live, root).retire(owner.activation_id)

    @property
    def store(self) -> ActivationStore:
        return ActivationStore(self.live.control, self.live.settings)


@pytest.fixture(scope="module")
def operators(deployment: LiveGate) -> Iterator[Operators]:
    store = ActivationStore(deployment.control, deployment.settings)
    store.begin_retirement(deployment.activation.request)
    store.finalize_retirement(deployment.activation.request)
    folder = Path(tempfile.mkdtemp(prefix="dpone-saga-"))
    folder.chmod(0o755)
    worker = subprocess.Popen(
        [sys.executable, "-m", "tests.support.saga_worker"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdin is not None
    worker.stdin.write(json.dumps(deployment.to_document()) + "\n")
    made = Operators(live=deployment, folder=folder, worker=worker)
    for name, native in (("first", NATIVE), ("second", NATIVE.replace("1000000", "2000000"))):
        release.build(write_source(folder / f"{name} source", native=native), folder / name)
        made.releases[name] = folder / name
    yield made
    worker.stdin.close()
    worker.wait(timeout=30)
    for path, _, _ in os.walk(folder):
        os.chmod(path, 0o755)
    shutil.rmtree(folder)


@dataclass(frozen=True)
class Saga:
    """What an operator begins, and how many activations are in force before (`old`)."""

    name: str
    do: str
    old: bool
    options: dict[str, Any] = field(default_factory=dict)

    def begin(self, operators: Operators, root: Path) -> tuple[str | None, dict[str, Any]]:
        """The old parent, and the task."""
        old = activation(operators.live, root).activate(operators.releases["first"]).activation_id if self.old else None
        argument = str(operators.releases["second"]) if self.do != "retire" else str(old)
        return old, {"root": str(root), "do": self.do, "arguments": [argument], "options": self.options}


SAGAS = (
    Saga("activate", "activate", False),
    Saga("prepare", "prepare", False),
    Saga("hand over", "hand_over", True, {"patience": 5.0}),
    Saga("retire", "retire", True),
)


def points_of(operators: Operators, saga: Saga) -> list[Point]:
    """Every point of an undisturbed run: step, moment, and the how manieth time."""
    root = operators.root()
    _, task = saga.begin(operators, root)
    (done,) = operators.run(task)
    assert "error" not in done, done
    operators.clear(root)
    points: list[Point] = []
    for step, moment in done["points"]:
        points.append((step, moment, 1 + sum(point[:2] == (step, moment) for point in points)))
    return points


#: What `make test` tries: the saga that has every step, killed at each point; the disk at each step that writes to it.
DAILY = {("hand over", "killed"), ("activate", "full"), ("activate", "read_only")}
CASES = [
    pytest.param(
        saga,
        trouble,
        id=f"{saga.name}, {trouble}",
        marks=() if (saga.name, trouble) in DAILY else pytest.mark.campaign,
    )
    for saga in SAGAS
    for trouble in ("killed", "full", "read_only")
]


@pytest.mark.parametrize(("saga", "trouble"), CASES)
def test_wherever_it_is_stopped_one_parent_is_in_force_or_a_command_ends_it(
    operators: Operators, saga: Saga, trouble: str
) -> None:
    points = points_of(operators, saga)
    if saga.do in ("activate", "hand_over"):
        assert {point[0] for point in points} >= {*COMPOSITION_STEPS, "prepare", "active"}
    if trouble != "killed":
        # What the disk does matters at the steps that write to it.
        points = [point for point in points if point[0] in COMPOSITION_STEPS and point[1] == "before"]
    for point in points:
        root = operators.root()
        root.mkdir()
        old, task = saga.begin(operators, root)
        if os.getuid() == 0:
            for folder, _, files in os.walk(root):
                for each in (folder, *(os.path.join(folder, name) for name in files)):
                    os.chown(each, NOBODY, NOBODY)
        (stopped,) = operators.run({**task, "trouble": trouble, "at": list(point)})
        assert stopped.get("signal") == 9 or trouble != "killed", (point, stopped)
        for folder, _, _ in os.walk(root):
            os.chmod(folder, 0o755)
        standing = operators.status(root)
        if "error" in stopped:
            if stopped["error"]["recovery_required"]:
                (left,) = standing.unfinished
                assert stopped["error"]["command"] == left.command and left.command in stopped["said"], point
            else:
                assert standing.unfinished == () and operators.end(root) == old, (point, stopped["said"])
        in_force = operators.end(root)
        if saga.do != "retire" and in_force == old:
            # It had not begun, or was given up: begun again, it succeeds.
            (again,) = operators.run(task)
            assert "error" not in again, (point, again)
            in_force = operators.end(root)
        assert (in_force is None) == (saga.do == "retire") or in_force == old, point
        assert saga.do == "retire" or in_force not in (None, old), point
        operators.clear(root)


def test_two_operators_at_once_leave_one_parent(operators: Operators) -> None:
    """On one release root, and on two machines that share the ledger."""
    for roots in ([operators.root()] * 2, [operators.root(), operators.root()]):
        tasks = [
            {"root": str(root), "do": "activate", "arguments": [str(operators.releases[name])]}
            for root, name in zip(roots, ("first", "second"), strict=True)
        ]
        answers = operators.run(*tasks)
        assert sorted("error" in answer for answer in answers) == [False, True], answers
        (refused,) = (answer["error"] for answer in answers if "error" in answer)
        assert refused["code"] in ("DPONE_ATTEMPT_OVERLAP", "DPONE_COMPOSITION_ACTIVATION_COMMIT_UNKNOWN")
        (winner,) = (answer["activation_id"] for answer in answers if "error" not in answer)
        assert {operators.end(root) for root in roots} <= {winner, None}
        assert [each.activation_id for each in operators.store.list() if each.state == "ACTIVE"] == [winner]
        operators.clear(roots[0])


def test_two_operators_who_end_the_same_activation_at_once(operators: Operators) -> None:
    root = operators.root()
    prepared = activation(operators.live, root).prepare(operators.releases["first"])
    task = {"root": str(root), "do": "reconcile", "arguments": [prepared.activation_id]}
    answers = operators.run(task, task, task)
    assert [answer.get("state") for answer in answers] == ["ACTIVE"] * 3
    assert operators.end(root) == prepared.activation_id
    operators.clear(root)


def test_a_moved_pointer_is_not_switched_over_somebody_elses(operators: Operators) -> None:
    """Compare and swap: what was prepared beside another deployment cannot replace the one that came meanwhile."""
    root = operators.root()
    operator = activation(operators.live, root)
    prepared = operator.prepare(operators.releases["first"])
    other = operators.root()
    operator.retire(prepared.activation_id)
    active = activation(operators.live, other).activate(operators.releases["second"])
    shutil.copy(other / "current.json", root / "current.json")
    shutil.copytree(other / "activations", root / "activations", dirs_exist_ok=True)
    shutil.copytree(other / "deployments", root / "deployments", dirs_exist_ok=True)
    (root / "unfinished").mkdir(exist_ok=True)
    with pytest.raises(ParentNotActive):
        operator.reconcile(prepared.activation_id)
    assert projection.current_activation_id(root) == active.activation_id
    with pytest.raises(Overlap, match="predecessor_in_force"):
        operator.activate(operators.releases["first"])
    operators.clear(root)


def test_a_try_of_the_drained_parent_is_refused_whatever_its_files_say(operators: Operators) -> None:
    root = operators.root()
    operator = activation(operators.live, root)
    old = operator.activate(operators.releases["first"])
    new = operator.hand_over(operators.releases["second"], patience=5)
    assert new.request.context.previous_deployment_id == old.request.context.deployment_id
    assert dict(new.guard_epochs) == {guard: epoch + 1 for guard, epoch in old.guard_epochs}
    where = make.coordinates("late")
    attempt = make.attempt(old.request, "planes", old.epochs_of("planes"), where)
    with pytest.raises(ParentNotActive):
        operators.live.attempts.admit_once(attempt, where, [make_principal()])
    stale = make.attempt(new.request, "planes", old.epochs_of("planes"), where)
    with pytest.raises(AdmissionRefused):
        operators.live.attempts.admit_once(stale, where, [make_principal()])
    operators.clear(root)


def test_a_handover_waits_for_the_last_attempt_and_is_continued_after_it(operators: Operators) -> None:
    root, live = operators.root(), operators.live
    operator = activation(live, root)
    old = operator.activate(operators.releases["first"])
    where = make.coordinates(live.run_id())
    attempt = make.attempt(old.request, "planes", old.epochs_of("planes"), where)
    live.attempts.admit_once(attempt, where, [make_principal()])
    with pytest.raises(Overlap, match="predecessor_unresolved") as refused:
        operator.hand_over(operators.releases["second"], patience=0)
    assert attempt.sha256 in str(refused.value), "it says who is waited for"
    standing = operators.status(root)
    assert standing.current is not None and standing.current.state == "RETIRING"
    commands = [left.command for left in standing.unfinished]
    successor = next(command for command in commands if "reconcile" in command)
    assert successor in str(refused.value)
    with pytest.raises(ParentNotActive):
        again = make.coordinates(live.run_id())
        live.attempts.admit_once(
            make.attempt(old.request, "planes", old.epochs_of("planes"), again), again, [make_principal()]
        )
    live.settle_everything()
    operators.obey(root, successor)
    current = operators.status(root).current
    assert current is not None and current.state == "ACTIVE"
    assert current.request.context.previous_deployment_id == old.request.context.deployment_id
    back = operator.roll_back(patience=5)
    assert back.request.context.deployment_id == old.request.context.deployment_id
    assert back.activation_id != old.activation_id
    operators.clear(root)


def test_a_lost_release_root_does_not_keep_an_activation_in_force(operators: Operators) -> None:
    root = operators.root()
    active = activation(operators.live, root).activate(operators.releases["first"])
    shutil.rmtree(root)
    retired = activation(operators.live, operators.root()).retire(active.activation_id)
    assert retired is not None and retired.state == "RETIRED"


def make_principal() -> Any:
    from airflow_provider_dpone.contracts.principal import new_mssql_principal

    return new_mssql_principal(make.SERVICE, "ingest")
