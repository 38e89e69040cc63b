"""Which relations a workload writes: its targets, and every helper that the adapter creates on the way.

The names come from dbt's own manifest (v12) and from what dbt-sqlserver 1.12 appends to them while it builds.
"""

from __future__ import annotations

from collections.abc import Mapping
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

    A node that writes to another database, or with a materialization whose helpers are not known, is refused.
    """
    relations: list[WrittenRelation] = []
    for unique_id, node in sorted(manifest["nodes"].items()):
        if node["resource_type"] not in ("model", "seed", "snapshot"):
            continue
        materialized = str(node["config"].get("materialized", "view"))
        if materialized == "ephemeral":
            continue
        if materialized not in _HELPERS:
            raise ConfigurationError(
                "dbt_materialization",
                happened=f"{unique_id} is materialized as {materialized}, which is not supported.",
            )
        if str(node["database"]).casefold() != database.casefold():
            raise ConfigurationError(
                "dbt_database", happened=f"{unique_id} writes to the database {node['database']}, not to {database}."
            )
        name = str(node["alias"])
        rebuildable = _rebuildable(materialized, node["config"])
        for suffix in ("", *_HELPERS[materialized]):
            relations.append(
                WrittenRelation(
                    resource_id=unique_id,
                    schema=str(node["schema"]),
                    name=name + suffix,
                    role="intermediate" if suffix else "target",
                    materialized=materialized,
                    rebuildable=rebuildable,
                )
            )
    return tuple(relations)


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
