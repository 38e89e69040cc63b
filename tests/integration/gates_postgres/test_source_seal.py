"""The source seal: only of what is really there, only when nobody can write it any more, and kept as evidence."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from psycopg import sql
from tsqldev.pgserver import PostgresProcess

from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.errors import (
    ConfigurationError,
    ControlUnavailable,
    GateTampered,
    GuardError,
    NotQuiescent,
)
from airflow_provider_dpone.contracts.nonproduction.seal import SourceSealRecord, decode_source_seal
from airflow_provider_dpone.contracts.nonproduction.seed import SeedColumn, SeedPlan
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.principal import Principal
from airflow_provider_dpone.drivers.postgres import connect
from airflow_provider_dpone.gates import postgres_sessions
from airflow_provider_dpone.gates.interface import PostgresSeedGrant
from airflow_provider_dpone.ledger import Evidence
from airflow_provider_dpone.qualification import SourceSealer, apply_seed, source_seal
from tests.support import live_seed
from tests.support.live_ledger import control_dsn, open_ledger
from tests.support.live_postgres import DATABASE, OBSERVER, LivePostgres
from tests.support.live_seed import AUTHORITY, ROWS


class Kept:
    """Evidence in memory, content-addressed as in the ledger."""

    def __init__(self) -> None:
        self.documents: dict[str, tuple[str, Mapping[str, object]]] = {}

    def put_evidence(self, attempt: object, kind: str, document: Mapping[str, object]) -> str:
        sha256 = canonical.exact_sha256(document)
        self.documents[sha256] = (kind, document)
        return sha256

    def evidence_history(self, attempt: object) -> list[Evidence]:
        """As it is read back."""
        return [
            Evidence(kind=kind, sha256=sha256, document=json.loads(canonical.exact_bytes(document)), order=order)
            for order, (sha256, (kind, document)) in enumerate(list(self.documents.items()), 1)
        ]

    def of(self, kind: str) -> list[Mapping[str, object]]:
        return [document for of, document in self.documents.values() if of == kind]


class Sealed:
    """One operation that seeds a plan and seals it."""

    def __init__(self, source: LivePostgres, operation: Operation, plan: SeedPlan) -> None:
        self.source, self.operation, self.plan, self.kept = source, operation, plan, Kept()
        self.gate = live_seed.gate(source)
        self.sealer = SourceSealer(gate=self.gate, observer=source.observer, authority=AUTHORITY)

    @property
    def principal(self) -> Principal:
        return self.operation.principal("ingest")

    def seed(self) -> Sealed:
        grant = PostgresSeedGrant(database=DATABASE, plan_sha256=self.plan.sha256)
        credential = self.gate.issue(self.operation, self.principal, grant)
        self.seeder = self.source.issuer.for_role(credential.username, credential.secret, app="seeder")
        apply_seed(self.seeder, self.plan)
        return self

    def seal(self) -> SourceSealRecord:
        return self.sealer.seal(self.operation, self.principal, self.plan, self.kept)

    def refused(self, kind: type[GuardError]) -> str:
        """Nothing is sealed, and why."""
        with pytest.raises(kind) as refused:
            self.seal()
        assert self.kept.of("source_seal") == []
        return str(refused.value)

    def as_owner(self, statement: str) -> None:
        schema, name = self.plan.qualified_name[1:]
        names = {"observer": OBSERVER, "owner": AUTHORITY.owner, "schema": schema, "name": name}
        identifiers = {slot: sql.Identifier(value) for slot, value in names.items()}
        composed = sql.SQL(statement).format(t=sql.Identifier(schema, name), **identifiers)  # type: ignore[arg-type]  # tests write literal SQL
        self.source.as_owner(composed)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LivePostgres]:
    with PostgresProcess(tmp_path_factory.mktemp("sealed"), settings={"fsync": "off"}, tcp=True) as server:
        yield live_seed.provision(server)


@pytest.fixture
def make_sealed(source: LivePostgres, admit_on: Callable[[LivePostgres], Operation]) -> Iterator[Callable[..., Sealed]]:
    made: list[Sealed] = []

    def sealed(**changes: Any) -> Sealed:
        made.append(Sealed(source, admit_on(source), live_seed.plan(**changes)))
        return made[-1]

    yield sealed
    for each in made:
        each.gate.close(each.operation, each.principal)


@pytest.fixture
def sealed(make_sealed: Callable[..., Sealed]) -> Sealed:
    return make_sealed().seed()


def test_a_seal_is_what_the_observer_saw_after_the_writer_was_gone(sealed: Sealed) -> None:
    record = sealed.seal()
    seen = record.observation
    assert (seen.rows, seen.content_sha256, seen.schema_sha256) == (
        len(ROWS),
        sealed.plan.content_sha256,
        sealed.plan.schema_sha256,
    )
    assert seen.service_id == sealed.gate.service_id and seen.qualified_name == sealed.plan.qualified_name
    [(table_oid,)] = sealed.source.asked(
        "SELECT table_oid::bigint FROM dpone_seed.gates WHERE role_name = %s", sealed.principal.name
    )
    assert seen.generation.table_oid == table_oid and seen.generation.seeded_by == sealed.operation.attempt_sha256
    assert sealed.kept.documents[record.closed_gates_sha256][0] == "seed_closed"
    kind, proof = sealed.kept.documents[record.quiescence_sha256]
    assert kind == "seed_quiescent" and proof["positive_control"]["seen"] is True  # type: ignore[index]  # a document
    [stored] = sealed.kept.of("source_seal")
    assert decode_source_seal(canonical.exact_bytes(stored), record.sha256) == record
    sealed.sealer.require_unchanged(record, sealed.principal)


def test_a_source_that_has_its_seal_keeps_it_and_is_read_again(sealed: Sealed) -> None:
    assert sealed.seal() == sealed.seal()
    assert len(sealed.kept.of("source_seal")) == len(sealed.kept.of("seed_quiescent")) == 1
    plan, sealed.plan = sealed.plan, replace(sealed.plan, object_id="another")
    with pytest.raises(GateTampered, match="another plan"):
        sealed.seal()
    sealed.plan = plan
    sealed.as_owner("UPDATE {t} SET small = 1 WHERE small = 0")
    with pytest.raises(GateTampered, match="postgres_source_changed"):
        sealed.seal()


def test_several_sealers_at_once_make_one_seal(sealed: Sealed) -> None:
    with ThreadPoolExecutor(3) as pool:
        records = list(pool.map(lambda _: sealed.seal(), range(3)))
    assert len({record.sha256 for record in records}) == 1
    assert sealed.seal() == records[0]


@pytest.mark.parametrize("ending", ["terminated", "locked"])
def test_a_server_that_does_not_let_the_observer_read_is_no_missing_right(
    sealed: Sealed, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An administrator's command, or somebody who holds the table: the same call is made again."""
    read = source_seal._rows
    monkeypatch.setattr(source_seal, "_SETTINGS", (*source_seal._SETTINGS, ("lock_timeout", "50ms")))
    with psycopg.connect(sealed.source.owner) as owner:

        def hindered(session: Any, *given: Any) -> Any:
            if ending == "terminated":
                owner.execute("SELECT pg_terminate_backend(%s, 5000)", (session.info.backend_pid,))
            return read(session, *given)

        with monkeypatch.context() as patch:
            patch.setattr(source_seal, "_rows", hindered)
            if ending == "locked":
                place = sql.Identifier(*sealed.plan.qualified_name[1:])
                owner.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(place))
            assert "postgres_seal" in sealed.refused(ControlUnavailable)
    assert sealed.seal()


