"""An attempt, a DBA or a server's settings that work against the gate: it closes and proves what is true, or refuses."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from tsqldev.pgserver import PostgresProcess

from airflow_provider_dpone.contracts.errors import ConfigurationError, ControlUnavailable, GateTampered, NotQuiescent
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.principal import Principal
from airflow_provider_dpone.drivers import Secret
from airflow_provider_dpone.drivers.postgres import connect, scram_verifier
from airflow_provider_dpone.gates import postgres_roles
from airflow_provider_dpone.gates.interface import Credential, PostgresExtractGrant
from airflow_provider_dpone.gates.postgres import PostgresGate
from tests.support import live_postgres
from tests.support.live_postgres import DATABASE, ISSUER, SOURCE_ROLE, LivePostgres

GRANT = PostgresExtractGrant(database=DATABASE)
Session = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
def gate(postgres: LivePostgres) -> PostgresGate:
    return postgres.gate()


@pytest.fixture
def principal(operation: Operation) -> Principal:
    return operation.principal("extract")


@pytest.fixture
def credential(gate: PostgresGate, operation: Operation, principal: Principal) -> Credential:
    return gate.issue(operation, principal, GRANT)


@pytest.fixture
def session(postgres: LivePostgres, credential: Credential) -> Iterator[Session]:
    """A session of the attempt's role that does as it likes."""
    with closing(connect(postgres.issuer.for_role(credential.username, credential.secret, app="worker"))) as opened:
        opened.autocommit = True
        opened.execute("SET default_transaction_read_only = off")
        yield opened


def text(statement: str, *names: str) -> sql.Composed:
    return sql.SQL(statement).format(*map(sql.Identifier, names))  # type: ignore[arg-type]  # tests write literal SQL


@contextmanager
def during(postgres: LivePostgres, done: Sequence[sql.Composed], undone: Sequence[sql.Composed]) -> Iterator[None]:
    with ExitStack() as after:
        for statement in reversed(undone):
            after.callback(postgres.as_owner, statement)
        for statement in done:
            postgres.as_owner(statement)
        yield


def test_a_prepared_transaction_of_a_dropped_role_counts_as_present(
    gate: PostgresGate, operation: Operation, principal: Principal, session: Session, postgres: LivePostgres
) -> None:
    session.execute("BEGIN")
    session.execute("SELECT pg_current_xact_id()")
    session.execute("PREPARE TRANSACTION 'left behind'")
    session.close()
    postgres.as_owner(text("DROP ROLE {}", principal.name))
    gate.close(operation, principal)
    with pytest.raises(NotQuiescent) as busy:
        gate.prove_quiescent(operation, principal)
    with psycopg.connect(postgres.owner, autocommit=True) as owner:
        owner.execute("ROLLBACK PREPARED 'left behind'")
    assert busy.value.sessions == ({"prepared_transaction": "left behind"},)
    assert gate.prove_quiescent(operation, principal)["prepared_transactions"] == []


def test_a_prepared_transaction_of_somebody_whom_the_session_was_counts_as_present(
    gate: PostgresGate, operation: Operation, principal: Principal, session: Session, postgres: LivePostgres
) -> None:
    """SET ROLE makes another one its owner, and what was granted for that is gone when anybody looks."""
    other = f"other_{secrets.token_hex(4)}"
    postgres.as_owner(text("CREATE ROLE {}", other))
    postgres.as_owner(text("GRANT {} TO {}", other, principal.name))
    session.execute(text("SET ROLE {}", other))
    session.execute("BEGIN")
    session.execute("SELECT pg_current_xact_id()")
    session.execute("PREPARE TRANSACTION 'as another'")
    postgres.as_owner(text("REVOKE {} FROM {}", other, principal.name))
    assert postgres.asked("SELECT owner FROM pg_prepared_xacts") == [(other,)]
    gate.close(operation, principal)
    with pytest.raises(NotQuiescent) as busy:
        gate.prove_quiescent(operation, principal)
    with psycopg.connect(postgres.owner, autocommit=True) as owner:
        owner.execute("ROLLBACK PREPARED 'as another'")
    assert [left["prepared_transaction"] for left in busy.value.sessions] == ["as another"]
    assert gate.prove_quiescent(operation, principal)["prepared_transactions"] == []
    postgres.as_owner(text("DROP ROLE {}", other))


