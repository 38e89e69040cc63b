"""The attempts page: owners, epochs, attempts, gates, proofs, and what blocks.

Airflow serves the applications of plugins without authentication. Here no route can be without: the whole application
depends on Airflow's own user, and rows of DAGs that this user may not read are left out.
"""

from __future__ import annotations

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

from airflow_provider_dpone.contracts.errors import GuardError
from airflow_provider_dpone.plugins import attempts_view

User = Annotated[BaseUser, Depends(get_user)]

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
    rows = _rows(user, dag_id, run_id, task_id, map_index, unresolved)
    selected = {"dag_id": dag_id, "run_id": run_id, "task_id": task_id, "map_index": _index(map_index)}
    return _page("attempts.html", rows=rows, selected=selected, unresolved=unresolved)


def attempts_document(
    user: User,
    dag_id: str | None = None,
    run_id: str | None = None,
    task_id: str | None = None,
    map_index: str | None = None,
    unresolved: Annotated[bool, Query()] = False,
) -> list[dict[str, Any]]:
    """The same list as JSON."""
    return _rows(user, dag_id, run_id, task_id, map_index, unresolved)


def attempt(user: User, attempt_sha256: str) -> HTMLResponse:
    """Everything that the ledger holds of one attempt."""
    return _page("attempt.html", attempt=attempt_document(user, attempt_sha256))


def attempt_document(user: User, attempt_sha256: str) -> dict[str, Any]:
    """The same as JSON."""
    document = attempts_view.one(attempt_sha256)
    if document is None or not _readable(user, document["coordinates"]["dag_id"]):
        raise HTTPException(404, "The ledger holds no such attempt, or not for you.")
    return document


def owners(user: User) -> HTMLResponse:
    """Activations, the domains they own with their epochs, and the operations that block."""
    blocking = [row for row in attempts_view.unresolved() if _readable(user, row["dag_id"])]
    shown = {"authority": attempts_view.authority(), "owners": attempts_view.owners(), "blocking": blocking}
    return _page("owners.html", **shown)


def _rows(
    user: BaseUser,
    dag_id: str | None,
    run_id: str | None,
    task_id: str | None,
    map_index: str | None,
    unresolved: bool,
) -> list[dict[str, Any]]:
    if unresolved:
        rows = attempts_view.unresolved()
    else:
        rows = attempts_view.listed(dag_id, run_id, task_id, _index(map_index))
    allowed: dict[str, bool] = {}
    for row in rows:
        allowed.setdefault(row["dag_id"], False)
    allowed = {name: _readable(user, name) for name in allowed}
    return [row for row in rows if allowed[row["dag_id"]]]


def _index(text: str | None) -> int | None:
    """The UI leaves ``{MAP_INDEX}`` as it is for a task that is not mapped."""
    return int(text) if text is not None and text.lstrip("-").isdigit() else None


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