class Promoted(PostgresProcess):
    """A server that, when it is started again, is promoted before anything is written to it."""

    def start(self) -> None:
        if self.data_directory.exists():
            (self.data_directory / "standby.signal").touch()
        super().start()

    def _renew_password(self) -> None:
        with psycopg.connect(self.conninfo(), autocommit=True) as superuser:
            superuser.execute("SELECT pg_promote() WHERE pg_is_in_recovery()")
        super()._renew_password()


def test_a_server_that_was_promoted_is_another_one_from_its_first_moment(
    tmp_path_factory: pytest.TempPathFactory, admit_on: Callable[[LivePostgres], Operation]
) -> None:
    """Not only from the next checkpoint, until which its control file names the timeline before."""
    # What it has to write out then takes it longer than the look.
    slow = {"checkpoint_timeout": "1h", "checkpoint_completion_target": "1.0"}
    with Promoted(tmp_path_factory.mktemp("promoted"), settings={"fsync": "off", **slow}, tcp=True) as server:
        source = live_seed.provision(server)
        sealed = Sealed(source, admit_on(source), live_seed.plan()).seed()
        record = sealed.seal()
        server.stop(fast=False)
        server.start()
        assert server.port is not None
        observer = replace(source.observer, port=server.port)
        sealer = SourceSealer(gate=sealed.gate, observer=observer, authority=AUTHORITY)
        with pytest.raises(GateTampered, match="generation"):
            sealer.require_unchanged(record, sealed.principal)


