"""Which relations a dbt project writes: what dbt-sqlserver really names, and what nobody can tell is refused."""

from __future__ import annotations

import re
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dpone.composition.relations import _HELPERS, _UNIT_HELPERS, dbt_relations
from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.routes.dbt_test_views import is_test_view


def node(kind: str = "model", **config: Any) -> dict[str, Any]:
    return {"resource_type": kind, "database": "dw", "schema": "marts", "alias": "fct", "config": config}


def names(*nodes: dict[str, Any], **more: Any) -> set[str]:
    listed = {f"node.{number}": each for number, each in enumerate(nodes)}
    return {f"{each.schema}.{each.name}" for each in dbt_relations({"nodes": listed, **more}, database="dw")}


#: A column that is renamed, and a config member.
NO_RELATIONS = {"__dbt_alter", "__dbt_internal_microbatch_event_time_start"}


def macros() -> str:
    """The macros of the installed adapter, found without importing dbt, whose packages other tests of a process replace."""
    root = Path(str(distribution("dbt-sqlserver").locate_file("dbt/include/sqlserver/macros")))
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(root.rglob("*.sql")))


def test_every_suffix_in_the_macros_of_the_installed_adapter_is_known() -> None:
    """An upgrade that builds through a relation of another name fails here, not in a warehouse."""
    text = macros()
    found = set(re.findall(r"""['"](_[a-z_]*(?:dbt|tmp|temp|staging|backup)[a-z_]*)['"]""", text))
    known = {
        part
        for helpers in _HELPERS.values()
        for each in helpers
        for part in re.findall(r"_+(?:dbt|snapshot)_[a-z]+(?:_[a-z]+)*", each)
    }
    known |= {part for each in _UNIT_HELPERS for part in re.findall(r"__dbt_[a-z]+(?:_vw)?", each)}
    assert found - known == NO_RELATIONS
    families = set(re.findall(r"""["']([a-z]+_)["'] ~ local_md5""", text))
    assert families == {"testview_", "expectedview_"}
    assert all(is_test_view(f"{family}{'0f' * 16}_18999") for family in families)


def test_a_name_that_only_begins_like_a_test_view_is_nobodys() -> None:
    assert not is_test_view("testview_planes") and not is_test_view("my_testview_" + "0" * 32 + "_1")


@pytest.mark.parametrize("materialized", sorted(_HELPERS))
def test_every_materialization_declares_its_target_and_its_helpers(materialized: str) -> None:
    kind = {"seed": "seed", "snapshot": "snapshot"}.get(materialized, "model")
    assert names(node(kind, materialized=materialized)) == {
        "marts.fct",
        *(f"marts.fct{each}" for each in _HELPERS[materialized]),
    }


def test_a_stored_failure_is_a_table_and_a_unit_test_builds_through_one() -> None:
    assert names(node("test", materialized="test")) == set()
    assert "marts.fct__dbt_backup" in names(node("test", materialized="test", store_failures=True))
    assert "marts.fct__dbt_refresh" not in names(node("test", store_failures_as="view", materialized="test"))
    unit = {"unit.1": {"name": "adds_up", "schema": "marts"}}
    assert names(unit_tests=unit) == {f"marts.adds_up{each}" for each in _UNIT_HELPERS}


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (node(materialized="table", **{"pre-hook": [{"sql": "delete from x"}]}), "dbt_hook"),
        (node(materialized="table", **{"post-hook": [{"sql": "delete from x"}]}), "dbt_hook"),
        (node("operation"), "dbt_hook"),
        (node(materialized="materialized_view"), "dbt_materialization"),
        (node("function", materialized="function"), "dbt_materialization"),
        (node(materialized="table") | {"database": "other"}, "dbt_database"),
    ],
)
def test_what_writes_where_no_manifest_says_is_refused_by_name(found: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason) as refused:
        names(found)
    assert "node.0" in str(refused.value)


def test_a_function_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="dbt_function"):
        names(functions={"function.shop.f": {}})
