"""The seal of a seeded PostgreSQL source: made only when its writer is closed, proven gone, and nobody else can write.

The observer, which can write nothing, reads types, key and every row under one snapshot, and computes the digests here:
what the seed routine said of its own work is compared with that, and never taken for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.errors import ConfigurationError, ControlUnavailable, GateTampered, NotQuiescent
from airflow_provider_dpone.contracts.nonproduction.seal import (
    SourceGeneration,
    SourceObservation,
    SourceSealRecord,
    decode_source_seal,
)
from airflow_provider_dpone.contracts.nonproduction.seed import SeedColumn, SeedPlan, content_sha256, schema_sha256
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.principal import Principal
from airflow_provider_dpone.drivers import load_sql, quote_postgres
from airflow_provider_dpone.drivers.postgres import PostgresDsn, connect
from airflow_provider_dpone.gates import postgres_seed
from airflow_provider_dpone.gates.postgres import PostgresGate
from airflow_provider_dpone.gates.postgres_roles import service_id_of
from airflow_provider_dpone.gates.postgres_seed import SeedAuthority
from airflow_provider_dpone.ledger import Evidence

if TYPE_CHECKING:
    import psycopg

    Session = psycopg.Connection[tuple[Any, ...]]

_SQL = load_sql("airflow_provider_dpone.qualification", "sql/source_seal.sql")
#: What makes the text of a value the canonical one of a plan, and keeps row security from hiding a row without an error.
_SETTINGS = (
    ("search_path", "pg_catalog"),
    ("row_security", "off"),
    ("datestyle", "ISO, YMD"),
    ("timezone", "UTC"),
    ("bytea_output", "hex"),
    ("client_encoding", "UTF8"),
    # Who makes the table anew at this moment holds it: that is said, and not waited for without an end.
    ("lock_timeout", "12s"),
)
_BATCH = 2_000


class EvidenceStore(Protocol):
    """Where protected evidence is kept: the ledger's store of attempts, content-addressed and append-only."""

    def put_evidence(self, attempt: Any, kind: str, document: Mapping[str, object]) -> str: ...

    def evidence_history(self, attempt: Any) -> Sequence[Evidence]: ...


class SourceSealer:
    """Seals seeded tables of one database. ``gate`` closes and proves their writers; ``observer`` reads."""

    def __init__(self, *, gate: PostgresGate, observer: PostgresDsn, authority: SeedAuthority) -> None:
        self._gate = gate
        self._observer = observer
        self._authority = authority

    def seal(
        self, operation: Operation, principal: Principal, plan: SeedPlan, evidence: EvidenceStore
    ) -> SourceSealRecord:
        """Close and prove the writer, observe the source, and keep the seal as evidence of its operation.

        Raises NotQuiescent while anybody can still seed there, GateTampered where the source is not what the plan says
        or somebody else may write it, ConfigurationError where nothing was seeded, and ControlUnavailable where it could
        not be read now. Nothing is sealed then. A source that has its seal keeps it: it is read again, and has to be what
        was sealed.
        """
        key = operation.attempt_sha256
        closed_gates = self._gate.close(operation, principal)
        quiescence = self._gate.prove_quiescent(operation, principal)
        if (kept := _first_seal(evidence, key)) is not None:
            return self._again(kept, principal, plan)
        closed = evidence.put_evidence(key, "seed_closed", closed_gates)
        proven = evidence.put_evidence(key, "seed_quiescent", quiescence)
        observation = self.observe(plan.qualified_name, principal, plan)
        record = SourceSealRecord(
            seed_operation_sha256=key,
            seed_plan_sha256=plan.sha256,
            fixture_plan_sha256=plan.fixture_plan_sha256,
            object_id=plan.object_id,
            closed_gates_sha256=closed,
            quiescence_sha256=proven,
            observation=observation,
        )
        stored = evidence.put_evidence(key, "source_seal", record.members())
        assert stored == record.sha256
        kept = _first_seal(evidence, key)
        assert kept is not None
        # Of several sealers at once each has a proof of its own; the seal is the one that was kept first.
        return record if canonical.exact_sha256(kept) == stored else self._again(kept, principal, plan)

    def _again(self, kept: Mapping[str, Any], principal: Principal, plan: SeedPlan) -> SourceSealRecord:
        record = decode_source_seal(canonical.exact_bytes(kept), canonical.exact_sha256(kept))
        if record.seed_plan_sha256 != plan.sha256:
            raise _differs(plan.qualified_name, "it was sealed as the seed of another plan")
        self.require_unchanged(record, principal)
        return record

    def require_unchanged(self, record: SourceSealRecord, principal: Principal) -> None:
        """Observe again: the retained source is still the sealed one, types, rows and incarnation."""
        seen = self.observe(record.observation.qualified_name, principal)
        if seen != record.observation:
            differing = [name for name, value in record.observation.members().items() if seen.members()[name] != value]
            raise GateTampered(
                "postgres_source_changed",
                happened=f"{_place(seen.qualified_name)} is not what was sealed: {', '.join(differing)}.",
                not_done="the seal was not renewed.",
                check="who wrote to it since; a source is sealed again by a seed and a seal of its own.",
            )

    def observe(
        self, name: tuple[str, str, str], principal: Principal, plan: SeedPlan | None = None
    ) -> SourceObservation:
        """Read the whole source under one snapshot, behind gates that are all closed.

        With a plan it has to be what that plan seeded.
        """
        with self._snapshot(name) as session:
            service_id, timeline, database_oid = _incarnation(session, name)
            gate = postgres_seed.gate_of(session, principal.name)
            if gate is None or gate.rows is None or gate.table_oid is None:
                raise ConfigurationError(
                    "postgres_seed_missing",
                    happened=f"{principal.name} seeded nothing in {name[0]}.",
                    not_done="nothing was sealed.",
                )
            if still := postgres_seed.gates_not_closed(session):
                raise NotQuiescent(sessions=[{"seed_gate": role, "state": "OPEN"} for role in still])
            oid = _table(session, name, self._authority.owner)
            columns, key = _columns(session, oid, name)
            rows, content = _rows(session, name, [column.name for column in columns])
            # Before the snapshot ends: the routine and its rights are still the rendered ones.
            postgres_seed.require_installed(session, self._authority)
        schema = schema_sha256(columns, key)
        if plan is not None:
            if gate.plan_sha256 != plan.sha256:
                raise _differs(name, "it was seeded by another plan")
            compared = {
                "types or key": (schema, plan.schema_sha256),
                "rows": (content, plan.content_sha256),
                "number of rows": (rows, len(plan.rows)),
                "table": (oid, gate.table_oid),
            }
            if differing := [what for what, (seen, seeded) in compared.items() if seen != seeded]:
                raise _differs(name, f"{', '.join(differing)} are not those of the seed")
        return SourceObservation(
            service_id=service_id,
            qualified_name=name,
            schema_sha256=schema,
            content_sha256=content,
            rows=rows,
            generation=SourceGeneration(
                database_oid=database_oid, table_oid=oid, timeline=timeline, seeded_by=gate.operation_key
            ),
        )

    @contextmanager
    def _snapshot(self, name: tuple[str, str, str]) -> Iterator[Session]:
        import psycopg

        try:
            with connect(replace(self._observer, database=name[0], settings=_SETTINGS)) as session:
                session.execute(_SQL.text("snapshot").encode())
                yield session
        except psycopg.Error as err:
            said = " ".join(str(err).split())[:300]
            if err.sqlstate != "42501":
                raise ControlUnavailable(
                    "postgres_seal",
                    happened=f"observing {_place(name)}: {said}",
                    not_done="nothing was sealed.",
                    check="the server, and who holds the table, then repeat the same call.",
                ) from err
            raise ConfigurationError(
                "postgres_seal_rights",
                happened=f"{self._observer.user} could not observe {_place(name)}: {said}",
                not_done="nothing was sealed.",
                check="`dponectl source render-seed`: SELECT of the observer in the schemas of fixtures.",
            ) from err


