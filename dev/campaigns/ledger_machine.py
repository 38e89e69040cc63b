"""The state machine over the real ledger for a whole night: 5,000 examples of 100 steps, in shards that can be resumed.

    python dev/campaigns/ledger_machine.py [--minutes M] [--shard K ...]

Runs shard after shard until all have run or the minutes are over, and notes each in the progress file, by default
docs/campaigns/ledger-machine.json: its seed, how it ended, and what it met. Started again, it goes on with the first
shard that is not noted. Each shard has an endpoint, a ledger and a target of its own, and a seed of its own, so one can
be repeated alone: `--shard K` runs it again whether it is noted or not. A broken promise prints its steps.

`MSSQL_TEST_DSN` is not read: a shard makes and drops databases, logins and the LOGON trigger of a whole server.
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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from hypothesis import HealthCheck, Phase, seed, settings  # noqa: E402  # after the path to the tests
from hypothesis.stateful import run_state_machine_as_test  # noqa: E402
from tsqldev.process import served  # noqa: E402

from tests.machine.life import Ground, LedgerLife  # noqa: E402
from tests.support import live_gate  # noqa: E402
from tests.support.live_ledger import control_dsn  # noqa: E402

EXAMPLES, STEPS, SHARDS = 5000, 100, 500
FIRST_SEED = 20261129
PROGRESS = ROOT / "docs" / "campaigns" / "ledger-machine.json"


def run_shard(number: int, examples: int, steps: int) -> dict[str, Any]:
    """One shard on a server of its own, and what it met."""
    started = time.monotonic()
    password = secrets.token_urlsafe(16) + "aA1!"
    broken = ""
    with tempfile.TemporaryDirectory() as folder, served(Path(folder), password) as endpoint:
        dba = control_dsn("127.0.0.1", endpoint.port, "sa", password, "master")
        ground = Ground(live_gate.provision(dba), pooled=False)
        life = seed(FIRST_SEED + number)(type("Life", (LedgerLife,), {"ground": ground}))
        try:
            run_state_machine_as_test(
                life,
                settings=settings(
                    max_examples=examples,
                    stateful_step_count=steps,
                    deadline=None,
                    database=None,
                    # A shorter counterexample is for whoever repeats the shard; here it would take the night.
                    phases=(Phase.generate,),
                    print_blob=False,
                    suppress_health_check=list(HealthCheck),
                ),
            )
            ground.audit()
        except Exception as err:  # noqa: BLE001  # a broken promise is this campaign's result, whatever its type
            traceback.print_exc()
            broken = f"{type(err).__name__}: {err}".split("\n")[0][:300]
        ground.close()
    return {
        "seed": FIRST_SEED + number,
        "result": "broken" if broken else "held",
        "broken": broken,
        "examples": ground.examples,
        "steps": ground.happened["step"],
        "met": dict(sorted(ground.happened.items())),
        "seconds": round(time.monotonic() - started),
        "ended": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit(),
        "machine": f"{os.cpu_count()} x {platform.machine()}, Python {platform.python_version()}, embedded endpoint",
    }


def commit() -> str:
    def git(*arguments: str) -> str:
        return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True).stdout

    head = git("rev-parse", "HEAD").strip()
    return head + (" with changes" if git("status", "--porcelain", "--untracked-files=no", "*.py", "*.sql") else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1e9, help="start no shard after so many")
    parser.add_argument("--shard", type=int, action="append", choices=range(SHARDS), metavar="K", help="only this one")
    parser.add_argument("--progress", type=Path, default=PROGRESS)
    options = parser.parse_args()
    until = time.monotonic() + options.minutes * 60
    noted: dict[str, Any] = json.loads(options.progress.read_text()) if options.progress.exists() else {"shards": {}}
    noted["profile"] = {"examples": EXAMPLES, "steps": STEPS, "shards": SHARDS, "first seed": FIRST_SEED}
    for number in options.shard or range(SHARDS):
        if str(number) in noted["shards"] and not options.shard:
            continue
        if time.monotonic() >= until:
            break
        result = run_shard(number, EXAMPLES // SHARDS, STEPS)
        noted["shards"][str(number)] = result
        options.progress.write_text(json.dumps(noted, indent=2) + "\n")
        print(f"shard {number}: {result['result']}, {result['examples']} examples, {result['seconds']} s", flush=True)
    broken = [number for number, result in noted["shards"].items() if result["result"] != "held"]
    print(f"{len(noted['shards'])} of {SHARDS} shards have run; broken: {', '.join(broken) or 'none'}")
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