def test_a_prepared_transaction_that_is_older_than_the_role_is_not_its_own(
    gate: PostgresGate, operation: Operation, principal: Principal, postgres: LivePostgres
) -> None:
    with psycopg.connect(postgres.owner, autocommit=True) as owner:
        for statement in ("BEGIN", "SELECT pg_current_xact_id()", "PREPARE TRANSACTION 'older'"):
            owner.execute(statement.encode())
        try:
            gate.issue(operation, principal, GRANT)
            gate.close(operation, principal)
            assert gate.prove_quiescent(operation, principal)["prepared_transactions"] == []
        finally:
            owner.execute("ROLLBACK PREPARED 'older'")


@pytest.mark.parametrize("taken", [False, True], ids=["its name is free", "a tombstone has its name"])
def test_a_renamed_role_is_found_under_its_other_name(
    gate: PostgresGate,
    operation: Operation,
    principal: Principal,
    session: Session,
    postgres: LivePostgres,
    taken: bool,
) -> None:
    other = f"renamed_{secrets.token_hex(4)}"
    postgres.as_owner(text("ALTER ROLE {} RENAME TO {}", principal.name, other))
    if taken:
        postgres.as_owner(text("CREATE ROLE {} VALID UNTIL '2000-01-01'", principal.name))
        with pytest.raises(GateTampered, match=other):
            gate.prove_quiescent(operation, principal)
        postgres.as_owner(text("DROP ROLE {}", principal.name))
    with pytest.raises(GateTampered, match=other):
        gate.close(operation, principal)
    assert session.execute("SELECT session_user::text").fetchone() == (other,), "that is why it has to be found"
    postgres.as_owner(text("ALTER ROLE {} RENAME TO {}", other, principal.name))
    gate.close(operation, principal)
    assert postgres.closed(principal.name)


@pytest.mark.parametrize(
    "statements",
    [
        ("SELECT pg_advisory_lock(hashtextextended(session_user::text, 0))",),
        ("BEGIN", "DO $$ BEGIN EXECUTE format('ALTER ROLE %I PASSWORD ''mine''', session_user); END $$"),
    ],
    ids=["the lock that serializes", "its own row"],
)
def test_a_lock_of_the_attempt_keeps_nobody_from_closing_it(
    gate: PostgresGate,
    operation: Operation,
    principal: Principal,
    session: Session,
    postgres: LivePostgres,
    monkeypatch: pytest.MonkeyPatch,
    statements: tuple[str, ...],
) -> None:
    """And nobody waits for it: whoever waits as one waits for others is stopped by the server here, as an error."""
    monkeypatch.setattr(postgres_roles, "_SETTINGS", (("lock_timeout", "0"), ("statement_timeout", "2s")))
    for statement in statements:
        session.execute(statement)  # type: ignore[call-overload]  # tests write literal SQL
    gate.close(operation, principal)
    assert postgres.closed(principal.name)
    assert gate.prove_quiescent(operation, principal)["sessions"] == []


@pytest.mark.parametrize("commits", [False, True], ids=["and holds it", "and changes it again and again"])
def test_an_attempt_that_comes_back_and_locks_its_row_again_is_barred_all_the_same(
    gate: PostgresGate,
    operation: Operation,
    principal: Principal,
    credential: Credential,
    postgres: LivePostgres,
    commits: bool,
) -> None:
    dsn = postgres.issuer.for_role(credential.username, credential.secret, app="worker")
    locked, refused = threading.Event(), threading.Event()
    password = scram_verifier(principal.name, credential.secret)
    change = sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(principal.name), sql.Literal(password))

    def come_back() -> None:
        while not refused.is_set():
            try:
                with closing(connect(dsn)) as session:
                    while True:
                        session.execute("SET TRANSACTION READ WRITE")
                        session.execute(change)
                        locked.set()
                        session.execute("COMMIT" if commits else "SELECT pg_sleep(20)")
            except ControlUnavailable as err:
                if "not permitted to log in" in str(err) or "authentication failed" in str(err):
                    refused.set()
            except (psycopg.OperationalError, psycopg.errors.InternalError_):
                continue

    attempts = [threading.Thread(target=come_back) for _ in range(2)]
    for attempt in attempts:
        attempt.start()
    assert locked.wait(10)
    gate.close(operation, principal)
    for attempt in attempts:
        attempt.join()
    # A session that was still there may have set its password once more: it opens nothing.
    assert postgres.asked(
        "SELECT rolcanlogin, rolvaliduntil < now(), (SELECT count(*) FROM pg_auth_members WHERE member = r.oid)"
        " FROM pg_roles AS r WHERE rolname = %s",
        principal.name,
    ) == [(False, True, 0)]
    assert gate.prove_quiescent(operation, principal)["sessions"] == []


