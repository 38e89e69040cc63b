"""What an operator sees in Airflow's UI after the main job, in a real browser."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import pytest
from dpone_demo import provisioning
from dpone_embedded import Stack

from airflow_provider_dpone.composition.services import resume_attempt
from airflow_provider_dpone.contracts.errors import NotQuiescent
from airflow_provider_dpone.contracts.principal import new_mssql_principal
from airflow_provider_dpone.ledger import AttemptStore
from tests.e2e.conftest import MainJob
from tests.support.browser import Browser, chromium

pytestmark = pytest.mark.timeout(1500)

WAREHOUSE = "flights_warehouse"
HOSTILE = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">"


@pytest.fixture(scope="module")
def signed_in(run: MainJob) -> Iterator[Browser]:
    """A browser that signed in through the form, as the user that the run printed."""
    url, user, password = run.airflow()
    with chromium() as browser:
        browser.open(url)
        browser.type("input[name=username]", user)
        browser.type("input[name=password]", password)
        browser.click("button[type=submit]")
        browser.element("button", "Browse")
        yield browser


@pytest.fixture
def browser(
    signed_in: Browser, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Browser]:
    """The signed-in browser; when the test fails, a picture of what it showed is left beside pytest's own files."""
    failed = request.session.testsfailed
    yield signed_in
    signed_in.driver.switch_to.default_content()
    if request.session.testsfailed > failed:
        signed_in.picture(tmp_path_factory.mktemp("pictures") / f"{request.node.name}.png")


@pytest.fixture
def run_id(run: MainJob) -> str:
    return str(run.report()["attempts"][0]["coordinates"][1])


def rows(browser: Browser) -> list[str]:
    """The lines of the list of attempts, each with its words in one line."""
    found = browser.driver.find_elements("css selector", "tr[data-attempt]")
    return [" ".join(row.text.split()) for row in found]


def test_the_attempts_of_the_run_are_reached_through_the_navigation(
    browser: Browser, run: MainJob, run_id: str
) -> None:
    browser.click("button", "Browse")
    browser.click("a, [role=menuitem]", "Guarded attempts")
    with browser.inside():
        browser.shows("Guarded attempts", "Owner", "Epochs", "Proofs", run_id)
        seen = rows(browser)
        assert len(seen) == len(run.report()["attempts"])
        assert "publish_" in seen[0] and "flights_reference" in seen[-1], "the newest attempt comes first"
        for row in seen:
            assert "✓ closed ✓ quiescent ✓ outcome" in row
            assert (
                "mssql ingest, postgres extract CLOSED" in row
                or "mssql build CLOSED" in row
                or "clickhouse ingest, clickhouse publish" in row
            )
            assert row.startswith(("SUCCEEDED", "FAILED warehouse"))
        assert sum(row.startswith("FAILED warehouse") for row in seen) == 1
        browser.click("nav a", "What blocks")
        browser.shows("Nothing is unresolved")
        browser.click("nav a", "Owners and epochs")
        browser.shows("Activation", "ACTIVE", "Epoch", "Nothing is unresolved")


def test_a_run_leads_to_its_attempts(browser: Browser, run: MainJob, run_id: str) -> None:
    url, _, _ = run.airflow()
    browser.open(f"{url}/dags/{WAREHOUSE}/runs/{run_id}")
    browser.click("a", "Guarded attempts")
    with browser.inside():
        browser.shows("FAILED", "SUCCEEDED")
        assert len(rows(browser)) == 2 and all(WAREHOUSE in row for row in rows(browser))


def test_a_task_instance_leads_to_its_tries_and_their_evidence(browser: Browser, run: MainJob, run_id: str) -> None:
    url, _, _ = run.airflow()
    browser.open(f"{url}/dags/{WAREHOUSE}/runs/{run_id}/tasks/warehouse.work")
    browser.click("a[href*=plugin]", "Guarded attempts")
    with browser.inside():
        browser.shows("FAILED", "SUCCEEDED")
        first, second = rows(browser)
        assert first.startswith("FAILED") and second.startswith("SUCCEEDED"), "tries in their order"
        browser.click("tr[data-attempt] a[href^=attempts]")
        browser.shows(
            "Attempt", "FAILED", run_id, "CLOSED", "✓ quiescent", "Guards", "Principals", "OUTCOME", "Evidence"
        )
        browser.click("details summary", "outcome")
        browser.shows("dpone.")
        browser.click("a", "All tries of this task instance")
        browser.shows("SUCCEEDED")
        assert len(rows(browser)) == 2


