"""The attempts page: owners, epochs, attempts, gates, proofs, and what blocks.

Airflow serves the applications of plugins without authentication. Here no route can be without: the whole application
depends on Airflow's own user, and rows of DAGs that this user may not read are left out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.base_auth_manager import BaseAuthManager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import get_user
from fastapi import Depends, FastAPI, HTTPException, Query
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, select_autoescape

from airflow_provider_dpone.contracts.errors import AdmissionRefused, GuardError
from airflow_provider_dpone.contracts.rules import digest
from airflow_provider_dpone.plugins import attempts_view

User = Annotated[BaseUser, Depends(get_user)]

#: As Airflow writes one: -1, or up to nine digits.
_MAP_INDEX = re.compile(r"-1|[0-9]{1,9}")

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"), autoescape=select_autoescape(default=True)
)


def build_app() -> FastAPI:
    """The application that the plugin mounts. No interactive documentation: those routes would need no login."""
    app = FastAPI(
        title="dpone attempts",
        dependencies=[Depends(get_user)],
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    app.add_api_route("/attempts", attempts, response_class=HTMLResponse)
    app.add_api_route("/attempts/{attempt_sha256}", attempt, response_class=HTMLResponse)
    app.add_api_route("/owners", owners, response_class=HTMLResponse)
    app.add_api_route("/api/attempts", attempts_document)
    app.add_api_route("/api/attempts/{attempt_sha256}", attempt_document)
    app.add_exception_handler(GuardError, _refused)
    return app


def attempts(
    user: User,
    dag_id: str | None = None,
    run_id: str | None = None,
    task_id: str | None = None,
    map_index: str | None = None,
    unresolved: Annotated[bool, Query()] = False,
) -> HTMLResponse:
    """A list: of one task instance, of a run, or the newest."""
    rows, limits = _rows(user, dag_id, run_id, task_id, map_index, unresolved)
    selected = {"dag_id": dag_id, "run_id": run_id, "task_id": task_id, "map_index": _index(map_index)}
    return _page("attempts.html", rows=rows, selected=selected, unresolved=unresolved, **limits)


def attempts_document(
    user: User,
    dag_id: str | None = None,
    run_id: str | None = None,
    task_id: str | None = None,
    map_index: str | None = None,
    unresolved: Annotated[bool, Query()] = False,
) -> list[dict[str, Any]]:
    """The same list as JSON."""
    return _rows(user, dag_id, run_id, task_id, map_index, unresolved)[0]


def attempt(user: User, attempt_sha256: str) -> HTMLResponse:
    """Everything that the ledger holds of one attempt."""
    return _page("attempt.html", attempt=attempt_document(user, attempt_sha256))


def attempt_document(user: User, attempt_sha256: str) -> dict[str, Any]:
    """The same as JSON."""
    try:
        document = attempts_view.one(digest(attempt_sha256))
    except AdmissionRefused:
        document = None  # what is no digest names nothing
    if document is None or not _readable(user, document["coordinates"]["dag_id"]):
        raise HTTPException(404, "The ledger holds no such attempt, or not for you.")
    return document


def owners(user: User, retired: Annotated[bool, Query()] = False, activation_id: str | None = None) -> HTMLResponse:
    """Activations, the domains they own with their epochs, and what blocks. Retired ones when they are asked for."""
    try:
        activations = attempts_view.owners(retired, activation_id)
    except AdmissionRefused:
        activations = []  # what is no activation id names nothing
    blocking, limits = _allowed(user, attempts_view.unresolved())
    return _page(
        "owners.html",
        blocking=blocking,
        **limits,
        authority=attempts_view.authority(),
        owners=activations,
        retired=retired or bool(activation_id),
    )


def _rows(
    user: BaseUser,
    dag_id: str | None,
    run_id: str | None,
    task_id: str | None,
    map_index: str | None,
    unresolved: bool,
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    if unresolved:
        return _allowed(user, attempts_view.unresolved())
    return _allowed(user, attempts_view.listed(dag_id, run_id, task_id, _index(map_index)))


def _allowed(user: BaseUser, rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows of DAGs that the user may read, and what a page has to say of those that it does not show.

    ``hidden``: there are others, so that "none" would be a lie. ``full``: not all were looked at, so that "none for you"
    would be one too. It counts what was found, however few of it the user may read.
    """
    readable = {name: _readable(user, name) for name in dict.fromkeys(row["dag_id"] for row in rows)}
    allowed = [row for row in rows if readable[row["dag_id"]]]
    shown = attempts_view.SHOWN
    return allowed, {"hidden": not all(readable.values()), "full": len(rows) >= shown, "shown": shown}


def _index(text: str | None) -> int | None:
    """The UI leaves ``{MAP_INDEX}`` as it is for a task that is not mapped; what is no index selects none."""
    return int(text) if text is not None and _MAP_INDEX.fullmatch(text) else None


def _readable(user: BaseUser, dag_id: str) -> bool:
    manager: BaseAuthManager[Any] = get_auth_manager()
    return manager.is_authorized_dag(
        method="GET", access_entity=DagAccessEntity.TASK_INSTANCE, details=DagDetails(id=dag_id), user=user
    )


def _page(name: str, **values: Any) -> HTMLResponse:
    return HTMLResponse(_TEMPLATES.get_template(name).render(**values), headers={"Cache-Control": "no-store"})


def _refused(_request: Any, error: Exception) -> HTMLResponse:
    """The ledger cannot be read: say why, as the command line would."""
    return HTMLResponse(_TEMPLATES.get_template("refused.html").render(error=str(error)), status_code=503)