def test_the_issuer_has_no_rights_of_the_roles_that_it_makes_whatever_the_server_grants_by_itself(
    operation: Operation, principal: Principal, postgres: LivePostgres
) -> None:
    table = f"planes_{secrets.token_hex(4)}"
    postgres.as_owner(f"CREATE TABLE {table} (a int)")
    granting = text("ALTER ROLE {} SET createrole_self_grant = 'set, inherit'", ISSUER)
    with during(postgres, [granting], [text("ALTER ROLE {} RESET ALL", ISSUER)]):
        gate = postgres.gate()
        gate.issue(operation, principal, GRANT)
        with connect(postgres.issuer) as issuer, pytest.raises(psycopg.errors.InsufficientPrivilege):
            issuer.execute(f"SELECT * FROM {table}")
        gate.close(operation, principal)


@pytest.mark.parametrize(
    ("done", "undone", "said"),
    [
        ("GRANT CREATE ON SCHEMA public TO PUBLIC", "REVOKE CREATE ON SCHEMA public FROM PUBLIC", "schema public"),
        ("GRANT CREATE ON DATABASE {db} TO {role}", "REVOKE CREATE ON DATABASE {db} FROM {role}", "the database"),
        ("GRANT USAGE ON SEQUENCE {made} TO {role}", "", "made_"),
        ("ALTER SEQUENCE {made} OWNER TO {role}", "", "made_"),
        ("GRANT TRIGGER ON {table} TO {role}", "", "table_"),
        ("ALTER TABLE {table} OWNER TO {role}; REVOKE ALL ON {table} FROM {role}", "", "table_"),
        *(
            (f"GRANT {power} TO {{role}}", f"REVOKE {power} FROM {{role}}", power)
            for power in ("pg_execute_server_program", "pg_write_all_data", "pg_signal_backend", "pg_maintain")
        ),
    ],
)
def test_a_source_role_that_can_do_more_than_read_is_not_read_with(
    gate: PostgresGate,
    operation: Operation,
    principal: Principal,
    postgres: LivePostgres,
    done: str,
    undone: str,
    said: str,
) -> None:
    made, table = f"made_{secrets.token_hex(4)}", f"table_{secrets.token_hex(4)}"

    def composed(statement: str) -> sql.Composed:
        names = {"db": DATABASE, "role": SOURCE_ROLE, "made": made, "table": table}
        identifiers = {name: sql.Identifier(value) for name, value in names.items()}
        return sql.SQL(statement).format(**identifiers)  # type: ignore[arg-type]  # tests write literal SQL

    before = [composed(s) for s in ("CREATE SEQUENCE {made}", "CREATE TABLE {table} (a int)", done)]
    after = [composed(s) for s in (undone, "DROP SEQUENCE {made}", "DROP TABLE {table}") if s]
    with (
        during(postgres, before, after),
        pytest.raises(ConfigurationError, match="postgres_source_writable") as refused,
    ):
        gate.issue(operation, principal, GRANT)
    assert said in refused.value.happened
    gate.close(operation, principal)


def test_reading_rights_of_the_server_are_no_reason_to_refuse(
    gate: PostgresGate, operation: Operation, principal: Principal, postgres: LivePostgres
) -> None:
    granted = [
        text(f"{verb} pg_read_all_data {way} {{}}", SOURCE_ROLE) for verb, way in (("GRANT", "TO"), ("REVOKE", "FROM"))
    ]
    with during(postgres, granted[:1], granted[1:]):
        gate.issue(operation, principal, GRANT)
    gate.close(operation, principal)


