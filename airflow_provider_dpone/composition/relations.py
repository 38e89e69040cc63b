"""Which relations a workload writes: its targets, and every helper that the adapter creates on the way.

The names come from dbt's own manifest (v12) and from what dbt-sqlserver 1.12 appends to them while it builds. A test of
the installed adapter's macros says when an upgrade brings a name that is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from airflow_provider_dpone.contracts.errors import ConfigurationError

RelationRole = Literal["target", "intermediate"]

#: What dbt-sqlserver appends to a relation's name, by materialization. `__dbt_tmp_vw` goes onto whatever is built.
_HELPERS: dict[str, tuple[str, ...]] = {
    "view": ("__dbt_tmp", "__dbt_backup"),
    "table": (
        "__dbt_tmp",
        "__dbt_backup",
        "__dbt_refresh",
        "__dbt_tmp_vw",
        "__dbt_tmp__dbt_tmp_vw",
        "__dbt_refresh__dbt_tmp_vw",
    ),
    "incremental": (
        "__dbt_tmp",
        "__dbt_temp",
        "__dbt_backup",
        "__dbt_tmp_vw",
        "__dbt_tmp__dbt_tmp_vw",
        "__dbt_temp__dbt_tmp_vw",
    ),
    "snapshot": (
        "__dbt_tmp",
        "__dbt_temp",
        "__dbt_tmp_vw",
        "__dbt_tmp__dbt_tmp_vw",
        "__dbt_temp__dbt_tmp_vw",
        "_snapshot_staging_temp_view",
    ),
    "seed": (),
}

#: What a unit test appends to its own name, in the schema of the model that it tests.
_UNIT_HELPERS = ("__dbt_temp", "__dbt_temp__dbt_tmp_vw")

#: Nodes of a manifest that write nothing.
_READ_ONLY = frozenset({"analysis", "sql_operation"})


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRelation:
    """One relation that a workload may create, change or drop.

    `rebuildable` says whether a retry may write it again without asking: an append without a key may not (10.6).
    """

    resource_id: str
    schema: str
    name: str
    role: RelationRole
    materialized: str
    rebuildable: bool

    def document(self) -> dict[str, object]:
        return {
            "resource_id": self.resource_id,
            "schema": self.schema,
            "name": self.name,
            "role": self.role,
            "materialized": self.materialized,
            "rebuildable": self.rebuildable,
        }


def dbt_relations(manifest: Mapping[str, Any], *, database: str) -> tuple[WrittenRelation, ...]:
    """Every relation write of a dbt project, from its manifest.json.

    Refused is what writes where nobody can tell: a node for another database, a materialization whose helpers are not
    known, hooks (SQL of their own) and functions.
    """
    relations = [
        relation
        for unique_id, node in sorted(manifest["nodes"].items())
        for relation in _node(unique_id, node, database)
    ]
    for unique_id, test in sorted(manifest.get("unit_tests", {}).items()):
        relations += [_unit_helper(unique_id, test, suffix) for suffix in _UNIT_HELPERS]
    if functions := sorted(manifest.get("functions", {})):
        raise ConfigurationError("dbt_function", happened=f"{functions[0]} makes a function, which is not supported.")
    return tuple(relations)


def _node(unique_id: str, node: Mapping[str, Any], database: str) -> Iterator[WrittenRelation]:
    kind, config = str(node["resource_type"]), node["config"]
    if kind in _READ_ONLY:
        return
    if kind == "operation" or config.get("pre-hook") or config.get("post-hook"):
        raise ConfigurationError(
            "dbt_hook",
            happened=f"{unique_id} runs a hook: SQL of its own, whose writes stand in no manifest.",
            check="whether a model, a test or the adapter's own config (indexes, grants) can do what the hook does.",
        )
    materialized = str(config.get("materialized", "view"))
    if kind == "test":
        if not _stores_failures(config):
            return
        materialized = str(config.get("store_failures_as") or "table")
    if materialized == "ephemeral":
        return
    if materialized not in _HELPERS or kind not in ("model", "seed", "snapshot", "test"):
        raise ConfigurationError(
            "dbt_materialization",
            happened=f"{unique_id} is a {kind} materialized as {materialized}, which is not supported.",
        )
    if str(node["database"]).casefold() != database.casefold():
        raise ConfigurationError(
            "dbt_database", happened=f"{unique_id} writes to the database {node['database']}, not to {database}."
        )
    name, rebuildable = str(node["alias"]), _rebuildable(materialized, config)
    for suffix in ("", *_HELPERS[materialized]):
        yield WrittenRelation(
            resource_id=unique_id,
            schema=str(node["schema"]),
            name=name + suffix,
            role="intermediate" if suffix else "target",
            materialized=materialized,
            rebuildable=rebuildable,
        )


def _stores_failures(config: Mapping[str, Any]) -> bool:
    return bool(config.get("store_failures")) or config.get("store_failures_as") in ("table", "view")


def _unit_helper(unique_id: str, test: Mapping[str, Any], suffix: str) -> WrittenRelation:
    return WrittenRelation(
        resource_id=unique_id,
        schema=str(test["schema"]),
        name=f"{test['name']}{suffix}",
        role="intermediate",
        materialized="unit",
        rebuildable=True,
    )


def transfer_relation(workload_id: str, *, schema: str, name: str) -> tuple[WrittenRelation, ...]:
    """The target of a full refresh; its staging tables carry the attempt in their names and are nobody else's."""
    return (
        WrittenRelation(
            resource_id=workload_id,
            schema=schema,
            name=name,
            role="target",
            materialized="full_refresh",
            rebuildable=True,
        ),
    )


def _rebuildable(materialized: str, config: Mapping[str, Any]) -> bool:
    if materialized != "incremental":
        return True
    return bool(config.get("unique_key")) and config.get("incremental_strategy") != "append"
