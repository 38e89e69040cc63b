"""What the servers themselves say: which databases are one, which names are one, what stands under a name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from airflow_provider_dpone.cli.configuration import Configuration
from airflow_provider_dpone.composition.manifest import Binding
from airflow_provider_dpone.composition.physical import PhysicalDomain
from airflow_provider_dpone.composition.servers import GuardedServers
from airflow_provider_dpone.contracts.errors import ConfigurationError
from tests.integration.cli.conftest import Dponectl
from tests.support.live_gate import LiveGate
from tests.support.live_postgres import LivePostgres


@pytest.fixture
def servers(dponectl: Dponectl) -> GuardedServers:
    return GuardedServers(Configuration.read(dponectl.config).services())


@pytest.fixture
def database(live: LiveGate) -> Iterator[str]:
    """A second database of the same instance."""
    live.as_dba("CREATE DATABASE [second database]", database="master")
    yield "second database"
    live.as_dba("DROP DATABASE [second database]", database="master")


def mssql(servers: GuardedServers, database: str) -> PhysicalDomain:
    return servers.resolve("alias", Binding(connector="mssql", database=database))


def test_a_database_is_told_by_its_incarnation_and_not_by_how_it_is_called(
    servers: GuardedServers, live: LiveGate, database: str
) -> None:
    first = mssql(servers, live.target)
    assert mssql(servers, live.target.upper()).guard_id == first.guard_id == mssql(servers, f"{live.target}  ").guard_id
    assert first.guard_id in {each.guard_id for each in live.activation.request.resources}, "as it was enrolled"
    second = mssql(servers, database)
    assert second.guard_id != first.guard_id
    live.as_dba(f"DROP DATABASE [{database}]", database="master")
    with pytest.raises(ConfigurationError):
        mssql(servers, database)
    live.as_dba(f"CREATE DATABASE [{database}]", database="master")
    assert mssql(servers, database).guard_id != second.guard_id, "created again under the same name"


def test_a_postgres_source_is_told_by_its_server_and_its_oid(servers: GuardedServers, postgres: LivePostgres) -> None:
    def source(name: str) -> PhysicalDomain:
        return servers.resolve("ops", Binding(connector="postgres", database=name))

    first = source(postgres.issuer.database)
    assert first == source(postgres.issuer.database)
    other = source("postgres")
    assert other.service_id == first.service_id and other.guard_id != first.guard_id


NAMES = (
    ("raw", "Planes"),
    ("RAW", "planes"),
    ("raw", "planes  "),
    ("raw ", "PLANES"),
    ("raw", "planes_"),
    ("raw", "planes__dbt_tmp"),
    ("marts", "planes"),
    ("raw", "plänes"),
    ("raw", "pl'ane\"s]; --"),
)


def test_names_are_one_relation_where_the_database_says_so(servers: GuardedServers, live: LiveGate) -> None:
    compared = servers.compare(mssql(servers, live.target), NAMES)
    same = {number for number, each in enumerate(compared) if each.equivalence == compared[0].equivalence}
    assert same == {0, 1, 2, 3}
    assert len({each.equivalence for each in compared}) == len(NAMES) - 3
    assert [each.object_type for each in compared] == [None] * len(NAMES)


def test_what_stands_under_a_name_is_said(servers: GuardedServers, live: LiveGate) -> None:
    live.as_dba("CREATE VIEW [raw].[seen] AS SELECT 1 AS one", database=live.target)
    live.as_dba("CREATE PROCEDURE [raw].[done] AS SELECT 1", database=live.target)
    try:
        names = (("RAW", "EFFECTS"), ("raw", "seen "), ("raw", "done"), ("raw", "nothing"))
        found = servers.compare(mssql(servers, live.target), names)
        assert [each.object_type for each in found] == ["U", "V", "P", None]
    finally:
        live.as_dba("DROP VIEW [raw].[seen]", database=live.target)
        live.as_dba("DROP PROCEDURE [raw].[done]", database=live.target)


def test_a_thousand_names_are_one_statement(servers: GuardedServers, live: LiveGate) -> None:
    """More than the parameters that a batch may have."""
    names = tuple(("raw", f"table_{number:05}") for number in range(4000))
    compared = servers.compare(mssql(servers, live.target), names)
    assert len({each.equivalence for each in compared}) == 4000


def test_a_cell_without_its_accounts_is_not_installed(dponectl: Dponectl) -> None:
    services = Configuration.read(dponectl.config).services()
    assert GuardedServers(services).execution_cells == {"sqlserver_dbt_v1", "postgres_mssql_full_refresh_v1"}
    assert GuardedServers(replace(services, postgres_observer=None)).execution_cells == {"sqlserver_dbt_v1"}
    assert GuardedServers(replace(services, issuer=None)).execution_cells == frozenset()
