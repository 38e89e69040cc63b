"""The few calls of Airflow's public REST API (v2) that a campaign makes, as any client would."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from airflow_provider_dpone.contracts.errors import ConfigurationError, ControlUnavailable

_TERMINAL = frozenset({"success", "failed"})
_PAGE = 100
_ERRORS = frozenset({"error", "critical", "exception"})
_T = TypeVar("_T")


class AirflowApi:
    """A logged-in client. `url` is the API server's base address.

    An answer that may come again another time (none, or a server's error) is ControlUnavailable, all others are
    ConfigurationError. What Airflow says of a request that held a password is not repeated: it may hold it, too.
    """

    def __init__(self, url: str, user: str, password: str) -> None:
        try:
            address = httpx.URL(url)
        except httpx.InvalidURL as err:
            raise ConfigurationError("airflow_address", happened="the address of Airflow is no URL.") from err
        if address.userinfo:
            raise ConfigurationError(
                "airflow_address", happened=f"the address of Airflow at {address.host} holds a user or a password."
            )
        self._client = httpx.Client(base_url=address, timeout=60, trust_env=False)
        answer = self._send("POST", "/auth/token", json={"username": user, "password": password})
        self._check(answer, quoted=False)
        self._client.headers["Authorization"] = f"Bearer {self._member(answer, 'access_token', str)}"

    def put_connection(self, connection_id: str, fields: Mapping[str, object]) -> None:
        """Create a connection, or replace the one of this id."""
        body = {"connection_id": connection_id, **fields}
        answer = self._send("POST", "/api/v2/connections", json=body)
        if answer.status_code == 409:
            answer = self._send("PATCH", f"/api/v2/connections/{quote(connection_id, safe='')}", json=body)
        self._check(answer, quoted=False)

    def dag(self, dag_id: str) -> Mapping[str, Any] | None:
        """A DAG as a run that is triggered now would get it; None when it is not there, or not any more."""
        answer = self._send("GET", f"{_dag(dag_id)}/details")
        if answer.status_code == 404:
            return None
        self._check(answer)
        return None if self._member(answer, "is_stale", bool) else dict(answer.json())

    def dags(self, tag: str) -> list[dict[str, Any]]:
        """DAGs with a tag, also those that are not there any more."""
        wanted: dict[str, str | int | bool] = {"tags": tag, "limit": _PAGE, "exclude_stale": False}
        answer = self._send("GET", "/api/v2/dags", params=wanted)
        return self._objects(answer, "dags")

    def parse_soon(self, dags: Iterable[Mapping[str, Any]]) -> None:
        """Ask the DAG processor to parse the files of these DAGs before others.

        Only asked: an account that may not ask, or has asked already, waits until their turn comes.
        """
        files = {(str(dag.get("bundle_name")), str(dag.get("fileloc"))): dag.get("file_token") for dag in dags}
        for token in files.values():
            self._send("PUT", f"/api/v2/parseDagFile/{quote(str(token), safe='')}")

    def import_errors(self) -> list[dict[str, Any]]:
        """Why DAG files could not be parsed."""
        answer = self._send("GET", "/api/v2/importErrors")
        return self._objects(answer, "import_errors")

    def last_error(self, instance: Mapping[str, Any]) -> str | None:
        """What the log of a task instance's last try says last of an error, as Airflow masked it; None if nothing."""
        path = f"{_run(instance['dag_id'], instance['dag_run_id'])}/taskInstances/{quote(instance['task_id'], safe='')}"
        wanted: dict[str, int | bool] = {"map_index": instance["map_index"], "full_content": True}
        answer = self._send(
            "GET",
            f"{path}/logs/{instance['try_number']}",
            params=wanted,
            headers={"Accept": "application/json"},
        )
        if not answer.is_success:
            return None
        lines: list[dict[str, Any]] = self._member(answer, "content", list)
        errors = [_error(line) for line in lines if isinstance(line, dict) and str(line.get("level")) in _ERRORS]
        return errors[-1] if errors else None

    def unpause(self, dag_id: str) -> None:
        self._check(self._send("PATCH", _dag(dag_id), json={"is_paused": False}))

    def trigger(self, dag_id: str, run_id: str, conf: Mapping[str, object]) -> None:
        body = {"dag_run_id": run_id, "logical_date": None, "conf": dict(conf)}
        self._check(self._send("POST", f"{_dag(dag_id)}/dagRuns", json=body))

    def run_state(self, dag_id: str, run_id: str) -> str:
        answer = self._send("GET", _run(dag_id, run_id))
        self._check(answer)
        return self._member(answer, "state", str)

    def has_run(self, dag_id: str, run_id: str) -> bool:
        """Whether a DAG has a run of this id; a constituent gets its one when the parent triggers it."""
        answer = self._send("GET", _run(dag_id, run_id))
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
        return [(str(run["dag_id"]), str(run["dag_run_id"])) for run in self._member(answer, "dag_runs", list)]

    def fail_run(self, dag_id: str, run_id: str) -> None:
        """End a DAG run with its task instances; a running one is told to stop."""
        self._check(self._send("PATCH", _run(dag_id, run_id), json={"state": "failed"}))

    def task_instances(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """Every task instance of a run, mapped ones included."""
        found: list[dict[str, Any]] = []
        while True:
            page: dict[str, int] = {"limit": _PAGE, "offset": len(found)}
            answer = self._send("GET", f"{_run(dag_id, run_id)}/taskInstances", params=page)
            self._check(answer)
            part: list[dict[str, Any]] = self._member(answer, "task_instances", list)
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
    def _check(answer: httpx.Response, *, quoted: bool = True) -> None:
        if answer.is_success:
            return
        said = f"Airflow answered {answer.status_code} to {answer.request.method} {answer.request.url.path}"
        if answer.is_server_error:
            raise ControlUnavailable(
                "airflow_unavailable",
                happened=f"{said}.",
                not_done="what was asked for may or may not have been done by Airflow.",
                check="the API server's log.",
            )
        raise ConfigurationError(
            "airflow_refused",
            happened=f"{said}: {answer.text[:500]}" if quoted else f"{said}.",
            check="the address, the user's rights in Airflow, and whether the DAG is there.",
        )

    def _objects(self, answer: httpx.Response, name: str) -> list[dict[str, Any]]:
        """A member that is a list of objects, or a refusal like that of `_member`."""
        found: list[Any] = self._member(answer, name, list)
        if not all(isinstance(each, dict) for each in found):
            raise ConfigurationError(
                "airflow_answer",
                happened=f"{answer.request.url.path} answered {name!r} that are no objects.",
                check="whether the address is that of Airflow's API server itself.",
            )
        return found

    def _member(self, answer: httpx.Response, name: str, kind: type[_T]) -> _T:
        """One member of an answer, or a refusal of one that is not Airflow's."""
        self._check(answer, quoted=False)
        try:
            value = answer.json()[name]
        except (ValueError, LookupError, TypeError, RecursionError):
            value = None
        if not isinstance(value, kind):
            raise ConfigurationError(
                "airflow_answer",
                happened=f"{answer.request.url.path} answered {answer.status_code} without {name!r}.",
                check="whether the address is that of Airflow's API server itself.",
            )
        return value


def _dag(dag_id: str) -> str:
    return f"/api/v2/dags/{quote(dag_id, safe='')}"


def _run(dag_id: str, run_id: str) -> str:
    return f"{_dag(dag_id)}/dagRuns/{quote(run_id, safe='')}"


def _error(line: Mapping[str, Any]) -> str:
    """An exception by its type and text, where the line has one."""
    detail = line.get("error_detail")
    if isinstance(detail, list) and detail and isinstance(detail[0], dict):
        return f"{detail[0].get('exc_type')}: {detail[0].get('exc_value')}"
    return str(line.get("event"))