def test_the_link_of_a_task_instance_opens_its_attempts(browser: Browser, run: MainJob, run_id: str) -> None:
    url, _, _ = run.airflow()
    browser.open(f"{url}/dags/flights_reference/runs/{run_id}/tasks/load/mapped/0/details")
    browser.click("a[href*='/dpone/attempts']", "Guarded attempts")
    browser.shows("Guarded attempts", run_id, "load [0]")
    assert len(rows(browser)) == 1


@pytest.mark.parametrize(
    ("connection", "type_name", "fields"),
    [
        ("dpone_clickhouse_admin", "dpone: ClickHouse", ("Host", "User", "Password", "Port", "Database")),
        ("dpone_controller", "dpone: SQL Server", ("Host", "User", "Password", "Port", "Database")),
        ("dpone_postgres_issuer", "dpone: PostgreSQL", ("Host", "User", "Password", "Port", "Database")),
    ],
)
def test_a_connection_form_shows_its_fields_and_no_password(
    browser: Browser, run: MainJob, connection: str, type_name: str, fields: tuple[str, ...]
) -> None:
    url, _, _ = run.airflow()
    browser.open(f"{url}/connections")
    browser.shows(connection)
    row = browser.wait(
        lambda: next(row for row in browser.driver.find_elements("css selector", "tr") if connection in row.text),
        f"no row of {connection}",
    )
    row.find_element("css selector", "[aria-label='Edit Connection']").click()
    browser.shows("Edit Connection", type_name, *fields, "Extra Fields")
    assert browser.element("input[name=connection_id]").get_attribute("value") == connection
    assert browser.element("input[name=password]").get_attribute("value") == "***"


@contextmanager
def admitted(state: Path, run_id: str) -> Iterator[str]:
    """An attempt that never did anything, of a run with the given id; Airflow itself would refuse most of them.

    It is settled in the end: whatever else runs on this stack needs its guards.
    """
    services = provisioning.guard_services(Stack(state), state / "dpone")
    store = AttemptStore(services.control, services.ledger)
    known = next(each for each in store.recent() if each.attempt.workload_id == "airlines")
    attempt = replace(known.attempt, dag_run_id=run_id)
    principal = new_mssql_principal(services.ledger.service_id, "ingest")
    operation = store.admit_once(attempt, replace(known.coordinates, run_id=run_id), [principal])
    try:
        yield operation.attempt_sha256
    finally:
        settlement = resume_attempt(services, state / "dpone", operation)
        deadline = time.monotonic() + 30
        while settlement.operation.state == "RUNNING" and time.monotonic() < deadline:
            with suppress(NotQuiescent):  # whoever is just logging in counts as present
                settlement.settle()
        assert settlement.operation.state == "FAILED"


def test_hostile_text_is_text(browser: Browser, run: MainJob) -> None:
    url, _, _ = run.airflow()
    with admitted(run.state, HOSTILE) as digest:
        pages = (
            "attempts",
            "attempts?unresolved=true",
            "owners",
            f"attempts/{digest}",
            f"attempts?{urlencode({'run_id': HOSTILE})}",
        )
        for page in pages:
            browser.open(f"{url}/dpone/{page}")
            browser.shows(digest[7:19])
            assert not browser.driver.find_elements("css selector", "body script, body img"), page
            assert "owned" not in browser.driver.title
            if page != "owners":
                browser.shows(HOSTILE)
        assert browser.element("input[name=run_id]").get_attribute("value") == HOSTILE
        browser.click("button", "Find")
        browser.shows(HOSTILE, digest[7:19])
