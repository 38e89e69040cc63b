"""What Airflow reads about the package, against Airflow's own schemas."""

from __future__ import annotations

import json
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import airflow
import jsonschema  # type: ignore[import-untyped]  # has no annotations
import pytest

from airflow_provider_dpone.get_provider_info import get_provider_info

AIRFLOW = Path(airflow.__file__).parent


def imported(path: str) -> object:
    module, name = path.rsplit(".", 1)
    return getattr(import_module(module), name)


@pytest.mark.parametrize("schema", ["provider_info.schema.json", "provider.yaml.schema.json"])
def test_connection_types_follow_the_schema(schema: str) -> None:
    document = json.loads((AIRFLOW / schema).read_text())
    jsonschema.validate(
        get_provider_info()["connection-types"],
        {"definitions": document.get("definitions", {}), **document["properties"]["connection-types"]},
    )


def test_provider_info_follows_the_schema() -> None:
    jsonschema.validate(get_provider_info(), json.loads((AIRFLOW / "provider_info.schema.json").read_text()))


def test_every_named_class_exists() -> None:
    info = get_provider_info()
    for connection in info["connection-types"]:
        hook = imported(connection["hook-class-name"])
        assert hook.conn_type == connection["connection-type"]  # type: ignore[attr-defined]  # a hook class
        assert hook.hook_name == connection["hook-name"]  # type: ignore[attr-defined]  # a hook class
    for link in info["extra-links"]:
        imported(link)
    for kind in ("operators", "sensors", "triggers", "hooks"):
        for entry in info[kind]:
            for module in entry["python-modules"]:
                import_module(module)


def test_airflow_finds_the_package_and_the_plugin_once() -> None:
    (provider,) = [each for each in entry_points(group="apache_airflow_provider") if "dpone" in each.value]
    (plugin,) = [each for each in entry_points(group="airflow.plugins") if "dpone" in each.value]
    assert provider.load()() == get_provider_info()
    assert plugin.load().name == "dpone"
    # Airflow loads plugins through the entry point; naming it in the provider info too would load it twice.
    assert "plugins" not in get_provider_info()
