"""An Airflow whose REST API answers from a script."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

#: The run id of scripted task instances.
RUN = "campaign__1"

#: The one file that all DAGs stand in.
FILE = {"bundle_name": "dags-folder", "fileloc": "/dags/one.py", "file_token": "a/token"}


def instance(task: str, state: str | None, attempt: int = 1, operator: str = "PostgresToMsSql") -> dict[str, Any]:
    return {
        "operator": operator,
        "dag_id": "d",
        "dag_run_id": RUN,
        "task_id": task,
        "map_index": -1,
        "try_number": attempt,
        "state": state,
        "id": f"{task} {attempt}",
    }


class Airflow(BaseHTTPRequestHandler):
    """The parent runs for as long as there are scripted looks at its constituent."""

    looks: list[list[dict[str, Any]]]
    asked: list[tuple[str, str]]
    end = "success"
    #: What the DAGs say of their release, look by look; the last one stays. Without any, there is no DAG. Set on this
    #: class, it holds for one that serves already, until it ends.
    docs: ClassVar[list[str]] = [""]
    tags: tuple[str, ...] = ("dpone",)
    #: The log of every task instance.
    log: ClassVar[list[dict[str, Any]]] = []

    def log_message(self, *_: Any) -> None:
        return None

    def answer(self, document: object, status: int = 200) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append(("POST", self.path))
        self.answer({"access_token": "t"} if self.path == "/auth/token" else {})

    do_PATCH = do_POST

    def do_PUT(self) -> None:
        self.asked.append(("PUT", self.path))
        self.answer(None, 201)

    def do_GET(self) -> None:
        self.asked.append(("GET", self.path))
        if "/logs/" in self.path:
            self.answer({"content": self.log})
        elif "taskInstances" in self.path:
            now = self.looks[0] if len(self.looks) == 1 else self.looks.pop(0)
            offset = int(self.path.rsplit("offset=", 1)[1])
            self.answer({"task_instances": now[offset : offset + 100]})
        elif "/dags/parent/dagRuns/" in self.path:
            self.answer({"state": self.end if len(self.looks) == 1 else "running"})
        elif "/dagRuns/" in self.path:
            self.answer({"state": "success"}) if "/d/" in self.path else self.answer({}, 404)
        elif self.path.endswith("/details"):
            now = None if not self.docs else self.docs[0] if len(self.docs) == 1 else self.docs.pop(0)
            tags = [{"name": tag} for tag in self.tags]
            found = {"doc_md": now, "tags": tags, "is_stale": now == "stale", **FILE}
            self.answer(found) if now is not None else self.answer({}, 404)
        elif self.path.startswith("/api/v2/dags?"):
            self.answer({"dags": [FILE, FILE]})
        elif self.path == "/api/v2/importErrors":
            self.answer({"import_errors": [{"filename": "two.py", "stack_trace": "SyntaxError"}]})
        else:
            self.answer({})


@contextmanager
def scripted_airflow() -> Iterator[tuple[type[Airflow], str]]:
    """One that serves until the end of the block, and its address. Its `looks` are to be set."""

    class Scripted(Airflow):
        looks, asked = [[]], []

    with ThreadingHTTPServer(("127.0.0.1", 0), Scripted) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield Scripted, f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
            Airflow.docs = [""]
