"""The PostgreSQL gate on a real server: what an attempt's role can do, and that nothing of it is left when it is closed."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from dpone_reconcile.engines import Postgres as Witness
from dpone_reconcile.ledger import roles_left
from psycopg import pq, sql
from tsqldev.pgserver import PostgresProcess

from airflow_provider_dpone.contracts.errors import (
    ConfigurationError,
    ControlUnavailable,
    GateTampered,
    NotQuiescent,
    OutcomeUnknown,
)
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.principal import Principal
from airflow_provider_dpone.drivers import Secret
from airflow_provider_dpone.drivers.postgres import PostgresDsn, connect
from airflow_provider_dpone.gates import postgres_roles, postgres_sessions
from airflow_provider_dpone.gates.interface import Credential, MsSqlWriterGrant, PostgresExtractGrant
from airflow_provider_dpone.gates.postgres import PostgresGate
from tests.support.live_postgres import DATABASE, SOURCE_ROLE, LivePostgres
from tests.support.tcp_proxy import Fate, TcpProxy

GRANT = PostgresExtractGrant(database=DATABASE)
Session = psycopg.Connection[tuple[object, ...]]


def role(operation: Operation) -> Principal:
    return operation.principal("extract")


@pytest.fixture
def gate(postgres: LivePostgres) -> PostgresGate:
    return postgres.gate()


@pytest.fixture
def credential(gate: PostgresGate, operation: Operation) -> Iterator[Credential]:
    yield gate.issue(operation, role(operation), GRANT)
    gate.close(operation, role(operation))


@pytest.fixture
def session(postgres: LivePostgres, credential: Credential) -> Iterator[Session]:
    """A session of the attempt's role, as its worker has one."""
    with closing(connect(as_attempt(postgres, credential))) as opened:
        opened.autocommit = True
        yield opened


@pytest.fixture
def table(postgres: LivePostgres) -> str:
    name = f"planes_{secrets.token_hex(4)}"
    postgres.as_owner(f"CREATE TABLE {name} AS SELECT n, repeat('x', 1000) AS t FROM generate_series(1, 20000) AS n")
    return name


def as_attempt(postgres: LivePostgres, credential: Credential) -> PostgresDsn:
    return postgres.issuer.for_role(credential.username, credential.secret, app="worker")


def ended(session: Session) -> bool:
    try:
        session.execute("SELECT 1")
    except psycopg.OperationalError:
        return True
    return False


def text(statement: str, name: str) -> sql.Composed:
    return sql.SQL(statement).format(sql.Identifier(name))  # type: ignore[arg-type]  # tests write literal SQL


def test_the_accounts_are_ready(gate: PostgresGate, postgres: LivePostgres) -> None:
    before = postgres.asked("SELECT count(*) FROM pg_roles")
    gate.require_ready()
    assert postgres.asked("SELECT count(*) FROM pg_roles") == before, "the probe left a role"


def test_a_role_reads_what_the_source_role_reads_and_can_do_nothing_else(
    session: Session, credential: Credential, postgres: LivePostgres, table: str
) -> None:
    assert session.execute(f"SELECT count(*) FROM {table}").fetchone() == (20000,)
    session.execute("SET default_transaction_read_only = off")
    for refused in (
        f"INSERT INTO {table} VALUES (0, '')",
        f"DELETE FROM {table}",
        f"DROP TABLE {table}",
        "CREATE TABLE made (a int)",
        "CREATE SCHEMA made",
        "CREATE ROLE made",
        text("SET ROLE {}", SOURCE_ROLE),
        text("GRANT {} TO pg_monitor", SOURCE_ROLE),
        "SELECT * FROM pg_authid",
        "COPY (SELECT 1) TO '/tmp/made'",
        "COPY (SELECT 1) TO PROGRAM 'true'",
    ):
        with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.InvalidGrantOperation)):
            session.execute(refused)  # type: ignore[call-overload]  # tests write literal SQL
    [(limit, expires, config)] = postgres.asked(
        "SELECT rolconnlimit, rolvaliduntil BETWEEN now() AND now() + interval '1 day 1 minute', rolconfig"
        " FROM pg_roles WHERE rolname = %s",
        credential.username,
    )
    assert (limit, expires, config) == (2, True, ["default_transaction_read_only=on"])


