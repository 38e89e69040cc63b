"""What a route must do, and what an attempt gives it.

A route knows what is written and how its result is observed. It never decides when a writer is admitted, closed or
finalized: ``attempts`` orders that, for every route alike.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

from airflow_provider_dpone.contracts.attempt import Attempt
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.principal import Connector, Coordinates, Purpose
from airflow_provider_dpone.contracts.proof import TerminalState
from airflow_provider_dpone.gates.interface import Credential, Grant


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteReport:
    """What the worker says it did. It is shown to people and never decides an outcome."""

    rows: int
    bytes: int
    details: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The verdict from independent evidence. ``evidence`` is a JSON document with a ``schema`` member.

    FAILED needs evidence of no effect, or names the partial effects that remain. Anything less is COMMIT_UNKNOWN.
    """

    state: TerminalState
    evidence: Mapping[str, object]


class EvidenceJournal(Protocol):
    """Evidence documents of one ledger: content-addressed, append-only, written before finalize."""

    def put_evidence(self, attempt: Attempt | str, kind: str, document: Mapping[str, Any]) -> str:
        """Store the document (again, if it is already there) and return its digest."""

    def evidence(self, attempt: Attempt | str, kind: str) -> Mapping[str, Any] | None:
        """The newest document of a kind, or None."""


class Observation(Protocol):
    """What is there for a route in any process at any later time: the operation and the ledger."""

    @property
    def attempt(self) -> Attempt: ...

    @property
    def operation(self) -> Operation: ...

    @property
    def coordinates(self) -> Coordinates: ...

    @property
    def predecessors(self) -> tuple[Operation, ...]:
        """Operations of earlier tries of the same task instance, by try number. They are settled."""

    @property
    def evidence(self) -> EvidenceJournal: ...

    @property
    def log(self) -> logging.Logger | logging.LoggerAdapter[Any]: ...


class AttemptContext(Observation, Protocol):
    """What the executing try has in addition: the right to issue its own journaled principals."""

    def issue(self, purpose: Purpose, grant: Grant) -> Credential:
        """Create the journaled principal of this purpose. Once; a second call is refused."""

    def close(self, purpose: Purpose) -> Mapping[str, Mapping[str, object]]:
        """Close this principal now and wait for quiescence; returns both documents, ``closed`` and ``quiescent``.

        Ingest before EXCHANGE, the publisher before the deciding read. The final closure repeats both.
        """

    def interruptible(self, cancel: Callable[[], None]) -> AbstractContextManager[None]:
        """While the block runs, a killed task calls ``cancel`` from another thread: end the child, cancel the query."""

    def require_wanted(self) -> None:
        """Raise Cancelled when the task was told to stop. Asked last before whatever takes effect.

        An interrupt that came when nothing could be interrupted any more would otherwise stop nothing.
        """


class Route(Protocol):
    """One execution cell. ``cell`` is the identifier that the activation request names.

    Ledger stores that only some routes need (snapshots, source charges) and connections are given to the route's
    constructor, so that an observation needs nothing from the process that worked.
    """

    @property
    def cell(self) -> str: ...

    def principals(self) -> tuple[tuple[Connector, Purpose], ...]:
        """Which principals the attempt needs. Purposes are unique; SQL Server has at most one."""

    def admission_record(self, ctx: Observation) -> Mapping[str, object]:
        """What must be known before anything is written. Stored as evidence of kind ``admission``."""

    def work(self, ctx: AttemptContext) -> RouteReport:
        """Write, with issued credentials alone. An exception ends the work and decides nothing."""

    def outcome(self, ctx: Observation) -> Outcome:
        """The verdict, after every principal is closed and quiescent; maybe in another process, days later.

        It relies on the ledger and on observing the targets as the outcome reader, never on the worker's word.
        """
