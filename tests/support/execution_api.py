"""Airflow's execution API as a task's supervisor sees it, with answers that a test chooses.

The supervisor, the task process and their HTTP client are Airflow's own. What they were told and what they reported is
kept in memory, so that a test can look for anything in it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

_WHEN = "2026-11-30T00:00:00Z"


@dataclass
class Reported:
    """What the processes of one task instance said. `state` is the last one that the server accepted."""

    run_id: str
    dag_id: str
    state: str = "queued"
    asked: list[tuple[str, str, str]] = field(default_factory=list)


@dataclass
class Conflict:
    """The answers 409 that a task instance gets: to a heartbeat, to the report of success."""

    heartbeat: str | None = None
    success: bool = False


class ExecutionApi:
    """Listens on a free loopback port until `close`. Connections are by id, as Airflow's server would serve them."""

    def __init__(self, connections: Mapping[str, Mapping[str, Any]]) -> None:
        self.connections = dict(connections)
        self.instances: dict[str, Reported] = {}
        self.conflicts: dict[str, Conflict] = {}
        #: Answers to the question for the states of other task instances, by run id.
        self.task_states: dict[str, dict[str, str]] = {}
        self.unknown: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    def expect(self, instance_id: str, dag_id: str, run_id: str) -> None:
        """A task instance that is about to be started."""
        self.instances[instance_id] = Reported(run_id=run_id, dag_id=dag_id)
        self.conflicts[instance_id] = Conflict()

    def said(self) -> str:
        """Every request of every task, addresses and bodies: rendered fields and XComs among them."""
        return "\n".join(" ".join(line) for each in self.instances.values() for line in each.asked)

    def state(self, instance_id: str) -> str:
        return self.instances[instance_id].state

    def until(self, instance_id: str, *states: str, seconds: float = 60) -> str:
        deadline = time.monotonic() + seconds
        while (state := self.state(instance_id)) not in states:
            assert time.monotonic() < deadline, f"still {state}, never {states}"
            time.sleep(0.02)
        return state

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method: str, address: str, body: str) -> tuple[int, Any]:
        path = [unquote(part) for part in urlsplit(address).path.strip("/").split("/")]
        if path[0] == "connections":
            found = self.connections.get(path[1])
            return (200, found) if found else (404, {"detail": {"reason": "not_found"}})
        if path[0] == "task-instances" and path[1] in self.instances:
            reported = self.instances[path[1]]
            reported.asked.append((method, address, body))
            return self._of_instance(path[1], reported, path[2], body)
        if path[:2] == ["task-instances", "states"]:
            (run_id,) = parse_qs(urlsplit(address).query)["run_ids"]
            return 200, {"task_states": {run_id: self.task_states.get(run_id, {})}}
        if path[0] == "xcoms":
            of = [each for each in self.instances.values() if each.run_id == path[2]]
            for each in of:
                each.asked.append((method, address, body))
            return (201, {}) if method == "POST" else (404, {"detail": {"reason": "not_found"}})
        if path[0] == "variables":
            return 404, {"detail": {"reason": "not_found"}}
        self.unknown.append(f"{method} {address}")
        return 404, {"detail": "unknown"}

    def _of_instance(self, instance_id: str, reported: Reported, what: str, body: str) -> tuple[int, Any]:
        conflict = self.conflicts[instance_id]
        if what == "run":
            reported.state = "running"
            return 200, _run_context(reported)
        if what == "heartbeat":
            if conflict.heartbeat is None:
                return 204, None
            return 409, {"detail": {"reason": "not_running", "current_state": conflict.heartbeat}}
        if what == "state":
            state = str(json.loads(body)["state"])
            if state == "success" and conflict.success:
                return 409, {"detail": {"reason": "invalid_state", "previous_state": "failed"}}
            reported.state = state
            return 204, None
        if what == "validate-inlets-and-outlets":
            return 200, {"inactive_assets": []}
        if what in ("rtif", "rendered-map-index"):
            return 201, {}
        self.unknown.append(f"{what} {body[:200]}")
        return 404, {"detail": "unknown"}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # an answer is one packet

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                status, document = api.answer(self.command, self.path, body)
                content = b"" if document is None else json.dumps(document).encode()
                self.send_response(status)
                if status != 204:
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if status != 204:
                    self.wfile.write(content)

            do_GET = do_PUT = do_PATCH = do_POST = do_DELETE = do_HEAD = _serve

            def log_message(self, format: str, *args: Any) -> None:
                """What is asked is kept in memory."""

        return Handler


def _run_context(reported: Reported) -> dict[str, Any]:
    run = {
        "dag_id": reported.dag_id,
        "run_id": reported.run_id,
        "logical_date": None,
        "data_interval_start": None,
        "data_interval_end": None,
        "run_after": _WHEN,
        "start_date": _WHEN,
        "end_date": None,
        "run_type": "manual",
        "state": "running",
        "conf": {},
        "consumed_asset_events": [],
        "partition_key": None,
    }
    return {"dag_run": run, "max_tries": 0, "should_retry": False}
