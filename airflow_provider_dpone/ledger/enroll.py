"""Enrolling physical domains: which databases the ledger may ever fence, under identities that were just observed.

An identity is observed, not declared: the installer says what it expects and enrollment compares it with what the
server says now. Enrolling the same domain again with the same identity is the same answer; anything else is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_dpone.contracts import canonical, rules
from airflow_provider_dpone.contracts.errors import ConfigurationError, ControlUnavailable, LedgerTampered
from airflow_provider_dpone.contracts.ownership import guard_id
from airflow_provider_dpone.drivers import Connect, drain, load_sql, quote_mssql
from airflow_provider_dpone.ledger.arguments import function, sequence, text
from airflow_provider_dpone.ledger.questions import Question, Results
from airflow_provider_dpone.ledger.settings import LedgerSettings
from airflow_provider_dpone.ledger.transaction import ControlLedger, ControlTransaction, Part, driver_errors

_INSTALLATION = load_sql("airflow_provider_dpone.ledger", "sql/installation.sql")
_ENROLLMENT = load_sql("airflow_provider_dpone.ledger", "sql/enrollment.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class MsSqlIdentity:
    """A database of the ledger's instance as the server shows it. ``create_token`` is its creation time as text."""

    database_name: str
    database_id: int
    database_guid: str
    create_token: str

    def __post_init__(self) -> None:
        rules.identity_text(self.database_name, "database_name", limit=128)
        rules.whole_number(self.database_id, "database_id", at_least=1, at_most=rules.INT_MAX)
        mssql_physical_subject_sha256(self.database_guid, self.create_token)

    @property
    def physical_subject_sha256(self) -> str:
        return mssql_physical_subject_sha256(self.database_guid, self.create_token)


@dataclass(frozen=True, slots=True, kw_only=True)
class MsSqlEnrollment:
    """What writers get in an enrolled database: one bounded role, in these schemas."""

    identity: MsSqlIdentity
    writer_role: str
    managed_schemas: tuple[str, ...]

    def __post_init__(self) -> None:
        rules.record(self.identity, MsSqlIdentity, "enrollment_identity")
        rules.identity_text(self.writer_role, "writer_role", limit=128)
        for name in rules.records(self.managed_schemas, str, "managed_schemas", at_most=1000, empty=True):
            rules.identity_text(name, "managed_schemas", limit=128)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnrolledDomain:
    """A physical domain to enroll. A SQL Server domain carries its enrollment, the other engines carry none."""

    connector: str
    service_id: str
    physical_subject_sha256: str
    mssql: MsSqlEnrollment | None = None
    guard_id: str = field(init=False)

    def __post_init__(self) -> None:
        if self.mssql is not None:
            rules.record(self.mssql, MsSqlEnrollment, "enrollment")
        guard = guard_id(
            connector=self.connector,
            service_id=self.service_id,
            physical_subject_sha256=self.physical_subject_sha256,
        )
        object.__setattr__(self, "guard_id", guard)
        if (self.connector == "mssql") != (self.mssql is not None):
            raise ConfigurationError(
                "enrollment", happened="a SQL Server domain, and no other, is enrolled with its database and role."
            )
        if self.mssql is not None and self.physical_subject_sha256 != self.mssql.identity.physical_subject_sha256:
            raise ConfigurationError(
                "enrollment_identity", happened="the physical subject is not that of the database's identity."
            )


def mssql_physical_subject_sha256(database_guid: str, create_token: str) -> str:
    """The subject of a SQL Server database: its guid and its creation time, never its name."""
    return canonical.fingerprint_sha256(
        {
            "schema": "dpone.mssql-database-identity.v1",
            "database_guid": rules.uuid_text(database_guid, "database_guid"),
            "create_token": rules.identity_text(create_token, "create_token", limit=33),
        }
    )


def observe_mssql(connect: Connect, database_name: str) -> MsSqlIdentity:
    """Look at one database of the control connection's instance."""
    text(database_name, "the name of the database")
    connection = function(connect, "what gives control connections")()
    try:
        [rows] = drain(connection, _INSTALLATION.text("observe_mssql"), database_name)
    except driver_errors() as err:
        raise ControlUnavailable("control_read", happened=f"{database_name} could not be looked at: {err}") from err
    finally:
        connection.close()
    return _identity(rows, database_name)


def enroll(connect: Connect, settings: LedgerSettings, domains: Sequence[EnrolledDomain]) -> tuple[str, ...]:
    """Record the domains, in one transaction, after verifying the live identity of each SQL Server database.

    Returns their guard ids. Databases, roles and schemas have to exist; enrollment creates nothing in them.
    """
    ledger = ControlLedger(connect, settings)
    sequence(domains, EnrolledDomain, "enrollment")
    wanted = sorted({domain.guard_id: domain for domain in domains}.items())

    def work(transaction: ControlTransaction) -> tuple[str, ...] | None:
        stored = _Stored(transaction.run(("enrolled", [])))
        parts: list[Part] = []
        for _, domain in wanted:
            if domain.mssql is not None:
                _verify_live(transaction, settings, domain, domain.mssql)
            if not stored.holds(domain):
                parts.extend(_enrollment(domain))
        if not parts:
            return tuple(guard for guard, _ in wanted)
        transaction.write(*parts)
        return None

    def readback(results: Results) -> tuple[str, ...] | None:
        stored = _Stored(results)
        return tuple(guard for guard, _ in wanted) if all(stored.holds(domain) for _, domain in wanted) else None

    return ledger.mutate("enroll", work, Question((("enrolled", []),), readback))