def test_functions_of_a_search_path_do_not_answer_for_the_server(
    gate: PostgresGate, operation: Operation, principal: Principal, postgres: LivePostgres
) -> None:
    """A path that names pg_catalog later lets other functions hide the server's own."""
    schema = f"other_{secrets.token_hex(4)}"
    done = [
        text("CREATE SCHEMA {}", schema),
        text("GRANT USAGE ON SCHEMA {} TO PUBLIC", schema),
        text(
            "CREATE FUNCTION {}.pg_control_system(OUT system_identifier bigint) LANGUAGE sql AS 'SELECT 1::bigint'",
            schema,
        ),
        text("CREATE FUNCTION {}.pg_terminate_backend(int, int) RETURNS boolean LANGUAGE sql AS 'SELECT true'", schema),
        text("ALTER DATABASE {} SET search_path = {}, pg_catalog", DATABASE, schema),
    ]
    undone = [text("ALTER DATABASE {} RESET search_path", DATABASE), text("DROP SCHEMA {} CASCADE", schema)]
    with during(postgres, done, undone):
        known = postgres.gate()
        assert known.service_id == gate.service_id
        credential = known.issue(operation, principal, GRANT)
        with closing(connect(postgres.issuer.for_role(credential.username, credential.secret, app="worker"))):
            known.close(operation, principal)
            assert postgres.closed(principal.name)
        assert known.prove_quiescent(operation, principal)["sessions"] == []


def test_a_source_that_is_read_only_by_default_is_one_all_the_same(
    gate: PostgresGate, operation: Operation, principal: Principal, postgres: LivePostgres
) -> None:
    done = text("ALTER DATABASE {} SET default_transaction_read_only = on", DATABASE)
    # A superuser's own session starts read-only as well.
    undone = text(
        "SET default_transaction_read_only = off; COMMIT; ALTER DATABASE {} RESET default_transaction_read_only",
        DATABASE,
    )
    with during(postgres, [done], [undone]):
        gate.require_ready()
        gate.issue(operation, principal, GRANT)
        gate.close(operation, principal)
        assert gate.prove_quiescent(operation, principal)["sessions"] == []


def test_the_life_of_a_role_is_told_by_the_servers_clock(postgres: LivePostgres, principal: Principal) -> None:
    with (
        postgres_roles.session_as(postgres.issuer, "creating") as issuer,
        issuer.transaction(force_rollback=True),
    ):
        # The session's own zone is not that of the text either.
        issuer.execute("SET LOCAL timezone = 'Pacific/Kiritimati'")
        postgres_roles.create(issuer, principal.name, Secret.generate(), SOURCE_ROLE, timedelta(minutes=5))
        row = issuer.execute(
            "SELECT rolvaliduntil - now() BETWEEN '299 s' AND '300 s' FROM pg_roles WHERE rolname = %s",
            (principal.name,),
        ).fetchone()
    assert row == (True,)


def test_what_a_killed_observer_left_goes_with_the_next_proof_when_its_life_is_over(
    gate: PostgresGate, operation: Operation, principal: Principal, postgres: LivePostgres
) -> None:
    over, young, busy = (f"dpone_c_{secrets.token_hex(16)}" for _ in range(3))
    secret = Secret.generate()
    with postgres_roles.session_as(postgres.issuer, "creating") as issuer, issuer.transaction():
        for name, life in ((over, -1), (young, 60), (busy, 60)):
            postgres_roles.create(issuer, name, secret, SOURCE_ROLE, timedelta(seconds=life))
    with closing(connect(postgres.issuer.for_role(busy, secret, app="control"))):
        postgres.as_owner(text("ALTER ROLE {} VALID UNTIL '2000-01-01'", busy))
        gate.close(operation, principal)
        gate.prove_quiescent(operation, principal)
        left = postgres.asked("SELECT rolname FROM pg_roles WHERE rolname = ANY (%s)", [over, young, busy])
    assert sorted(left) == sorted([(young,), (busy,)])
    for name in (young, busy):
        postgres.as_owner(text("DROP ROLE {}", name))


def test_a_closing_that_was_answered_outlives_a_crash_of_a_server_that_commits_later(
    tmp_path: Path, admit_on: Callable[[LivePostgres], Operation]
) -> None:
    settings: dict[str, str | int] = {"synchronous_commit": "off", "wal_writer_delay": "10s"}
    server = PostgresProcess(tmp_path / "source", settings=settings, tcp=True)
    server.start()
    try:
        postgres = live_postgres.provision(server)
        operation, gate = admit_on(postgres), postgres.gate()
        principal = operation.principal("extract")
        gate.issue(operation, principal, GRANT)
        with psycopg.connect(postgres.owner, autocommit=True) as owner:
            owner.execute("CHECKPOINT")
        gate.close(operation, principal)
        gate.prove_quiescent(operation, principal)
        server.stop(fast=False)
        server.start()
        with psycopg.connect(server.conninfo(DATABASE)) as owner:
            found = owner.execute("SELECT rolcanlogin FROM pg_roles WHERE rolname = %s", (principal.name,)).fetchall()
        assert found == [(False,)]
    finally:
        server.stop()
