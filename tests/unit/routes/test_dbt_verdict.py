"""What SUCCEEDED of a dbt attempt rests on: each part taken away gives FAILED, with what differs by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.gates.target_fence import Marker
from airflow_provider_dpone.routes.dbt_verdict import judge
from airflow_provider_dpone.routes.interface import Outcome


@dataclass(frozen=True, kw_only=True)
class Declared:
    name: str
    role: str = "target"
    rebuildable: bool = True
    schema: str = "Mart"
    resource_id: str = "model.shop.x"
    materialized: str = "incremental"


def table(object_id: int = 1, rows: int = 3, content: str | None = "sha256:a", **members: Any) -> dict[str, Any]:
    state = {"object_id": object_id, "type": "U", "created": "c", "modified": "m", "rows": rows}
    return {**state, "content_sha256": content, "unchecked": {}, **members}


FACT, HELPER = Declared(name="Fact"), Declared(name="Fact__dbt_tmp", role="intermediate")
BEFORE = {"mart.fact": table()}
BUILT = {"mart.fact": table(content="sha256:b")}
RECORD: dict[str, Any] = {"schema": "dpone.dbt-marked.v1", "invocation": "n", "results": [], "relations": BUILT}
MARKER = Marker(row_count=1, evidence_sha256=canonical.exact_sha256(RECORD), written_at="2026-01-01T00:00:00")


def verdict(declared: Declared = FACT, **changed: Any) -> Outcome:
    observed = {"admission": {"relations": BEFORE}, "marked": RECORD, "marker": MARKER, "after": BUILT, **changed}
    return judge([declared, HELPER], **observed)


def test_everything_there_and_unchanged_since_the_marker() -> None:
    outcome = verdict()
    assert outcome.state == "SUCCEEDED"
    assert outcome.evidence["differs"] == {}
    assert outcome.evidence["changes"] == {"mart.fact": "content_changed"}


@pytest.mark.parametrize(
    ("changed", "differs"),
    [
        ({"marker": None}, {"marker": "never written"}),
        ({"marked": None}, {"marker": "written without a record in the ledger"}),
        ({"marked": {**RECORD, "invocation": "other"}}, {"marker": "not of the record in the ledger"}),
        ({"marker": None, "marked": None}, {"marker": "never written"}),
        (
            {"after": {}},
            {"targets_missing": ["mart.fact"], "changed_since_marker": {"mart.fact": "dropped"}},
        ),
        (
            {"after": {**BUILT, "mart.fact__dbt_tmp": table(9)}},
            {"helpers_left": ["mart.fact__dbt_tmp"], "changed_since_marker": {"mart.fact__dbt_tmp": "created"}},
        ),
        (
            {"after": {"mart.fact": table(content="sha256:c")}},
            {"changed_since_marker": {"mart.fact": "content_changed"}},
        ),
        ({"after": {"mart.fact": table(rows=4)}}, {"changed_since_marker": {"mart.fact": "rows_changed"}}),
        ({"after": {"mart.fact": table(2)}}, {"changed_since_marker": {"mart.fact": "rebuilt"}}),
        ({"after": {"mart.fact": table(modified="n")}}, {"changed_since_marker": {"mart.fact": "altered"}}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else None,
)
def test_what_differs_is_named_and_the_attempt_failed(changed: dict[str, Any], differs: dict[str, Any]) -> None:
    outcome = verdict(**changed)
    assert outcome.state == "FAILED"
    assert outcome.evidence["differs"] == differs


def test_rows_that_changed_in_place_are_a_partial_effect() -> None:
    outcome = verdict(marker=None, marked=None)
    assert (outcome.state, outcome.evidence["changes"]) == ("FAILED", {"mart.fact": "content_changed"})


def test_a_helper_that_was_left_by_somebody_else_is_not_this_attempts() -> None:
    left = {"mart.fact__dbt_tmp": table(9)}
    record = {**RECORD, "relations": {**BUILT, **left}}
    marker = Marker(row_count=1, evidence_sha256=canonical.exact_sha256(record), written_at="")
    outcome = verdict(admission={"relations": BEFORE | left}, marked=record, marker=marker, after=BUILT | left)
    assert outcome.state == "SUCCEEDED"


def test_a_touched_append_without_a_key_is_the_operators() -> None:
    only_grows = Declared(name="Fact", rebuildable=False)
    assert verdict(only_grows).state == "SUCCEEDED"
    touched = verdict(only_grows, marker=None, marked=None)
    assert (touched.state, touched.evidence["appends_without_key"]) == ("COMMIT_UNKNOWN", ["mart.fact"])
    assert verdict(only_grows, marker=None, marked=None, after=BEFORE).state == "FAILED"


@pytest.mark.parametrize(
    "state", [table(content=None, unchecked={"*": "only counted"}), table(unchecked={"shape": "type xml"})]
)
def test_content_that_nobody_looked_at_may_have_changed(state: dict[str, Any]) -> None:
    """Named as an effect, so that an append is not repeated; but no evidence that somebody wrote after the marker."""
    seen = {"mart.fact": state}
    lost = verdict(admission={"relations": seen}, marker=None, marked=None, after=seen)
    assert lost.evidence["changes"] == {"mart.fact": "content_unchecked"}
    only_grows = Declared(name="Fact", rebuildable=False)
    assert verdict(only_grows, admission={"relations": seen}, marker=None, after=seen).state == "COMMIT_UNKNOWN"
    record = {**RECORD, "relations": seen}
    marker = Marker(row_count=1, evidence_sha256=canonical.exact_sha256(record), written_at="")
    assert verdict(admission={"relations": seen}, marked=record, marker=marker, after=seen).state == "SUCCEEDED"


def test_a_computed_column_follows_from_the_others() -> None:
    seen = {"mart.fact": table(unchecked={"total": "computed"})}
    assert verdict(admission={"relations": seen}, marker=None, after=seen).evidence["changes"] == {}


def test_without_an_admission_record_nothing_was_written() -> None:
    assert verdict(admission=None, marked=None, marker=None).state == "FAILED"
    assert verdict(admission=None, marked=None).state == "COMMIT_UNKNOWN"


@pytest.mark.parametrize("name", ["FACT", "fact ", "Fact  "])
def test_a_name_that_the_server_takes_for_another_is_the_same_relation(name: str) -> None:
    """An append to `fact ` touches `fact`: it must not look like a table that was never there."""
    appended = Declared(name=name, rebuildable=False)
    assert verdict(appended).state == "SUCCEEDED"
    unmarked = verdict(appended, marker=None)
    assert (unmarked.state, unmarked.evidence["appends_without_key"]) == ("COMMIT_UNKNOWN", ["mart.fact"])