def _first_seal(evidence: EvidenceStore, key: str) -> Mapping[str, Any] | None:
    return next((each.document for each in evidence.evidence_history(key) if each.kind == "source_seal"), None)


def _incarnation(session: Session, name: tuple[str, str, str]) -> tuple[str, int, int]:
    row = session.execute(_SQL.text("incarnation").encode()).fetchone()
    assert row is not None
    identifier, timeline, database_oid, database, standby = row
    if standby or database != name[0]:
        raise _differs(name, "the observer reads a standby, or another database")
    return service_id_of(str(identifier)), int(timeline), int(database_oid)


def _table(session: Session, name: tuple[str, str, str], owner: str) -> int:
    row = session.execute(_SQL.text("relation").encode(), {"schema": name[1], "table": name[2]}).fetchone()
    if row is None:
        raise _differs(name, "it is not there")
    oid, belongs_to, plain, hooked = row
    if belongs_to != owner or not plain or hooked:
        raise _differs(
            name, "it is no plain table of the seed's owner, or has triggers, rules, children or row security"
        )
    writers = [str(text) for (text,) in session.execute(_SQL.text("other_writers").encode(), {"oid": oid})]
    if writers:
        raise GateTampered(
            "postgres_source_writers",
            happened=f"{_place(name)} can be changed by {', '.join(writers[:5])}.",
            not_done="nothing was sealed.",
            check="who was granted a right on a seeded table; only the seed's owner has one to write.",
        )
    return int(oid)


def _columns(session: Session, oid: int, name: tuple[str, str, str]) -> tuple[list[SeedColumn], list[str]]:
    found = session.execute(_SQL.text("columns").encode(), {"oid": oid}).fetchall()
    if any(made for *_, made in found):
        raise _differs(name, "a column has a default or is generated")
    columns = [SeedColumn(name=str(n), type=str(kind), nullable=bool(nullable)) for n, kind, nullable, _ in found]
    key = [str(column) for (column,) in session.execute(_SQL.text("key").encode(), {"oid": oid})]
    return columns, key


def _rows(session: Session, name: tuple[str, str, str], columns: Sequence[str]) -> tuple[int, str]:
    """How many rows there are, and their digest. Rows are read in batches; of each only its digest is kept."""
    values = ", ".join(f"{quote_postgres(column)}::text" for column in columns)
    text = _SQL.text("rows", values=values, table=quote_postgres(*name[1:]))
    counted = 0

    def read() -> Iterator[Sequence[str | None]]:
        nonlocal counted
        with session.cursor("seal") as cursor:
            cursor.itersize = _BATCH
            # No parameters are given, so a percent sign in a name is one.
            for row in cursor.execute(text.rstrip().rstrip(";").encode()):
                counted += 1
                yield row

    digest = content_sha256(read())
    return counted, digest


def _place(name: Sequence[str]) -> str:
    return quote_postgres(*name)


def _differs(name: tuple[str, str, str], why: str) -> GateTampered:
    return GateTampered(
        "postgres_source_content",
        happened=f"{_place(name)}: {why}.",
        not_done="nothing was sealed.",
        check="who else writes there; seed again, with an operation of its own.",
    )
