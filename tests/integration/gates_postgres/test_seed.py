"""The guarded seed on a real server: what its role can do, who waits for whom, and that a closed gate lets nobody in."""

from __future__ import annotations

import datetime
import json
import random
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from tsqldev.pgserver import PostgresProcess

from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.errors import (
    ConfigurationError,
    ControlUnavailable,
    Fenced,
    GateTampered,
    GuardError,
    OutcomeUnknown,
)
from airflow_provider_dpone.contracts.nonproduction.seed import SeedPlan, content_sha256
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.principal import Principal
from airflow_provider_dpone.drivers.postgres import PostgresDsn, connect
from airflow_provider_dpone.gates import postgres_seed, postgres_sessions
from airflow_provider_dpone.gates.interface import PostgresExtractGrant, PostgresSeedGrant
from airflow_provider_dpone.gates.postgres import PostgresGate
from airflow_provider_dpone.qualification import apply_seed
from tests.support import live_seed
from tests.support.live_postgres import DATABASE, ISSUER, LivePostgres
from tests.support.live_seed import AUTHORITY, COLUMNS, ROWS, SCHEMA
from tests.support.tcp_proxy import Fate, TcpProxy


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LivePostgres]:
    """A server as PostgreSQL is set by default: nothing can be prepared on it."""
    with PostgresProcess(tmp_path_factory.mktemp("seeded"), settings={"fsync": "off"}, tcp=True) as server:
        yield live_seed.provision(server)


@dataclass
class Seed:
    """An operation that seeds one plan."""

    source: LivePostgres
    operation: Operation
    gate: PostgresGate
    plan: SeedPlan

    @property
    def principal(self) -> Principal:
        return self.operation.principal("ingest")

    def issue(self, document: bytes | None = None) -> PostgresDsn:
        """The attempt's role. Its gate is opened for the plan, or for another document."""
        sha256 = self.plan.sha256 if document is None else canonical.sha256_text(document)
        grant = PostgresSeedGrant(database=DATABASE, plan_sha256=sha256)
        credential = self.gate.issue(self.operation, self.principal, grant)
        dsn = self.source.issuer.for_role(credential.username, credential.secret, app="seeder")
        return replace(dsn, sslmode="disable")

    def close(self) -> None:
        assert self.gate.close(self.operation, self.principal)["kind"] == "CLOSED_GATES"

    def prove(self) -> dict[str, Any]:
        return dict(self.gate.prove_quiescent(self.operation, self.principal))

    def rows(self) -> list[tuple[Any, ...]] | None:
        """What a superuser sees of the table; None where there is none."""
        place = sql.Identifier(*self.plan.qualified_name[1:])
        values = sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(c.name)) for c in self.plan.columns)
        with psycopg.connect(self.source.owner, options="-c timezone=UTC") as owner:
            try:
                return owner.execute(sql.SQL("SELECT {} FROM {} ORDER BY 1").format(values, place)).fetchall()
            except psycopg.errors.UndefinedTable:
                return None

    def state(self) -> tuple[Any, ...]:
        [row] = self.source.asked(
            "SELECT state, applied_rows FROM dpone_seed.gates WHERE role_name = %s", self.principal.name
        )
        return row


@pytest.fixture
def make_seed(source: LivePostgres, admit_on: Callable[[LivePostgres], Operation]) -> Iterator[Callable[..., Seed]]:
    made: list[Seed] = []

    def seed(**changes: Any) -> Seed:
        gate = live_seed.gate(source, seed_drain_seconds=changes.pop("drain", 10.0))
        made.append(Seed(source, admit_on(source), gate, live_seed.plan(**changes)))
        return made[-1]

    yield seed
    for each in made:
        each.close()


@pytest.fixture
def seed(make_seed: Callable[..., Seed]) -> Seed:
    return make_seed()


def call(session: psycopg.Connection[Any], plan: SeedPlan) -> Any:
    return session.execute("SELECT dpone_seed.seed(%s)", (plan.document().decode(),)).fetchone()


