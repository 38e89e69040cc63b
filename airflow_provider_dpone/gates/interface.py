"""What a writer gate must do, whatever the engine.

A gate creates the one principal of an attempt, closes it so that it can never write again, and proves that nothing of
it is left on the server. Closing and proving work from any process, any number of times, and also for a principal that
was journaled and never created.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.principal import Connector, Principal, Purpose
from airflow_provider_dpone.drivers.secret import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """What the executing process logs in with. It never leaves that process."""

    username: str
    secret: Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class MsSqlWriterGrant:
    """Membership in the enrolled writer role of one enrolled database, which bounds the writer to managed schemas."""

    database: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClickHouseIngestGrant:
    """INSERT into one staging table, and nothing else."""

    database: str
    staging_table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClickHousePublishGrant:
    """What EXCHANGE TABLES needs, on exactly these two names."""

    database: str
    staging_table: str
    target_table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresExtractGrant:
    """Membership in the source role, which holds SELECT on what attempts may extract; ``database`` is read from."""

    database: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresSeedGrant:
    """Calling the seed routine of ``database``, with the one plan that has this digest."""

    database: str
    plan_sha256: str


Grant = MsSqlWriterGrant | ClickHouseIngestGrant | ClickHousePublishGrant | PostgresExtractGrant | PostgresSeedGrant


class WriterGate(Protocol):
    """One engine's gate. Evidence mappings are JSON documents with a ``schema`` member, without floats or secrets."""

    @property
    def connector(self) -> Connector: ...

    @property
    def service_id(self) -> str:
        """The service incarnation whose principals this gate serves."""

    def new_principal(self, purpose: Purpose) -> Principal:
        """A random identity. No I/O: nothing exists before admission has journaled it."""

    def issue(self, operation: Operation, principal: Principal, grant: Grant) -> Credential:
        """Create the journaled principal, once, and verify it on another connection.

        Raises GateTampered when it exists already, ControlUnavailable when nothing was sent, and OutcomeUnknown when
        the creation could not be read back: the caller then closes, and never issues again.
        """

    def close(self, operation: Operation, principal: Principal) -> Mapping[str, object]:
        """Close irreversibly and return the closed-gate evidence. Idempotent."""

    def prove_quiescent(self, operation: Operation, principal: Principal) -> Mapping[str, object]:
        """Return evidence that no session, transaction or queued work of the closed principal is left.

        Raises NotQuiescent(sessions=...) while something is left, and ConfigurationError when the observer could not
        have seen it (a missing permission shows fewer rows instead of an error).
        """