class _Stored:
    """The enrollments of the ledger as one transaction sees them."""

    def __init__(self, results: Sequence[Sequence[tuple[Any, ...]]]) -> None:
        domains, enrollments, schemas = results
        self._domains = {row[0]: row[1:4] for row in domains}
        self._enrollments = {row[0]: row[1:] for row in enrollments}
        self._schemas = {guard: {name for found, name in schemas if found == guard} for guard in self._enrollments}

    def holds(self, domain: EnrolledDomain) -> bool:
        """Whether exactly this is enrolled. Refuses when something else is, under the same guard."""
        if domain.guard_id not in self._domains:
            return False
        identity_given = (domain.connector, domain.service_id, domain.physical_subject_sha256)
        if self._domains[domain.guard_id] != identity_given:
            raise LedgerTampered("domain_identity", happened=f"domain {domain.guard_id} has another identity.")
        expected = None
        if domain.mssql is not None:
            identity = domain.mssql.identity
            expected = (
                identity.database_name,
                identity.database_id,
                identity.database_guid,
                identity.create_token,
                domain.mssql.writer_role,
            )
        schemas = set() if domain.mssql is None else set(domain.mssql.managed_schemas)
        found = self._enrollments.get(domain.guard_id)
        if found != expected or self._schemas.get(domain.guard_id, set()) != schemas:
            raise ConfigurationError(
                "enrollment_differs",
                happened=f"the {domain.connector} domain {domain.guard_id} is enrolled with another role or schemas.",
                not_done="the enrollment was not changed.",
                check="the rows of composition_mssql_enrollments; an enrollment is written once.",
            )
        return True


def _verify_live(
    transaction: ControlTransaction, settings: LedgerSettings, domain: EnrolledDomain, enrollment: MsSqlEnrollment
) -> None:
    if domain.service_id != settings.service_id:
        raise ConfigurationError(
            "mssql_service", happened="a SQL Server domain belongs to another instance than the ledger."
        )
    name = enrollment.identity.database_name
    [rows] = transaction.run(("observe_mssql", [name]))
    if _identity(rows, name) != enrollment.identity:
        raise ConfigurationError(
            "enrollment_identity",
            happened=f"the database {name} is not the one that was observed: its guid or creation time differs.",
            not_done="nothing was enrolled.",
        )
    with transaction.callback() as cursor:
        database = quote_mssql(name)
        cursor.execute(_ENROLLMENT.text("database_role", database=database), enrollment.writer_role)
        roles = cursor.fetchall()
        cursor.execute(_ENROLLMENT.text("database_schemas", database=database))
        schemas = {str(row[0]) for row in cursor.fetchall()}
    missing = sorted(set(enrollment.managed_schemas) - schemas)
    if [str(row[0]) for row in roles] != ["R"] or missing or not enrollment.managed_schemas:
        raise ConfigurationError(
            "enrollment_database",
            happened=f"the database {name} has no role {enrollment.writer_role!r} or lacks schemas: {missing}.",
            not_done="nothing was enrolled.",
            check="that the database was provisioned before.",
        )


def _identity(rows: Sequence[tuple[Any, ...]], database_name: str) -> MsSqlIdentity:
    if len(rows) != 1 or rows[0][2] is None:
        raise ConfigurationError(
            "database_identity",
            happened=f"the database {database_name} is not there, or its identity cannot be seen.",
            check="its name, and VIEW ANY DEFINITION of the login (SQL Server 2022: VIEW SERVER SECURITY STATE).",
        )
    name, database_id, database_guid, create_token, trustworthy, chaining, containment, forgets = rows[0]
    if trustworthy or chaining or containment or forgets:
        raise ConfigurationError(
            "database_policy",
            happened=f"the database {database_name} is contained, or has TRUSTWORTHY, DB_CHAINING or DELAYED_DURABILITY on.",
            not_done="it was not enrolled.",
        )
    return MsSqlIdentity(
        database_name=name, database_id=database_id, database_guid=database_guid, create_token=create_token
    )


def _enrollment(domain: EnrolledDomain) -> list[Part]:
    parts: list[Part] = [
        ("enroll_domain", [domain.guard_id, domain.connector, domain.service_id, domain.physical_subject_sha256])
    ]
    if domain.mssql is not None:
        identity = domain.mssql.identity
        row = [domain.guard_id, identity.database_name, identity.database_id, identity.database_guid]
        parts.append(("enroll_mssql", [*row, identity.create_token, domain.mssql.writer_role]))
        parts += [("enroll_schema", [domain.guard_id, name]) for name in domain.mssql.managed_schemas]
    return parts
