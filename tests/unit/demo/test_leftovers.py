"""A demo that starts after a killed one ends the old DAG runs, settles the old attempts, or says what is left to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dpone_demo import leftovers

from airflow_provider_dpone.contracts.errors import NotQuiescent, OutcomeUnknown

DAGS = ("flights_warehouse",)


def operation(dag_id: str, state: str = "RUNNING") -> Any:
    return SimpleNamespace(
        attempt_sha256=f"sha256:{dag_id}",
        attempt=SimpleNamespace(workload_id="warehouse"),
        coordinates=SimpleNamespace(dag_id=dag_id),
        state=state,
    )


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A ledger with one attempt of ours and one of somebody else; the reasons that were written are kept."""
    reasons: list[str] = []
    store = SimpleNamespace(
        unresolved=lambda: (operation("theirs"), operation("flights_warehouse")),
        put_evidence=lambda attempt, kind, document: reasons.append(f"{attempt} {kind}"),
        reasons=reasons,
    )
    monkeypatch.setattr(leftovers, "AttemptStore", lambda *_: store)
    monkeypatch.setattr(leftovers.time, "sleep", lambda _: None)
    return store


def settling(monkeypatch: pytest.MonkeyPatch, settle: Callable[[], Any]) -> None:
    monkeypatch.setattr(leftovers, "resume_attempt", lambda *_: SimpleNamespace(settle=settle))


def settle() -> tuple[Any, ...]:
    services: Any = SimpleNamespace(control=None, ledger=None)
    return leftovers.settle_attempts(services, Path(), DAGS)


def test_only_runs_of_the_demo_are_ended() -> None:
    failed: list[tuple[str, str]] = []
    runs = [("flights_warehouse", "a"), ("theirs", "b")]
    api: Any = SimpleNamespace(unfinished_runs=lambda: runs, fail_run=lambda *run: failed.append(run))
    assert leftovers.end_dag_runs(api, DAGS) == (("flights_warehouse", "a"),)
    assert failed == [("flights_warehouse", "a")]


def test_only_attempts_of_the_demo_are_settled_with_a_reason(ledger: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settling(monkeypatch, lambda: operation("flights_warehouse", "FAILED"))
    assert [each.state for each in settle()] == ["FAILED"]
    assert ledger.reasons == ["sha256:flights_warehouse settled_by_operator"]


def test_a_session_that_is_being_ended_is_waited_for(ledger: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [NotQuiescent(), NotQuiescent(), operation("flights_warehouse", "SUCCEEDED")]

    def answer() -> Any:
        given = answers.pop(0)
        if isinstance(given, Exception):
            raise given
        return given

    settling(monkeypatch, answer)
    assert [each.state for each in settle()] == ["SUCCEEDED"]


def test_an_unknown_outcome_names_the_ways_out(ledger: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settling(monkeypatch, lambda: operation("flights_warehouse", "COMMIT_UNKNOWN"))
    with pytest.raises(OutcomeUnknown) as unknown:
        settle()
    assert "dponectl attempts reconcile sha256:flights_warehouse" in str(unknown.value)
    assert "--fresh" in str(unknown.value)
