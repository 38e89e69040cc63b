"""What somebody changes in a ledger beside its rules is found, by name, by every public call that would rely on it.

One ledger holds something of everything. Each change of this file is one that whoever may alter the schema could make:
it is made, every call that relies on what was changed is asked, and it is taken back. Which calls those are is said
here, from what a call is for. On the intact ledger each of them has its answer or comes as far as its commit; on a
changed one none does, and at the end the ledger is byte for byte what it was.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from airflow_provider_dpone.contracts.activation import ActivationRequest
from airflow_provider_dpone.contracts.canonical import exact_bytes, sha256_text
from airflow_provider_dpone.contracts.errors import (
    AdmissionRefused,
    ConfigurationError,
    GuardError,
    LedgerTampered,
    StaleEpoch,
)
from airflow_provider_dpone.contracts.proof import proof_for
from airflow_provider_dpone.drivers import drain
from airflow_provider_dpone.ledger import install
from airflow_provider_dpone.ledger.definition import install_batches
from airflow_provider_dpone.ledger.enroll import EnrolledDomain, MsSqlEnrollment, enroll, observe_mssql
from airflow_provider_dpone.ledger.settings import LedgerSettings
from tests.integration.ledger.conftest import drop_database, fresh_database
from tests.support import planted_rows as plant
from tests.support.gate_receipts import receipt
from tests.support.ledger_contents import contents
from tests.support.ledger_records import CLICKHOUSE, SERVICE, sha
from tests.support.live_ledger import nothing, open_ledger, target_database
from tests.support.planted_rows import Domain, PlantedOwner
from tests.support.stopping_connection import StoppingAtCommit, would_commit

#: The role and the schemas of the writers in the target database that is enrolled.
ROLE, SCHEMAS = "dpone_writer", ("raw", "marts")
NOTE = {"schema": "test.evidence.v1", "kind": "reconciled"}

Call = Callable[[], object]


@dataclass(kw_only=True)
class World:
    """The ledger: a session of whoever tampers, the keys of what is in it, and the calls, by short names."""

    session: Any
    stopping: StoppingAtCommit
    keys: Mapping[str, str]
    calls: Mapping[str, Call]

    def send(self, text: str, *parameters: Any) -> list[list[tuple[Any, ...]]]:
        return drain(self.session, text, *parameters)


def owner_of_two() -> tuple[PlantedOwner, list[plant.Write]]:
    """An execution owner of two new domains, with a workload for each."""
    domains = [Domain.new("clickhouse"), Domain.new("clickhouse")]
    owner = PlantedOwner(subject=plant.request_over({"w000": domains[:1], "w001": domains[1:]}))
    return owner, [domain.enrolled() for domain in domains]


def guard_of(owner: PlantedOwner, workload_id: str) -> str:
    assert isinstance(owner.subject, ActivationRequest)
    [guard] = owner.subject.guards_of(workload_id)
    return guard


@pytest.fixture(scope="module")
def target(tsql_server: Any) -> Iterator[str]:
    with target_database(tsql_server, ROLE, SCHEMAS) as name:
        yield name


@pytest.fixture(scope="module")
def world(tsql_server: Any, target: str) -> Iterator[World]:
    database = fresh_database(tsql_server)
    ledger = open_ledger(database)
    session: Any = ledger.connect()
    session.setautocommit(True)

    # Owners in every state, an operation that is COMMIT_UNKNOWN, and a qualification run with an invocation.
    (prepared, one), (retiring, two), (retired, three), (holder, four) = (owner_of_two() for _ in range(4))
    engines = [Domain.new(connector) for connector in ("clickhouse", "mssql", "postgres")]
    spare = Domain.new("clickhouse")
    run = PlantedOwner(subject=plant.qualification_over(engines))
    invocation = plant.invocation_of(run, [engines[0].guard])
    unknown = plant.attempt_of(holder, "w000")
    writes = [*one, *two, *three, *four, *(domain.enrolled() for domain in (*engines, spare))]
    writes += plant.life(prepared, "PREPARED", None, None)
    writes += plant.life(retiring, "RETIRING", plant.attempt_of(retiring, "w000"), "SUCCEEDED")
    writes += plant.life(retired, "RETIRED", plant.attempt_of(retired, "w000"), "FAILED")
    writes += plant.life(holder, "ACTIVE", unknown, "COMMIT_UNKNOWN")
    writes += plant.life(run, "ACTIVE", invocation, "RUNNING")
    text, parameters = plant.batch(writes, commit=True)
    drain(session, text, *parameters)
    reconciled = proof_for(unknown.attempt, unknown.principals, "OUTCOME", sha256_text(exact_bytes(NOTE)), "SUCCEEDED")
    ledger.attempts.put_proof(unknown.attempt, reconciled, evidence=[("reconciled", NOTE)])

    # A target of the ledger's own instance.
    identity = observe_mssql(ledger.connect, target)
    enrolled = EnrolledDomain(
        connector="mssql",
        service_id=SERVICE,
        physical_subject_sha256=identity.physical_subject_sha256,
        mssql=MsSqlEnrollment(identity=identity, writer_role=ROLE, managed_schemas=SCHEMAS),
    )
    enroll(ledger.connect, ledger.settings, [enrolled])

    # An activation with attempts at every point of their life, of two engines and with a gate each.
    active = ledger.active(3)
    proven = ledger.admit(active, "w000", principals=[*ledger.clickhouse(), *ledger.login()])
    ledger.close(proven)
    ledger.gates.put_quiescence(proven.attempt, {"schema": "test.quiet.v1"})
    ledger.prove(proven, "CLOSED_GATES")
    ledger.prove(proven, "QUIESCENCE")
    outcome = ledger.prove(proven, "OUTCOME", "SUCCEEDED")
    quiescence = next(proof for proof in ledger.attempts.proofs(proven.attempt) if proof.kind == "QUIESCENCE")
    chain = [ledger.snapshots.put(ledger.snapshot(proven))]
    chain.append(ledger.snapshots.put(chain[0].exchange_intended()))
    for _ in range(2):
        ledger.charges.charge(active.activation_id, "w000", 10, 100)
    journaled = ledger.admit(active, "w001", principals=ledger.login())
    closing = ledger.admit(active, "w002", principals=ledger.login())
    ledger.gates.to_closing(closing.attempt)
    install.audit(ledger.connect, ledger.settings)

    stopping = StoppingAtCommit(ledger.connect)
    stopped = ledger.through(stopping)
    activations, attempts, gates = stopped.activations, stopped.attempts, stopped.gates
    snapshots, charges, receipts = stopped.snapshots, stopped.charges, stopped.receipts
    settings = stopped.settings
    requests: dict[str, ActivationRequest] = {}
    for name, owner in (("prepared", prepared), ("retiring", retiring), ("retired", retired), ("holder", holder)):
        assert isinstance(owner.subject, ActivationRequest)
        requests[name] = owner.subject
    domains = [
        Domain(
            guard=resource.guard_id,
            connector=resource.connector,
            service=resource.service_id,
            subject=resource.physical_subject_sha256,
        )
        for resource in requests["retired"].resources
    ]
    successor = plant.request_over({"w000": domains[:1], "w001": domains[1:]})
    candidate = plant.attempt_of(holder, "w001")
    key = proven.attempt_sha256
    at = proven.coordinates
    other_receipt = receipt(ledger.receipts.standing().server, commit="5" * 40)
    calls: dict[str, Call] = {
        "prepare": lambda: activations.prepare(successor),
        "activate": lambda: activations.activate(requests["prepared"]),
        "withdraw": lambda: activations.withdraw(requests["prepared"]),
        "require_active": lambda: activations.require_active(active.request),
        "read": lambda: activations.read(active.activation_id),
        "list": activations.list,
        "begin_retirement": lambda: activations.begin_retirement(active.request),
        "finalize_retirement": lambda: activations.finalize_retirement(requests["retiring"]),
        "admit_once": lambda: attempts.admit_once(candidate.attempt, candidate.coordinates, candidate.principals),
        "read_exact": lambda: attempts.read_exact(key),
        "read_exact unknown": lambda: attempts.read_exact(unknown.key),
        "find": lambda: attempts.find(*at.instance),
        "unresolved": attempts.unresolved,
        "recent": attempts.recent,
        "put_evidence": lambda: attempts.put_evidence(key, "outcome", PROVEN_OUTCOME),
        "evidence": lambda: attempts.evidence(key, "outcome"),
        "evidence_history": lambda: attempts.evidence_history(key),
        "put_proof": lambda: attempts.put_proof(key, quiescence),
        "proofs": lambda: attempts.proofs(key),
        "finalize": lambda: attempts.finalize(key, state="SUCCEEDED", outcome_proof_sha256=outcome),
        "reconcile_unknown": lambda: attempts.reconcile_unknown(
            unknown.key, state="SUCCEEDED", outcome_proof_sha256=reconciled.sha256
        ),
        "gate read": lambda: gates.read(key),
        "to_ready": lambda: gates.to_ready(journaled.attempt, nothing),
        "to_closing": lambda: gates.to_closing(journaled.attempt, nothing),
        "to_closed": lambda: gates.to_closed(closing.attempt, lambda cursor: {"schema": "test.closed.v1"}),
        "put_quiescence": lambda: gates.put_quiescence(key, {"schema": "test.quiet.v1"}),
        "gate_evidence": lambda: gates.gate_evidence(key, "CLOSED_GATES"),
        "snapshot put": lambda: snapshots.put(chain[1].undecided()),
        "snapshot read": lambda: snapshots.read(key),
        "charge": lambda: charges.charge(active.activation_id, "w000", 10, 100),
        "charged": lambda: charges.total(active.activation_id, "w000"),
        "standing": receipts.standing,
        "record_profile": lambda: receipts.record(other_receipt),
        "enroll": lambda: enroll(stopping, settings, [enrolled]),
        "audit": lambda: install.audit(stopping, settings),
    }
    keys = {
        "activation": active.owner_key,
        "guard": proven.attempt.guard_ids[0],
        "proven": key,
        "outcome_evidence": next(p.evidence_sha256 for p in attempts.proofs(key) if p.kind == "OUTCOME"),
        "ingest": proven.principal("ingest").principal_id,
        "login": proven.principal("build").principal_id,
        "journaled": journaled.attempt_sha256,
        "unknown": unknown.key,
        "prepared": prepared.key,
        "prepared_guard": guard_of(prepared, "w001"),
        "retiring": retiring.key,
        "retired": retired.key,
        "retired_guard": guard_of(retired, "w001"),
        "spare": spare.guard,
        "run": run.key,
        "invocation": invocation.key,
        "enrolled": enrolled.guard_id,
    }
    before = contents(session)
    yield World(session=session, stopping=stopping, keys=keys, calls=calls)
    after = contents(session)
    stopping.close()
    session.close()
    drop_database(tsql_server, database)
    assert after == before


PROVEN_OUTCOME = {"schema": "test.evidence.v1", "kind": "OUTCOME", "state": "SUCCEEDED", "note": ""}

#: Calls that have their answer without a change on the intact ledger; the others come as far as their commit.
ANSWERED = frozenset(
    [
        "require_active",
        "read",
        "list",
        "read_exact",
        "find",
        "unresolved",
        "recent",
        "put_evidence",
        "evidence",
        "evidence_history",
        "proofs",
        "put_proof",
        "standing",
        "put_quiescence",
        "gate_evidence",
        "enroll",
        "audit",
        "charged",
    ]
) | {"read_exact unknown", "gate read", "snapshot read"}


def test_every_call_is_good_on_the_intact_ledger(world: World) -> None:
    """Without this, a refusal further down could be one for any reason."""
    assert {name for name, call in world.calls.items() if not would_commit(call)} == ANSWERED


def asked(world: World, names: Sequence[str], reasons: Mapping[str, type[GuardError]]) -> None:
    """Each call is refused for one of the reasons, of the class that belongs to it, and none reaches its commit."""
    reached = world.stopping.reached
    found: dict[str, str] = {}
    for name in names:
        try:
            would_commit(world.calls[name])
        except GuardError as err:
            expected = reasons.get(err.reason)
            found[name] = "refused" if expected is type(err) else f"{type(err).__name__} {err.reason}"
        else:
            found[name] = "not refused"
    assert found == dict.fromkeys(names, "refused")
    assert world.stopping.reached == reached


# The catalog, and the two rows that say which ledger this is

SETTINGS = LedgerSettings(service_id=SERVICE)
INSTALLED = dict(install_batches(SETTINGS))


@dataclass(frozen=True, kw_only=True)
class CatalogChange:
    do: str
    undo: str
    reason: str = "catalog"
    error: type[GuardError] = LedgerTampered


def constraint(table: str, name: str, definition: str) -> CatalogChange:
    return CatalogChange(
        do=f"ALTER TABLE {table} DROP CONSTRAINT {name}",
        undo=f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition}",
    )


OWNERS, PROOFS, DOMAINS = (f"dpone_control.composition_{name}" for name in ("owners", "proofs", "domains"))
EPOCH = "CHECK ([fencing_epoch] >= 0)"

CATALOG: dict[str, CatalogChange] = {
    "disabled trigger": CatalogChange(
        do=f"DISABLE TRIGGER dpone_control.tr_composition_owners ON {OWNERS}",
        undo=f"ENABLE TRIGGER dpone_control.tr_composition_owners ON {OWNERS}",
    ),
    "altered trigger": CatalogChange(
        do=f"ALTER TRIGGER dpone_control.tr_composition_proofs ON {PROOFS} AFTER INSERT AS RETURN",
        undo="DROP TRIGGER dpone_control.tr_composition_proofs\nGO\n" + INSTALLED["trigger_proofs"],
    ),
    "dropped trigger": CatalogChange(do="DROP TRIGGER dpone_ext.tr_evidence", undo=INSTALLED["trigger_evidence"]),
    "foreign trigger": CatalogChange(
        do="CREATE TRIGGER dpone_ext.tr_mine ON dpone_ext.evidence AFTER INSERT AS RETURN",
        undo="DROP TRIGGER dpone_ext.tr_mine",
    ),
    "foreign view": CatalogChange(
        do="CREATE VIEW dpone_control.mine AS SELECT 1 AS one", undo="DROP VIEW dpone_control.mine"
    ),
    "foreign procedure": CatalogChange(
        do="CREATE PROCEDURE dpone_ext.mine AS SELECT 1", undo="DROP PROCEDURE dpone_ext.mine"
    ),
    "foreign table": CatalogChange(
        do="CREATE TABLE dpone_control.mine (id int NOT NULL)", undo="DROP TABLE dpone_control.mine"
    ),
    "foreign index": CatalogChange(
        do=f"CREATE INDEX mine ON {DOMAINS} (service_id)", undo=f"DROP INDEX mine ON {DOMAINS}"
    ),
    "extra column": CatalogChange(
        do=f"ALTER TABLE {DOMAINS} ADD note int NULL", undo=f"ALTER TABLE {DOMAINS} DROP COLUMN note"
    ),
    "dropped CHECK": constraint(DOMAINS, "ck_composition_domains_epoch", EPOCH),
    "another CHECK": CatalogChange(
        do=f"ALTER TABLE {DOMAINS} DROP CONSTRAINT ck_composition_domains_epoch\nGO\n"
        f"ALTER TABLE {DOMAINS} ADD CONSTRAINT ck_composition_domains_epoch CHECK ([fencing_epoch] >= -1)",
        undo=f"ALTER TABLE {DOMAINS} DROP CONSTRAINT ck_composition_domains_epoch\nGO\n"
        f"ALTER TABLE {DOMAINS} ADD CONSTRAINT ck_composition_domains_epoch {EPOCH}",
        reason="catalog_checks",
    ),
    "disabled CHECK": CatalogChange(
        do=f"ALTER TABLE {DOMAINS} NOCHECK CONSTRAINT ck_composition_domains_epoch",
        undo=f"ALTER TABLE {DOMAINS} WITH CHECK CHECK CONSTRAINT ck_composition_domains_epoch",
    ),
    "dropped key": constraint(
        "dpone_ext.evidence",
        "uq_evidence_content",
        "UNIQUE NONCLUSTERED ([operation_key], [evidence_kind], [evidence_sha256])",
    ),
    "dropped foreign key": constraint(
        "dpone_control.composition_login_gates",
        "fk_composition_login_gates_operation",
        "FOREIGN KEY ([operation_key]) REFERENCES [dpone_control].[composition_operations] ([operation_key])",
    ),
}

VERSION = "ALTER TABLE dpone_control.composition_authority {} CONSTRAINT ck_composition_authority_version"
AUTHORITY = "TRIGGER dpone_control.tr_composition_authority ON dpone_control.composition_authority"
CATALOG["another version"] = CatalogChange(
    do=f"{VERSION.format('DROP')}\nGO\nDISABLE {AUTHORITY}\nGO\n"
    f"UPDATE dpone_control.composition_authority SET schema_version = 3\nGO\nENABLE {AUTHORITY}",
    undo=f"DISABLE {AUTHORITY}\nGO\nUPDATE dpone_control.composition_authority SET schema_version = 2\nGO\n"
    f"ENABLE {AUTHORITY}\nGO\n{VERSION.format('ADD')} CHECK ([schema_version] = 2)",
    reason="ledger_version",
    error=ConfigurationError,
)

#: The calls by turns, so that every one of them meets several changes; whoever opens a transaction audits first.
TURNS = itertools.cycle(
    [
        "prepare",
        "read_exact",
        "to_ready",
        "activate",
        "find",
        "to_closing",
        "withdraw",
        "unresolved",
        "to_closed",
        "require_active",
        "recent",
        "put_quiescence",
        "begin_retirement",
        "put_evidence",
        "gate_evidence",
        "finalize_retirement",
        "evidence",
        "charge",
        "admit_once",
        "evidence_history",
        "charged",
        "put_proof",
        "list",
        "standing",
        "finalize",
        "proofs",
        "record_profile",
        "reconcile_unknown",
        "read",
        "enroll",
    ]
)
CATALOG_CASES = [(name, [*itertools.islice(TURNS, 3), "audit"]) for name in CATALOG]


def batches(text: str) -> list[str]:
    return text.split("\nGO\n")


@pytest.mark.parametrize(("name", "asking"), CATALOG_CASES, ids=[name.replace(" ", "-") for name in CATALOG])
def test_a_changed_catalog(world: World, name: str, asking: list[str]) -> None:
    change = CATALOG[name]
    everybody = list(world.calls) if name == "disabled trigger" else asking
    for batch in batches(change.do):
        world.send(batch)
    try:
        asked(world, everybody, {change.reason: change.error})
    finally:
        for batch in batches(change.undo):
            world.send(batch)


# Rights

RIGHTS = {
    "DELETE on a table": ("GRANT DELETE ON OBJECT::dpone_control.composition_proofs TO [{}]", "mallory"),
    "ALTER on a schema": ("GRANT ALTER ON SCHEMA::dpone_ext TO [{}]", "mallory"),
    "CONTROL of the database": ("GRANT CONTROL TO [{}]", "mallory"),
    "for everybody": ("GRANT SELECT ON SCHEMA::dpone_control TO [public]", "public"),
    "handed on": ("GRANT SELECT ON SCHEMA::dpone_control TO [{}] WITH GRANT OPTION", "mallory"),
    "membership": ("ALTER ROLE [db_owner] ADD MEMBER [{}]", "mallory"),
    "receipts": ("GRANT INSERT ON SCHEMA::dpone_ext TO [{}]", "mallory"),
}


@pytest.fixture(scope="module")
def mallory(world: World) -> Iterator[str]:
    """A user of the control database who should have nothing in it."""
    name = f"mallory {secrets.token_hex(4)}"
    world.send(f"CREATE USER [{name}] WITHOUT LOGIN")
    yield name
    world.send(f"DROP USER [{name}]")


@pytest.mark.parametrize("name", RIGHTS, ids=lambda name: name.replace(" ", "-"))
def test_a_right_that_no_role_has(world: World, mallory: str, name: str) -> None:
    statement, who = RIGHTS[name]
    give = statement.format(mallory)
    take = give.replace("GRANT ", "REVOKE ", 1).replace(" TO ", " FROM ").replace("ADD MEMBER", "DROP MEMBER")
    if "WITH GRANT OPTION" in give:
        take = take.replace(" WITH GRANT OPTION", " CASCADE")
    world.send(give)
    try:
        with pytest.raises(LedgerTampered) as refused:
            would_commit(world.calls["audit"])
        assert refused.value.reason == "foreign_right"
        assert who in str(refused.value)
    finally:
        world.send(take)
    assert not would_commit(world.calls["audit"])


# Rows


@dataclass(frozen=True, kw_only=True)
class RowChange:
    """A row found by ``where`` gets other values, or goes when it gets none. Keys of the world stand in braces."""

    table: str
    where: str
    values: Mapping[str, object]


@contextmanager
def changed(world: World, change: RowChange) -> Iterator[None]:
    """As whoever may disable a trigger would do it, and leave the catalog as it was."""
    where = change.where.format(**world.keys)
    columns = list(change.values) or ["*"]
    [rows] = world.send(f"SELECT {', '.join(columns)} FROM {change.table} WHERE {where}")
    assert len(rows) == 1, f"{change.table}: {len(rows)} rows"
    schema, name = change.table.split(".")
    asleep = f"DISABLE TRIGGER {schema}.tr_{name} ON {change.table}"
    awake = f"ENABLE TRIGGER {schema}.tr_{name} ON {change.table}"
    assignments = ", ".join(f"{column} = ?" for column in columns)
    if change.values:
        world.send(
            f"{asleep};\nUPDATE {change.table} SET {assignments} WHERE {where};\n{awake};", *change.values.values()
        )
    else:
        world.send(f"{asleep};\nDELETE FROM {change.table} WHERE {where};\n{awake};")
    try:
        yield
    finally:
        if change.values:
            new = " AND ".join(f"{column} = ?" for column in columns if column in where)
            back = new if new else where
            given = [change.values[column] for column in columns if column in where]
            world.send(f"{asleep};\nUPDATE {change.table} SET {assignments} WHERE {back};\n{awake};", *rows[0], *given)
        else:
            marks = ", ".join("?" for _ in rows[0])
            world.send(f"{asleep};\nINSERT INTO {change.table} VALUES ({marks});\n{awake};", *rows[0])


@dataclass(frozen=True, kw_only=True)
class Tampering:
    """A change, the calls that rely on what it changes, and the reasons that they may give, by their class."""

    change: RowChange
    calls: tuple[str, ...]
    reasons: Mapping[str, type[GuardError]]


#: Every call that moves an epoch or admits goes through the whole history first; the audit goes through everything.
HISTORY = ("prepare", "activate", "withdraw", "begin_retirement", "finalize_retirement", "admit_once", "audit")
#: Every call that answers or ends the operation whose proofs are complete; and the one that is COMMIT_UNKNOWN.
PROVEN = ("read_exact", "find", "unresolved", "recent", "proofs", "put_proof", "finalize")
UNKNOWN = ("read_exact unknown", "unresolved", "recent", "reconcile_unknown")
#: Every call that answers or moves the activation that is ACTIVE.
ACTIVE = ("require_active", "read", "list", "begin_retirement")


def control(table: str, where: str, **values: object) -> RowChange:
    return RowChange(table=f"dpone_control.composition_{table}", where=where, values=values)


def extension(table: str, where: str, **values: object) -> RowChange:
    return RowChange(table=f"dpone_ext.{table}", where=where, values=values)


def tampered(change: RowChange, calls: Sequence[str], *reasons: str, **others: type[GuardError]) -> Tampering:
    every = dict.fromkeys(reasons, LedgerTampered) | others
    return Tampering(change=change, calls=tuple(dict.fromkeys(calls)), reasons=every)


OTHER = sha("other")
JUNK = b"{}"
ROWS: dict[str, Tampering] = {
    # Which ledger this is.
    "incarnation: database": tampered(
        extension("incarnation", "singleton = 1", database_guid=CLICKHOUSE),
        ["admit_once", "read", "audit"],
        "incarnation",
    ),
    "incarnation: restored to another point": tampered(
        extension("incarnation", "singleton = 1", recovery_fork_guid=CLICKHOUSE),
        ["finalize", "read_exact", "audit"],
        "incarnation",
    ),
    "incarnation: created at another time": tampered(
        extension("incarnation", "singleton = 1", create_token="2001-01-01T00:00:00"),
        ["prepare", "unresolved", "audit"],
        "incarnation",
    ),
    "incarnation: pinned CHECK texts": tampered(
        extension("incarnation", "singleton = 1", checks_sha256=OTHER), ["charge", "list", "audit"], "catalog_checks"
    ),
    "incarnation: no row": tampered(
        extension("incarnation", "singleton = 1"), ["to_ready", "evidence", "audit"], "incarnation"
    ),
    "authority: no row": tampered(
        control("authority", "singleton = 1"), ["to_closing", "proofs", "audit"], "authority"
    ),
    "authority: another service": tampered(
        control("authority", "singleton = 1", service_id=CLICKHOUSE),
        ["put_proof", "standing", "audit"],
        ledger_service_id=ConfigurationError,
    ),
    # Owners and domains.
    "owner: document": tampered(
        control("owners", "owner_key = '{activation}'", subject_document=JUNK),
        [*HISTORY, *ACTIVE],
        "history_owner_original",
        "owner_original",
    ),
    "owner: hash": tampered(
        control("owners", "owner_key = '{activation}'", subject_sha256=OTHER),
        [*HISTORY, *ACTIVE],
        "history_owner_original",
        "owner_original",
    ),
    "owner: id": tampered(
        control("owners", "owner_key = '{activation}'", owner_id=CLICKHOUSE),
        [*HISTORY, *ACTIVE],
        "history_owner_original",
        "owner_original",
    ),
    "owner: kind": tampered(
        control("owners", "owner_key = '{prepared}'", owner_kind="qualification"), HISTORY, "history_owner_original"
    ),
    "owner: RETIRED over what it holds": tampered(
        control("owners", "owner_key = '{retiring}'", state="RETIRED"), HISTORY, "history_domain_owner"
    ),
    "owner: ACTIVE again over what it gave back": tampered(
        control("owners", "owner_key = '{retired}'", state="ACTIVE"), HISTORY, "history_domain_owner"
    ),
    "owner: qualification document": tampered(
        control("owners", "owner_key = '{run}'", subject_document=JUNK), HISTORY, "history_owner_original"
    ),
    "owner partition: missing": tampered(
        control("owner_domains", "owner_key = '{prepared}' AND guard_id = '{prepared_guard}'"),
        HISTORY,
        "history_domain_epochs",
    ),
    "owner partition: claim": tampered(
        control("owner_domains", "owner_key = '{activation}' AND guard_id = '{guard}'", claim_document=JUNK),
        [*ACTIVE, "audit"],
        "owner_partition",
        "claim",
    ),
    "owner partition: epoch": tampered(
        control("owner_domains", "owner_key = '{retired}' AND guard_id = '{retired_guard}'", fencing_epoch=7),
        HISTORY,
        "history_domain_epochs",
    ),
    "domain: epoch": tampered(
        control("domains", "guard_id = '{guard}'", fencing_epoch=2),
        [*HISTORY, "require_active"],
        "history_domain_epochs",
        domain_moved_on=StaleEpoch,
    ),
    "domain: owner": tampered(
        control("domains", "guard_id = '{guard}'", owner_key=None),
        [*HISTORY, "require_active"],
        "history_domain_owner",
        domain_moved_on=StaleEpoch,
    ),
    "domain: identity": tampered(
        control("domains", "guard_id = '{retired_guard}'", physical_subject_sha256=OTHER),
        ["prepare", "audit"],
        "domain_identity",
    ),
    "domain: identity of a target": tampered(
        control("domains", "guard_id = '{enrolled}'", physical_subject_sha256=OTHER),
        ["enroll", "audit"],
        "domain_identity",
    ),
    # An operation whose proofs are complete.
    "operation: document": tampered(
        control("operations", "operation_key = '{proven}'", operation_document=JUNK),
        [*HISTORY, *PROVEN],
        "history_operation_original",
        "operation_original",
    ),
    "operation: parent's hash": tampered(
        control("operations", "operation_key = '{proven}'", owner_subject_sha256=OTHER),
        [*HISTORY, *PROVEN],
        "history_operation_original",
        "operation_original",
    ),
    "operation: replay key": tampered(
        control("operations", "operation_key = '{proven}'", replay_key=OTHER),
        [*HISTORY, *PROVEN],
        "history_operation_original",
        "operation_original",
    ),
    "operation: another family": tampered(
        control("operations", "operation_key = '{journaled}'", operation_family="qualification"),
        HISTORY,
        "history_operation_original",
    ),
    "operation partition: missing": tampered(
        control("operation_domains", "operation_key = '{proven}'"),
        [*HISTORY, *PROVEN],
        "history_operation_partition",
        "operation_partition",
    ),
    "coordinates: missing": tampered(
        extension("attempt_coordinates", "operation_key = '{proven}'"),
        [*HISTORY, "read_exact", "unresolved", "proofs", "put_proof", "finalize"],
        "history_operation_original",
        "operation_coordinates",
    ),
    "coordinates: DAG": tampered(
        extension("attempt_coordinates", "operation_key = '{proven}'", dag_id="another"),
        [*PROVEN, "audit"],
        "operation_coordinates",
    ),
    "coordinates: try": tampered(
        extension("attempt_coordinates", "operation_key = '{proven}'", try_number=7),
        [*HISTORY, *PROVEN],
        "history_operation_original",
        "operation_coordinates",
    ),
    "principal: missing": tampered(
        control("issued_authorities", "principal_id = '{ingest}'"),
        [*HISTORY, *PROVEN],
        "history_proof_original",
        "operation_proof",
    ),
    "principal: login missing": tampered(
        control("issued_authorities", "principal_id = '{login}'"),
        [*HISTORY, *PROVEN],
        "history_proof_original",
        "operation_login_gate",
    ),
    "principal: login's name": tampered(
        control("issued_authorities", "principal_id = '{login}'", principal_name="sa"),
        [*HISTORY, *PROVEN],
        "history_login_gate",
        "operation_login_gate",
    ),
    "proof: document": tampered(
        control("proofs", "operation_key = '{proven}' AND proof_kind = 'QUIESCENCE'", proof_document=JUNK),
        [*HISTORY, *PROVEN],
        "history_proof_original",
        "operation_proof",
    ),
    "proof: hash": tampered(
        control("proofs", "operation_key = '{proven}' AND proof_kind = 'CLOSED_GATES'", proof_sha256=OTHER),
        [*HISTORY, *PROVEN],
        "history_proof_original",
        "operation_proof",
    ),
    "proof: missing before the end": tampered(
        control("proofs", "operation_key = '{proven}' AND proof_kind = 'QUIESCENCE'"),
        ["finalize"],
        proof_triplet=AdmissionRefused,
    ),
    "evidence: missing": tampered(
        extension("evidence", "operation_key = '{proven}' AND evidence_sha256 = '{outcome_evidence}'"),
        ["finalize", "audit"],
        "operation_evidence",
    ),
    "evidence: document": tampered(
        extension(
            "evidence",
            "operation_key = '{proven}' AND evidence_sha256 = '{outcome_evidence}'",
            evidence_document=JUNK,
        ),
        ["put_evidence", "evidence", "evidence_history", "finalize", "audit"],
        "evidence",
        "operation_evidence",
    ),
    # Its gate, and that of one whose login was never created.
    "gate: missing": tampered(
        control("login_gates", "operation_key = '{journaled}'"),
        [*HISTORY, "unresolved", "recent", "to_ready", "to_closing"],
        "history_login_gate",
        "operation_login_gate",
        login_gate_absent=AdmissionRefused,
    ),
    "gate: open again": tampered(
        control("login_gates", "operation_key = '{proven}'", gate_state="READY", disabled_evidence_sha256=None),
        [*HISTORY, *PROVEN],
        "history_login_gate",
        "operation_login_gate",
    ),
    "gate: name": tampered(
        control("login_gates", "operation_key = '{proven}'", login_name="sa"),
        [*HISTORY, *PROVEN],
        "history_login_gate",
        "operation_login_gate",
    ),
    "gate evidence: document": tampered(
        control(
            "mssql_gate_evidence",
            "operation_key = '{proven}' AND evidence_kind = 'CLOSED_GATES'",
            evidence_document=JUNK,
        ),
        [*HISTORY, "gate_evidence", "finalize"],
        "history_login_gate",
        "evidence",
        "operation_evidence",
    ),
    "gate evidence: missing": tampered(
        control("mssql_gate_evidence", "operation_key = '{proven}' AND evidence_kind = 'CLOSED_GATES'"),
        [*HISTORY, "finalize"],
        "history_login_gate",
        "operation_evidence",
    ),
    # An operation that is COMMIT_UNKNOWN.
    "unknown: made a success": tampered(
        control("operations", "operation_key = '{unknown}'", state="SUCCEEDED"),
        [*HISTORY, "read_exact unknown", "recent", "reconcile_unknown"],
        "history_operation_proofs",
        "operation_state",
    ),
    "unknown: another outcome": tampered(
        control("operations", "operation_key = '{unknown}'", outcome_proof_sha256=OTHER),
        [*HISTORY, *UNKNOWN],
        "history_operation_proofs",
        "operation_proof",
    ),
    "unknown: proof missing": tampered(
        control("proofs", "operation_key = '{unknown}' AND proof_kind = 'CLOSED_GATES'"),
        [*HISTORY, *UNKNOWN],
        "history_operation_proofs",
        "operation_proof",
    ),
    "unknown: only principal missing": tampered(
        control("issued_authorities", "operation_key = '{unknown}'"),
        [*HISTORY, *UNKNOWN],
        "history_proof_original",
        "operation_principal",
    ),
    "unknown: evidence missing": tampered(
        extension("evidence", "operation_key = '{unknown}' AND evidence_kind = 'closed_gates'"),
        ["reconcile_unknown", "audit"],
        "operation_evidence",
    ),
    # An invocation of a qualification run.
    "invocation: document": tampered(
        control("operations", "operation_key = '{invocation}'", operation_document=JUNK),
        HISTORY,
        "history_operation_original",
    ),
    "invocation: replay key": tampered(
        control("operations", "operation_key = '{invocation}'", replay_key=OTHER), ["audit"], "qualification_original"
    ),
    "invocation: partition missing": tampered(
        control("operation_domains", "operation_key = '{invocation}'"), HISTORY, "history_operation_partition"
    ),
    # The extension group, and enrollments.
    "snapshot: document": tampered(
        extension("snapshot_records", "operation_key = '{proven}' AND revision = 2", record_document=JUNK),
        ["snapshot put", "snapshot read", "audit"],
        "snapshot",
    ),
    "snapshot: state": tampered(
        extension("snapshot_records", "operation_key = '{proven}' AND revision = 2", state="PUBLISHED"),
        ["snapshot put", "snapshot read", "audit"],
        "snapshot",
    ),
    "snapshot: first revision missing": tampered(
        extension("snapshot_records", "operation_key = '{proven}' AND revision = 1"),
        ["snapshot put", "snapshot read", "audit"],
        "snapshot",
    ),
    "charge: cumulative bytes": tampered(
        extension("source_charges", "charge_number = 2", cumulative_bytes=10),
        ["charge", "charged", "audit"],
        "source_charges",
    ),
    "charge: ceiling": tampered(
        extension("source_charges", "charge_number = 2", ceiling_bytes=1000),
        ["charge", "charged", "audit"],
        "source_charges",
    ),
    "charge: first one missing": tampered(
        extension("source_charges", "charge_number = 1"), ["charge", "charged", "audit"], "source_charges"
    ),
    "receipt: document": tampered(
        extension("gate_receipts", "1 = 1", receipt_document=JUNK),
        ["prepare", "activate", "standing", "record_profile", "audit"],
        "gate_receipt",
    ),
    "receipt: version": tampered(
        extension("gate_receipts", "1 = 1", product_version="9"),
        ["prepare", "activate", "standing", "record_profile", "audit"],
        "gate_receipt",
    ),
    "receipt: missing": tampered(
        extension("gate_receipts", "1 = 1"), ["prepare", "activate"], gate_profile_absent=AdmissionRefused
    ),
    "enrollment: identity": tampered(
        control("mssql_enrollments", "guard_id = '{enrolled}'", database_guid=CLICKHOUSE),
        ["enroll", "audit"],
        "enrollment_identity",
        enrollment_differs=ConfigurationError,
    ),
    "enrollment: schema missing": tampered(
        control("mssql_managed_schemas", "guard_id = '{enrolled}' AND schema_name = 'raw'"),
        ["enroll"],
        enrollment_differs=ConfigurationError,
    ),
}


#: Of many calls that rely on the same bytes these are always asked, and a third of the others in turn.
ALWAYS = frozenset({"admit_once", "finalize", "reconcile_unknown", "audit"})
MANY = 4


def in_turn(number: int, calls: tuple[str, ...]) -> tuple[str, ...]:
    if len(calls) <= MANY:
        return calls
    others = [call for call in calls if call not in ALWAYS]
    return (*(call for call in calls if call in ALWAYS), *others[number % 3 :: 3])


ROW_CASES = [(name, in_turn(number, tampering.calls)) for number, (name, tampering) in enumerate(ROWS.items())]


@pytest.mark.parametrize(("name", "asking"), ROW_CASES, ids=[name.replace(" ", "-") for name in ROWS])
def test_a_changed_row(world: World, name: str, asking: tuple[str, ...]) -> None:
    with changed(world, ROWS[name].change):
        asked(world, asking, ROWS[name].reasons)


@pytest.mark.campaign
@pytest.mark.parametrize("name", ROWS, ids=lambda name: name.replace(" ", "-"))
def test_a_changed_row_for_every_call_that_relies_on_it(world: World, name: str) -> None:
    with changed(world, ROWS[name].change):
        asked(world, ROWS[name].calls, ROWS[name].reasons)


def test_every_call_relies_on_something_and_every_class_of_bytes_is_changed() -> None:
    """The qualification family is read by the history and the audit alone; blockers are only looked at."""
    in_catalog = {name for _, names in CATALOG_CASES for name in names}
    in_rows = {name for _, names in ROW_CASES for name in names}
    assert {*in_catalog, *in_rows} >= {*HISTORY, *PROVEN, *UNKNOWN, *ACTIVE, *ANSWERED} - {"gate read"}
    classes = {
        f"{change.table.split('.')[1].removeprefix('composition_')}.{column}"
        for change in (tampering.change for tampering in ROWS.values())
        for column in (change.values or ["row"])
    }
    assert len(classes) > 35
