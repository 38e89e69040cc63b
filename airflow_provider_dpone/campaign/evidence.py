"""What a campaign leaves behind: one folder of JSON documents, each written once and whole.

campaign.json    source commit, versions, the server, and what became of each step
parent.json      parent and child identities, every pin, cell and write subject
activation.json  the activation: its request, its deployment, its epochs
airflow.json     every DAG run and task instance, with its tries
attempts.json    every attempt with its coordinates, principals, proofs and evidence
tries.json       the work tries that Airflow says it ran, for the reconciler
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.ledger import Evidence

_PACKAGES = (
    *("airflow-provider-dpone", "apache-airflow", "apache-airflow-task-sdk", "dbt-core", "dbt-sqlserver"),
    *("mssql-python", "clickhouse-connect", "psycopg", "pyarrow"),
)


class EvidenceFolder:
    """A new folder; one that is there already belongs to another campaign and is refused."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self) -> None:
        self.path.mkdir(parents=True)

    def write(self, name: str, document: object) -> None:
        """A document, whole or not at all."""
        new = self.path / f"{name}.new"
        text = json.dumps(document, indent=1, ensure_ascii=False, default=str)
        # Half a character, which no file holds, stays as JSON writes it.
        new.write_text(text, encoding="utf-8", errors="backslashreplace")
        os.replace(new, self.path / name)


def versions() -> dict[str, str | None]:
    """Of this installation."""
    found: dict[str, str | None] = {"python": platform.python_version(), "system": platform.platform()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def source_commit(folder: Path) -> Mapping[str, object]:
    """The commit of the git checkout that a folder lies in, and whether anything of the folder differs from it."""
    commit = _git(folder, "rev-parse", "HEAD")
    changed = _git(folder, "status", "--porcelain", "--", ".")
    return {"commit": commit, "clean": None if changed is None else changed == ""}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def attempt_document(operation: Operation, evidence: tuple[Evidence, ...]) -> dict[str, Any]:
    """One attempt, with everything that the ledger holds of it."""
    where = operation.coordinates
    return {
        "attempt_sha256": operation.attempt_sha256,
        "activation_id": operation.activation_id,
        "workload_id": operation.attempt.workload_id,
        "constituent_id": operation.attempt.constituent_id,
        "pack_sha256": operation.attempt.pack_sha256,
        "plan_sha256": operation.attempt.plan_sha256,
        "guard_epochs": [list(pair) for pair in operation.attempt.guard_epochs],
        "dag_id": where.dag_id,
        "run_id": where.run_id,
        "task_id": where.task_id,
        "map_index": where.map_index,
        "try_number": where.try_number,
        "task_instance_id": where.task_instance_id,
        "mapped_input_sha256": where.mapped_input_sha256,
        "state": operation.state,
        "principals": [
            {"connector": each.connector, "purpose": each.purpose, "principal_id": each.principal_id, "name": each.name}
            for each in operation.principals
        ],
        "gate": None if operation.gate is None else operation.gate.state,
        "proofs": [{"kind": proof.kind, "sha256": proof.sha256} for proof in operation.proofs],
        "evidence": [
            {"kind": each.kind, "sha256": each.sha256, "order": each.order, "document": dict(each.document)}
            for each in evidence
        ],
    }
