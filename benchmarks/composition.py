"""What a composition costs where nobody waits for a server: imports, parsing, and a cold `composition status`.

    python -m benchmarks.composition [--workloads 125,250,500,1000,2000] [--owners 10,1000,10000] [--output docs/performance.md]

Counts and CPU seconds of this process's children, and for `status`, which a person waits for, seconds on the clock. It
writes its tables between its own marks of the output file, and ends with an error when a figure that must hold does not.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from airflow_provider_dpone.composition import deployment, projection, release
from benchmarks.control_ledger import ROOT, Report, header, new_ledger, stack, write
from tests.support.compositions import COMPOSITION, ORDINARY, Store, activation, write_source
from tests.support.live_ledger import LiveLedger
from tests.support.long_history import LongHistory

BEGIN, END = "<!-- benchmarks.composition begins -->", "<!-- benchmarks.composition ends -->"
_IMPORTS = ("hooks", "operators", "sensors", "task_groups", "triggers", "dags", "plugins.attempts", "get_provider_info")

IMPORT = f"""
import time
import airflow
from airflow.sdk import BaseOperator, BaseHook, TaskGroup
from airflow.triggers.base import BaseTrigger
from airflow.plugins_manager import AirflowPlugin
began = time.process_time()
{chr(10).join(f"import airflow_provider_dpone.{name}" for name in _IMPORTS)}
print(time.process_time() - began)
"""
PARSE = """
import sys, time
from airflow_provider_dpone.dags import load_compositions
load_compositions({}, sys.argv[1])
began = time.process_time()
namespace = {}
load_compositions(namespace, sys.argv[1])
print(time.process_time() - began, sum(len(dag.tasks) for dag in namespace.values()))
"""


def imports(report: Report, times: int) -> None:
    report.heading("What an import of the provider adds to Airflow's own")
    found = sorted(float(_python(IMPORT)[0]) for _ in range(times))
    report.table(
        ["processes", "fastest", "median"], [[times, f"{found[0]:.2f} s CPU", f"{found[times // 2]:.2f} s CPU"]]
    )
    report.must(found[0] <= 0.3, "an import adds at most 0.3 s")


def parsing(report: Report, counts: Sequence[int]) -> None:
    report.heading("Parsing a composition in force (`load_compositions`; four tasks a workload, every byte verified)")
    rows, seconds = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for count in counts:
            root = _in_force(Path(folder) / str(count), count)
            spent, tasks = min((_python(PARSE, str(root)) for _ in range(3)), key=lambda printed: float(printed[0]))
            seconds[count] = float(spent)
            rows.append([count, tasks, f"{seconds[count]:.2f} s CPU", f"{1000 * seconds[count] / count:.2f} ms"])
    report.table(["workloads", "tasks", "parse", "a workload"], rows)
    if 1000 in seconds:
        report.must(seconds[1000] <= 2.0, "1,000 workloads are parsed in at most 2 s")
    few, many = counts[1], counts[-1]
    growth = seconds[many] / seconds[few] / (many / few)
    report.say(f"A workload of {many:,} costs {growth:.2f} times as much as one of {few:,}.")
    report.must(growth < 1.5, f"parsing grows in proportion (from {few:,} to {many:,} workloads)")


def _in_force(root: Path, count: int) -> Path:
    manifests = {
        f"t{number}": ORDINARY.replace("planes", f"t{number}").replace("dag_id: d", f"dag_id: d{number // 100}")
        for number in range(count)
    }
    listed = ", ".join(f"{name}.yaml" for name in manifests)
    release.build(
        write_source(root / "source", composition=COMPOSITION.replace("WORKLOAD", listed), **manifests),
        root / "release",
    )
    deployment.sync = lambda path: None  # the disk is not what is measured
    activation(root / "in force", Store()).activate(root / "release")
    return root / "in force"


def statuses(report: Report, owners: Sequence[int]) -> None:
    report.heading("A cold `dponectl composition status`, with the start of its process")
    rows = []
    with tempfile.TemporaryDirectory() as folder, stack() as running:
        for count in owners:
            ledger = new_ledger(running)
            LongHistory(count, 2).plant(ledger.dsn)
            config = _configuration(Path(folder) / str(count), ledger)
            seconds, spent = min(_status(config) for _ in range(9))
            rows.append([f"{count:,}", f"{2 * count:,}", f"{seconds:.2f} s", f"{spent:.2f} s"])
            report.must(seconds < 1.0, f"`composition status` answers in under a second with {count:,} owners")
    report.table(["owners", "attempts", "fastest of nine", "of it CPU of the process"], rows)


def _configuration(folder: Path, ledger: LiveLedger) -> Path:
    """A configuration whose current activation is one of this ledger."""
    folder.mkdir()
    active = ledger.active()
    projection.record(folder / "root", active.request, folder / "root" / "release")
    projection.switch(folder / "root", active.request, active.guard_epochs)
    dsn = ledger.dsn
    (folder / "password").write_text(dsn.password.reveal())
    roles = "\n".join(
        f'[mssql.roles.{role}]\nuser = "{dsn.user}"\npassword_file = "{folder / "password"}"'
        if role == "controller"
        else f'[mssql.roles.{role}]\nsame_as = "controller"'
        for role in ("controller", "closer", "outcome_reader", "source_reader")
    )
    config = folder / "dpone.toml"
    config.write_text(
        f'service_id = "{ledger.settings.service_id}"\nrelease_root = "{folder / "root"}"\n[mssql]\nhost = "{dsn.host}"\n'
        f'port = {dsn.port}\ntrust_server_certificate = true\ncontrol_database = "{dsn.database}"\n{roles}\n'
    )
    return config


def _status(config: Path) -> tuple[float, float]:
    """Seconds on the clock, and CPU seconds of the process itself."""
    command = [
        sys.executable,
        "-m",
        "airflow_provider_dpone.cli.main",
        "--config",
        str(config),
        "composition",
        "status",
    ]
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0 or "ACTIVE" not in done.stdout:
        raise SystemExit(f"status failed: {done.stdout}{done.stderr}")
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _python(code: str, *arguments: str) -> list[str]:
    nowhere = "postgresql+psycopg://nobody@127.0.0.1:1/none"
    with tempfile.TemporaryDirectory() as home:
        environment = os.environ | {
            "AIRFLOW_HOME": home,
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": nowhere,
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": nowhere,
        }
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True, check=False
        )
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return done.stdout.strip().splitlines()[-1].split()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.composition")
    parser.add_argument("--workloads", default="125,250,500,1000,2000")
    parser.add_argument("--owners", default="10,1000,10000")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "performance.md")
    options = parser.parse_args()
    report = Report(header())
    imports(report, 9)
    parsing(report, [int(each) for each in options.workloads.split(",")])
    statuses(report, [int(each) for each in options.owners.split(",")])
    write(report, options.output, BEGIN, END)
    for what in report.broken:
        print(f"does not hold: {what}")
    return 1 if report.broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
