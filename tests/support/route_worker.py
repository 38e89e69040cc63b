"""A worker process that runs one try and stops for good at a named step, to be killed there. One JSON line configures it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from airflow_provider_dpone.attempts.context import WorkContext
from airflow_provider_dpone.attempts.guarded import GuardedAttempt
from airflow_provider_dpone.attempts.settlement import Settlement
from airflow_provider_dpone.drivers import Secret
from airflow_provider_dpone.gates import target_fence
from airflow_provider_dpone.routes.dbt import DbtRoute
from airflow_provider_dpone.routes.postgres_to_mssql import PostgresToMsSqlRoute, SourceRows
from tests.support.live_gate import LiveGate
from tests.support.live_routes import route_from

#: Step -> what is called there, and whether the process stops before or after that call.
STEPS: dict[str, tuple[Any, str, str]] = {
    "admitted": (GuardedAttempt, "_work", "before"),
    "recorded": (PostgresToMsSqlRoute, "work", "before"),
    "issued": (WorkContext, "issue", "after"),
    "staging": (SourceRows, "_counted", "after"),
    "staged": (PostgresToMsSqlRoute, "_replace", "before"),
    "fenced": (target_fence, "hold", "after"),
    "marked": (target_fence, "mark", "after"),
    "committed": (PostgresToMsSqlRoute, "work", "after"),
    "built": (DbtRoute, "_mark", "before"),
    "reported": (Settlement, "settle", "before"),
    "closed": (Settlement, "_closed", "after"),
    "quiescent": (Settlement, "_quiescent", "after"),
    "resolved": (Settlement, "_resolved", "after"),
}


def stop_at(step: str) -> None:
    owner, name, moment = STEPS[step]
    original: Callable[..., Any] = getattr(owner, name)

    def stopping(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs) if moment == "after" else None
        print(step, flush=True)
        time.sleep(300)
        return result

    setattr(owner, name, stopping)


def main() -> None:
    given = json.loads(sys.stdin.readline())
    live = LiveGate.from_document(given)
    if given["secret"]:
        Secret.generate = classmethod(lambda cls: cls(given["secret"]))  # type: ignore[method-assign]  # a known one
    if given["stop_at"]:
        stop_at(given["stop_at"])
    live.attempt(given["run_id"], route=route_from(live, given["route"])).run()
    print("done", flush=True)


if __name__ == "__main__":
    main()