def test_closing_ends_the_session_in_the_middle_of_its_copy(
    gate: PostgresGate, operation: Operation, session: Session, table: str, postgres: LivePostgres
) -> None:
    with pytest.raises(psycopg.OperationalError), session.cursor().copy(f"COPY {table} TO STDOUT") as copy:
        copy.read()
        closed = gate.close(operation, role(operation))
        for _ in copy:
            pass
    assert postgres.closed(role(operation).name)
    assert closed["kind"] == "CLOSED_GATES" and closed["principal_id"] == role(operation).principal_id
    began = time.monotonic()
    quiet = gate.prove_quiescent(operation, role(operation))
    assert time.monotonic() - began < 5
    assert quiet["kind"] == "QUIESCENCE" and quiet["sessions"] == [] and quiet["reads"] == 2
    assert quiet["positive_control"]["seen"] is True  # type: ignore[index]  # a document
    assert postgres.asked("SELECT count(*) FROM pg_roles WHERE starts_with(rolname, 'dpone_c_')") == [(0,)]


def test_a_closed_role_cannot_log_in_and_reads_nothing(
    gate: PostgresGate, operation: Operation, credential: Credential, postgres: LivePostgres
) -> None:
    gate.close(operation, role(operation))
    with pytest.raises(ControlUnavailable):
        connect(as_attempt(postgres, credential))
    assert gate.close(operation, role(operation)) == gate.close(operation, role(operation))
    assert gate.prove_quiescent(operation, role(operation))


def test_a_role_that_was_never_created_leaves_a_tombstone_that_no_issuer_can_take(
    gate: PostgresGate, operation: Operation, postgres: LivePostgres
) -> None:
    with pytest.raises(GateTampered, match="does not exist"):
        gate.prove_quiescent(operation, role(operation))
    gate.close(operation, role(operation))
    assert postgres.closed(role(operation).name)
    assert gate.prove_quiescent(operation, role(operation))["tombstone"] is True
    with pytest.raises(GateTampered, match="postgres_role_exists"):
        gate.issue(operation, role(operation), GRANT)
    assert postgres.closed(role(operation).name)


def test_a_role_is_issued_once(gate: PostgresGate, operation: Operation, session: Session) -> None:
    with pytest.raises(GateTampered, match="postgres_role_exists"):
        gate.issue(operation, role(operation), GRANT)
    assert session.execute("SELECT 1").fetchone() == (1,), "the first holder lost its role"


def test_an_open_role_is_never_proven_gone(gate: PostgresGate, operation: Operation, credential: Credential) -> None:
    with pytest.raises(GateTampered, match="may log in"):
        gate.prove_quiescent(operation, role(operation))


