"""What a route is given while it works, and what it is given when its outcome is observed later."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from airflow_provider_dpone.attempts.ports import AttemptLedger
from airflow_provider_dpone.contracts.attempt import Attempt
from airflow_provider_dpone.contracts.errors import Cancelled, ConfigurationError, GateTampered, NotQuiescent
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.principal import Coordinates, Principal, Purpose
from airflow_provider_dpone.gates.interface import Credential, Grant, WriterGate

Gates = Mapping[str, WriterGate]
Log = logging.Logger | logging.LoggerAdapter[Any]


class AttemptLog(logging.LoggerAdapter[logging.Logger]):
    """Puts the attempt in front of every line."""

    def __init__(self, logger: Log, attempt_sha256: str) -> None:
        base = logger.logger if isinstance(logger, logging.LoggerAdapter) else logger
        super().__init__(base, {"attempt": attempt_sha256})
        self._prefix = f"[attempt {attempt_sha256.removeprefix('sha256:')[:12]}] "

    def process(self, msg: object, kwargs: object) -> tuple[object, object]:  # type: ignore[override]  # passes both through
        return f"{self._prefix}{msg}", kwargs


def gate_of(gates: Gates, principal: Principal) -> WriterGate:
    """The gate of a principal's engine and service. A principal of another service is not ours to touch."""
    gate = gates.get(principal.connector)
    if gate is None or gate.service_id != principal.service_id:
        raise ConfigurationError(
            "gate_service",
            happened=f"no gate is configured for {principal.connector} service {principal.service_id}.",
            not_done="the principal was neither closed nor observed.",
            check="which connection serves this engine, and whether it is the instance that was enrolled.",
        )
    return gate


def wait_quiescent(
    gate: WriterGate, operation: Operation, principal: Principal, *, seconds: float, log: Log, poll: float = 0.5
) -> Mapping[str, object]:
    """Ask until the closed principal is gone. After ``seconds`` the last NotQuiescent is raised."""
    deadline = time.monotonic() + seconds
    pause = poll
    while True:
        try:
            return gate.prove_quiescent(operation, principal)
        except NotQuiescent as busy:
            if time.monotonic() + pause > deadline:
                raise
            log.info("waiting for %s to be gone: %s", principal.name, busy.happened)
        time.sleep(pause)
        pause = min(pause * 2, 15.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationContext:
    """The ledger's view of an operation, in any process at any time."""

    operation: Operation
    evidence: AttemptLedger
    log: Log
    predecessors: tuple[Operation, ...] = ()

    @property
    def attempt(self) -> Attempt:
        return self.operation.attempt

    @property
    def coordinates(self) -> Coordinates:
        return self.operation.coordinates


class Cancellation:
    """The registered ways to stop what is going on now. Called from a signal handler or another thread.

    What a callback cancels must not be freed while the callback is inside its driver: leaving `register` waits for it.
    """

    def __init__(self) -> None:
        # Held while callbacks run. A signal handler interrupts the very thread that holds it, so it can be re-entered.
        self._lock = threading.RLock()
        self._callbacks: list[Callable[[], None]] = []
        self.requested = threading.Event()

    @contextmanager
    def register(self, cancel: Callable[[], None]) -> Iterator[None]:
        with self._lock:
            self._callbacks.append(cancel)
        try:
            if self.requested.is_set():
                cancel()
            yield
        finally:
            with self._lock:
                self._callbacks.remove(cancel)

    def cancel(self, log: Log) -> None:
        """Call every registered callback once. A callback that fails does not keep the others from being called."""
        self.requested.set()
        with self._lock:
            for callback in reversed(list(self._callbacks)):
                try:
                    callback()
                except Exception:  # each callback must be tried: the process is about to be killed
                    log.exception("a cancellation callback failed; the writer is closed later in any case")


class WorkContext:
    """The executing try's own context: it can issue the principals that its admission journaled, once each."""

    def __init__(
        self,
        *,
        operation: Operation,
        predecessors: tuple[Operation, ...],
        ledger: AttemptLedger,
        gates: Gates,
        log: Log,
        cancellation: Cancellation,
        quiescence_seconds: float,
    ) -> None:
        self.operation = operation
        self.predecessors = predecessors
        self.evidence = ledger
        self.log = log
        self._gates = gates
        self._cancellation = cancellation
        self._quiescence_seconds = quiescence_seconds
        self._issued: set[str] = set()

    @property
    def attempt(self) -> Attempt:
        return self.operation.attempt

    @property
    def coordinates(self) -> Coordinates:
        return self.operation.coordinates

    def issue(self, purpose: Purpose, grant: Grant) -> Credential:
        principal = self.operation.principal(purpose)
        if principal.principal_id in self._issued:
            raise GateTampered(
                "issued_twice",
                happened=f"the principal for {purpose!r} was already issued by this attempt.",
                not_done="no second credential was made.",
                check="the route, which must issue each purpose once.",
                recovery_required=False,
            )
        self.require_wanted()
        self._issued.add(principal.principal_id)
        credential = gate_of(self._gates, principal).issue(self.operation, principal, grant)
        self.log.info("issued %s login %s for %s", principal.connector, principal.name, purpose)
        return credential

    def close(self, purpose: Purpose) -> Mapping[str, Mapping[str, object]]:
        principal = self.operation.principal(purpose)
        gate = gate_of(self._gates, principal)
        closed = gate.close(self.operation, principal)
        self.log.info("closed %s login %s", principal.connector, principal.name)
        quiescent = wait_quiescent(gate, self.operation, principal, seconds=self._quiescence_seconds, log=self.log)
        self.log.info("%s is gone from the server: no session, no transaction", principal.name)
        return {"closed": closed, "quiescent": quiescent}

    @contextmanager
    def interruptible(self, cancel: Callable[[], None]) -> Iterator[None]:
        with self._cancellation.register(cancel):
            yield

    def require_wanted(self) -> None:
        if self._cancellation.requested.is_set():
            raise Cancelled("task_stopped")
