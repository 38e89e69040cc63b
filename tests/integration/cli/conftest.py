"""A deployment of its own with a composition of two transfers, and `dponectl` over it."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from airflow_provider_dpone.cli import main as command_line
from airflow_provider_dpone.ledger import ActivationStore
from tests.support.live_gate import LiveGate
from tests.support.live_postgres import LivePostgres


@pytest.fixture(scope="module")
def live(deployment: LiveGate) -> LiveGate:
    """The deployment with its guards free, for a composition that the command puts in force."""
    store = ActivationStore(deployment.control, deployment.settings)
    store.begin_retirement(deployment.activation.request)
    store.finalize_retirement(deployment.activation.request)
    return deployment


@dataclass(frozen=True, kw_only=True)
class Dponectl:
    """Runs the command in this process: its exit code, and what it printed."""

    config: Path
    folder: Path
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self.monkeypatch.setattr(sys, "argv", ["dponectl", "--config", str(self.config), *arguments])
        with pytest.raises(SystemExit) as ended:
            command_line.main()
        printed = self.capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    def refused(self, *arguments: str) -> str:
        """One clear message, no traceback (any other exception would not have become a SystemExit)."""
        code, _, err = self(*arguments)
        assert code in (1, 2), arguments
        assert err.strip(), arguments
        return err


@pytest.fixture
def dponectl(
    live: LiveGate,
    postgres: LivePostgres,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Dponectl:
    folder = tmp_path_factory.getbasetemp() / "dponectl é x"
    folder.mkdir(exist_ok=True)
    accounts = {
        "installer": live.dba,
        "controller": live.controller,
        "issuer": live.issuer,
        "closer": live.closer,
        "outcome_reader": live.observer,
    }
    lines = [f'service_id = "{live.settings.service_id}"', f'release_root = "{folder / "root"}"', "[mssql]"]
    lines += [f'host = "{live.controller.host}"', f"port = {live.controller.port}", "trust_server_certificate = true"]
    lines += [f'control_database = "{live.controller.database}"']
    for role, dsn in accounts.items():
        (folder / role).write_text(dsn.password.reveal() + "\n", encoding="utf-8")
        lines += [f"[mssql.roles.{role}]", f'user = "{dsn.user}"', f'password_file = "{folder / role}"']
    lines += [
        "[mssql.roles.source_reader]",
        'same_as = "outcome_reader"',
        "[postgres]",
        'host = "127.0.0.1"',
        f"port = {postgres.issuer.port}",
        f"database = {json.dumps(postgres.issuer.database)}",
        f"source_role = {json.dumps(postgres.source_role)}",
    ]
    for role, account in (("issuer", postgres.issuer), ("observer", postgres.observer)):
        (folder / f"postgres_{role}").write_text(account.password.reveal() + "\n", encoding="utf-8")
        lines += [f"[postgres.roles.{role}]", f"user = {json.dumps(account.user)}"]
        lines += [f'password_file = "{folder / f"postgres_{role}"}"']
    config = folder / "dpone.toml"
    config.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return Dponectl(config=config, folder=folder, monkeypatch=monkeypatch, capsys=capsys)
