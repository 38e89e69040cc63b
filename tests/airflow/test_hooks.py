"""From Airflow connections to DSNs."""

from __future__ import annotations

import json
import socket

import pytest
from airflow.sdk._shared.secrets_masker import redact

from airflow_provider_dpone.composition.services import gates_for
from airflow_provider_dpone.contracts.errors import ConfigurationError, ControlUnavailable
from airflow_provider_dpone.gates.mssql import MsSqlLoginGate
from airflow_provider_dpone.gates.postgres import PostgresGate
from airflow_provider_dpone.hooks import (
    DponeClickHouseHook,
    DponeLedgerHook,
    DponeMsSqlHook,
    DponePostgresHook,
    GuardRoles,
)

PASSWORD = "p@ss/wörd %{hostile}+'\";--"
MSSQL = {
    "conn_type": "dpone_mssql",
    "host": "sql.example",
    "login": "controller",
    "password": PASSWORD,
    "schema": "dpone_control",
    "extra": {"service_id": "0f8fad5b-d9cd-469f-a165-70867728950e", "trust_server_certificate": True},
}


def connection(monkeypatch: pytest.MonkeyPatch, conn_id: str, **members: object) -> None:
    monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(members))


def test_a_sql_server_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    connection(monkeypatch, "dpone_controller", **MSSQL)
    dsn = DponeMsSqlHook().dsn()
    assert (dsn.host, dsn.port, dsn.database, dsn.user) == ("sql.example", 1433, "dpone_control", "controller")
    assert dsn.password.reveal() == PASSWORD
    assert dsn.trust_server_certificate and dsn.encrypt == "yes"
    assert DponeMsSqlHook().dsn(database="flights_dw").database == "flights_dw"


def test_no_repr_shows_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    connection(monkeypatch, "dpone_controller", **MSSQL)
    hook = DponeMsSqlHook()
    dsn = hook.dsn()
    assert PASSWORD not in f"{dsn!r} {vars(hook)!r} {dsn.password}"


