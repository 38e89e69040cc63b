"""`dponectl campaign run`, over an Airflow from a script and a ledger in memory."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from airflow_provider_dpone.campaign import run as campaign_run
from airflow_provider_dpone.cli import campaign_commands
from airflow_provider_dpone.cli.configuration import Configuration
from airflow_provider_dpone.composition import projection, release
from airflow_provider_dpone.contracts.errors import ConfigurationError, GuardError
from tests.support.compositions import COMPOSITION, Store, activation, write_source
from tests.support.scripted_airflow import Airflow, instance, scripted_airflow

PARENT = "parent: {dag_id: parent, order: [d]}\n"
SERVER = SimpleNamespace(name="a server", product_version="16.0")


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[type[Airflow], str]]:
    monkeypatch.setattr(campaign_run.time, "sleep", lambda _: None)
    with scripted_airflow() as served:
        yield served


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    held = Store()
    monkeypatch.setattr(Configuration, "services", lambda _: SimpleNamespace(control=None, ledger=None))
    monkeypatch.setattr(campaign_commands, "build_composition_activation", lambda root, _: activation(root, held))
    nothing = SimpleNamespace(find=lambda *_: ())
    monkeypatch.setattr(campaign_commands, "AttemptStore", lambda *_: nothing)
    standing = SimpleNamespace(standing=lambda: SimpleNamespace(server=SERVER))
    monkeypatch.setattr(campaign_commands, "GateReceiptStore", lambda *_: standing)
    return held


def campaign(
    tmp_path: Path, url: str, *more: str, verdict: int = 0, parent: str = PARENT, docs: str | None = None
) -> Any:
    """The command, with a reconciler that ends with `verdict` and leaves what it was given.

    Airflow's DAGs say that they are of the release, or what `docs` says.
    """
    built = release.build(write_source(tmp_path / "source", composition=COMPOSITION + parent), tmp_path / "release")
    Airflow.docs = [docs or projection.mark("small", built.release_id)]
    (tmp_path / "password").write_text("pass-of-airflow\n")
    reconciler = tmp_path / "recon ciler.py"
    reconciler.write_text(
        f"import pathlib, sys\n(pathlib.Path(sys.argv[-1]) / 'seen').write_text(sys.argv[1])\nsys.exit({verdict})\n"
    )
    command = ["run", str(tmp_path / "release"), "--airflow", url, "--airflow-user", "u"]
    command += ["--airflow-password-file", str(tmp_path / "password"), "--evidence", str(tmp_path / "evidence")]
    command += ["--reconcile", f"{sys.executable} '{reconciler}' 'an argument'", *more]
    settings = Configuration({"release_root": str(tmp_path / "root")}, "test")
    return CliRunner().invoke(campaign_commands.campaign, command, obj=settings)


def test_from_activation_to_retirement(scripted: tuple[type[Airflow], str], store: Store, tmp_path: Path) -> None:
    airflow, url = scripted
    airflow.looks = [[instance("load", "running")], [instance("load", "success")]]
    done = campaign(tmp_path, url)
    assert done.exit_code == 0, done.output
    assert "d.load: running" in done.output and "no SQL is undone" in done.output
    assert set(store.states.values()) == {"RETIRED"}
    assert (tmp_path / "evidence" / "seen").read_text() == "an argument"
    steps = json.loads((tmp_path / "evidence" / "campaign.json").read_text())["steps"]
    assert [steps[each]["result"] for each in ("put_in_force", "run", "reconciled", "retired")] == [
        *("ACTIVE", "success", True, "RETIRED"),
    ]
    kept = [path for path in (tmp_path / "evidence").iterdir() if "pass-of-airflow" in path.read_text()]
    assert kept == []


@pytest.mark.parametrize(("end", "verdict"), [("failed", 0), ("success", 1)])
def test_a_failed_run_and_a_failed_reconciliation_are_failures(
    scripted: tuple[type[Airflow], str], store: Store, tmp_path: Path, end: str, verdict: int
) -> None:
    airflow, url = scripted
    airflow.end = end
    done = campaign(tmp_path, url, "--keep", verdict=verdict)
    assert done.exit_code == 1, done.output
    assert set(store.states.values()) == {"ACTIVE"}, "--keep leaves it in force"


def test_a_run_that_does_not_end_says_what_stays_in_force(
    scripted: tuple[type[Airflow], str], store: Store, tmp_path: Path
) -> None:
    airflow, url = scripted
    airflow.end = "running"
    done = campaign(tmp_path, url, "--timeout", "1")
    assert done.exit_code == 1 and "stays in force" in done.output, done.output
    assert projection.current_activation_id(tmp_path / "root") in done.output


def test_a_release_without_a_parent_needs_one_by_name(
    scripted: tuple[type[Airflow], str], store: Store, tmp_path: Path
) -> None:
    done = campaign(tmp_path, scripted[1], parent="")
    assert isinstance(done.exception, ConfigurationError) and done.exception.reason == "campaign_parent"
    assert store.states == {} and not (tmp_path / "evidence").exists()


def test_dags_that_were_written_by_hand_run_when_they_are_named(
    scripted: tuple[type[Airflow], str], store: Store, tmp_path: Path
) -> None:
    done = campaign(tmp_path, scripted[1], "--parent", "parent", "--dag", "d", parent="", docs="By hand.")
    assert done.exit_code == 0, done.output


LOGINS: dict[str, tuple[int, dict[str, str], str]] = {
    "401": (401, {}, '{"detail": "Invalid credentials"}'),
    "404": (404, {}, "not here"),
    "500": (500, {}, "<html>pass-of-airflow</html>"),
    "elsewhere": (302, {"Location": "/login"}, ""),
    "a page": (200, {}, "<html>"),
    "a list": (200, {}, "[]"),
    "a number": (200, {}, '{"access_token": 1}'),
    "no bytes": (200, {}, ""),
    "the request itself": (422, {}, json.dumps({"detail": [{"input": {"password": "pass-of-airflow"}}]})),
}


@pytest.mark.parametrize("login", LOGINS.values(), ids=LOGINS.keys())
def test_a_login_that_is_not_airflows_ends_before_anything_is_put_in_force(
    scripted: tuple[type[Airflow], str],
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    login: tuple[int, dict[str, str], str],
) -> None:
    status, headers, body = login

    def answer(self: Airflow) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())

    airflow, url = scripted
    monkeypatch.setattr(airflow, "do_POST", answer)
    done = campaign(tmp_path, url)
    assert isinstance(done.exception, GuardError), done.exception
    assert "pass-of-airflow" not in f"{done.exception}{done.exception.as_document()}{done.output}"
    assert store.states == {} and not (tmp_path / "evidence").exists(), "the same command can be given again"


@pytest.mark.parametrize("url", ["http://u:pass-in-url@127.0.0.1:1", "http://[", "nothing", "ftp://127.0.0.1:1"])
def test_an_address_that_is_none_is_refused_without_repeating_a_password(
    store: Store, tmp_path: Path, url: str
) -> None:
    done = campaign(tmp_path, url)
    assert isinstance(done.exception, GuardError), done.exception
    assert "pass-in-url" not in f"{done.exception}{done.output}" and store.states == {}


def test_an_airflow_that_is_away_for_a_moment_ends_nothing(
    scripted: tuple[type[Airflow], str], store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    airflow, url = scripted
    airflow.looks = [[instance("load", "running")], [instance("load", "success")]]
    get, away = airflow.do_GET, [502, 503]

    def answer(self: Airflow) -> None:
        if "dagRuns" in self.path and away:
            self.answer({}, away.pop())
        else:
            get(self)

    monkeypatch.setattr(airflow, "do_GET", answer)
    done = campaign(tmp_path, url)
    assert done.exit_code == 0 and "answered 502" in done.output, done.output


@pytest.mark.parametrize("trouble", ["ctrl-c", "401", "garbage", "a full disk"])
def test_whatever_stops_it_half_way_says_what_stays_in_force_and_what_ends_that(
    scripted: tuple[type[Airflow], str],
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    trouble: str,
) -> None:
    airflow, url = scripted
    airflow.looks = [[instance("load", "running")], [instance("load", "success")]]

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if trouble == "ctrl-c":
        monkeypatch.setattr(campaign_run.time, "sleep", interrupt)
    elif trouble == "a full disk":
        monkeypatch.setattr(campaign_run.Campaign, "_gather", full)
    elif trouble == "401":
        monkeypatch.setattr(airflow, "do_GET", lambda self: self.answer({}, 401 if "dagRuns" in self.path else 200))
    else:
        airflow.looks = [[{"operator": "no more than this"}]]
    done = campaign(tmp_path, url)
    (activation_id,) = store.states
    assert done.exit_code != 0
    assert f"dponectl composition retire {activation_id}" in done.output, done.output
    assert store.states == {activation_id: "ACTIVE"}


@pytest.mark.parametrize("command", ["", "no-such-program-anywhere x", "'open"])
def test_a_reconciler_that_cannot_be_run_is_refused_first(
    scripted: tuple[type[Airflow], str], store: Store, tmp_path: Path, command: str
) -> None:
    done = campaign(tmp_path, scripted[1], "--reconcile", command)
    assert done.exit_code == 2 and "--reconcile" in done.output
    assert store.states == {} and not (tmp_path / "evidence").exists()
