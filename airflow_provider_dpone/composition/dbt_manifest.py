"""dbt's own manifest of a project, from `dbt parse`: no connection is made and nothing is left in the project."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from airflow_provider_dpone.contracts.errors import ConfigurationError

MANIFEST_SCHEMA = "https://schemas.getdbt.com/dbt/manifest/v12.json"

#: How long dbt may take for one project, in seconds.
PARSE_TIMEOUT = 600.0
#: How much of what dbt said an error repeats, in bytes.
_SAID = 6000
#: The largest file that dbt may write, in bytes: what it says, its log, its manifest.
_FILE_LIMIT = 1024 * 1024 * 1024


def parse_project(project: Path, *, database: str, schema: str, timeout: float = PARSE_TIMEOUT) -> dict[str, Any]:
    """The manifest (v12) of a dbt project for the given target database and default schema.

    dbt and whatever it started are ended after `timeout` seconds.
    """
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
        said = Path(scratch) / "said"
        code = _run(command, scratch, environment, said, timeout)
        if code != 0:
            why = (
                f"had not parsed {project.name} after {timeout:g} s"
                if code is None
                else f"could not parse {project.name}"
            )
            raise ConfigurationError(
                "dbt_parse" if code is not None else "dbt_parse_timeout",
                happened=f"dbt {why}:\n{_end_of(said)}",
                not_done="there is no new release, and dbt and its process group were ended.",
                check="the project by `dbt parse`; `compose build --dbt-timeout` gives a large one more time.",
            )
        manifest, found = _written(Path(scratch) / "target" / "manifest.json", project)
    if found != MANIFEST_SCHEMA:
        raise ConfigurationError(
            "dbt_manifest_version", happened=f"dbt wrote the manifest {found}, not {MANIFEST_SCHEMA}."
        )
    return manifest


def _run(command: Sequence[str], folder: str, environment: Mapping[str, str], said: Path, timeout: float) -> int | None:
    """The exit code of a command that is the first of its own process group; None when its time was over.

    What it says goes to a file: a pipe would wait for whoever else holds its end.
    """
    with open(said, "wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    ended = False
    try:
        _, allowed = resource.getrlimit(resource.RLIMIT_FSIZE)
        # Without the right to raise it, a host's own lower bound stays.
        bound = _FILE_LIMIT if allowed == resource.RLIM_INFINITY else min(_FILE_LIMIT, allowed)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (bound, bound))
        ended = _ended(process.pid, time.monotonic() + timeout)
    finally:
        # Also after an interrupt, and when it ended by itself and left others. It is not waited for before, so it still
        # has its number, and the group is its own.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return process.returncode if ended else None


def _ended(child: int, deadline: float) -> bool:
    """Whether a child ends before the deadline. It stays to be waited for."""
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.05)
    return True


def _written(path: Path, project: Path) -> tuple[dict[str, Any], str]:
    """The manifest that dbt wrote, and of which schema it says that it is."""
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return manifest, str(manifest["metadata"]["dbt_schema_version"])
    except (OSError, ValueError, RecursionError, LookupError, TypeError) as err:
        raise unreadable(project.name, err) from err


def unreadable(project: str, err: Exception) -> ConfigurationError:
    """The refusal of a manifest in which something is not as dbt writes it."""
    return ConfigurationError(
        "dbt_manifest",
        happened=f"dbt ended without an error on {project}, and left no manifest that can be read:"
        f" {type(err).__name__}: {err}.",
        not_done="there is no new release.",
        check="`dbt parse` of the project with the dbt that is installed here.",
    )


def _end_of(said: Path) -> str:
    with open(said, "rb") as output:
        output.seek(max(0, said.stat().st_size - _SAID))
        return output.read(_SAID).decode("utf-8", "replace")


def _profile_name(path: Path) -> str | None:
    try:
        name = yaml.safe_load(path.read_text(encoding="utf-8")).get("profile")
    except (yaml.YAMLError, RecursionError, ValueError, TypeError, LookupError, AttributeError, OverflowError) as err:
        raise ConfigurationError("dbt_project", happened=f"{path.name} is not a YAML mapping in UTF-8: {err}.") from err
    if name is not None and not isinstance(name, str):
        raise ConfigurationError("dbt_project", happened=f"{path.name} names a profile that is no text.")
    return name
