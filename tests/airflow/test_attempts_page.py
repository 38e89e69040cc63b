"""The attempts page is never served without Airflow's own login, whatever route is asked."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from airflow.api_fastapi.core_api.security import get_user

from airflow_provider_dpone.links.attempt import AttemptLink, attempts_url
from airflow_provider_dpone.plugins import attempts_page, attempts_view
from airflow_provider_dpone.plugins.attempts import AttemptsApp, DponePlugin
from airflow_provider_dpone.triggers import PauseTrigger, QuiescenceTrigger


def get(app: Any, path: str) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://airflow") as client:
            return await client.get(path)

    return asyncio.run(ask())


def test_every_route_asks_for_a_login() -> None:
    app = attempts_page.build_app()
    paths = [route.path.replace("{attempt_sha256}", "sha256:0") for route in app.routes]  # type: ignore[attr-defined]  # APIRoute
    assert len(paths) == 5, "no documentation route, which would be open"
    for path in paths:
        assert get(app, path).status_code == 401, path


def test_the_plugin_builds_the_page_at_its_first_request() -> None:
    app = AttemptsApp()
    assert app._app is None
    assert get(app, "/attempts").status_code == 401
    assert app._app is not None


def signed_in(monkeypatch: pytest.MonkeyPatch, readable: set[str]) -> Any:
    class Manager:
        def is_authorized_dag(self, *, details: Any, **_: Any) -> bool:
            return details.id in readable

    monkeypatch.setattr(attempts_page, "get_auth_manager", Manager)
    app = attempts_page.build_app()
    app.dependency_overrides[get_user] = lambda: "somebody"
    return app


def row(dag_id: str, **other: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "attempt_sha256": "sha256:" + dag_id * 8,
        "workload_id": "w",
        "activation_id": "a",
        "dag_id": dag_id,
        "run_id": "<script>alert(1)</script>",
        "task_id": "t",
        "map_index": -1,
        "try_number": 1,
        "state": "RUNNING",
        "gate": "READY",
        "closed": False,
        "quiescent": False,
        "outcome": False,
        "epochs": [4],
        "principals": ["mssql:build"],
        "next_step": "close its gates",
    }
    return base | other


def test_attempts_of_unreadable_dags_are_left_out_and_text_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts_view, "listed", lambda *_: [row("open"), row("closed")])
    page = get(signed_in(monkeypatch, {"open"}), "/attempts")
    assert page.status_code == 200
    assert "sha256:openopen" in page.text and "sha256:closedclosed" not in page.text
    assert "<script>alert" not in page.text and "&lt;script&gt;" in page.text
    assert page.headers["cache-control"] == "no-store"


def test_an_attempt_of_an_unreadable_dag_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts_view, "one", lambda _: {"coordinates": {"dag_id": "closed"}})
    assert get(signed_in(monkeypatch, {"open"}), "/api/attempts/sha256:" + "0" * 64).status_code == 404


def test_the_placeholder_of_an_unmapped_task_is_no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def listed(*arguments: Any) -> list[Any]:
        asked.append(arguments)
        return []

    monkeypatch.setattr(attempts_view, "listed", listed)
    app = signed_in(monkeypatch, set())
    get(app, "/attempts?dag_id=d&run_id=r&task_id=t&map_index=%7BMAP_INDEX%7D")
    get(app, "/attempts?dag_id=d&run_id=r&task_id=t&map_index=2")
    assert asked == [("d", "r", "t", None), ("d", "r", "t", 2)]


@pytest.mark.parametrize(
    ("receipt_sha256", "said"),
    [
        ("sha256:" + "ab" * 32, f"gate profile <code>sha256:{'ab' * 32}</code>"),
        (None, "nothing can be activated"),
    ],
)
def test_the_owners_page_shows_the_class_of_authority_and_whether_activation_is_open(
    monkeypatch: pytest.MonkeyPatch, receipt_sha256: str | None, said: str
) -> None:
    shown = {"class": "nonproduction", "server": "an engine <16.0>", "receipt_sha256": receipt_sha256}
    monkeypatch.setattr(attempts_view, "authority", lambda: shown)
    monkeypatch.setattr(attempts_view, "owners", lambda *_: [])
    monkeypatch.setattr(attempts_view, "unresolved", list)
    page = get(signed_in(monkeypatch, set()), "/owners")
    assert page.status_code == 200
    assert "<td>nonproduction</td>" in page.text
    assert "<td>an engine &lt;16.0&gt;</td>" in page.text
    assert said in page.text


def test_a_link_carries_any_run_id_unharmed() -> None:
    run_id = "manual__2026-11-29T13:52:27.237281+00:00"
    url = httpx.URL(attempts_url("d", run_id, "group.task", 3))
    assert url.path == "/dpone/attempts"
    assert dict(url.params) == {"dag_id": "d", "run_id": run_id, "task_id": "group.task", "map_index": "3"}


def test_views_are_offered_where_people_look() -> None:
    assert {view["destination"] for view in DponePlugin.external_views} == {"nav", "dag_run", "task_instance"}
    routes = [view["url_route"] for view in DponePlugin.external_views]
    assert len(set(routes)) == len(routes)
    assert [type(link) for link in DponePlugin.operator_extra_links] == [AttemptLink]


def test_triggers_can_be_built_again_from_what_they_say() -> None:
    for trigger in (
        PauseTrigger(2.0),
        QuiescenceTrigger(("d", "r", "t", -1), {"controller": "c"}, "/releases", 5.0),
    ):
        path, arguments = trigger.serialize()
        assert path == f"{type(trigger).__module__}.{type(trigger).__name__}"
        assert type(trigger)(**arguments).serialize() == (path, arguments)


@pytest.mark.parametrize("text", ["--1", "-", "²", "٣", "1e5", " 1", "%00", "9" * 30, "9" * 5000, "-2"])
def test_what_is_no_map_index_selects_none(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    asked: list[Any] = []

    def listed(*arguments: Any) -> list[Any]:
        asked.append(arguments)
        return []

    monkeypatch.setattr(attempts_view, "listed", listed)
    assert get(signed_in(monkeypatch, set()), f"/attempts?map_index={text}").status_code == 200
    assert asked == [(None, None, None, None)]


@pytest.mark.parametrize("name", ["x", "sha256:0", "sha256:" + "AB" * 32, "%00", "sha256:" + "0" * 5000])
def test_what_is_no_digest_names_no_attempt(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(attempts_view, "one", lambda _: pytest.fail("the ledger was asked"))
    for path in ("/attempts/", "/api/attempts/"):
        assert get(signed_in(monkeypatch, {"open"}), path + name).status_code == 404


def test_nobody_is_told_that_nothing_blocks_because_it_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts_view, "unresolved", lambda: [row("closed")])
    monkeypatch.setattr(attempts_view, "owners", lambda *_: [])
    monkeypatch.setattr(attempts_view, "authority", lambda: None)
    for path in ("/attempts?unresolved=true", "/owners"):
        page = get(signed_in(monkeypatch, {"open"}), path).text
        assert "Nothing is unresolved" not in page and "DAGs" in page and "sha256:closed" not in page
        assert "Nothing is unresolved" not in get(signed_in(monkeypatch, {"closed"}), path).text


def test_retired_activations_are_shown_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def owners(*arguments: Any) -> list[Any]:
        asked.append(arguments)
        return []

    monkeypatch.setattr(attempts_view, "owners", owners)
    monkeypatch.setattr(attempts_view, "unresolved", list)
    monkeypatch.setattr(attempts_view, "authority", lambda: None)
    app = signed_in(monkeypatch, set())
    pages = [get(app, f"/owners{query}").text for query in ("", "?retired=true", "?activation_id=0f")]
    assert asked == [(False, None), (True, None), (False, "0f")]
    assert ["No composition is activated" in page for page in pages] == [True, False, False]


def test_a_page_that_is_full_says_that_there_may_be_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts_view, "SHOWN", 2)
    monkeypatch.setattr(attempts_view, "owners", lambda *_: [])
    monkeypatch.setattr(attempts_view, "authority", lambda: None)
    app = signed_in(monkeypatch, {"open"})
    for count, said in ((1, False), (2, True)):
        monkeypatch.setattr(attempts_view, "unresolved", lambda count=count: [row("open")] * count)
        for path in ("/attempts?unresolved=true", "/owners"):
            assert ("Only the newest 2 are shown" in get(app, path).text) is said


def test_nobody_is_told_that_there_is_nothing_where_only_the_newest_were_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attempts_view, "SHOWN", 2)
    monkeypatch.setattr(attempts_view, "owners", lambda *_: [])
    monkeypatch.setattr(attempts_view, "authority", lambda: None)
    for found in ("listed", "unresolved"):
        monkeypatch.setattr(attempts_view, found, lambda *_: [row("closed"), row("closed")])
    app = signed_in(monkeypatch, {"open"})
    for path in ("/attempts", "/attempts?unresolved=true", "/owners"):
        page = get(app, path).text
        assert "nothing here that you may read" not in page and "newest 2" in page
    monkeypatch.setattr(attempts_view, "listed", lambda *_: [row("closed"), row("open")])
    assert "Only the newest 2 are shown, less those that you may not read" in get(app, "/attempts").text
    monkeypatch.setattr(attempts_view, "listed", lambda *_: [row("closed")])
    assert "nothing here that you may read" in get(app, "/attempts").text