def test_a_seed_is_applied_once_and_is_what_the_plan_says(seed: Seed) -> None:
    seeder = seed.issue()
    assert apply_seed(seeder, seed.plan) == seed.plan.content_sha256
    assert seed.rows() == list(ROWS)
    before = seed.source.asked("SELECT table_oid FROM dpone_seed.gates WHERE role_name = %s", seed.principal.name)
    assert apply_seed(seeder, seed.plan) == seed.plan.content_sha256, "the same call again"
    seed.close()
    proof = seed.prove()
    after = seed.source.asked("SELECT table_oid FROM dpone_seed.gates WHERE role_name = %s", seed.principal.name)
    assert (before, seed.rows()) == (after, list(ROWS)), "nothing was done twice"
    assert (proof["seed_gate"], proof["seeded_rows"], proof["max_prepared_transactions"]) == ("CLOSED", len(ROWS), 0)
    assert proof["seeded_content_sha256"] == seed.plan.content_sha256


def test_what_the_database_sets_for_sessions_neither_changes_a_plan_nor_makes_a_wait_an_error_of_it(seed: Seed) -> None:
    """Another encoding of the client; and a lock that is not granted in time, which is no fault of the plan."""
    seeder = seed.issue()
    database = sql.Identifier(DATABASE)
    seed.source.as_owner(sql.SQL("ALTER DATABASE {} SET client_encoding = 'LATIN1'").format(database))
    seed.source.as_owner(sql.SQL("ALTER DATABASE {} SET lock_timeout = '50ms'").format(database))
    try:
        with psycopg.connect(seed.source.owner) as owner:
            owner.execute("SELECT FROM dpone_seed.gates WHERE role_name = %s FOR UPDATE", (seed.principal.name,))
            with pytest.raises(ControlUnavailable, match="postgres_seed_server"):
                apply_seed(seeder, seed.plan)
        assert seed.rows() is None
        assert apply_seed(seeder, seed.plan) == seed.plan.content_sha256
    finally:
        seed.source.as_owner(sql.SQL("ALTER DATABASE {} RESET ALL").format(database))


def test_a_later_seed_makes_the_table_anew_and_an_empty_one_is_one(make_seed: Callable[..., Seed]) -> None:
    first = make_seed()
    apply_seed(first.issue(), first.plan)
    second = make_seed(qualified_name=first.plan.qualified_name, columns=COLUMNS[:2], rows=())
    apply_seed(second.issue(), second.plan)
    assert second.rows() == []
    seeded = [
        seed.source.asked("SELECT table_oid FROM dpone_seed.gates WHERE role_name = %s", seed.principal.name)
        for seed in (first, second)
    ]
    assert seeded[0] != seeded[1]


def test_every_value_that_a_plan_accepts_is_the_one_that_stands_there(make_seed: Callable[..., Seed]) -> None:
    """Values of every type, drawn anew each time; the routine refuses where one of them became another."""
    draw = random.Random()
    letters = "".join(map(chr, (*range(1, 0x300), *range(0x4E00, 0x4E20), *range(0x1F600, 0x1F620))))

    def fraction() -> str:
        digits = f"{draw.randrange(10**6):06}".rstrip("0") if draw.random() < 0.7 else ""
        return f".{digits}" if digits else ""

    def day() -> str:
        return datetime.date.fromordinal(draw.randint(1, datetime.date.max.toordinal())).isoformat()

    def hour() -> str:
        return f"{draw.randrange(24):02}:{draw.randrange(60):02}:{draw.randrange(60):02}{fraction()}"

    def amount() -> str:
        units = draw.choice((0, draw.randrange(10**12), draw.randrange(10**5)))
        return f"{'-' if units and draw.random() < 0.5 else ''}{units // 10**4}.{units % 10**4:04}"

    def text(longest: int) -> str:
        return "".join(draw.choices(letters, k=draw.randint(0, longest)))

    rows = tuple(
        (
            str(number),
            *(
                None if draw.random() < 0.1 else value
                for value in (
                    draw.choice(("true", "false")),
                    str(draw.randint(-(2**15), 2**15 - 1)),
                    str(draw.randint(-(2**63), 2**63 - 1)),
                    amount(),
                    text(40),
                    text(8),
                    "\\x" + draw.randbytes(draw.randint(0, 20)).hex(),
                    str(uuid.UUID(int=draw.getrandbits(128))),
                    day(),
                    hour(),
                    f"{day()} {hour()}",
                    f"{day()} {hour()}+00",
                )
            ),
        )
        for number in range(500)
    )
    seed = make_seed(rows=rows)
    assert apply_seed(seed.issue(), seed.plan) == seed.plan.content_sha256
    assert sorted(seed.rows() or (), key=lambda row: int(row[0])) == list(rows)


