"""run_results.json decides whether the marker is written, and only the file of this very invocation is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dpone.routes import dbt_results
from airflow_provider_dpone.routes.dbt_results import DbtBuildFailed, NodeResult, read_results, require_success

NONCE = "0f" * 16
#: What no evidence can carry, or no log should.
HOSTILE = ("\ud800", "a\nINFO recorded", "", "x" * 1025, 7, None, ["model.a"])


def document(**members: Any) -> dict[str, Any]:
    results = [
        {"unique_id": "model.shop.a", "status": "success", "adapter_response": {"rows_affected": 3}},
        {"unique_id": "test.shop.a", "status": "pass", "adapter_response": {}},
    ]
    return {"metadata": {"env": {"DPONE_INVOCATION": NONCE}}, "results": results, **members}


def write(folder: Path, text: str) -> Path:
    (folder / "target").mkdir()
    (folder / "target" / "run_results.json").write_text(text, encoding="utf-8")
    return folder


def test_the_results_of_this_invocation_are_read(tmp_path: Path) -> None:
    results = read_results(write(tmp_path, json.dumps(document())), NONCE)
    assert results == (
        NodeResult(unique_id="model.shop.a", status="success", rows=3),
        NodeResult(unique_id="test.shop.a", status="pass", rows=None),
    )
    require_success(results, ["model.shop.a"])


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(document())[:-3],
        "[" * 200_000,
        "[]",
        json.dumps(document(results=[{}])),
        json.dumps(document(results=[7])),
        json.dumps(document(results=7)),
        json.dumps(document(metadata={})),
        json.dumps(document(metadata=None)),
        "\ufeff{}",
        *(json.dumps(document(results=[{"unique_id": bad, "status": "success"}])) for bad in HOSTILE),
        *(json.dumps(document(results=[{"unique_id": "model.a", "status": bad}])) for bad in HOSTILE),
    ],
    ids=lambda text: text[:12],
)
def test_what_cannot_be_read_is_no_success(tmp_path: Path, text: str) -> None:
    """A dbt that was killed while it wrote leaves half a document; a hostile one anything."""
    with pytest.raises(DbtBuildFailed) as refused:
        read_results(write(tmp_path, text), NONCE)
    assert refused.value.reason == "dbt_results_unreadable"


def test_no_file_at_all(tmp_path: Path) -> None:
    with pytest.raises(DbtBuildFailed, match="dbt_results_unreadable"):
        read_results(tmp_path, NONCE)


def test_the_results_of_another_invocation_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DbtBuildFailed, match="dbt_results_foreign"):
        read_results(write(tmp_path, json.dumps(document())), "another")


@pytest.mark.parametrize(
    ("statuses", "named"),
    [
        ({"model.a": "success"}, "model.b (not built)"),
        ({"model.a": "success", "model.b": "skipped"}, "model.b (skipped)"),
        ({"model.a": "success", "model.b": "pass"}, "model.b (pass)"),
        ({"model.a": "success", "model.b": "partial success"}, "model.b (partial success)"),
        ({"model.a": "success", "model.b": "success", "test.a": "fail"}, "test.a (fail)"),
        ({"model.a": "success", "model.b": "success", "operation.end": "error"}, "operation.end (error)"),
        ({}, "model.a (not built), model.b (not built)"),
    ],
)
def test_a_node_without_success_is_named(statuses: dict[str, str], named: str) -> None:
    results = [NodeResult(unique_id=node, status=status, rows=None) for node, status in statuses.items()]
    with pytest.raises(DbtBuildFailed) as refused:
        require_success(results, ["model.a", "model.b"])
    assert refused.value.happened == f"not successful: {named}."


def test_a_warning_of_a_test_is_no_failure() -> None:
    results = [NodeResult(unique_id="model.a", status="success", rows=None)]
    results += [NodeResult(unique_id=f"test.{status}", status=status, rows=None) for status in ("warn", "no-op")]
    require_success(results, ["model.a"])


def test_a_count_that_is_none_is_not_one(tmp_path: Path) -> None:
    """A driver says -1 when it does not know; a hostile file anything. None of it reaches a sum."""
    given = [-1, 2**63, True, "3", 1.5, None, 2**63 - 1, 0]
    results = [
        {"unique_id": f"model.{number}", "status": "success", "adapter_response": {"rows_affected": rows}}
        for number, rows in enumerate(given)
    ]
    read = read_results(write(tmp_path, json.dumps(document(results=results))), NONCE)
    assert [result.rows for result in read] == [None] * 6 + [2**63 - 1, 0]


def test_a_file_that_is_too_large_is_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps(document())
    folder = write(tmp_path, text)
    monkeypatch.setattr(dbt_results, "FILE_BYTES", len(text))
    assert len(read_results(folder, NONCE)) == 2
    monkeypatch.setattr(dbt_results, "FILE_BYTES", len(text) - 1)
    with pytest.raises(DbtBuildFailed, match="dbt_results_unreadable"):
        read_results(folder, NONCE)
