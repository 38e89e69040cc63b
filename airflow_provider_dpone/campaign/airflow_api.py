"""The few calls of Airflow's public REST API (v2) that a campaign makes, as any client would."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from airflow_provider_dpone.contracts.errors import ConfigurationError, ControlUnavailable

_TERMINAL = frozenset({"success", "failed"})
_PAGE = 100


class AirflowApi:
    """A logged-in client. `url` is the API server's base address."""

    def __init__(self, url: str, user: str, password: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=60, trust_env=False)
        answer = self._send("POST", "/auth/token", json={"username": user, "password": password})
        self._check(answer)
        self._client.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"

    def put_connection(self, connection_id: str, fields: Mapping[str, object]) -> None:
        """Create a connection, or replace the one of this id."""
        body = {"connection_id": connection_id, **fields}
        answer = self._send("POST", "/api/v2/connections", json=body)
        if answer.status_code == 409:
            answer = self._send("PATCH", f"/api/v2/connections/{connection_id}", json=body)
        self._check(answer)

    def wait_for_dag(self, dag_id: str, *, timeout: float = 90) -> None:
        """Wait until the DAG processor has parsed a DAG."""
        deadline = time.monotonic() + timeout
        while True:
            answer = self._send("GET", f"/api/v2/dags/{dag_id}")
            if answer.status_code == 200:
                return
            if time.monotonic() > deadline:
                errors = self._send("GET", "/api/v2/importErrors").json().get("import_errors", [])
                raise TimeoutError(f"the DAG {dag_id} was not parsed within {timeout:.0f} s; import errors: {errors}")
            time.sleep(0.5)

    def unpause(self, dag_id: str) -> None:
        self._check(self._send("PATCH", f"/api/v2/dags/{dag_id}", json={"is_paused": False}))

    def trigger(self, dag_id: str, run_id: str, conf: Mapping[str, object]) -> None:
        body = {"dag_run_id": run_id, "logical_date": None, "conf": dict(conf)}
        self._check(self._send("POST", f"/api/v2/dags/{dag_id}/dagRuns", json=body))

    def run_state(self, dag_id: str, run_id: str) -> str:
        answer = self._send("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}")
        self._check(answer)
        return str(answer.json()["state"])

    def has_run(self, dag_id: str, run_id: str) -> bool:
        """Whether a DAG has a run of this id; a constituent gets its one when the parent triggers it."""
        answer = self._send("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}")
        if answer.status_code == 404:
            return False
        self._check(answer)
        return True

    def wait_for_run(self, dag_id: str, run_id: str, *, timeout: float, each: Callable[[], None] = lambda: None) -> str:
        """Wait for a terminal state, calling `each` about once a second."""
        deadline = time.monotonic() + timeout
        while (state := self.run_state(dag_id, run_id)) not in _TERMINAL:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{dag_id} {run_id} was still {state} after {timeout:.0f} s")
            each()
            time.sleep(1)
        return state

    def unfinished_runs(self) -> list[tuple[str, str]]:
        """The DAG runs that are queued or running, as (DAG id, run id)."""
        wanted: dict[str, int | list[str]] = {"state": ["queued", "running"], "limit": 100}
        answer = self._send("GET", "/api/v2/dags/~/dagRuns", params=wanted)
        self._check(answer)
        return [(str(run["dag_id"]), str(run["dag_run_id"])) for run in answer.json()["dag_runs"]]

    def fail_run(self, dag_id: str, run_id: str) -> None:
        """End a DAG run with its task instances; a running one is told to stop."""
        self._check(self._send("PATCH", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}", json={"state": "failed"}))

    def task_instances(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """Every task instance of a run, mapped ones included."""
        found: list[dict[str, Any]] = []
        while True:
            page: dict[str, int] = {"limit": _PAGE, "offset": len(found)}
            answer = self._send("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances", params=page)
            self._check(answer)
            part = answer.json()["task_instances"]
            found += part
            if len(part) < _PAGE:
                return found

    def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        try:
            return self._client.request(method, path, **request)
        except httpx.HTTPError as err:
            raise ControlUnavailable(
                "airflow_unreachable",
                happened=f"{method} {path} of {self._client.base_url} was not answered: {type(err).__name__}: {err}.",
                not_done="what was asked for may or may not have been done by Airflow.",
                check="whether the API server runs at that address.",
            ) from err

    @staticmethod
    def _check(answer: httpx.Response) -> None:
        if answer.is_error:
            raise ConfigurationError(
                "airflow_refused",
                happened=f"Airflow answered {answer.status_code} to {answer.request.method} {answer.request.url.path}:"
                f" {answer.text[:500]}",
                check="the user's rights in Airflow, and whether the DAG is there.",
            )