def test_the_role_can_do_nothing_but_call_the_routine(seed: Seed) -> None:
    seeder = seed.issue()
    apply_seed(seeder, seed.plan)
    table, schema = sql.Identifier(*seed.plan.qualified_name[1:]), sql.Identifier(SCHEMA)
    with closing(connect(seeder)) as session:
        session.autocommit = True
        for statement in (
            "INSERT INTO {table} SELECT * FROM {table}",
            "UPDATE {table} SET t = ''",
            "DELETE FROM {table}",
            "TRUNCATE {table}",
            "DROP TABLE {table}",
            "SELECT FROM {table}",
            "CREATE TABLE {schema}.other (a int)",
            "CREATE TABLE other (a int)",
            "CREATE SCHEMA other",
            "ALTER TABLE {table} ADD COLUMN more int",
            "SELECT FROM dpone_seed.gates",
            "UPDATE dpone_seed.gates SET state = 'OPEN'",
            "INSERT INTO dpone_seed.schemas VALUES ('public')",
            "SELECT dpone_seed.close_gate('', '')",
            "SELECT dpone_seed.open_gate('', session_user, '')",
            "SET ROLE {owner}",
            "SET ROLE {seeder}",
            "GRANT {seeder} TO {owner}",
            "DROP FUNCTION dpone_seed.seed",
            "CREATE FUNCTION dpone_seed.other() RETURNS int RETURN 1",
        ):
            named = {
                "table": table,
                "schema": schema,
                "owner": sql.Identifier(AUTHORITY.owner),
                "seeder": sql.Identifier(AUTHORITY.seeder),
            }
            with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.InvalidGrantOperation)):
                session.execute(sql.SQL(statement).format(**named))
    assert seed.rows() == list(ROWS)


def test_a_setting_of_the_session_changes_nothing_that_is_seeded(seed: Seed) -> None:
    with closing(connect(seed.issue())) as session:
        for setting in (
            "search_path = pg_temp",
            "datestyle = 'SQL, DMY'",
            "timezone = 'Asia/Tokyo'",
            "standard_conforming_strings = off",
            "bytea_output = 'escape'",
            "transform_null_equals = on",
            "quote_all_identifiers = on",
        ):
            session.execute(f"SET {setting}".encode())
        assert call(session, seed.plan) == (seed.plan.content_sha256,)
        session.commit()
    assert seed.rows() == list(ROWS)


