"""The verdict on a dbt attempt, from three observations and a marker. Pure: no connection, no clock.

SUCCEEDED rests on all of this, and on no exit code and no artifact of dbt:

* the executing process recorded in the ledger what an observer saw when dbt had ended (`marked`);
* the attempt's own login then wrote the marker in the target, under the fence, and it carries that record's digest;
* after closure and quiescence an observer sees exactly what was recorded: nobody wrote in between;
* every declared relation exists, and no helper relation is left by this attempt.

dbt holds the same login and could write a marker of its own; the ledger's record it cannot write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.proof import TerminalState
from airflow_provider_dpone.gates.target_fence import Marker
from airflow_provider_dpone.routes.interface import Outcome
from airflow_provider_dpone.routes.relation_inventory import UNCHECKED, RelationState, changes, relation_key


class DeclaredRelation(Protocol):
    """A relation write as the release declares it."""

    @property
    def resource_id(self) -> str: ...
    @property
    def schema(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def materialized(self) -> str: ...
    @property
    def rebuildable(self) -> bool: ...


def judge(
    declared: Sequence[DeclaredRelation],
    *,
    admission: Mapping[str, Any] | None,
    marked: Mapping[str, Any] | None,
    marker: Marker | None,
    after: Mapping[str, RelationState],
) -> Outcome:
    """`admission` and `marked` are the ledger's records, `after` is what is there after closure and quiescence.

    Otherwise FAILED, with what differs and every partial effect by name; or COMMIT_UNKNOWN, for an operator, when a
    relation that only grows was touched: a retry would append its rows again.
    """
    names = [(relation.schema, relation.name) for relation in declared]
    before: Mapping[str, RelationState] = admission["relations"] if admission else after
    effects = changes(before, after, names)
    differs = {
        "marker": _marker_differs(marked, marker),
        "targets_missing": [key for key in _keys(declared, "target") if key not in after],
        "helpers_left": [
            key
            for key in _keys(declared, "intermediate")
            # One that was there at admission, and still is as it was, is not this attempt's.
            if key in after and effects.get(key, UNCHECKED) != UNCHECKED
        ],
        "changed_since_marker": _since(marked, after, names),
    }
    touched = [relation_key(r.schema, r.name) for r in declared if r.role == "target" and not r.rebuildable]
    appended = [key for key in touched if key in effects]
    evidence = {
        "schema": "dpone.dbt-outcome.v2",
        "admission_recorded": admission is not None,
        "marked_sha256": canonical.exact_sha256(marked) if marked else None,
        "marker_evidence_sha256": marker.evidence_sha256 if marker else None,
        "differs": {name: found for name, found in differs.items() if found},
        "changes": effects,
        "appends_without_key": appended,
        "relations": after,
    }
    return Outcome(state=_state(admission, marked, marker, evidence), evidence=evidence)


def _state(
    admission: Mapping[str, Any] | None,
    marked: Mapping[str, Any] | None,
    marker: Marker | None,
    evidence: Mapping[str, Any],
) -> TerminalState:
    if admission is None:
        # Stored before the credential exists: without it nothing was ever written, and a marker is nobody's.
        return "FAILED" if marked is None and marker is None else "COMMIT_UNKNOWN"
    if not evidence["differs"]:
        return "SUCCEEDED"
    return "COMMIT_UNKNOWN" if evidence["appends_without_key"] else "FAILED"


def _marker_differs(marked: Mapping[str, Any] | None, marker: Marker | None) -> str:
    if marker is None:
        return "never written"
    if marked is None:
        return "written without a record in the ledger"
    if marker.evidence_sha256 != canonical.exact_sha256(marked):
        return "not of the record in the ledger"
    return ""


def _since(
    marked: Mapping[str, Any] | None, after: Mapping[str, RelationState], names: Iterable[tuple[str, str]]
) -> dict[str, str]:
    """What was not looked at completely cannot be said to have changed; the states name it in `unchecked`."""
    if marked is None:
        return {}
    found = changes(marked["relations"], after, names)
    return {key: how for key, how in found.items() if how != UNCHECKED}


def _keys(declared: Iterable[DeclaredRelation], role: str) -> list[str]:
    return [relation_key(relation.schema, relation.name) for relation in declared if relation.role == role]
