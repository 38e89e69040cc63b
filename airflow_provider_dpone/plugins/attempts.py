"""The Airflow plugin (entry point ``airflow.plugins``): the attempts page in the UI.

Every Airflow process imports this module, workers at each task included, so it imports nothing heavy: the page itself
is built at its first request, in the API server.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from airflow_provider_dpone.links.attempt import PAGE, AttemptLink

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class AttemptsApp:
    """An ASGI application that becomes the real one when it is first called."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._app: Any = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._lock:
            if self._app is None:
                from airflow_provider_dpone.plugins.attempts_page import build_app

                self._app = build_app()
        await self._app(scope, receive, send)


_OF_INSTANCE = "dag_id={DAG_ID}&run_id={RUN_ID}&task_id={TASK_ID}"


class DponePlugin(AirflowPlugin):
    """One page, reached from the navigation, a DAG run and a task instance. It finds attempts by coordinates."""

    # Lists on the class, without ClassVar: that is how AirflowPlugin declares them.
    # ruff: noqa: RUF012
    name = "dpone"
    fastapi_apps: list[Any] = [{"app": AttemptsApp(), "url_prefix": PAGE, "name": "dpone attempts"}]
    external_views: list[Any] = [
        {
            "name": "Guarded attempts",
            "href": f"{PAGE}/attempts",
            "destination": "nav",
            "category": "browse",
            "url_route": "dpone_attempts",
        },
        {
            "name": "Guarded attempts",
            "href": f"{PAGE}/attempts?dag_id={{DAG_ID}}&run_id={{RUN_ID}}",
            "destination": "dag_run",
            "url_route": "dpone_run_attempts",
        },
        {
            "name": "Guarded attempts",
            "href": f"{PAGE}/attempts?{_OF_INSTANCE}&map_index={{MAP_INDEX}}",
            "destination": "task_instance",
            "url_route": "dpone_task_attempts",
        },
    ]
    operator_extra_links: list[Any] = [AttemptLink()]
