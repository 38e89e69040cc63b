"""Five hundred COMMITs and five hundred EXCHANGEs whose replies are cut off at a random byte, and three thousand
connection attempts that race a closing, a thousand on each engine. It can be resumed.

    python dev/campaigns/replies_and_races.py [--minutes M] [--only COMMIT|EXCHANGE|mssql|postgres|clickhouse]

Runs shard after shard, of the five kinds by turns, until all have run or the minutes are over, and notes each in
docs/campaigns/replies-and-races.json: twenty-five replies with a seed of their own, or a hundred attempts around one
closing. Started again, it goes on with the first shard that is not noted.

`MSSQL_TEST_DSN` is not read: a run makes and drops databases, logins and the LOGON trigger of a whole server.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, get_args

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from fault_matrix import Standing, commit, engines, machine  # noqa: E402  # after the paths

from tests.faults import lost_replies, racing_close  # noqa: E402
from tests.faults.ground import ENGINES, Ground  # noqa: E402
from tests.faults.lost_replies import Message  # noqa: E402

NOTES = ROOT / "docs" / "campaigns" / "replies-and-races.json"
FIRST_SEED = 20261130
REPLIES, REPLIES_A_SHARD = 500, 25
ATTEMPTS, ATTEMPTS_A_SHARD = 1000, 100
MESSAGES: tuple[Message, ...] = get_args(Message)
SHARDS = dict.fromkeys(MESSAGES, REPLIES // REPLIES_A_SHARD) | dict.fromkeys(ENGINES, ATTEMPTS // ATTEMPTS_A_SHARD)


def replies(ground: Ground, message: Message, number: int) -> dict[str, Any]:
    seed = FIRST_SEED + number
    random = Random(seed)  # to be repeated, not to be secret
    verdicts = [lost_replies.lose(ground, message, random) for _ in range(REPLIES_A_SHARD)]
    return {
        "seed": seed,
        "replies": len(verdicts),
        "succeeded": sum(verdict.state == "SUCCEEDED" and verdict.effect for verdict in verdicts),
        "endings": {e: sum(v.ending == e for v in verdicts) for e in ("reset", "close", "cut")},
        "wrong": [f"{v.passing} bytes, {v.ending}: {v.wrong}" for v in verdicts if v.wrong],
    }


def races(ground: Ground, engine: Any, number: int) -> dict[str, Any]:
    raced = racing_close.race(ground, engine, ATTEMPTS_A_SHARD)
    return {
        "attempts": raced.attempts,
        "threads": racing_close.THREADS,
        "entered": raced.entered,
        "begun after the proof": raced.after,
        "wrong": list(raced.wrong),
    }


def order(only: list[str] | None) -> Iterator[tuple[str, int]]:
    """The shards of all kinds by turns."""
    for number in range(max(SHARDS.values())):
        for kind, count in SHARDS.items():
            if number < count and (not only or kind in only):
                yield kind, number


def run_shard(standing: Standing, kind: str, number: int) -> dict[str, Any]:
    started = time.monotonic()
    ground = standing.ground()
    work: Callable[[Ground, Any, int], dict[str, Any]] = replies if kind in MESSAGES else races
    try:
        found = work(ground, kind, number)
    except Exception as err:  # noqa: BLE001  # a shard that cannot be run to its end is this campaign's result, too
        traceback.print_exc()
        found = {"wrong": [f"{type(err).__name__}: {err}".split("\n")[0][:300]]}
    if found["wrong"]:
        ground.workers.kill_all()
        standing.leave()
    return {
        **found,
        "seconds": round(time.monotonic() - started),
        "ended": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit(),
        "machine": machine(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1e9, help="start no shard after so many")
    parser.add_argument("--only", action="append", choices=list(SHARDS))
    parser.add_argument("--notes", type=Path, default=NOTES)
    options = parser.parse_args()
    until = time.monotonic() + options.minutes * 60
    notes: dict[str, Any] = json.loads(options.notes.read_text()) if options.notes.exists() else {"shards": {}}
    notes["engines"] = engines()
    standing = Standing()
    try:
        for kind, number in order(options.only):
            name = f"{kind} {number}"
            if name in notes["shards"]:
                continue
            if time.monotonic() >= until:
                break
            found = notes["shards"][name] = run_shard(standing, kind, number)
            notes["so far"] = so_far(notes["shards"])
            options.notes.write_text(json.dumps(notes, indent=1) + "\n", encoding="utf-8")
            print(f"{name}: {found['seconds']} s, wrong: {'; '.join(found['wrong']) or 'none'}", flush=True)
    finally:
        standing.leave()
    print(json.dumps(notes["so far"], indent=1))
    return 1 if any(found["wrong"] for found in notes["shards"].values()) else 0


def so_far(shards: dict[str, Any]) -> dict[str, str]:
    told = {}
    for kind in SHARDS:
        mine = [found for name, found in shards.items() if name.split()[0] == kind]
        done = sum(found.get("replies", found.get("attempts", 0)) for found in mine)
        wanted = REPLIES if kind in MESSAGES else ATTEMPTS
        told[kind] = f"{done} of {wanted}, wrong: {sum(len(found['wrong']) for found in mine)}"
    return told


if __name__ == "__main__":
    raise SystemExit(main())
