"""The fixture plan: every object of a campaign, and the data sets that are seeded into them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from airflow_provider_dpone.contracts import canonical, rules
from airflow_provider_dpone.contracts.errors import AuthorityRefused
from airflow_provider_dpone.contracts.nonproduction.scope import stored_object, text

FIXTURE_PLAN_SCHEMA = "dpone.nonproduction-fixture-plan.v1"

#: How many parts a qualified name has on each engine.
NAME_PARTS: Mapping[str, int] = {"mssql": 3, "postgres": 3, "clickhouse": 2}
ORIGINAL_LIMIT = 1024 * 1024 * 1024
ITEMS_MAX = 256

_PROFILE = re.compile(r"[a-z][a-z0-9_]{0,126}_v[1-9][0-9]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOriginal:
    """A reviewed file, by repository path, digest and size."""

    path: str
    sha256: str
    size_bytes: int

    def __post_init__(self) -> None:
        with rules.refusing_as(AuthorityRefused):
            parts = text(self.path).split("/")
            if "\\" in self.path or any(part in ("", ".", "..") for part in parts):
                rules.refuse("plan_originals")
            rules.digest(self.sha256)
            rules.whole_number(self.size_bytes, "plan_originals", at_least=1, at_most=ORIGINAL_LIMIT)

    def members(self) -> dict[str, object]:
        return {"path": self.path, "sha256": self.sha256, "size_bytes": self.size_bytes}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanObject:
    """One physical table that fixtures and work items refer to by ``object_id``."""

    object_id: str
    connector: str
    service_id: str
    physical_subject_sha256: str
    subject_sha256: str
    object_kind: str
    qualified_name: tuple[str, ...]

    def __post_init__(self) -> None:
        with rules.refusing_as(AuthorityRefused):
            text(self.object_id)
            rules.uuid_text(self.service_id, "uuid", nil=False)
            rules.digest(self.physical_subject_sha256)
            rules.digest(self.subject_sha256)
            if self.qualified_name == ():
                rules.refuse("array")
            if self.object_kind != "table" or type(self.qualified_name) is not tuple:
                rules.refuse("plan_objects")
            rules.one_of(self.connector, NAME_PARTS, "plan_objects")
            if NAME_PARTS[self.connector] != len(self.qualified_name):
                rules.refuse("plan_objects")
            for part in self.qualified_name:
                text(part)

    def members(self) -> dict[str, object]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixture:
    """One seeded data set: its recipe, parameters and the objects that it binds."""

    fixture_id: str
    profile: str
    recipe_original: PlanOriginal
    parameters: tuple[tuple[str, int | bool], ...]
    bindings: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        with rules.refusing_as(AuthorityRefused), rules.shaped("fields"):
            text(self.fixture_id)
            rules.record(self.recipe_original, PlanOriginal, "plan_originals")
            if type(self.profile) is not str or not _PROFILE.fullmatch(self.profile):
                rules.refuse("plan_profile")
            if not self.parameters or not self.bindings:
                rules.refuse("closure")
            for name, value in self.parameters:
                text(name)
                if name.endswith("_count"):
                    rules.whole_number(value, "plan_profile", at_least=0, at_most=100_000)
                elif type(value) not in (int, bool):
                    rules.refuse("plan_profile")
            for slot, object_id in self.bindings:
                text(slot)
                text(object_id)
            if [slot for slot, _ in self.bindings] != ["source", "target"]:
                rules.refuse("plan_bindings")
            if self.bindings[0][1] == self.bindings[1][1]:
                rules.refuse("plan_bindings")

    def members(self) -> dict[str, object]:
        return {
            "fixture_id": self.fixture_id,
            "profile": self.profile,
            "recipe_original": self.recipe_original.members(),
            "parameters": dict(self.parameters),
            "bindings": dict(self.bindings),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FixturePlan:
    """Every object and fixture of a campaign, under its scope."""

    scope_sha256: str
    objects: tuple[PlanObject, ...]
    fixtures: tuple[Fixture, ...]

    def __post_init__(self) -> None:
        with rules.refusing_as(AuthorityRefused):
            rules.digest(self.scope_sha256)
            rules.records(self.objects, PlanObject, "array", at_most=ITEMS_MAX)
            rules.records(self.fixtures, Fixture, "array", at_most=ITEMS_MAX)
            rules.ascending([item.object_id for item in self.objects], "closure")
            rules.ascending([item.fixture_id for item in self.fixtures], "closure")
            known = {item.object_id for item in self.objects}
            if any(object_id not in known for fixture in self.fixtures for _, object_id in fixture.bindings):
                rules.refuse("plan_reference")

    @property
    def sha256(self) -> str:
        return canonical.exact_sha256(self.members())

    def members(self) -> dict[str, object]:
        return {
            "schema": FIXTURE_PLAN_SCHEMA,
            "scope_sha256": self.scope_sha256,
            "objects": [item.members() for item in self.objects],
            "fixtures": [item.members() for item in self.fixtures],
        }

    def document(self) -> bytes:
        return canonical.exact_bytes(self.members())


def original_from(value: object) -> PlanOriginal:
    """Rebuild the typed record from decoded members."""
    return PlanOriginal(**rules.members(value, ["path", "sha256", "size_bytes"]))


def fixture_plan_from(body: Mapping[str, Any]) -> FixturePlan:
    """Rebuild the typed record from decoded members."""
    with rules.refusing_as(AuthorityRefused):
        values = rules.members(body, ["schema", "scope_sha256", "objects", "fixtures"])
        return FixturePlan(
            scope_sha256=values["scope_sha256"],
            objects=tuple(_object_from(item) for item in rules.array(values["objects"])),
            fixtures=tuple(_fixture_from(item) for item in rules.array(values["fixtures"])),
        )


def _object_from(value: object) -> PlanObject:
    body = rules.members(value, [field.name for field in fields(PlanObject)])
    body["qualified_name"] = rules.array(body["qualified_name"])
    return PlanObject(**body)


def _fixture_from(value: object) -> Fixture:
    body = rules.members(value, [field.name for field in fields(Fixture)])
    for name in ("parameters", "bindings"):
        if not isinstance(body[name], dict):
            rules.refuse("fields")
        body[name] = tuple(sorted(body[name].items()))
    body["recipe_original"] = original_from(body["recipe_original"])
    return Fixture(**body)


def decode_fixture_plan(document: object, sha256: str) -> FixturePlan:
    """Read a stored plan back: same digest *and* same bytes."""
    with rules.refusing_as(AuthorityRefused):
        plan = fixture_plan_from(stored_object(document, FIXTURE_PLAN_SCHEMA))
        if plan.sha256 != rules.digest(sha256) or plan.document() != document:
            rules.refuse("document")
        return plan
