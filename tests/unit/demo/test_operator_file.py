"""What the demo gives an operator to look at it with."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest
from dpone_demo import operator_file

from airflow_provider_dpone.cli.configuration import Configuration
from airflow_provider_dpone.composition.services import GuardServices
from airflow_provider_dpone.drivers import Secret
from airflow_provider_dpone.drivers.clickhouse import ClickHouseDsn
from airflow_provider_dpone.drivers.mssql import MsSqlDsn
from airflow_provider_dpone.drivers.postgres import PostgresDsn
from airflow_provider_dpone.ledger import LedgerSettings

HOSTILE = "}{;'\"&*%$\\ =é#"


@pytest.mark.parametrize("folder", ["state", "dé po 'x\"\\"])
def test_dponectl_reads_the_accounts_that_the_demo_has(tmp_path: Path, folder: str) -> None:
    state = tmp_path / folder
    state.mkdir()

    def sql_server(user: str) -> MsSqlDsn:
        return MsSqlDsn(
            host="127.0.0.1",
            port=1401,
            database="dpone_control",
            user=user,
            password=Secret(HOSTILE + user),
            trust_server_certificate=True,
        )

    clickhouse = ClickHouseDsn(host="127.0.0.1", port=8124, user="access", password=Secret(HOSTILE))
    postgres = PostgresDsn(host="127.0.0.1", port=5433, database="ops", user="issuer", password=Secret(HOSTILE))
    services = GuardServices(
        ledger=LedgerSettings(service_id="3f1c2a34-0000-4000-8000-000000000001"),
        controller=sql_server("controller"),
        issuer=sql_server("issuer"),
        closer=sql_server("closer"),
        outcome_reader=sql_server("outcome_reader"),
        source_reader=sql_server("source_reader"),
        work_root=state / "dpone" / "attempts",
        clickhouse_access=clickhouse,
        clickhouse_observer=replace(clickhouse, user="observer"),
        postgres_issuer=postgres,
        postgres_observer=replace(postgres, user="observer"),
    )
    installer = sql_server("sa")

    read = Configuration.read(operator_file.write(state, services, installer))

    assert read.services() == services
    assert [read.services().closer.password.reveal(), read.mssql("installer").password.reveal()] == [
        HOSTILE + "closer",
        HOSTILE + "sa",
    ]
    files = list((state / "passwords").iterdir())
    assert len(files) == 10
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert HOSTILE not in (state / "dpone.toml").read_text(encoding="utf-8")