def test_the_masker_knows_the_password_and_its_url_form(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "Zq8/vT+3 wX=9kLmN"
    connection(monkeypatch, "dpone_controller", **MSSQL | {"password": secret})
    DponeMsSqlHook().dsn()
    for form in (secret, "Zq8%2FvT%2B3%20wX%3D9kLmN", "Zq8%2FvT%2B3+wX%3D9kLmN"):
        assert form not in str(redact(f"login failed for {form} at host"))


def test_the_ledger_hook_needs_to_know_which_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    connection(monkeypatch, "dpone_controller", **MSSQL)
    assert DponeLedgerHook().settings().service_id == "0f8fad5b-d9cd-469f-a165-70867728950e"
    connection(monkeypatch, "dpone_controller", **MSSQL | {"extra": {}})
    with pytest.raises(ConfigurationError, match="ledger_service_id"):
        DponeLedgerHook().settings()


def test_a_missing_connection_is_named() -> None:
    with pytest.raises(ConfigurationError, match="no_such_connection"):
        DponeMsSqlHook("no_such_connection").dsn()


@pytest.mark.parametrize("missing", ["host", "login", "password"])
def test_an_unset_secret_is_named(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    connection(monkeypatch, "dpone_controller", **{name: value for name, value in MSSQL.items() if name != missing})
    with pytest.raises(ConfigurationError, match=f"no {missing}"):
        DponeMsSqlHook().dsn()


def test_a_connection_of_another_type_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    connection(monkeypatch, "dpone_controller", **MSSQL)
    with pytest.raises(ConfigurationError, match="connection_type"):
        DponePostgresHook("dpone_controller").dsn()


def test_clickhouse_and_postgres_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    common = {"host": "h", "login": "u", "password": PASSWORD}
    connection(monkeypatch, "ch", conn_type="dpone_clickhouse", **common, extra={"secure": "true", "verify": False})
    connection(monkeypatch, "pg", conn_type="dpone_postgres", **common, schema="flights_ops", port=6543)
    clickhouse = DponeClickHouseHook("ch").dsn()
    assert (clickhouse.port, clickhouse.secure, clickhouse.verify) == (8443, True, False)
    postgres = DponePostgresHook("pg").dsn()
    assert (postgres.port, postgres.database, postgres.sslmode) == (6543, "flights_ops", "prefer")
    assert PASSWORD not in f"{clickhouse!r} {postgres!r}"


@pytest.mark.parametrize(
    ("hook", "name", "member"),
    [
        (DponeMsSqlHook, "login_timeout", "login_timeout_seconds"),
        (DponeClickHouseHook, "connect_timeout", "connect_timeout_seconds"),
        (DponePostgresHook, "connect_timeout", "connect_timeout_seconds"),
    ],
)
def test_how_long_a_connection_is_waited_for_is_set_by_it(
    monkeypatch: pytest.MonkeyPatch, hook: type[DponeMsSqlHook], name: str, member: str
) -> None:
    def of(**extra: object) -> object:
        common = {"host": "h", "login": "u", "password": PASSWORD}
        connection(monkeypatch, "one", conn_type=hook.conn_type, **common, extra=extra)
        return getattr(hook("one").dsn(), member)

    assert of() == of(**{name: None}) == of(**{name: ""}) == 15
    assert of(**{name: 1}) == of(**{name: "1"}) == 1
    assert of(**{name: 3600}) == 3600
    for wrong in (0, -1, 3601, "9" * 5000, "1.5", 1.5, "1s", " 1", "\u0661", True, "0x1", [1]):
        with pytest.raises(ConfigurationError, match="connection_seconds") as refused:
            of(**{name: wrong})
        assert name in refused.value.happened


def test_a_wrong_address_is_one_clear_message_without_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        common = {"host": "127.0.0.1", "port": port, "login": "controller", "password": PASSWORD}
        # The driver tries a refused port again until this time is over.
        connection(monkeypatch, "sql", conn_type="dpone_mssql", **common, extra={"login_timeout": 1})
        connection(monkeypatch, "ch", conn_type="dpone_clickhouse", **common)
        connection(monkeypatch, "pg", conn_type="dpone_postgres", **common)
        for hook in (DponeMsSqlHook("sql"), DponeClickHouseHook("ch"), DponePostgresHook("pg")):
            with pytest.raises(ControlUnavailable) as refused:
                hook.get_conn()
            text = str(refused.value)
            assert f"127.0.0.1,{port}" in text or f"127.0.0.1:{port}" in text
            assert "controller" in text and PASSWORD not in text
            assert not refused.value.state_may_have_changed
            answered, message = hook.test_connection()
            assert not answered and message.startswith("DPONE_CONTROL_UNAVAILABLE") and PASSWORD not in message


ROLES = ("controller", "issuer", "closer", "outcome_reader", "source_reader")


def standing_connections(monkeypatch: pytest.MonkeyPatch, **logins: str) -> None:
    """A connection of its own for each SQL Server role, with a login of its own unless another one is given."""
    for role in ROLES:
        connection(monkeypatch, f"dpone_{role}", **MSSQL | {"login": logins.get(role, role)})


def test_every_role_is_an_account_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    standing_connections(monkeypatch)
    services = GuardRoles().services()
    assert services.issuer is not None
    assert [getattr(services, role).user for role in ROLES] == list(ROLES)


@pytest.mark.parametrize(("role", "other"), [("issuer", "controller"), ("closer", "issuer"), ("closer", "controller")])
def test_two_connections_with_one_login_are_one_account_for_two_roles(
    monkeypatch: pytest.MonkeyPatch, role: str, other: str
) -> None:
    standing_connections(monkeypatch, **{role: f"{other.upper()} "})
    with pytest.raises(ConfigurationError, match="shared_role") as refused:
        GuardRoles().services()
    assert f"dpone_{role}" in refused.value.happened and f"dpone_{other}" in refused.value.happened
    said = GuardRoles(shared=(f"dpone_{role}", f"dpone_{other}")).services()
    assert said.closer.user


def test_the_postgres_accounts_are_two_and_the_issuer_names_the_source_role(monkeypatch: pytest.MonkeyPatch) -> None:
    standing_connections(monkeypatch)
    assert GuardRoles().services().postgres_issuer is None
    common = {"conn_type": "dpone_postgres", "host": "h", "password": PASSWORD, "schema": "shop"}
    connection(monkeypatch, "dpone_postgres_issuer", **common, login="i", extra={"source_role": "readers"})
    connection(monkeypatch, "dpone_postgres_observer", **common, login="o")
    services = GuardRoles().services()
    assert [dsn.user for dsn in services.require_postgres()] == ["i", "o"]
    assert services.postgres_source_role == "readers"
    gate = gates_for(services)["postgres"]
    assert isinstance(gate, PostgresGate) and gate.connector == "postgres"
    connection(monkeypatch, "dpone_postgres_observer", **common, login="i")
    with pytest.raises(ConfigurationError, match="shared_role"):
        GuardRoles().services()
    assert GuardRoles(shared=("dpone_postgres_issuer", "dpone_postgres_observer")).services().require_postgres()


def test_without_an_issuer_everything_but_issuing_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    standing_connections(monkeypatch)
    monkeypatch.delenv("AIRFLOW_CONN_DPONE_ISSUER")
    services = GuardRoles().services()
    assert services.issuer is None
    gate = gates_for(services)["mssql"]
    assert isinstance(gate, MsSqlLoginGate)
    with pytest.raises(ConfigurationError, match="issuer_role") as refused:
        gate.require_issuer()
    assert "docs/roles.md" in refused.value.check
