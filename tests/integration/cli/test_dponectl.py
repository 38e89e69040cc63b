"""`dponectl` against a server: what each command does, and one clear message for each wrong word."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from airflow_provider_dpone.cli.configuration import Configuration
from airflow_provider_dpone.composition import projection
from airflow_provider_dpone.composition.services import guarded_attempt
from airflow_provider_dpone.contracts.errors import AdmissionRefused, ConfigurationError
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.drivers import drain, quote_mssql
from airflow_provider_dpone.drivers.mssql import connect
from airflow_provider_dpone.drivers.sqlfiles import go_batches
from tests.integration.cli.conftest import Dponectl
from tests.support import ledger_records as make
from tests.support.live_gate import LiveGate
from tests.support.live_postgres import LivePostgres

WORKLOAD = """
schema: dpone.workload.v1
workload_id: {0}
constituent_id: {1}
cell: postgres_mssql_full_refresh_v1
dag_id: dag
source: {{binding: ops, schema: public, table: "{0}"}}
sink: {{binding: dw, schema: raw, table: "{0}", mode: full_refresh, guarantee: target_atomic}}
"""
DBT = """
schema: dpone.workload.v1
workload_id: marts
constituent_id: native
cell: sqlserver_dbt_v1
dag_id: dag
dbt: {binding: dw, project: dbt, default_schema: raw}
"""
NOBODY = "sha256:" + "0" * 64


@pytest.fixture
def released(dponectl: Dponectl, live: LiveGate, postgres: LivePostgres) -> Path:
    source, built = dponectl.folder / "source", dponectl.folder / "release"
    if not built.exists():
        (source / "dbt" / "models").mkdir(parents=True)
        (source / "dbt" / "dbt_project.yml").write_text("name: shop\nversion: '1.0.0'\nprofile: shop\n")
        (source / "dbt" / "models" / "one.sql").write_text("select 1 as one\n")
        (source / "marts.yaml").write_text(DBT)
        for name in ("planes", "airlines"):
            (source / f"{name}.yaml").write_text(WORKLOAD.format(name, "standalone"))
        (source / "composition.yaml").write_text(
            "schema: dpone.composition.v1\nname: c\nenvironment: test\n"
            "workloads: [planes.yaml, airlines.yaml, marts.yaml]\n"
            f"bindings:\n  ops: {{connector: postgres, database: {json.dumps(postgres.issuer.database)}}}\n"
            f"  dw: {{connector: mssql, database: {live.target}}}\n"
        )
        assert dponectl("compose", "build", str(source), str(built))[0] == 0
    return built


@pytest.fixture
def active(dponectl: Dponectl, live: LiveGate, released: Path) -> Iterator[str]:
    """The id of an ACTIVE activation, which is retired afterwards whatever happened under it."""
    code, out, err = dponectl("composition", "activate", str(released))
    assert code == 0, err
    yield out.split()[0]
    for operation in live.attempts.unresolved():
        dponectl("attempts", "settle", operation.attempt_sha256, "--try-is-over", "the test is over")
    dponectl("composition", "retire", out.split()[0])


def admitted(dponectl: Dponectl, run_id: str, try_number: int = 1) -> Operation:
    services = Configuration.read(dponectl.config).services()
    where = make.coordinates(run_id, try_number=try_number, task_id="lo+ad:/ 'x'" + "t" * 200)
    active = projection.load_workload(dponectl.folder / "root", "planes")
    return guarded_attempt(services, active, where).admit()


def test_the_life_of_an_activation(dponectl: Dponectl, released: Path) -> None:
    assert "no composition" in dponectl("composition", "status")[1]
    assert "release_id" in dponectl.refused("composition", "activate", str(released), "--expect", NOBODY)
    code, out, _ = dponectl("composition", "activate", str(released))
    assert code == 0
    first = out.split()[0]
    assert f"{first}  ACTIVE" in dponectl("composition", "status")[1]
    assert "DPONE_ATTEMPT_OVERLAP" in dponectl.refused("composition", "activate", str(released))
    assert f"{first}  ACTIVE" in dponectl("composition", "status")[1], "a refused activation became the current one"
    assert f"{first}  ACTIVE" in dponectl("composition", "reconcile", first)[1]
    for wrong in ("nonsense", "../current", str(uuid.uuid4()), first.upper()):
        for command in ("reconcile", "retire"):
            assert "DPONE_CO" in dponectl.refused("composition", command, wrong)
    assert f"{first}  RETIRED" in dponectl("composition", "retire", first)[1]
    assert f"{first}  RETIRED" in dponectl("composition", "retire", first)[1]
    assert "activation_over" in dponectl.refused("composition", "reconcile", first)


def test_a_prepared_activation_is_named_until_it_is_ended(dponectl: Dponectl, released: Path) -> None:
    code, out, err = dponectl("composition", "prepare", str(released))
    assert code == 0, err
    prepared = out.split()[0]
    assert f"{prepared}  PREPARED" in out
    code, out, _ = dponectl("composition", "status")
    assert code == 3 and f"This ends it: dponectl composition reconcile {prepared}" in out
    assert f"{prepared}  ACTIVE" in dponectl("composition", "reconcile", prepared)[1]
    code, out, _ = dponectl("composition", "status", "--json")
    standing = json.loads(out)
    assert code == 0 and standing["current"]["state"] == "ACTIVE" and standing["unfinished"] == []

    code, out, err = dponectl("composition", "activate", str(released), "--drain", "--patience", "5")
    assert code == 0, err
    successor = out.split()[0]
    assert successor != prepared and f"{prepared}  RETIRED" in dponectl("composition", "retire", prepared)[1]
    code, out, err = dponectl("composition", "rollback", "--patience", "5")
    assert code == 0, err
    assert "No SQL is undone" in err
    back = out.split()[0]
    assert len({prepared, successor, back}) == 3
    code, out, _ = dponectl("composition", "retire", back)
    assert code == 0 and "No SQL is undone" in out
    assert "Nothing is in force" in dponectl("composition", "status")[1]

    given_up = dponectl("composition", "prepare", str(released))[1].split()[0]
    assert f"{given_up}  RETIRED" in dponectl("composition", "retire", given_up)[1]
    assert dponectl("composition", "status")[0] == 0


def test_a_release_is_verified_and_shown(dponectl: Dponectl, released: Path) -> None:
    code, out, err = dponectl("compose", "verify", str(released), "--executable")
    assert code == 0, err
    assert "3 workloads" in out and "executable: postgres_mssql_full_refresh_v1, sqlserver_dbt_v1" in out
    assert "release_id" in dponectl.refused("compose", "verify", str(released), "--expect", NOBODY)
    assert "dpone://dw/raw/planes" in dponectl("compose", "show", str(released))[1]


def test_closing_needs_no_release_and_the_outcome_does(dponectl: Dponectl, live: LiveGate, active: str) -> None:
    key = admitted(dponectl, live.run_id()).attempt_sha256
    dponectl.refused("attempts", "close", key)
    dponectl.refused("attempts", "close", NOBODY, "--try-is-over", "it is")
    root = dponectl.folder / "root"
    away = root.rename(dponectl.folder / "away")
    try:
        assert "DPONE_CONFIGURATION" in dponectl.refused("attempts", "settle", key, "--try-is-over", "it is")
        code, out, err = dponectl("attempts", "close", key, "--try-is-over", "it is")
        assert code == 0, err
        assert f"{key}  RUNNING" in out
        assert "CLOSED_GATES" in out and "QUIESCENCE" in out and "OUTCOME" not in out
    finally:
        away.rename(root)
    assert f"{key}  FAILED" in dponectl("attempts", "settle", key, "--try-is-over", "it is")[1]
    assert f"{key}  FAILED" in dponectl("attempts", "close", key, "--try-is-over", "it is")[1]


def test_without_an_issuer_nothing_is_admitted_and_everything_is_settled(
    dponectl: Dponectl, live: LiveGate, active: str
) -> None:
    key = admitted(dponectl, live.run_id()).attempt_sha256
    text = dponectl.config.read_text(encoding="utf-8")
    issuer, closer = text.index("[mssql.roles.issuer]"), text.index("[mssql.roles.closer]")
    dponectl.config.write_text(text[:issuer] + text[closer:], encoding="utf-8")
    with pytest.raises(ConfigurationError, match="issuer_role"):
        admitted(dponectl, live.run_id())
    assert [operation.attempt_sha256 for operation in live.attempts.unresolved()] == [key]
    assert f"{key}  FAILED" in dponectl("attempts", "settle", key, "--try-is-over", "it is")[1]


def test_a_source_that_was_replaced_since_the_activation_is_not_read(
    dponectl: Dponectl, live: LiveGate, active: str, postgres: LivePostgres
) -> None:
    """The alias and the name lead to another database; the activation was for the one that was there."""
    name, kept = (sql.Identifier(each) for each in (postgres.issuer.database, "kept aside"))
    with psycopg.connect(postgres.owner, dbname="postgres", autocommit=True) as server:
        server.execute(sql.SQL("ALTER DATABASE {} RENAME TO {}").format(name, kept))
        server.execute(sql.SQL("CREATE DATABASE {}").format(name))
        try:
            with pytest.raises(AdmissionRefused, match="physical_binding_drift") as refused:
                admitted(dponectl, live.run_id())
            assert "ops" in str(refused.value)
            assert live.attempts.unresolved() == ()
        finally:
            server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))
            server.execute(sql.SQL("ALTER DATABASE {} RENAME TO {}").format(kept, name))
    key = admitted(dponectl, live.run_id()).attempt_sha256
    assert f"{key}  FAILED" in dponectl("attempts", "settle", key, "--try-is-over", "it is")[1]


def test_attempts_from_the_command_line(
    dponectl: Dponectl, live: LiveGate, active: str, postgres: LivePostgres
) -> None:
    run_id = "manual__2026-01-01T00:00:00+00:00/" + "r" * 200
    operation = admitted(dponectl, run_id)
    key = operation.attempt_sha256
    assert key in dponectl("attempts", "list", "--unresolved")[1]
    assert run_id in dponectl("attempts", "show", key)[1]
    assert operation.principal("extract").name in dponectl("attempts", "show", key)[1]
    for wrong in ("nonsense", "", NOBODY, key.upper(), key[:-1], "'; DROP TABLE x--", "é" * 71):
        for command in (["show"], ["settle", "--try-is-over", "it is"], ["reconcile"]):
            dponectl.refused("attempts", *command, "--", wrong)
    dponectl.refused("attempts", "settle", key)
    dponectl.refused("attempts", "settle", key, "--try-is-over", "")
    dponectl.refused("attempts", "settle", key, "--try-is-over", "  ")
    for limit in ("-1", "0", "x", "99999999999999999999"):
        dponectl.refused("attempts", "list", "--limit", limit)
    code, out, _ = dponectl("attempts", "sweep", "--dag-id", "dag", "--run-id", "another", "--tries-are-over", "it is")
    assert (code, out) == (0, "")
    code, out, err = dponectl("attempts", "settle", key, "--try-is-over", "killed by the test é")
    assert code == 0, err
    assert f"{key}  FAILED" in out
    assert "killed by the test é" in dponectl("attempts", "show", key)[1]
    assert key in dponectl("attempts", "show", key.removeprefix("sha256:"))[1]
    assert "`dponectl attempts list`" in dponectl.refused("attempts", "show", key[:19])
    for again in (["settle", key, "--try-is-over", "once more"], ["reconcile", key]):
        code, out, _ = dponectl("attempts", *again)
        assert (code, out.count("FAILED"), out.count("nothing was done")) == (0, 1, 1)
    assert "once more" not in dponectl("attempts", "show", key)[1]
    retried = admitted(dponectl, run_id, 2)
    second = retried.attempt_sha256
    assert "DPONE_ATTEMPT_OVERLAP" in dponectl.refused("composition", "retire", active)
    code, out, _ = dponectl("attempts", "sweep", "--dag-id", "dag", "--run-id", run_id, "--tries-are-over", "it is")
    assert code == 0
    assert f"{second}  FAILED" in out
    assert key not in out
    for tried in (operation, retried):
        assert postgres.closed(tried.principal("extract").name)
    assert dponectl("composition", "retire", active)[0] == 0


def test_installing_and_enrolling_twice_or_wrongly(dponectl: Dponectl, live: LiveGate) -> None:
    assert dponectl("ledger", "audit")[0] == 0
    assert "CREATE TABLE" in dponectl("ledger", "render")[1]
    assert "ledger_present" in dponectl.refused("ledger", "install", "--authority", "nonproduction")
    role = ("--writer-role", "dpone_writer", "--schema", "raw")
    for wrong in ("nowhere", "", "x" * 200, "master", live.controller.database, "a]'\";%--"):
        dponectl.refused("ledger", "enroll", "mssql", "--", wrong, *role) if not wrong else dponectl.refused(
            "ledger", "enroll", "mssql", wrong, *role
        )
    dponectl.refused("ledger", "enroll", "mssql", live.target, "--writer-role", "nobody", "--schema", "raw")
    dponectl.refused("ledger", "enroll", "mssql", live.target, "--writer-role", "dpone_writer", "--schema", "nothing")
    dponectl.refused("ledger", "enroll", "clickhouse", "flights")
    assert dponectl("ledger", "audit")[0] == 0


def test_what_a_dba_sees_of_an_installed_and_of_a_changed_ledger(dponectl: Dponectl, live: LiveGate) -> None:
    """Each command by its code, and what it prints; a changed ledger is refused by the name of what was changed."""
    code, out, err = dponectl("ledger", "status")
    assert code == 0, err
    assert out.startswith(f"{live.settings.service_id}  nonproduction authority on ")
    assert "activation open" in out and "gate profile 16 of 16" in out
    code, out, err = dponectl("ledger", "audit")
    assert code == 0, err
    assert out.startswith("The ledger is what was installed and written.")
    assert re.search(r"activations +\d", out) and re.search(r"policy revisions +not installed", out)
    code, out, err = dponectl("gate", "verify")
    assert code == 0, err
    assert "the rendered one, enabled" in out
    control = live.controller.database
    trigger = "TRIGGER dpone_control.tr_composition_owners ON dpone_control.composition_owners"
    live.as_dba(f"DISABLE {trigger}", database=control)
    try:
        for command in (["ledger", "audit"], ["ledger", "status"], ["attempts", "list"]):
            said = dponectl.refused(*command)
            assert said.startswith("DPONE_LEDGER_TAMPERED: catalog") and "tr_composition_owners" in said
    finally:
        live.as_dba(f"ENABLE {trigger}", database=control)
    live.as_dba("DISABLE TRIGGER [dpone_logon_gate] ON ALL SERVER", database="master")
    try:
        assert dponectl.refused("gate", "verify").startswith("DPONE_GATE_TAMPERED: logon_gate_disabled")
    finally:
        live.as_dba("ENABLE TRIGGER [dpone_logon_gate] ON ALL SERVER", database="master")
    assert dponectl("gate", "verify")[0] == dponectl("ledger", "audit")[0] == 0


@pytest.mark.parametrize("name", ["a\nGO\nDROP DATABASE x\nGO\n", "a\r\ngo\r\n", "x" * 129, ""])
def test_a_printed_script_is_not_cut_by_a_name(dponectl: Dponectl, name: str) -> None:
    logins = {"--controller": "c", "--issuer": "i"}
    good = {"database": "dw", "--schema": "raw", **logins, "--outcome-reader": "o", "--writer-role": "w"}
    for member in good:
        words = {**good, member: name}
        options = [word for key, value in words.items() if key.startswith("--") for word in (f"{key}={value}",)]
        assert "DPONE_CONFIGURATION" in dponectl.refused("target", "render", *options, "--", words["database"])
    dponectl.refused("gate", "render", f"--control-database={name}")
    for member in ("--controller", "--issuer", "--closer", "--protect"):
        words = {**logins, "--closer": "z", member: name}
        options = [f"{key}={value}" for key, value in words.items()]
        assert "DPONE_CONFIGURATION" in dponectl.refused("ledger", "render-grants", *options)


def grant(live: LiveGate, statement: str, database: str | None = None) -> None:
    live.as_dba(statement, database=database)


@pytest.mark.parametrize(
    ("take", "give", "where", "reason"),
    [
        ("REVOKE {sight} FROM {closer}", "GRANT {sight} TO {closer}", None, "visibility"),
        (
            "REVOKE ALTER ANY LOGIN FROM {closer}",
            "GRANT ALTER ANY LOGIN TO {closer}",
            None,
            "role_right_missing",
        ),
        (
            "DENY SELECT ON OBJECT::[dpone_fence].[markers] TO {observer}",
            "GRANT SELECT ON OBJECT::[dpone_fence].[markers] TO {observer}",
            "target",
            "closing_step",
        ),
    ],
)
def test_a_right_that_is_missing_at_the_end_is_one_error_and_nothing_is_concluded(
    dponectl: Dponectl, live: LiveGate, active: str, take: str, give: str, where: str | None, reason: str
) -> None:
    names = {"closer": quote_mssql(live.closer.user), "observer": quote_mssql(live.observer.user)}
    names["sight"] = live.sees_sessions_by
    database = live.target if where else "master"
    key = admitted(dponectl, live.run_id()).attempt_sha256
    grant(live, take.format(**names), database)
    try:
        assert reason in dponectl.refused("attempts", "settle", key, "--try-is-over", "it is")
        assert f"{key}  RUNNING" in dponectl("attempts", "list", "--unresolved")[1]
    finally:
        grant(live, give.format(**names), database)
    assert f"{key}  FAILED" in dponectl("attempts", "settle", key, "--try-is-over", "it is")[1]
    assert dponectl("composition", "retire", active)[0] == 0


def test_a_writer_role_with_more_rights_is_refused_before_a_login_exists(
    dponectl: Dponectl, live: LiveGate, active: str
) -> None:
    from airflow_provider_dpone.gates.interface import MsSqlWriterGrant

    grant(live, "GRANT CREATE PROCEDURE TO [dpone_writer]", live.target)
    try:
        operation = admitted(dponectl, live.run_id())
        with pytest.raises(ConfigurationError, match="writer_scope"):
            live.gate.issue(operation, operation.principals[0], MsSqlWriterGrant(database=live.target))
        assert live.logins(operation.principals[0].name) == []
    finally:
        grant(live, "REVOKE CREATE PROCEDURE FROM [dpone_writer]", live.target)
    code, out, err = dponectl("attempts", "settle", operation.attempt_sha256, "--try-is-over", "it is")
    assert (code, "FAILED" in out) == (0, True), err
    assert dponectl("composition", "retire", active)[0] == 0


def test_the_optional_groups_are_installed_once_in_their_order_and_audited(dponectl: Dponectl, live: LiveGate) -> None:
    assert re.search(r"policy revisions +not installed", dponectl("ledger", "audit")[1])
    assert "trust_absent" in dponectl.refused("ledger", "install", "--group", "registration")
    code, out, err = dponectl("ledger", "install", "--group", "trust", "--group", "registration")
    assert code == 0, err
    assert out.count("installed the group") == 2
    for name in ("trust", "registration"):
        assert f"{name}_present" in dponectl.refused("ledger", "install", "--group", name)
        assert f"CREATE SCHEMA [dpone_{name}]" in dponectl("ledger", "render", "--group", name)[1]
    # Who audits a group has to be able to read it: the controller is given that, and nothing else of it.
    assert "role_right_missing" in dponectl.refused("ledger", "audit")
    script = dponectl("ledger", "render-group-grants", "authority-reader", live.controller.user)[1]
    connection = connect(replace(live.dba, database=live.controller.database))
    try:
        connection.setautocommit(True)  # type: ignore[attr-defined]  # mssql-python's connection
        for batch in go_batches(script):
            drain(connection, batch)
    finally:
        connection.close()
    code, out, err = dponectl("ledger", "audit")
    assert code == 0, err
    assert re.search(r"policy revisions +0\n.*registered grants +0\n", out)
