"""The qualification plan: what is seeded, run and sealed, in order, with every effect named."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

from airflow_provider_dpone.contracts import canonical, rules
from airflow_provider_dpone.contracts.errors import AuthorityRefused
from airflow_provider_dpone.contracts.nonproduction.fixtures import ITEMS_MAX, PlanOriginal, original_from
from airflow_provider_dpone.contracts.nonproduction.scope import (
    Limits,
    RouteDimensions,
    limits_from,
    route_from,
    stored_object,
    text,
)

QUALIFICATION_PLAN_SCHEMA = "dpone.nonproduction-qualification-plan.v1"
WORK_ITEM_SCHEMA = "dpone.nonproduction-qualification-work-item.v1"

EFFECT_PURPOSES = ("fixture", "source", "target", "helper", "staging", "state")
SEED_STEPS = ("initial",)

_ACCOUNTING = re.compile(r"[a-z][a-z0-9_]{0,126}")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class PlanEffect:
    """One access of a work item to one object."""

    object_id: str
    access: str
    purpose: str

    def __post_init__(self) -> None:
        with rules.refusing_as(AuthorityRefused):
            text(self.object_id)
            rules.one_of(self.access, ("read", "write"), "plan_item")
            rules.one_of(self.purpose, EFFECT_PURPOSES, "plan_item")

    def members(self) -> dict[str, object]:
        return {"object_id": self.object_id, "access": self.access, "purpose": self.purpose}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBound:
    """The finite bound of what one item may read, and the files that it was derived from."""

    source_object_id: str
    accounting_profile: str
    input_original: PlanOriginal
    projection_original: PlanOriginal
    derivation_original: PlanOriginal

    def __post_init__(self) -> None:
        with rules.refusing_as(AuthorityRefused):
            text(self.source_object_id)
            if type(self.accounting_profile) is not str or not _ACCOUNTING.fullmatch(self.accounting_profile):
                rules.refuse("plan_profile")
            for original in (self.input_original, self.projection_original, self.derivation_original):
                rules.record(original, PlanOriginal, "plan_originals")

    def members(self) -> dict[str, object]:
        return {
            "source_object_id": self.source_object_id,
            "accounting_profile": self.accounting_profile,
            "input_original": self.input_original.members(),
            "projection_original": self.projection_original.members(),
            "derivation_original": self.derivation_original.members(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _WorkItem:
    """What all three actions have in common."""

    action: ClassVar[Literal["fixture_seed", "route_qualification", "source_seal"]]

    work_item_id: str
    fixture_id: str
    predecessor_ids: tuple[str, ...]
    effects: tuple[PlanEffect, ...]
    limits: Limits

    def _require_common(self) -> None:
        rules.record(self.limits, Limits, "limits")
        text(self.work_item_id)
        text(self.fixture_id)
        if type(self.predecessor_ids) is not tuple:
            rules.refuse("array")
        for predecessor in self.predecessor_ids:
            text(predecessor)
        rules.ascending(self.predecessor_ids, "closure")
        rules.records(self.effects, PlanEffect, "array", at_most=ITEMS_MAX)
        rules.ascending(self.effects, "closure")

    def nested(self) -> dict[str, object]:
        """The item as it stands in a plan: without a schema of its own."""
        return {
            "action": self.action,
            "work_item_id": self.work_item_id,
            "fixture_id": self.fixture_id,
            "predecessor_ids": self.predecessor_ids,
            "effects": [effect.members() for effect in self.effects],
            "limits": self.limits.members(),
        }

    @property
    def sha256(self) -> str:
        """The work item digest that an operation names."""
        return canonical.exact_sha256({"schema": WORK_ITEM_SCHEMA, **self.nested()})


@dataclass(frozen=True, slots=True, kw_only=True)
class FixtureSeed(_WorkItem):
    """Write the fixture's source rows."""

    action = "fixture_seed"

    seed_step: str

    def __post_init__(self) -> None:
        with rules.refusing_as(AuthorityRefused):
            self._require_common()
            rules.one_of(self.seed_step, SEED_STEPS, "plan_item")

    def nested(self) -> dict[str, object]:
        return {**_WorkItem.nested(self), "seed_step": self.seed_step}


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteQualification(_WorkItem):
    """Run one route on the fixture, within a finite source bound."""

    action = "route_qualification"

    route: RouteDimensions
    reviewed_case_original: PlanOriginal
    source_bound: SourceBound

    def __post_init__(self) -> None:
        with rules.refusing_as(AuthorityRefused):
            self._require_common()
            rules.record(self.route, RouteDimensions, "route_scope")
            rules.record(self.reviewed_case_original, PlanOriginal, "plan_originals")
            rules.record(self.source_bound, SourceBound, "plan_item")

    def nested(self) -> dict[str, object]:
        return {
            **_WorkItem.nested(self),
            "route": self.route.members(),
            "reviewed_case_original": self.reviewed_case_original.members(),
            "source_bound": self.source_bound.members(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSeal(_WorkItem):
    """Observe the retained sources after every writer is closed. Read-only towards the participants."""

    action = "source_seal"

    retained_source_ids: tuple[str, ...]
    seal_recipe_original: PlanOriginal

    def __post_init__(self) -> None:
        with rules.refusing_as(AuthorityRefused):
            self._require_common()
            rules.record(self.seal_recipe_original, PlanOriginal, "plan_originals")
            if type(self.retained_source_ids) is not tuple or not self.retained_source_ids:
                rules.refuse("array")
            for object_id in self.retained_source_ids:
                text(object_id)
            rules.ascending(self.retained_source_ids, "closure")
            if any(effect.access != "read" for effect in self.effects):
                rules.refuse("plan_item")

    def nested(self) -> dict[str, object]:
        return {
            **_WorkItem.nested(self),
            "retained_source_ids": self.retained_source_ids,
            "seal_recipe_original": self.seal_recipe_original.members(),
        }


WorkItem = FixtureSeed | RouteQualification | SourceSeal

_WORK_ITEM_KINDS: Mapping[object, type[WorkItem]] = {
    kind.action: kind for kind in (FixtureSeed, RouteQualification, SourceSeal)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QualificationPlan:
    """The ordered work items of one run, under its scope and fixture plan."""

    scope_sha256: str
    fixture_plan_sha256: str
    work_items: tuple[WorkItem, ...]

    def __post_init__(self) -> None:
        with rules.refusing_as(AuthorityRefused):
            rules.digest(self.scope_sha256)
            rules.digest(self.fixture_plan_sha256)
            if type(self.work_items) is not tuple or not 0 < len(self.work_items) <= ITEMS_MAX:
                rules.refuse("array")
            if any(type(item) not in _WORK_ITEM_KINDS.values() for item in self.work_items):
                rules.refuse("plan_item")
            rules.ascending([item.work_item_id for item in self.work_items], "closure")

    @property
    def sha256(self) -> str:
        return canonical.exact_sha256(self.members())

    def members(self) -> dict[str, object]:
        return {
            "schema": QUALIFICATION_PLAN_SCHEMA,
            "scope_sha256": self.scope_sha256,
            "fixture_plan_sha256": self.fixture_plan_sha256,
            "work_items": [item.nested() for item in self.work_items],
        }

    def document(self) -> bytes:
        return canonical.exact_bytes(self.members())


def work_item_from(value: object) -> WorkItem:
    """Rebuild one work item from decoded members; the action says which kind."""
    with rules.refusing_as(AuthorityRefused), rules.shaped("plan_item"):
        action = value.get("action") if isinstance(value, Mapping) else None
        kind = _WORK_ITEM_KINDS.get(action)
        if kind is None:
            rules.refuse("plan_item")
        body = rules.members(value, ["action", *(field.name for field in fields(kind))])
        del body["action"]
        body["limits"] = limits_from(body["limits"])
        body["predecessor_ids"] = rules.array(body["predecessor_ids"])
        body["effects"] = tuple(_effect_from(item) for item in rules.array(body["effects"]))
        if kind is RouteQualification:
            body["route"] = route_from(body["route"])
            body["reviewed_case_original"] = original_from(body["reviewed_case_original"])
            body["source_bound"] = _source_bound_from(body["source_bound"])
        elif kind is SourceSeal:
            body["retained_source_ids"] = rules.array(body["retained_source_ids"])
            body["seal_recipe_original"] = original_from(body["seal_recipe_original"])
        return kind(**body)


def _effect_from(value: object) -> PlanEffect:
    return PlanEffect(**rules.members(value, ["object_id", "access", "purpose"]))


def _source_bound_from(value: object) -> SourceBound:
    body = rules.members(value, [field.name for field in fields(SourceBound)])
    for name in ("input_original", "projection_original", "derivation_original"):
        body[name] = original_from(body[name])
    return SourceBound(**body)


def qualification_plan_from(body: Mapping[str, Any]) -> QualificationPlan:
    """Rebuild the typed record from decoded members."""
    with rules.refusing_as(AuthorityRefused):
        values = rules.members(body, ["schema", "scope_sha256", "fixture_plan_sha256", "work_items"])
        return QualificationPlan(
            scope_sha256=values["scope_sha256"],
            fixture_plan_sha256=values["fixture_plan_sha256"],
            work_items=tuple(work_item_from(item) for item in rules.array(values["work_items"])),
        )


def decode_qualification_plan(document: object, sha256: str) -> QualificationPlan:
    """Read a stored plan back: same digest *and* same bytes."""
    with rules.refusing_as(AuthorityRefused):
        plan = qualification_plan_from(stored_object(document, QUALIFICATION_PLAN_SCHEMA))
        if plan.sha256 != rules.digest(sha256) or plan.document() != document:
            rules.refuse("document")
        return plan
