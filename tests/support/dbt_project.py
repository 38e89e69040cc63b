"""dbt projects of a few models with names of their own, and their attempts."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.routes.dbt import DbtRoute
from tests.support.live_gate import LiveGate
from tests.support.live_routes import dbt_document, dbt_plan


@dataclass(frozen=True, kw_only=True)
class Project:
    """A project of models with names of their own, from a folder whose name some quoting forgets."""

    gate: LiveGate
    project: Path
    work_root: Path
    models: Mapping[str, Mapping[str, Any]]
    run_as: str | None = None

    def route(self) -> DbtRoute:
        plan = dbt_plan(self.gate, self.project, self.work_root, self.models, self.run_as)
        return DbtRoute(plan, self.gate.observe)

    def document(self) -> dict[str, Any]:
        return dbt_document(self.project, self.work_root, self.models, self.run_as)

    def operations(self, run_id: str) -> list[Operation]:
        return list(self.gate.attempts.find("dag", run_id, "load", -1))

    def evidence(self, operation: Operation) -> Mapping[str, Any]:
        found = self.gate.attempts.evidence(operation.attempt_sha256, "outcome")
        assert found is not None
        return found


def project(
    live: LiveGate,
    root: Path,
    models: Mapping[str, tuple[str, Mapping[str, Any]]],
    *,
    run_as: str | None = None,
    suffix: str = "",
) -> Project:
    """Write a project. `ref('first')` in the models' texts stands for the name with this project's suffix."""
    suffix = suffix or secrets.token_hex(3)
    folder = root / "prøject 'x' %"
    (folder / "models").mkdir(parents=True)
    (folder / "dbt_project.yml").write_text("name: shop\nversion: '1.0.0'\nprofile: shop\n", encoding="utf-8")
    configs: dict[str, Mapping[str, Any]] = {}
    for name, (text, config) in models.items():
        config = {"materialized": "table", "as_columnstore": False, **config}
        members = ", ".join(f"{key}={value!r}" for key, value in config.items())
        for other in models:
            text = text.replace(f"ref('{other}')", f"ref('{other}_{suffix}')")
        full = f"{name}_{suffix}"
        (folder / "models" / f"{full}.sql").write_text("{{ config(" + members + ") }}\n" + text, encoding="utf-8")
        configs[full] = config
    return Project(gate=live, project=folder, work_root=root / "attempts", models=configs, run_as=run_as)


def until(true: Callable[[], Any], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.2)