def changed(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: document.update(changes)


def column(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["columns"][1].update(changes)


def value(row: int, place: int, text: Any) -> Callable[[dict[str, Any]], None]:
    """Another value, and the digest of the rows with it."""

    def change(document: dict[str, Any]) -> None:
        document["rows"][row][place] = text
        document["content_sha256"] = content_sha256(document["rows"])

    return change


#: reason -> what is wrong with a plan. The routine does not rest on whoever looked at the plan before.
REFUSED: dict[str, Callable[[dict[str, Any]], None]] = {
    "plan_members": changed(more=1),
    "plan_members ": changed(schema="dpone.postgres-seed-plan.v2"),
    "plan_members  ": changed(rows={}),
    "plan_name": changed(qualified_name=[DATABASE, "public", "planes"]),
    "plan_name ": changed(qualified_name=[DATABASE, "dpone_seed", "gates"]),
    "plan_name  ": changed(qualified_name=["postgres", SCHEMA, "planes"]),
    "plan_name   ": changed(qualified_name=[DATABASE, SCHEMA, "x" * 64]),
    "plan_columns": changed(columns=[]),
    "plan_columns ": column(name=COLUMNS[0].name),
    "plan_columns  ": column(more=1),
    "plan_type": column(type="boolean DEFAULT pg_sleep(1)"),
    "plan_type ": column(type="int4range"),
    "plan_key": changed(key=["nobody's"]),
    "plan_rows": changed(row_count=3),
    "plan_rows ": changed(rows=[["1"]], row_count=1),
    "plan_rows  ": lambda document: document["rows"][0].__setitem__(0, 1),
    "plan_content": lambda document: document["rows"][0].__setitem__(4, "-1234.50004"),
    "plan_content ": value(0, 4, "-1234.50004"),
    "plan_content  ": value(0, 11, "9999-12-31T00:00:00"),
    "refused": value(0, 9, "2026-02-30"),
    "refused ": value(1, 0, "1"),
    "refused  ": value(1, 0, None),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_the_routine_refuses_a_plan_by_name_and_does_nothing(seed: Seed, reason: str) -> None:
    document = json.loads(seed.plan.document())
    REFUSED[reason](document)
    spoiled = canonical.exact_bytes(document)
    seeder = seed.issue(spoiled)

    class Spoiled:
        qualified_name = seed.plan.qualified_name

        @staticmethod
        def document() -> bytes:
            return spoiled

    with pytest.raises(ConfigurationError, match=f"postgres_seed_{reason.strip()}"):
        apply_seed(seeder, Spoiled())  # type: ignore[arg-type]  # a plan that no plan can be
    assert (seed.rows(), seed.state()) == (None, ("OPEN", None))


def test_another_plan_than_the_one_of_the_gate_is_refused(seed: Seed) -> None:
    seeder = seed.issue()
    with pytest.raises(ConfigurationError, match="postgres_seed_plan_digest"):
        apply_seed(seeder, replace(seed.plan, object_id="other"))
    assert seed.state() == ("OPEN", None)


@pytest.mark.parametrize("kind", ["TABLE {} (a int)", "VIEW {} AS SELECT 1 AS a"])
def test_what_belongs_to_somebody_else_is_left_alone(seed: Seed, kind: str) -> None:
    place = sql.Identifier(*seed.plan.qualified_name[1:])
    seed.source.as_owner(sql.SQL("CREATE " + kind).format(place))
    with pytest.raises(ConfigurationError, match="postgres_seed_table_foreign"):
        apply_seed(seed.issue(), seed.plan)
    seed.source.as_owner(sql.SQL("DROP " + kind.split()[0] + " {}").format(place))


def waiting(source: LivePostgres, count: int) -> None:
    """Until so many sessions wait for a lock."""
    deadline = time.monotonic() + 10
    while source.asked("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") != [(count,)]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


class Caller(threading.Thread):
    """A call of the routine that waits, and what became of it."""

    def __init__(self, seed: Seed, seeder: PostgresDsn) -> None:
        super().__init__()
        self._seed, self._seeder = seed, seeder
        self.answer: str | Exception | None = None

    def run(self) -> None:
        try:
            self.answer = apply_seed(self._seeder, self._seed.plan)
        except GuardError as err:
            self.answer = err


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_closing_waits_for_the_accepted_seed_and_a_call_that_waits_is_rejected(
    seed: Seed, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    seeder = seed.issue()
    with closing(connect(seeder)) as accepted:
        call(accepted, seed.plan)
        queued, closer = Caller(seed, seeder), threading.Thread(target=seed.close)
        queued.start()
        waiting(seed.source, 1)
        # Otherwise the closing ends the session that waits, and nobody hears what it was answered.
        monkeypatch.setattr(postgres_sessions, "end", lambda *given: None)
        closer.start()
        waiting(seed.source, 2)
        assert seed.state() == ("OPEN", None)
        getattr(accepted, ends)()
        closer.join()
        queued.join()
    assert isinstance(queued.answer, Fenced)
    assert (seed.state(), seed.rows()) == (
        (("CLOSED", len(ROWS)), list(ROWS)) if ends == "commit" else (("CLOSED", None), None)
    )


def test_a_seed_that_does_not_end_loses_its_session_and_leaves_nothing(make_seed: Callable[..., Seed]) -> None:
    seed = make_seed(drain=0.1)
    with closing(connect(seed.issue())) as accepted:
        call(accepted, seed.plan)
        seed.close()
        with pytest.raises(psycopg.OperationalError):
            accepted.commit()
    assert (seed.state(), seed.rows()) == (("CLOSED", None), None)
    assert seed.prove()["seeded_rows"] is None


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_a_session_from_before_the_closing_is_rejected_whatever_its_snapshot_shows(
    seed: Seed, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    with closing(connect(seed.issue())) as session:
        session.execute(f"SET TRANSACTION ISOLATION LEVEL {level}".encode())
        session.execute("SELECT count(*) FROM pg_class")
        with monkeypatch.context() as patch:
            patch.setattr(postgres_sessions, "end", lambda *given: None)
            seed.close()
        with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.RaiseException)):
            call(session, seed.plan)
    assert (seed.state(), seed.rows()) == (("CLOSED", None), None)


def test_a_gate_that_was_closed_is_never_opened_again(seed: Seed) -> None:
    seed.close()
    assert seed.state() == ("CLOSED", None), "also where no role was ever made"
    assert seed.prove()["seeded_rows"] is None
    with pytest.raises(GateTampered, match="postgres_role_exists"):
        seed.issue()
    with closing(connect(seed.source.issuer)) as issuer, pytest.raises(psycopg.errors.UniqueViolation):
        postgres_seed.open_gate(issuer, seed.operation.attempt_sha256, seed.principal.name, seed.plan.sha256)
    for statement in (
        "UPDATE dpone_seed.gates SET state = 'OPEN', plan_sha256 = 'sha256:' || repeat('0', 64)",
        "DELETE FROM dpone_seed.gates",
        "TRUNCATE dpone_seed.gates",
    ):
        with pytest.raises(psycopg.errors.RaiseException, match="gate_immutable"):
            seed.source.as_owner(statement)


def test_a_gate_of_another_operation_is_not_closed_for_it(seed: Seed, admit_on: Callable[..., Operation]) -> None:
    seed.issue()
    with pytest.raises(GateTampered, match="postgres_seed_gate"):
        seed.gate.close(admit_on(seed.source), seed.principal)
    assert seed.state() == ("OPEN", None)


def test_a_role_for_a_seed_is_no_role_for_an_extraction_and_the_other_way_round(seed: Seed) -> None:
    extract, ingest = (seed.operation.principal(purpose) for purpose in ("extract", "ingest"))
    for principal, grant in (
        (ingest, PostgresExtractGrant(database=DATABASE)),
        (extract, PostgresSeedGrant(database=DATABASE, plan_sha256=seed.plan.sha256)),
    ):
        with pytest.raises(ConfigurationError, match="grant"):
            seed.gate.issue(seed.operation, principal, grant)
    with pytest.raises(ConfigurationError, match="postgres_seed_database"):
        seed.gate.issue(seed.operation, ingest, PostgresSeedGrant(database="other", plan_sha256=seed.plan.sha256))
    assert seed.source.asked("SELECT FROM pg_roles WHERE rolname = ANY (%s)", [extract.name, ingest.name]) == []
    # Closing needs no more than the name; what a proof rests on has to be configured.
    seed.source.gate().close(seed.operation, ingest)
    assert seed.state() == ("CLOSED", None)
    with pytest.raises(ConfigurationError, match="postgres_seed_absent"):
        seed.source.gate().prove_quiescent(seed.operation, ingest)


@pytest.mark.parametrize(("needle", "applied"), [("dpone_seed.seed", False), ("COMMIT", True)])
def test_a_reply_that_is_lost_is_resolved_by_the_gate_and_nothing_is_done_twice(
    seed: Seed, needle: str, applied: bool
) -> None:
    seeder = seed.issue()
    with TcpProxy("127.0.0.1", seeder.port, Fate(loss="reply", needle=needle), times=1) as proxy:
        with pytest.raises(OutcomeUnknown, match="postgres_seed_reply"):
            apply_seed(replace(seeder, port=proxy.port), seed.plan)
        assert proxy.met == 1
    seed.close()
    assert (seed.state(), seed.rows()) == (("CLOSED", len(ROWS)), list(ROWS)) if applied else (("CLOSED", None), None)
    assert seed.prove()["seeded_rows"] == (len(ROWS) if applied else None)


@pytest.mark.parametrize("needle", ["open_gate", "COMMIT"])
@pytest.mark.parametrize("loss", ["request", "reply"])
def test_an_issue_without_a_reply_leaves_a_gate_that_only_its_own_role_can_use(
    seed: Seed, needle: str, loss: str
) -> None:
    fate = Fate(loss="reply" if loss == "reply" else "request", needle=needle)
    with TcpProxy("127.0.0.1", seed.source.issuer.port, fate, times=1) as proxy:
        issuer = replace(seed.source.issuer, port=proxy.port, sslmode="disable")
        lossy = replace(seed, gate=live_seed.gate(seed.source, issuer=issuer))
        try:
            apply_seed(lossy.issue(), seed.plan)
        except OutcomeUnknown as err:
            assert err.reason == "postgres_role_unverified"
        assert proxy.met
    seed.close()
    applied = len(ROWS) if (needle, loss) == ("COMMIT", "reply") else None
    assert (seed.state(), seed.prove()["seeded_rows"]) == (("CLOSED", applied), applied)


@pytest.mark.parametrize("needle", ["close_gate", "COMMIT"])
@pytest.mark.parametrize("loss", ["request", "reply"])
def test_a_closing_without_a_reply_is_done_again(seed: Seed, needle: str, loss: str) -> None:
    apply_seed(seed.issue(), seed.plan)
    fate = Fate(loss="reply" if loss == "reply" else "request", needle=needle)
    with TcpProxy("127.0.0.1", seed.source.issuer.port, fate, times=1) as proxy:
        issuer = replace(seed.source.issuer, port=proxy.port, sslmode="disable")
        lossy = replace(seed, gate=live_seed.gate(seed.source, issuer=issuer))
        with pytest.raises(ControlUnavailable, match="postgres_gate"):
            lossy.close()
        if seed.state()[0] == "OPEN":
            # A role that is barred is half of it.
            with pytest.raises(GateTampered):
                seed.prove()
        lossy.close()
    assert seed.state() == ("CLOSED", len(ROWS))
    assert seed.prove()["seeded_rows"] == len(ROWS)


WORKER = """
import sys, json, psycopg
given = json.loads(sys.stdin.readline())
with psycopg.connect(given["conninfo"]) as session:
    session.execute("SELECT dpone_seed.seed(%s)", (given["plan"],))
    print("applied", flush=True)
    sys.stdin.readline()
"""


def test_a_worker_that_is_killed_in_the_middle_leaves_nothing(seed: Seed) -> None:
    seeder = seed.issue()
    conninfo = psycopg.conninfo.make_conninfo(
        host=seeder.host, port=seeder.port, dbname=seeder.database, user=seeder.user, password=seeder.password.reveal()
    )
    worker = subprocess.Popen([sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert worker.stdin is not None and worker.stdout is not None
    print(json.dumps({"conninfo": conninfo, "plan": seed.plan.document().decode()}), file=worker.stdin, flush=True)
    assert worker.stdout.readline() == "applied\n"
    worker.kill()
    worker.communicate()
    seed.close()
    assert (seed.state(), seed.rows()) == (("CLOSED", None), None)
    assert seed.prove()["seeded_rows"] is None


ROUTINE = postgres_seed.SQL.text("routine_seed").replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")
SPOILED = {
    "everybody may seed": (
        "GRANT EXECUTE ON FUNCTION dpone_seed.seed TO PUBLIC",
        "REVOKE EXECUTE ON FUNCTION dpone_seed.seed FROM PUBLIC",
    ),
    "another search path": ("ALTER FUNCTION dpone_seed.seed SET search_path = public", ROUTINE),
    "another text": (ROUTINE.replace("'DPONE_SEED: plan_digest'", "'DPONE_SEED: '"), ROUTINE),
    "gates can be written": (
        "GRANT UPDATE (state) ON dpone_seed.gates TO {issuer}",
        "REVOKE UPDATE (state) ON dpone_seed.gates FROM {issuer}",
    ),
    "gates can be moved": (
        "ALTER TABLE dpone_seed.gates DISABLE TRIGGER gate_moves",
        "ALTER TABLE dpone_seed.gates ENABLE TRIGGER gate_moves",
    ),
    "a rule is missing": (
        "ALTER TABLE dpone_seed.gates DROP CONSTRAINT gates_state_check",
        "ALTER TABLE dpone_seed.gates ADD CHECK (state IN ('OPEN', 'CLOSED'))",
    ),
    "somebody is the owner": ("GRANT {owner} TO {issuer}", "REVOKE {owner} FROM {issuer}"),
    "the owner logs in": ("ALTER ROLE {owner} LOGIN", "ALTER ROLE {owner} NOLOGIN"),
    "one function more": (
        "CREATE FUNCTION dpone_seed.more() RETURNS int SECURITY DEFINER RETURN 1",
        "DROP FUNCTION dpone_seed.more",
    ),
}


@pytest.mark.parametrize("how", SPOILED)
def test_a_routine_that_is_not_the_rendered_one_is_not_used(seed: Seed, how: str) -> None:
    names = {"issuer": sql.Identifier(ISSUER), "owner": sql.Identifier(AUTHORITY.owner)}
    spoil, mend = (
        sql.SQL(text).format(**names) if "{issuer}" in text or "{owner}" in text else text for text in SPOILED[how]
    )
    seed.gate.require_ready()
    seed.close()
    seed.source.as_owner(spoil)
    try:
        for use in (seed.gate.require_ready, seed.issue, seed.prove):
            with pytest.raises(GateTampered, match="postgres_seed_routine"):
                use()
    finally:
        seed.source.as_owner(mend)
    seed.gate.require_ready()


def test_the_routine_is_asked_for_by_name_where_there_is_none(
    source: LivePostgres, admit_on: Callable[[LivePostgres], Operation]
) -> None:
    nobody = replace(AUTHORITY, seeder="nobody's")
    with pytest.raises(ConfigurationError, match="finds no role nobody's"):
        source.gate(seed=nobody).require_ready()
    postgres = source.gate(issuer=replace(source.issuer, database="postgres"), seed=AUTHORITY)
    with pytest.raises(ConfigurationError, match="postgres_seed_absent"):
        postgres.require_ready()
    operation = admit_on(source)
    with pytest.raises(ConfigurationError, match="postgres_seed_absent"):
        postgres.close(operation, operation.principal("ingest"))


def test_nothing_is_seeded_where_transactions_can_be_prepared_and_a_closed_seed_outlives_a_crash(
    tmp_path: Path, admit_on: Callable[[LivePostgres], Operation]
) -> None:
    """One server, first with the setting and then without it. A seed may commit without waiting for the disk."""
    folder = tmp_path / "source"
    server = PostgresProcess(folder, settings={"max_prepared_transactions": 2}, tcp=True)
    server.start()
    try:
        source = live_seed.provision(server)
        with pytest.raises(ConfigurationError, match="postgres_prepared_transactions"):
            live_seed.gate(source).require_ready()
        seed = Seed(source, admit_on(source), live_seed.gate(source), live_seed.plan())
        with pytest.raises(ConfigurationError, match="postgres_prepared_transactions"):
            seed.issue()
        server.stop()
        server = PostgresProcess(folder, settings={"wal_writer_delay": "10s"}, tcp=True, port=source.issuer.port)
        server.start()
        source = replace(source, owner=server.conninfo(DATABASE))
        seed = Seed(source, seed.operation, live_seed.gate(source), seed.plan)
        with closing(connect(seed.issue())) as session:
            session.execute("SET synchronous_commit = off")
            call(session, seed.plan)
            session.commit()
            with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
                session.execute("PREPARE TRANSACTION 'left'")
        seed.close()
        server.stop(fast=False)
        server.start()
        seed = replace(seed, source=replace(source, owner=server.conninfo(DATABASE)))
        assert (seed.state(), seed.rows()) == (("CLOSED", len(ROWS)), list(ROWS))
        assert seed.prove()["seeded_rows"] == len(ROWS)
    finally:
        server.stop()
