"""`python -m tests.support.saga_worker`: operators that die. Reads one task a line and answers each with one line.

A task runs in a process of its own, forked from this one, which has imported everything and connected to nothing. At the
named point of the saga it is killed, its disk fills, or its cache becomes read-only.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from airflow_provider_dpone.composition.activation import CompositionActivation
from airflow_provider_dpone.composition.coordinator import (
    CompositionActivationCoordinator,
    CompositionActivationPreparation,
    SealedInputs,
)
from airflow_provider_dpone.composition.manifest import Binding
from airflow_provider_dpone.composition.physical import PhysicalDomain
from airflow_provider_dpone.composition.physical_admission import CompositionPhysicalAdmission
from airflow_provider_dpone.contracts.errors import GuardError
from airflow_provider_dpone.drivers.trigger_points import Moment, armed
from airflow_provider_dpone.ledger import ActivationStore
from tests.support.compositions import Servers
from tests.support.live_gate import LiveGate

#: Nobody in particular, who is refused what the owner of a folder is refused.
NOBODY = 65534


class Deployed(Servers):
    """Servers in memory whose written databases are the enrolled domains of a live ledger."""

    def __init__(self, live: LiveGate) -> None:
        super().__init__()
        self.live = live

    def resolve(self, alias: str, binding: Binding) -> PhysicalDomain:
        for resource_ in self.live.activation.request.resources:
            if resource_.connector == binding.connector:
                return PhysicalDomain(
                    connector=binding.connector,
                    database=binding.database,
                    service_id=resource_.service_id,
                    physical_subject_sha256=resource_.physical_subject_sha256,
                    observation={"schema": "test.v1"},
                )
        return super().resolve(alias, binding)


def activation(live: LiveGate, root: Path) -> CompositionActivation:
    coordinator = CompositionActivationCoordinator(
        inputs=SealedInputs(),
        preparation=CompositionActivationPreparation(physical=CompositionPhysicalAdmission(backend=Deployed(live))),
        stores=lambda: ActivationStore(live.control, live.settings),
    )
    return CompositionActivation(root, coordinator)


def killed(root: Path) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def full(root: Path) -> None:
    """No file can grow beyond a few bytes: what a full disk is to a writer, for root as well."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def read_only(root: Path) -> None:
    for folder, _, _ in os.walk(root):
        os.chmod(folder, 0o555)


TROUBLES: Mapping[str, Callable[[Path], None]] = {"killed": killed, "full": full, "read_only": read_only}


def run(live: LiveGate, task: dict[str, Any]) -> dict[str, Any]:
    """One operator, from its first to its last step."""
    root = Path(task["root"])
    operator = activation(live, root)
    if task.get("trouble") == "read_only" and os.getuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    points: list[list[str]] = []
    reached = threading.Lock()

    def hook(step: str, moment: Moment) -> None:
        with reached:
            points.append([step, moment])
            if task.get("at") == [step, moment, sum([step, moment] == each for each in points)]:
                TROUBLES[task["trouble"]](root)

    arguments = [Path(each) if "/" in each else each for each in task["arguments"]]
    with armed(hook):
        try:
            done = getattr(operator, task["do"])(*arguments, **task.get("options", {}))
        except GuardError as err:
            return {"points": points, "error": err.as_document(), "said": str(err)}
    state = None if done is None else done.state
    return {"points": points, "state": state, "activation_id": None if done is None else done.activation_id}


def main() -> None:
    live = LiveGate.from_document(json.loads(sys.stdin.readline()))
    for line in sys.stdin:
        tasks = json.loads(line)
        children = []
        for task in tasks:
            reader, writer = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(reader)
                os.write(writer, json.dumps(run(live, task)).encode())
                os._exit(0)
            os.close(writer)
            children.append((child, reader))
        answers = []
        for child, reader in children:
            with open(reader, "rb") as said:
                data = said.read()
            status = os.waitpid(child, 0)[1]
            answers.append(json.loads(data) if data else {"signal": os.WTERMSIG(status), "exit": status})
        print(json.dumps(answers), flush=True)


if __name__ == "__main__":
    main()
