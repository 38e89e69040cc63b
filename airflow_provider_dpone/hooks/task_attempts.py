"""The attempts of one task instance, found in the ledger by coordinates, and what can be done about them.

Closing, proving and finalizing never rely on what a worker said (XCom): a worker may be dead, or may never have run.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from airflow_provider_dpone.contracts.errors import AttemptFailed
from airflow_provider_dpone.hooks.roles import GuardRoles

if TYPE_CHECKING:
    from airflow_provider_dpone.attempts import Settlement
    from airflow_provider_dpone.contracts.operation import Operation

_log = logging.getLogger(__name__)
Instance = tuple[str, str, str, int]


class TaskAttempts:
    """Every step is idempotent and may run in any process, also beside a worker that is still alive."""

    def __init__(self, roles: GuardRoles, release_root: str | None, instance: Instance) -> None:
        from airflow_provider_dpone.hooks.ledger import DponeLedgerHook

        self._roles = roles
        self._release_root = release_root
        self._instance = instance
        self._store = DponeLedgerHook(roles.controller).attempts()

    def operations(self) -> tuple[Operation, ...]:
        """By try number."""
        return self._store.find(*self._instance)

    def unsettled(self) -> tuple[Operation, ...]:
        return tuple(operation for operation in self.operations() if not operation.settled)

    def close(self) -> list[str]:
        """Close the gates of every attempt that is not settled. Irreversible."""
        closed = []
        for operation, settlement in self._settlements(self.unsettled()):
            settlement.close()
            _log.info("attempt %s (try %s) is closed", operation.digest_prefix, operation.coordinates.try_number)
            closed.append(operation.attempt_sha256)
        return closed

    def prove_quiescence(self) -> list[str]:
        """Prove it for every attempt that is not settled; raises NotQuiescent for the first that is still seen.

        A gate that is still open is closed first.
        """
        proven = []
        for operation, settlement in self._settlements(self.unsettled()):
            settlement.prove_quiescence()
            _log.info("attempt %s is quiescent", operation.digest_prefix)
            proven.append(operation.attempt_sha256)
        return proven

    def finalize(self) -> Operation:
        """Settle every attempt, with the steps that it still lacks, and answer the newest. Raises unless it SUCCEEDED."""
        from airflow_provider_dpone.attempts import require_succeeded

        operations = self.operations()
        if not operations:
            raise AttemptFailed(
                "no_attempt",
                happened=f"no attempt of {'/'.join(map(str, self._instance))} was ever admitted.",
                not_done="nothing was written by this task instance.",
                check="the log of the work task: it says why admission was refused.",
            )
        newest = operations[-1]
        for operation, settlement in self._settlements(each for each in operations if not each.settled):
            settled = settlement.settle()
            _log.info("attempt %s is %s", operation.digest_prefix, settled.state)
            if operation is newest:
                newest = settled
        return require_succeeded(newest)

    def _settlements(self, operations: Iterable[Operation]) -> Iterable[tuple[Operation, Settlement]]:
        from airflow_provider_dpone.composition.services import resume_attempt
        from airflow_provider_dpone.hooks.roles import release_root

        operations = tuple(operations)
        if not operations:
            _log.info("the ledger holds no unsettled attempt of %s", "/".join(map(str, self._instance)))
            return
        services = self._roles.services()
        root = release_root(self._release_root)
        for operation in operations:
            yield operation, resume_attempt(services, root, operation, log=_log)
