"""The committed JSON schemas are those of the models, and the example fits them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_dpone.composition import manifest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", sorted(manifest.schemas()))
def test_a_committed_schema_is_current(name: str) -> None:
    committed = json.loads((ROOT / "docs" / "schemas" / name).read_text(encoding="utf-8"))

    assert committed == json.loads(json.dumps(manifest.schemas()[name])), "run: dponectl compose schemas docs/schemas"


def test_the_example_is_accepted() -> None:
    folder = ROOT / "examples" / "flights"
    composition = manifest.read_composition((folder / "composition.yaml").read_text(), "composition.yaml")

    for path in composition.workloads:
        manifest.read_workload((folder / path).read_text(), path)