def test_an_empty_table_is_a_source_like_any_other(make_sealed: Callable[..., Sealed]) -> None:
    record = make_sealed(rows=(), key=()).seed().seal()
    assert record.observation.rows == 0


def test_rows_that_are_there_twice_are_counted_twice(make_sealed: Callable[..., Sealed]) -> None:
    columns = (SeedColumn(name="a", type="text", nullable=True),)
    once = make_sealed(columns=columns, key=(), rows=(("x",), (None,))).seed().seal()
    twice = make_sealed(columns=columns, key=(), rows=(("x",), (None,), (None,))).seed().seal()
    assert once.observation.content_sha256 != twice.observation.content_sha256
    assert once.observation.schema_sha256 == twice.observation.schema_sha256


def test_nothing_is_sealed_where_nothing_was_seeded(make_sealed: Callable[..., Sealed]) -> None:
    assert "postgres_seed_missing" in make_sealed().refused(ConfigurationError)


def test_a_session_of_the_writer_keeps_the_source_from_being_sealed(
    sealed: Sealed, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(connect(sealed.seeder)) as session:
        session.execute("SELECT 1")
        with monkeypatch.context() as patch:
            patch.setattr(postgres_sessions, "end", lambda *given: None)
            assert str(session.info.backend_pid) in sealed.refused(NotQuiescent)
    assert sealed.seal()


def test_a_gate_of_another_operation_that_is_open_keeps_the_source_from_being_sealed(
    sealed: Sealed, make_sealed: Callable[..., Sealed]
) -> None:
    other = make_sealed().seed()
    assert other.principal.name in sealed.refused(NotQuiescent)
    other.gate.close(other.operation, other.principal)
    assert sealed.seal()


@pytest.fixture(scope="module")
def standing(source: LivePostgres, admit_on: Callable[[LivePostgres], Operation]) -> Sealed:
    """A source that is sealed, and stays so: whoever changes it changes it back."""
    sealed = Sealed(source, admit_on(source), live_seed.plan()).seed()
    sealed.seal()
    return sealed


ROW = 'INSERT INTO {t} ("i""d\'") VALUES ({n})'
CHANGES = (
    ("UPDATE {t} SET small = 1 WHERE small = 0", "UPDATE {t} SET small = 0 WHERE small = 1", "rows"),
    ("UPDATE {t} SET t = NULL WHERE t = ''", "UPDATE {t} SET t = '' WHERE small = 0", "rows"),
    (
        'UPDATE {t} SET "amount; --" = 0.0001 WHERE "amount; --" = 0',
        'UPDATE {t} SET "amount; --" = 0 WHERE "amount; --" = 0.0001',
        "rows",
    ),
    ('DELETE FROM {t} WHERE "i""d\'" = 4', ROW.replace("{n}", "4"), "number of rows"),
    ("ALTER TABLE {t} ALTER small TYPE integer", "ALTER TABLE {t} ALTER small TYPE smallint", "types or key"),
    ("ALTER TABLE {t} RENAME small TO smaller", "ALTER TABLE {t} RENAME smaller TO small", "types or key"),
    ("ALTER TABLE {t} ADD more int", "ALTER TABLE {t} DROP more", "types or key"),
    ("ALTER TABLE {t} ALTER small SET DEFAULT 1", "ALTER TABLE {t} ALTER small DROP DEFAULT", "default"),
    ("ALTER TABLE {t} ENABLE ROW LEVEL SECURITY", "ALTER TABLE {t} DISABLE ROW LEVEL SECURITY", "row security"),
    ("CREATE TABLE child () INHERITS ({t})", "DROP TABLE child", "children"),
    ("CREATE RULE r AS ON INSERT TO {t} DO ALSO SELECT 1", "DROP RULE r ON {t}", "rules"),
    ("GRANT INSERT ON {t} TO {observer}", "REVOKE INSERT ON {t} FROM {observer}", "INSERT"),
    ("GRANT UPDATE (small) ON {t} TO PUBLIC", "REVOKE UPDATE (small) ON {t} FROM PUBLIC", "PUBLIC: UPDATE of small"),
    ("GRANT pg_write_all_data TO {observer}", "REVOKE pg_write_all_data FROM {observer}", "pg_write_all_data"),
    ("ALTER TABLE {t} RENAME TO hidden", "ALTER TABLE {schema}.hidden RENAME TO {name}", "not there"),
    (
        "ALTER TABLE {t} OWNER TO {observer}",
        "ALTER TABLE {t} OWNER TO {owner}; GRANT SELECT ON {t} TO {observer}",
        "no plain table of the seed's owner",
    ),
    ("REVOKE SELECT ON {t} FROM {observer}", "GRANT SELECT ON {t} TO {observer}", "permission denied"),
)


@pytest.mark.parametrize(("change", "back", "said"), CHANGES, ids=[change for change, _, _ in CHANGES])
def test_what_changed_after_the_seed_is_not_sealed(standing: Sealed, change: str, back: str, said: str) -> None:
    standing.as_owner(change)
    try:
        with pytest.raises((GateTampered, ConfigurationError)) as refused:
            standing.sealer.observe(standing.plan.qualified_name, standing.principal, standing.plan)
    finally:
        standing.as_owner(back)
    assert said in str(refused.value)
    assert standing.sealer.observe(standing.plan.qualified_name, standing.principal, standing.plan)


def test_a_source_that_was_changed_gets_no_seal(sealed: Sealed) -> None:
    sealed.as_owner("UPDATE {t} SET small = 1 WHERE small = 0")
    assert "rows" in sealed.refused(GateTampered)


def test_a_sealed_source_that_changes_is_told_from_the_sealed_one(sealed: Sealed) -> None:
    record = sealed.seal()
    for statement, said in (
        ("UPDATE {t} SET small = 1 WHERE small = 0", "content_sha256"),
        (ROW.replace("{n}", "9"), "rows"),
        ("ALTER TABLE {t} RENAME COLUMN small TO smaller", "schema_sha256"),
    ):
        sealed.as_owner(statement)
        with pytest.raises(GateTampered, match="postgres_source_changed") as changed:
            sealed.sealer.require_unchanged(record, sealed.principal)
        assert said in changed.value.happened


def test_a_source_that_is_seeded_again_is_another_generation(
    sealed: Sealed, make_sealed: Callable[..., Sealed]
) -> None:
    record = sealed.seal()
    again = make_sealed(qualified_name=sealed.plan.qualified_name).seed()
    other = again.seal()
    assert other.observation.content_sha256 == record.observation.content_sha256
    assert other.observation.generation != record.observation.generation
    with pytest.raises(GateTampered, match="generation"):
        sealed.sealer.require_unchanged(record, sealed.principal)


def test_a_seal_of_another_plan_is_refused(sealed: Sealed) -> None:
    sealed.plan = replace(sealed.plan, object_id="another")
    assert "another plan" in sealed.refused(GateTampered)


def test_the_ledger_keeps_a_seal_as_evidence_and_moves_nothing(
    source: LivePostgres, make_sealed: Callable[..., Sealed], tsql_server: Any
) -> None:
    server, name = tsql_server, f"control_{secrets.token_hex(6)}"
    with closing(server.connect()) as connection:
        connection.execute(f"CREATE DATABASE [{name}]")
    ledger = open_ledger(control_dsn(server.host, server.port, server.sa, server.sa_password, name))
    activation = ledger.active()
    operation = ledger.admit(activation, principals=[source.gate().new_principal("ingest"), ledger.clickhouse()[1]])
    sealed = make_sealed()
    sealed.operation = operation
    record = sealed.seed().sealer.seal(operation, sealed.principal, sealed.plan, ledger.attempts)
    stored = ledger.attempts.evidence(operation.attempt_sha256, "source_seal")
    assert stored is not None and decode_source_seal(canonical.exact_bytes(stored), record.sha256) == record
    assert {kept.kind for kept in ledger.attempts.evidence_history(operation.attempt_sha256)} == {
        "seed_closed",
        "seed_quiescent",
        "source_seal",
    }
    read = ledger.attempts.read_exact(operation.attempt)
    assert read is not None and (read.state, read.proofs) == ("RUNNING", ())
