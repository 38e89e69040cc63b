"""dbt's own manifest of a project, from `dbt parse`: no connection is made and nothing is left in the project."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from airflow_provider_dpone.contracts.errors import ConfigurationError

MANIFEST_SCHEMA = "https://schemas.getdbt.com/dbt/manifest/v12.json"


def parse_project(project: Path, *, database: str, schema: str) -> dict[str, Any]:
    """The manifest (v12) of a dbt project for the given target database and default schema."""
    if not (project / "dbt_project.yml").is_file():
        raise ConfigurationError("dbt_project", happened=f"{project} holds no dbt_project.yml.")
    profile_name = _profile_name(project / "dbt_project.yml")
    with tempfile.TemporaryDirectory(prefix="dpone-parse-") as scratch:
        target = {
            "type": "sqlserver",
            "backend": "mssql-python",
            "host": "localhost",
            "port": 1433,
            "database": database,
            "schema": schema,
            "user": "nobody",
            "password": "not-connected",
        }
        profiles = {profile_name: {"target": "parse", "outputs": {"parse": target}}}
        (Path(scratch) / "profiles.yml").write_text(yaml.safe_dump(profiles), encoding="utf-8")
        command = [sys.executable, "-m", "dbt.cli.main", "--log-path", f"{scratch}/logs", "parse"]
        command += ["--project-dir", str(project), "--profiles-dir", scratch, "--target-path", f"{scratch}/target"]
        environment = {"PATH": os.environ.get("PATH", ""), "HOME": scratch, "LANG": "C.UTF-8", "DO_NOT_TRACK": "1"}
        finished = subprocess.run(command, cwd=scratch, env=environment, capture_output=True, text=True, check=False)
        if finished.returncode != 0:
            raise ConfigurationError(
                "dbt_parse",
                happened=f"dbt could not parse {project.name}:\n{finished.stdout[-4000:]}{finished.stderr[-2000:]}",
            )
        manifest: dict[str, Any] = json.loads((Path(scratch) / "target" / "manifest.json").read_text(encoding="utf-8"))
    found = manifest["metadata"]["dbt_schema_version"]
    if found != MANIFEST_SCHEMA:
        raise ConfigurationError(
            "dbt_manifest_version", happened=f"dbt wrote the manifest {found}, not {MANIFEST_SCHEMA}."
        )
    return manifest


def _profile_name(path: Path) -> str | None:
    try:
        name = yaml.safe_load(path.read_text(encoding="utf-8")).get("profile")
    except (yaml.YAMLError, RecursionError, ValueError, TypeError, LookupError, AttributeError, OverflowError) as err:
        raise ConfigurationError("dbt_project", happened=f"{path.name} is not a YAML mapping in UTF-8: {err}.") from err
    if name is not None and not isinstance(name, str):
        raise ConfigurationError("dbt_project", happened=f"{path.name} names a profile that is no text.")
    return name
