"""Parsing a DAG costs little and touches nothing: no database, no secret, no network, no heavy library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DAGS = Path(__file__).resolve().parents[2] / "dags_examples"
EXPECTED = {
    "hello_guarded_world.py": {"dpone_hello"},
    # The third says that nobody has said where the releases are.
    "dpone_compositions.py": {"dpone_maintenance", "dpone_reconcile", "dpone__refused"},
}

#: Airflow is imported once; each DAG file is parsed in a process of its own, which has imported that and nothing else.
PARSE = """
import json, os, runpy, socket, sys

def refuse(*_args, **_kwargs):
    raise AssertionError("a DAG file used the network while it was parsed")

import airflow.sdk
from airflow.sdk import BaseHook
for name in ("connect", "connect_ex", "bind", "sendto"):
    setattr(socket.socket, name, refuse)
socket.getaddrinfo = refuse
BaseHook.get_connection = classmethod(refuse)
from airflow.sdk.definitions._internal.contextmanager import DagContext
# As the DAG processor does, so that a DAG counts although no variable holds it.
DagContext.current_autoregister_module_name = "__main__"
before = set(sys.modules)

def parse(file):
    runpy.run_path(file)
    dags = {dag.dag_id: dag.schedule for dag, _ in DagContext.autoregistered_dags}
    libraries = ("mssql_python", "clickhouse_connect", "psycopg", "pyarrow", "dbt", "chdb")
    heavy = [m for m in libraries if m in set(sys.modules) - before]
    print(json.dumps({"file": file, "dags": dags, "heavy": heavy}), flush=True)

for file in sys.argv[1:]:
    if os.fork() == 0:
        parse(file)
        os._exit(0)
    if os.wait()[1] != 0:
        sys.exit(f"{file} could not be parsed")
"""

TIME = """
import os, sys, time
import airflow
from airflow.sdk import BaseOperator, BaseHook, TaskGroup
from airflow.triggers.base import BaseTrigger
from airflow.plugins_manager import AirflowPlugin

def measure():
    began = time.process_time()
    import airflow_provider_dpone
    import airflow_provider_dpone.get_provider_info
    import airflow_provider_dpone.hooks
    import airflow_provider_dpone.operators
    import airflow_provider_dpone.sensors
    import airflow_provider_dpone.task_groups
    import airflow_provider_dpone.triggers
    import airflow_provider_dpone.plugins.attempts
    print(time.process_time() - began, flush=True)

for _ in range(3):
    if os.fork() == 0:
        measure()
        os._exit(0)
    if os.wait()[1] != 0:
        sys.exit("the provider could not be imported")
"""


def python(code: str, *arguments: str) -> list[str]:
    """What a process of its own prints, line by line."""
    nowhere = "postgresql+psycopg://nobody@127.0.0.1:1/none"
    environment = os.environ | {
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": nowhere,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": nowhere,
    }
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip().splitlines()


@pytest.fixture(scope="module")
def parsed() -> dict[str, Any]:
    """What parsing each example gave, by file name."""
    printed = python(PARSE, *(str(DAGS / name) for name in sorted(EXPECTED)))
    answers = [json.loads(line) for line in printed if line.startswith('{"file"')]
    return {Path(answer["file"]).name: answer for answer in answers}


def test_every_example_is_known_here() -> None:
    assert {path.name for path in DAGS.glob("*.py")} == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_parsing_touches_nothing(parsed: dict[str, Any], name: str) -> None:
    answer = parsed[name]
    assert set(answer["dags"]) == EXPECTED[name]
    assert set(answer["dags"].values()) == {None}, "examples run by explicit triggers only"
    assert answer["heavy"] == []


def test_importing_the_provider_adds_less_than_a_third_of_a_second() -> None:
    best = min(map(float, python(TIME)[-3:]))
    assert best < 0.3
