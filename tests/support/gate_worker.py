"""A worker process that stops in the middle of its transaction and waits to be killed. Configuration: one JSON line."""

from __future__ import annotations

import json
import sys
import time

from airflow_provider_dpone.drivers import Connection
from airflow_provider_dpone.routes.interface import AttemptContext
from tests.support.live_gate import LiveGate


def wait_inside(ctx: AttemptContext, connection: Connection) -> None:
    print("writing", flush=True)
    time.sleep(120)


def main() -> None:
    given = json.loads(sys.stdin.readline())
    live = LiveGate.from_document(given)
    route = live.route()
    route.before_commit = wait_inside
    live.attempt(given["run_id"], route=route).run()


if __name__ == "__main__":
    main()
