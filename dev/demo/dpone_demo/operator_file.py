"""The configuration file with which an operator's `dponectl` looks at the demo, and the password files that it names."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from airflow_provider_dpone.composition.services import GuardServices
from airflow_provider_dpone.drivers.clickhouse import ClickHouseDsn
from airflow_provider_dpone.drivers.mssql import MsSqlDsn
from airflow_provider_dpone.drivers.postgres import PostgresDsn

_Account = MsSqlDsn | ClickHouseDsn | PostgresDsn


def write(folder: Path, services: GuardServices, installer: MsSqlDsn) -> Path:
    """Write `dpone.toml` and, for its owner alone, a file for each password. Answers the file that `--config` takes."""
    sql_server = {
        "controller": services.controller,
        "issuer": services.issuer,
        "closer": services.closer,
        "outcome_reader": services.outcome_reader,
        "source_reader": services.source_reader,
        "installer": installer,
    }
    clickhouse = {"access": services.clickhouse_access, "observer": services.clickhouse_observer}
    postgres = {"issuer": services.postgres_issuer, "observer": services.postgres_observer}
    top = {"service_id": services.ledger.service_id, "release_root": str(services.work_root.parent)}
    at = services.controller
    lines = [
        *_values(top),
        *_engine(
            folder,
            "mssql",
            {
                "host": at.host,
                "port": at.port,
                "control_database": at.database,
                "trust_server_certificate": at.trust_server_certificate,
            },
            sql_server,
        ),
        *_engine(folder, "clickhouse", _address(services.clickhouse_access), clickhouse),
        *_engine(
            folder,
            "postgres",
            {**_address(services.postgres_issuer), "database": getattr(services.postgres_issuer, "database", "")},
            postgres,
        ),
    ]
    path = folder / "dpone.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _address(account: _Account | None) -> dict[str, object]:
    assert account is not None
    return {"host": account.host, "port": account.port}


def _engine(
    folder: Path, engine: str, address: Mapping[str, object], accounts: Mapping[str, _Account | None]
) -> list[str]:
    lines = ["", f"[{engine}]", *_values(address)]
    for role, account in accounts.items():
        assert account is not None
        password = _password_file(folder / "passwords" / f"{engine}.{role}", account)
        lines += ["", f"[{engine}.roles.{role}]", *_values({"user": account.user, "password_file": str(password)})]
    return lines


def _password_file(path: Path, account: _Account) -> Path:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(account.password.reveal())
    return path


def _values(section: Mapping[str, object]) -> list[str]:
    """A JSON text, number or truth value is one of TOML as well."""
    return [f"{name} = {json.dumps(value)}" for name, value in section.items()]
