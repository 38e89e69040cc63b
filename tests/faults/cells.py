"""The cells of the fault matrix, and what each may end as.

A cell is a trigger point (`drivers.trigger_points`) and a fault that a real attempt meets there, or a `dponectl`
command where the step is an operator's. What it may end as is declared by rule, before it runs:

    nothing     no operation is in the ledger, and the target is as it was
    FAILED      the operation is FAILED, and the target is as it was (dbt: what changed is named)
    SUCCEEDED   the operation is SUCCEEDED, and the target holds what the source held

COMMIT_UNKNOWN is no end. It may be met on the way only where the step that was hit was a send that awaited its reply.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from airflow_provider_dpone.drivers.trigger_points import MOMENTS, STEPS, Moment
from tests.faults.ground import Engine, Workload
from tests.faults.worker import Fault
from tests.support.tcp_proxy import Ending

FAULTS: tuple[Fault, ...] = get_args(Fault)
#: What becomes of a connection whose message is lost. Who awaits a reply that does not come hangs, or is killed so.
ON_THE_WIRE: dict[Fault, Ending] = {"reset": "reset", "close": "close", "hang": "wait", "kill": "wait"}

#: What is run to come to a step: a try of `planes` unless it is said here, and which time it comes there.
_WORKLOAD: dict[str, Workload] = {
    "create_user": "flights",
    "staging_insert": "flights",
    "snapshot": "flights",
    "exchange": "flights",
    "bar_user": "flights",
    "reconcile_unknown": "flights",
    "dbt_build": "shop",
}
#: The first record of a publication only prepares; what counts is the second, EXCHANGE_INTENT.
_NUMBER = {"snapshot": 1}
#: The engine that a step's message goes to; SQL Server unless it is said here.
_ENGINE: dict[str, Engine] = {
    "create_role": "postgres",
    "bar_role": "postgres",
    "create_user": "clickhouse",
    "staging_insert": "clickhouse",
    "exchange": "clickhouse",
    "bar_user": "clickhouse",
}
#: Steps before the one that decides: a process that ends there leaves no effect.
_BEFORE_THE_EFFECT = (
    "put_evidence",
    "to_ready",
    "create_role",
    "create_user",
    "staging_insert",
    "snapshot",
    "bar_user",
)
#: Steps that are sent again, or looked at again, when their request was lost.
_REPEATED = ("bar_user",)
#: Steps whose lost reply is found out by looking, so that the work goes on; an INSERT has to be acknowledged.
_READ_BACK = ("admit_once", "put_evidence", "to_ready", "create_role", "create_user", "snapshot", "bar_user")
#: After these, work goes on with a session that it had opened before: lost connections end it.
_HOLDS_A_SESSION = ("create_role", "create_user")
#: Here a process holds a lock that its double needs: the double waits for it, not the other way round. The control lock;
#: and what CREATE ROLE and ALTER ROLE lock until their commit.
_HOLDS_A_LOCK = tuple((step, "before") for step in ("admit_once", "reconcile_unknown", "create_role", "bar_role"))
_EFFECT = ("target_commit", "exchange")


@dataclass(frozen=True, order=True)
class Cell:
    """One step, moment and fault."""

    step: str
    moment: Moment
    fault: Fault

    def __str__(self) -> str:
        return f"{self.step}.{self.moment}.{self.fault}"

    @property
    def workload(self) -> Workload:
        """What is run to come to the step."""
        return _WORKLOAD.get(self.step, "planes")

    @property
    def engine(self) -> Engine:
        """Where the step's message goes."""
        return _ENGINE.get(self.step, "mssql")

    @property
    def number(self) -> int:
        """Which time the step is come to, counted from 0."""
        return _NUMBER.get(self.step, 0)

    @property
    def holds_a_lock(self) -> bool:
        """Whether the process at the point holds a lock that a double of it needs."""
        return (self.step, self.moment) in _HOLDS_A_LOCK

    @property
    def allowed(self) -> str:
        """The one end that this cell may have."""
        on_the_wire = self.fault in ("reset", "close")
        if self.step == "end_session":
            return "FAILED"  # its try hangs right before its COMMIT
        if self.fault == "duplicate":
            return "SUCCEEDED"  # one of the two, and it alone
        if self.step == "admit_once":
            if self.moment == "before":
                return "nothing"
            return "SUCCEEDED" if on_the_wire else "FAILED"
        if self.step in _BEFORE_THE_EFFECT:
            goes_on = {
                "before": self.step in _REPEATED,
                "applied": self.step in _READ_BACK,
                "acknowledged": self.step not in _HOLDS_A_SESSION,
            }
            return "SUCCEEDED" if on_the_wire and goes_on[self.moment] else "FAILED"
        if self.step == "dbt_build":
            # Before and after the child there is no connection that could be lost.
            return "SUCCEEDED" if on_the_wire and self.moment != "applied" else "FAILED"
        if self.step in _EFFECT:
            return "FAILED" if self.moment == "before" else "SUCCEEDED"
        return "SUCCEEDED"  # the work was done: whatever befalls the closing

    @property
    def may_be_unknown(self) -> bool:
        """Whether COMMIT_UNKNOWN may be met on the way."""
        return self.step in (*_EFFECT, "reconcile_unknown") and self.moment != "acknowledged"


CELLS = tuple(Cell(step, moment, fault) for step in STEPS for moment in MOMENTS for fault in FAULTS)


def fast() -> list[Cell]:
    """One cell of each step; every moment meets every fault in one of them."""
    chosen = []
    for number, step in enumerate(STEPS, 10):  # where dbt, the slow one, is killed in the middle
        moment, turn = number % len(MOMENTS), number // len(MOMENTS)
        chosen.append(Cell(step, MOMENTS[moment], FAULTS[(turn + 2 * moment) % len(FAULTS)]))
    return chosen