def test_set_role_hides_no_session(
    gate: PostgresGate,
    operation: Operation,
    session: Session,
    postgres: LivePostgres,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = f"other_{secrets.token_hex(4)}"
    postgres.as_owner(text("CREATE ROLE {}", other))
    postgres.as_owner(sql.SQL("GRANT {} TO {}").format(sql.Identifier(other), sql.Identifier(role(operation).name)))
    session.execute(text("SET ROLE {}", other))
    postgres.as_owner(sql.SQL("REVOKE {} FROM {}").format(sql.Identifier(other), sql.Identifier(role(operation).name)))
    assert session.execute("SELECT current_user::text").fetchone() == (other,)
    with monkeypatch.context() as patch:
        patch.setattr(postgres_sessions, "end", lambda *given: None)
        gate.close(operation, role(operation))
        with pytest.raises(NotQuiescent) as busy:
            gate.prove_quiescent(operation, role(operation))
    assert [left["pid"] for left in busy.value.sessions] == [session.info.backend_pid]
    assert gate.prove_quiescent(operation, role(operation)), "proving ends what closing left"
    assert ended(session)


def test_a_superuser_who_takes_the_name_on_is_not_ended_and_finds_no_rights(
    gate: PostgresGate, operation: Operation, credential: Credential, postgres: LivePostgres, table: str
) -> None:
    with psycopg.connect(postgres.owner, autocommit=True) as superuser:
        superuser.execute(text("SET SESSION AUTHORIZATION {}", credential.username))
        assert superuser.execute(f"SELECT count(*) FROM {table}").fetchone() == (20000,)
        gate.close(operation, role(operation))
        gate.prove_quiescent(operation, role(operation))
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            superuser.execute(f"SELECT count(*) FROM {table}")


def test_a_session_of_a_dropped_role_counts_as_present_whosever_it_was(
    gate: PostgresGate, operation: Operation, session: Session, postgres: LivePostgres
) -> None:
    name = role(operation).name
    postgres.as_owner(text("DROP ROLE {}", name))
    gate.close(operation, role(operation))
    with pytest.raises(NotQuiescent) as busy:
        gate.prove_quiescent(operation, role(operation))
    assert [left["pid"] for left in busy.value.sessions] == [session.info.backend_pid]
    session.close()
    assert gone(gate, operation)


def test_a_prepared_transaction_of_the_role_counts_as_present(
    gate: PostgresGate, operation: Operation, session: Session, postgres: LivePostgres
) -> None:
    session.execute("BEGIN READ WRITE")
    session.execute("SELECT pg_current_xact_id()")
    session.execute(f"PREPARE TRANSACTION '{role(operation).name}'")
    gate.close(operation, role(operation))
    with pytest.raises(NotQuiescent) as busy:
        gate.prove_quiescent(operation, role(operation))
    assert busy.value.sessions == ({"prepared_transaction": role(operation).name},)
    with psycopg.connect(postgres.owner, autocommit=True) as owner:
        owner.execute(f"ROLLBACK PREPARED '{role(operation).name}'")
    assert gate.prove_quiescent(operation, role(operation))


def until(holds: Callable[[], bool]) -> bool:
    """A session that was ended is seen for a moment."""
    for _ in range(100):
        try:
            if holds():
                return True
        except NotQuiescent:
            pass
        time.sleep(0.02)
    return False


def gone(gate: PostgresGate, operation: Operation) -> bool:
    return until(lambda: bool(gate.prove_quiescent(operation, role(operation))))


def half_way(postgres: LivePostgres, credential: Credential) -> pq.PGconn:
    """A login that has asked for the role and not yet shown its password."""
    conninfo = psycopg.conninfo.make_conninfo(
        host="127.0.0.1",
        port=postgres.issuer.port,
        dbname=DATABASE,
        user=credential.username,
        password=credential.secret.reveal(),
        sslmode="disable",
        gssencmode="disable",
    )
    connection = pq.PGconn.connect_start(conninfo.encode())
    while connection.status != pq.ConnStatus.AWAITING_RESPONSE:
        connection.connect_poll()
    assert until(lambda: len(logging_in(postgres)) == 1)
    return connection


def logging_in(postgres: LivePostgres) -> list[tuple[int]]:
    return postgres.asked("SELECT pid FROM pg_stat_activity WHERE usesysid IS NULL AND backend_type = 'client backend'")


def finish(connection: pq.PGconn) -> str:
    deadline = time.monotonic() + 10
    while connection.connect_poll() not in (pq.PollingStatus.OK, pq.PollingStatus.FAILED):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    message = connection.error_message.decode()
    connection.finish()
    return message


def test_a_login_under_way_counts_as_present_and_fails_when_it_goes_on(
    gate: PostgresGate, operation: Operation, credential: Credential, postgres: LivePostgres
) -> None:
    connection = half_way(postgres, credential)
    gate.close(operation, role(operation))
    with pytest.raises(NotQuiescent) as busy:
        gate.prove_quiescent(operation, role(operation))
    assert [left["state"] for left in busy.value.sessions] == ["logging in"]
    assert "is not permitted to log in" in finish(connection), "its password was right, and is not looked at again"
    assert gone(gate, operation)


def test_servers_before_18_show_a_login_under_way_among_the_locks(
    postgres: LivePostgres, credential: Credential
) -> None:
    connection = half_way(postgres, credential)
    ((pid,),) = logging_in(postgres)
    assert postgres.asked("SELECT locktype FROM pg_locks WHERE pid = %s", pid) == [("virtualxid",)]
    connection.finish()


def test_a_closer_and_an_issuer_race_and_the_role_ends_closed(
    admit: Callable[[], Operation], postgres: LivePostgres
) -> None:
    for number in range(8):
        operation, start = admit(), threading.Barrier(2)
        failed: list[Exception] = []
        issuer = threading.Thread(target=race, args=(postgres, operation, start, 0.004 * (number % 4), failed))
        issuer.start()
        closer = postgres.gate()
        assert closer.service_id
        start.wait()
        time.sleep(0.004 * (number // 4))
        closer.close(operation, role(operation))
        issuer.join()
        assert postgres.closed(role(operation).name)
        assert gone(closer, operation)
        assert all(isinstance(err, GateTampered | OutcomeUnknown) for err in failed), failed


def race(
    postgres: LivePostgres, operation: Operation, start: threading.Barrier, later: float, failed: list[Exception]
) -> None:
    """Issue a role, some time after the closer started."""
    gate = postgres.gate()
    assert gate.service_id
    start.wait()
    time.sleep(later)
    try:
        gate.issue(operation, role(operation), GRANT)
    except Exception as err:  # whatever it is: the test says what it may be
        failed.append(err)


def test_an_issuer_that_was_stopped_in_its_transaction_loses_it_and_the_closer_goes_on(
    gate: PostgresGate, operation: Operation, postgres: LivePostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_roles, "_SETTINGS", (("idle_in_transaction_session_timeout", "300ms"),))
    name = role(operation).name
    with (
        pytest.raises(ControlUnavailable, match="postgres_gate"),
        postgres_roles.session_as(postgres.issuer, "issuing") as stopped,
        postgres_roles.serialized(stopped, name),
    ):
        postgres_roles.create(stopped, name, Secret.generate(), SOURCE_ROLE, timedelta(days=1))
        gate.close(operation, role(operation))
        assert postgres.closed(name)
        stopped.execute("SELECT 1")
    assert postgres.closed(name)


def test_a_role_that_is_closed_while_it_says_what_it_is_was_not_issued(
    gate: PostgresGate, operation: Operation, postgres: LivePostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    server_of = postgres_roles.server_of

    def closing(session: Session) -> postgres_roles.Server:
        if session.info.user == role(operation).name:
            gate.close(operation, role(operation))
        return server_of(session)

    monkeypatch.setattr(postgres_roles, "server_of", closing)
    with pytest.raises(OutcomeUnknown, match="postgres_role_unverified"):
        gate.issue(operation, role(operation), GRANT)
    assert postgres.closed(role(operation).name)


def test_many_closers_at_once_agree(
    gate: PostgresGate, operation: Operation, session: Session, postgres: LivePostgres
) -> None:
    documents: list[object] = []
    closers = [
        threading.Thread(target=lambda: documents.append(postgres.gate().close(operation, role(operation))))
        for _ in range(4)
    ]
    for closer in closers:
        closer.start()
    for closer in closers:
        closer.join()
    assert documents == [gate.close(operation, role(operation))] * 4
    assert ended(session) and postgres.closed(role(operation).name)


@pytest.mark.parametrize("loss", ["request", "reply"])
def test_a_creation_without_a_reply_is_told_by_its_own_login(
    operation: Operation, postgres: LivePostgres, loss: str
) -> None:
    fate = Fate(loss="reply" if loss == "reply" else "request", needle="CREATE ROLE")
    with TcpProxy("127.0.0.1", postgres.issuer.port, fate, times=1) as proxy:
        gate = postgres.gate(issuer=replace(postgres.issuer, port=proxy.port, sslmode="disable"))
        with pytest.raises(OutcomeUnknown, match="postgres_role_unverified"):
            gate.issue(operation, role(operation), GRANT)
        assert proxy.met == 1
    postgres.gate().close(operation, role(operation))
    assert postgres.closed(role(operation).name)


def test_a_commit_without_a_reply_leaves_a_role_that_only_this_process_holds(
    operation: Operation, postgres: LivePostgres
) -> None:
    fate = Fate(loss="reply", needle="COMMIT")
    with TcpProxy("127.0.0.1", postgres.issuer.port, fate, times=1) as proxy:
        gate = postgres.gate(issuer=replace(postgres.issuer, port=proxy.port, sslmode="disable"))
        credential = gate.issue(operation, role(operation), GRANT)
    with connect(as_attempt(postgres, credential)) as worker:
        assert worker.execute("SELECT session_user::text").fetchone() == (credential.username,)
    postgres.gate().close(operation, role(operation))


@pytest.mark.parametrize("needle", ["ALTER ROLE", "REVOKE", "COMMIT"])
@pytest.mark.parametrize("loss", ["request", "reply"])
def test_a_closing_without_a_reply_is_done_again(
    operation: Operation, credential: Credential, postgres: LivePostgres, needle: str, loss: str
) -> None:
    fate = Fate(loss="reply" if loss == "reply" else "request", needle=needle)
    with TcpProxy("127.0.0.1", postgres.issuer.port, fate, times=1) as proxy:
        gate = postgres.gate(issuer=replace(postgres.issuer, port=proxy.port, sslmode="disable"))
        with pytest.raises(ControlUnavailable, match="postgres_gate") as lost:
            gate.close(operation, role(operation))
        assert lost.value.state_may_have_changed
        gate.close(operation, role(operation))
    assert postgres.closed(role(operation).name)


def test_a_role_of_somebody_else_is_not_taken_over(
    gate: PostgresGate, operation: Operation, postgres: LivePostgres
) -> None:
    name = role(operation).name
    postgres.as_owner(text("CREATE ROLE {} LOGIN", name))
    with pytest.raises(GateTampered, match="postgres_role_exists"):
        gate.issue(operation, role(operation), GRANT)
    with pytest.raises(GateTampered, match="postgres_role_foreign"):
        gate.close(operation, role(operation))
    assert postgres.asked("SELECT rolcanlogin FROM pg_roles WHERE rolname = %s", name) == [(True,)]
    postgres.as_owner(text("DROP ROLE {}", name))
    gate.close(operation, role(operation))
    assert postgres.closed(name)


def test_a_membership_that_somebody_else_gave_is_named_and_keeps_the_gate_from_being_proven_closed(
    gate: PostgresGate, operation: Operation, credential: Credential, postgres: LivePostgres
) -> None:
    grant = sql.SQL("{} pg_read_all_data {} {}")
    name = sql.Identifier(credential.username)
    postgres.as_owner(grant.format(sql.SQL("GRANT"), sql.SQL("TO"), name))
    with pytest.raises(GateTampered, match="pg_read_all_data"):
        gate.close(operation, role(operation))
    with pytest.raises(GateTampered, match="pg_read_all_data"):
        gate.prove_quiescent(operation, role(operation))
    postgres.as_owner(grant.format(sql.SQL("REVOKE"), sql.SQL("FROM"), name))
    gate.close(operation, role(operation))
    assert postgres.closed(credential.username)


def test_a_source_role_that_may_write_is_not_read_with(
    gate: PostgresGate, operation: Operation, postgres: LivePostgres, table: str
) -> None:
    postgres.as_owner(text(f"GRANT INSERT (n) ON {table} TO {{}}", SOURCE_ROLE))
    with pytest.raises(ConfigurationError, match="postgres_source_writable") as refused:
        gate.issue(operation, role(operation), GRANT)
    assert table in refused.value.happened
    postgres.as_owner(f"DROP TABLE {table}")
    gate.close(operation, role(operation))


def standing(postgres: LivePostgres, attributes: str, *grants: str) -> PostgresDsn:
    """An account with other rights than it should have."""
    name, password = f"standing_{secrets.token_hex(4)}", Secret.generate()
    postgres.as_owner(f"CREATE ROLE {name} LOGIN {attributes} PASSWORD '{password.reveal()}'")
    postgres.as_owner(text(f"GRANT CONNECT ON DATABASE {{}} TO {name}", DATABASE))
    for grant in grants:
        postgres.as_owner(text(grant.replace("NAME", name), SOURCE_ROLE))
    return replace(postgres.issuer, user=name, password=password)


@pytest.mark.parametrize(
    ("attributes", "grants", "said"),
    [
        ("SUPERUSER", (), "is a superuser"),
        ("NOCREATEROLE", ("GRANT {} TO NAME WITH ADMIN TRUE",), "may not create roles"),
        ("CREATEROLE", ("GRANT {} TO NAME",), "may not grant membership"),
        ("CREATEROLE", (), "may not grant membership"),
    ],
)
def test_an_issuer_with_the_wrong_rights_is_refused_before_admission(
    postgres: LivePostgres, attributes: str, grants: tuple[str, ...], said: str
) -> None:
    with pytest.raises(ConfigurationError, match="postgres_issuer_rights") as refused:
        postgres.gate(issuer=standing(postgres, attributes, *grants)).require_ready()
    assert said in refused.value.happened


def test_a_missing_source_role_is_named(postgres: LivePostgres) -> None:
    with pytest.raises(ConfigurationError, match="finds no role nobody's"):
        postgres.gate(source_role="nobody's").require_ready()


def test_an_observer_that_would_see_less_is_refused_before_admission_and_proves_nothing(
    gate: PostgresGate, operation: Operation, postgres: LivePostgres
) -> None:
    blind = postgres.gate(observer=standing(postgres, ""))
    with pytest.raises(ConfigurationError, match="postgres_observer_rights"):
        blind.require_ready()
    gate.close(operation, role(operation))
    with pytest.raises(ConfigurationError, match="postgres_observer_rights"):
        blind.prove_quiescent(operation, role(operation))


def test_an_observer_that_does_not_see_the_control_proves_nothing(
    gate: PostgresGate, operation: Operation, postgres: LivePostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate.close(operation, role(operation))
    blind = postgres.gate(observer=standing(postgres, ""))
    monkeypatch.setattr(PostgresGate, "_require_sight", lambda *given: None)
    with pytest.raises(ConfigurationError, match="postgres_observer_blind"):
        blind.prove_quiescent(operation, role(operation))


def test_a_closer_without_rights_over_the_role_says_so(
    operation: Operation, credential: Credential, postgres: LivePostgres
) -> None:
    other = postgres.gate(issuer=standing(postgres, "CREATEROLE"))
    with pytest.raises(GateTampered, match="postgres_role_foreign"):
        other.close(operation, role(operation))
    assert postgres.asked("SELECT rolcanlogin FROM pg_roles WHERE rolname = %s", credential.username) == [(True,)]
    postgres.gate().close(operation, role(operation))


def test_principals_and_servers_of_others_are_not_touched(
    operation: Operation, gate: PostgresGate, postgres: LivePostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = replace(role(operation), service_id="0f8fad5b-d9cd-469f-a165-70867728950e")
    with pytest.raises(ConfigurationError, match="postgres_principal"):
        gate.close(operation, foreign)
    elsewhere = postgres.gate()
    assert elsewhere.service_id == gate.service_id
    monkeypatch.setattr(postgres_roles, "service_id_of", lambda identifier: foreign.service_id)
    for call in (elsewhere.require_ready, lambda: elsewhere.close(operation, role(operation))):
        with pytest.raises(GateTampered, match="postgres_service"):
            call()
    assert postgres.asked("SELECT count(*) FROM pg_roles WHERE rolname = %s", role(operation).name) == [(0,)]


def test_a_server_before_16_is_refused(gate: PostgresGate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_dpone.gates.postgres.MINIMUM_VERSION", 999999)
    with pytest.raises(ConfigurationError, match="postgres_server"):
        gate.require_ready()


def test_another_grant_is_refused(gate: PostgresGate, operation: Operation, postgres: LivePostgres) -> None:
    with pytest.raises(ConfigurationError, match="grant"):
        gate.issue(operation, role(operation), MsSqlWriterGrant(database=DATABASE))
    assert postgres.asked("SELECT count(*) FROM pg_roles WHERE rolname = %s", role(operation).name) == [(0,)]


def test_the_password_stands_in_no_log_of_the_server(
    gate: PostgresGate, operation: Operation, credential: Credential, source_server: PostgresProcess
) -> None:
    gate.close(operation, role(operation))
    gate.prove_quiescent(operation, role(operation))
    log = Path(source_server.log_file).read_text(encoding="utf-8")
    assert f'CREATE ROLE "{credential.username}"' in log, "the log holds no statements"
    assert credential.secret.reveal() not in log


def test_the_reconciler_finds_a_role_that_is_open_and_none_that_is_closed(
    gate: PostgresGate, operation: Operation, session: Session, source_server: PostgresProcess, postgres: LivePostgres
) -> None:
    witness = Witness(
        host=str(source_server.socket_directory), port=5432, user="postgres", password="", database=DATABASE
    )
    name = role(operation).name
    with closing(witness):
        left = [line for line in roles_left(witness) if name in line]
        assert left == [
            f"a session of the role {name} is open",
            f"the role {name} can log in",
            f'the role {name} is a member of "{SOURCE_ROLE.replace(chr(34), chr(34) * 2)}"',
        ]
        gate.close(operation, role(operation))
        assert until(lambda: not [line for line in roles_left(witness) if name in line])
