"""What dbt says of its own build: run_results.json, read as what a hostile child may have written.

Nothing is concluded from it about the target. It only decides whether this process goes on to write the marker: every
declared node must be there with success, and no other node, test or hook may have failed. The exit code is not asked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_provider_dpone.contracts import rules
from airflow_provider_dpone.contracts.errors import AdmissionRefused, GuardError

#: Put into dbt's environment; dbt repeats it in the metadata of its artifacts without the first part of the name.
INVOCATION_VARIABLE = "DBT_ENV_CUSTOM_ENV_DPONE_INVOCATION"
_INVOCATION = INVOCATION_VARIABLE.removeprefix("DBT_ENV_CUSTOM_ENV_")

_GOOD = ("success", "pass", "warn", "no-op")
_NAMED_AT_MOST = 20
#: The largest run_results.json that is read. Parsed, a hostile one takes a worker fifty times as much memory.
FILE_BYTES = 64 * 1024 * 1024
#: The longest text of a node; dbt's own ids and statuses are far shorter.
_TEXT = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResult:
    """One node of the build. `rows` is what the adapter said was affected, if it said so."""

    unique_id: str
    status: str
    rows: int | None

    def document(self) -> dict[str, object]:
        return {"unique_id": self.unique_id, "status": self.status, "rows": self.rows}


class DbtBuildFailed(GuardError):
    """dbt did not report success for everything. That classifies nothing; the outcome comes from observation."""

    code = "DPONE_DBT_BUILD_FAILED"
    state_may_have_changed = True
    not_done = "the outcome marker was not written; models that were built before stay built."
    check = "dbt's lines above and the artifacts of this attempt."


def read_results(artifacts: Path, invocation: str) -> tuple[NodeResult, ...]:
    """The results of this invocation, from collected artifacts.

    Raises DbtBuildFailed when there are none: dbt never came so far, was killed while it wrote, or it is another's file.
    """
    try:
        path = artifacts / "target" / "run_results.json"
        if path.stat().st_size > FILE_BYTES:
            raise ValueError(f"more than {FILE_BYTES} bytes")
        document = json.loads(path.read_text(encoding="utf-8"))
        said = document["metadata"]["env"][_INVOCATION]
        results = tuple(_result(entry) for entry in document["results"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
        raise DbtBuildFailed(
            "dbt_results_unreadable", happened=f"dbt left no run_results.json that can be read ({type(err).__name__})."
        ) from err
    if said != invocation:
        raise DbtBuildFailed("dbt_results_foreign", happened="run_results.json is of another invocation of dbt.")
    return results


def require_success(results: Iterable[NodeResult], declared: Iterable[str]) -> None:
    """Raise DbtBuildFailed unless every declared node is there with success and nothing else failed."""
    found = {result.unique_id: result.status for result in results}
    wrong = {node: found.get(node, "not built") for node in declared if found.get(node) != "success"}
    wrong |= {node: status for node, status in found.items() if status not in _GOOD}
    if wrong:
        listed = [f"{node} ({status})" for node, status in sorted(wrong.items())]
        more = f" and {len(listed) - _NAMED_AT_MOST} more" if len(listed) > _NAMED_AT_MOST else ""
        raise DbtBuildFailed(
            "dbt_not_successful", happened=f"not successful: {', '.join(listed[:_NAMED_AT_MOST])}{more}."
        )


def _result(entry: Any) -> NodeResult:
    rows = (entry.get("adapter_response") or {}).get("rows_affected")
    counted = type(rows) is int and 0 <= rows <= rules.BIGINT_MAX  # -1 is a driver's word for "not known"
    return NodeResult(
        unique_id=_text(entry["unique_id"]), status=_text(entry["status"]), rows=rows if counted else None
    )


def _text(value: object) -> str:
    """What may be recorded in the ledger, and shown: bounded, one line, valid UTF-8."""
    try:
        return rules.identity_text(value, limit=_TEXT)
    except AdmissionRefused as err:
        raise ValueError("not the text of a node") from err
