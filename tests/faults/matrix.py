"""The cells of the fault matrix, what each may end as, and how one is run.

A cell is a trigger point (`drivers.trigger_points`) and a fault that a real attempt meets there, or a `dponectl`
command where the step is an operator's. What it may end as is declared by rule, before it runs:

    nothing     no operation is in the ledger, and the target is as it was
    FAILED      the operation is FAILED, and the target is as it was (dbt: what changed is named)
    SUCCEEDED   the operation is SUCCEEDED, and the target holds what the source held

COMMIT_UNKNOWN is no end. It may be met on the way only where the step that was hit was a send that awaited its reply.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.drivers.trigger_points import MOMENTS, STEPS, Moment
from tests.faults.ground import Engine, Ground, Workload
from tests.faults.worker import HANG_SECONDS, Fault, Worker
from tests.support.tcp_proxy import Ending, Fate, TcpProxy

FAULTS: tuple[Fault, ...] = get_args(Fault)
_ON_THE_WIRE: dict[Fault, Ending] = {"reset": "reset", "close": "close"}

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
#: Steps that an operator's command comes to.
_COMMANDS = ("end_session", "reconcile_unknown")
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
_HOLDS_THE_LOCK = tuple((step, "before") for step in ("admit_once", "reconcile_unknown", "create_role", "bar_role"))
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
        return _WORKLOAD.get(self.step, "planes")

    @property
    def allowed(self) -> str:
        """The one end that this cell may have."""
        on_the_wire = self.fault in _ON_THE_WIRE
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


@dataclass(frozen=True)
class Seen:
    """How a cell ended. `wrong` is empty when everything is as the end says."""

    #: How the process that met the fault ended, by its own word.
    process: str
    #: The operation's state when the process, and its twin, were over.
    left: str
    #: The end, after the command.
    end: str
    #: The command that ended it; nothing when there was nothing left to end.
    command: str
    wrong: tuple[str, ...]


def run(
    ground: Ground,
    cell: Cell,
    *,
    where: dict[str, Any] | None = None,
    before_comparing: Callable[[], None] = lambda: None,
) -> Seen:
    """Meet the fault, look, let an operator end it, and compare everything with the end."""
    return _Run(ground, cell, where or ground.coordinates(), before_comparing).seen()


class _Run:
    def __init__(self, ground: Ground, cell: Cell, where: dict[str, Any], before_comparing: Callable[[], None]) -> None:
        self._ground = ground
        self._cell = cell
        self._where = where
        self._before_comparing = before_comparing
        self._before = ground.rows(cell.workload)
        word = ground.new_word(cell.workload)
        self._after = [(number, word) for number in (1, 2, 3)]
        self._wrong: list[str] = []
        self._left = self._command = ""
        self._given = {
            "step": cell.step,
            "moment": cell.moment,
            "fault": cell.fault,
            "number": _NUMBER.get(cell.step, 0),
        }
        if cell.fault in _ON_THE_WIRE and cell.moment == "applied" and cell.step != "dbt_build":
            # The reply is lost on its way: that is arranged before the request is sent.
            self._given["moment"] = "before"

    def seen(self) -> Seen:
        with self._ground.proxies() as (config, ways):
            self._ways = ways
            if self._cell.step == "end_session":
                ended = self._ending_a_session(config)
            elif self._cell.step == "reconcile_unknown":
                ended = self._reconciling(config)
            else:
                start = self._ground.attempt
                twin = lambda: start(self._cell.workload, self._where)  # noqa: E731  # the same try again
                ended = self._met(start(self._cell.workload, self._where, config=config, point=self._given), twin)
            left, command = self._left, self._command
            if self._cell.step != "end_session":
                left, command = self._ended_by_an_operator()
        if ended["end"] == "SUCCEEDED" and left != "SUCCEEDED":
            self._wrong.append("the process was told of a success that is none")
        if left == "COMMIT_UNKNOWN" and not self._cell.may_be_unknown:
            self._wrong.append("COMMIT_UNKNOWN, and no reply was awaited")
        final = self._ground.operation(self._where)
        self._before_comparing()
        self._compare(final)
        end = "nothing" if final is None else final.state
        if end != self._cell.allowed:
            self._wrong.append(f"{end}, and {self._cell.allowed} was declared")
        said = str(ended["end"]) if ended["end"] != "command" else f"exit {ended['code']}"
        return Seen(said, left, end, command, tuple(self._wrong))

    # The fault

    def _met(self, worker: Worker, twin: Callable[[], Worker]) -> dict[str, Any]:
        """Let the fault happen at the worker's point, and wait for its end."""
        if not worker.wait_for_point():
            self._wrong.append("the point was not reached")
            return worker.end()
        if self._cell.fault == "duplicate":
            second = twin()
            if (self._cell.step, self._cell.moment) in _HOLDS_THE_LOCK:
                time.sleep(HANG_SECONDS)
                worker.go_on()
            self._wrong += self._doubled(second)
            if (self._cell.step, self._cell.moment) not in _HOLDS_THE_LOCK:
                worker.go_on()
        elif self._cell.fault in _ON_THE_WIRE:
            met = self._lose(_ON_THE_WIRE[self._cell.fault])
            worker.go_on()
            ended = worker.end()
            if met is not None and met.met == 0:
                self._wrong.append("no message was lost")
            return ended
        return worker.end()

    def _lose(self, ending: Ending) -> TcpProxy | None:
        """Arrange the loss on the wire. The proxy whose next message is lost, or None: all connections are, now."""
        if self._cell.moment == "acknowledged" or self._cell.step == "dbt_build":
            if (self._cell.step, self._cell.moment) == ("dbt_build", "applied"):
                self._wait_for_a_session()
            for way in self._ways.values():
                way.break_all(ending)
            return None
        way = self._ways[_ENGINE.get(self._cell.step, "mssql")]
        fate = Fate(loss="request" if self._cell.moment == "before" else "reply", ending=ending)
        if self._cell.step == "read_outcome":
            way.arm_next(fate)  # what reads opens a connection for it
        else:
            way.arm(fate)
        return way

    def _wait_for_a_session(self) -> None:
        """dbt has a session, and is at work."""
        way, deadline = self._ways["mssql"], time.monotonic() + 60
        opened = way.opened
        while way.opened == opened and time.monotonic() < deadline:
            time.sleep(0.02)

    def _doubled(self, twin: Worker) -> list[str]:
        """A second delivery of the same try, or of the same command, from its start to its end."""
        ended = twin.end()
        if ended["end"] == "command":
            return [] if ended["code"] in (0, 1) else [f"the second command ended with {ended}"]
        return [] if ended["end"] == "Duplicate" else [f"the second delivery ended with {ended}"]

    def _ending_a_session(self, config: Any) -> dict[str, Any]:
        """A try that hangs before its COMMIT has a session; an operator's command ends it, and meets the fault."""
        point = {"step": "target_commit", "moment": "before", "fault": "duplicate", "number": 0}
        hanging = self._ground.attempt("planes", self._where, point=point)
        assert hanging.wait_for_point()
        operation = self._ground.operation(self._where)
        assert operation is not None
        settle = ("attempts", "settle", operation.attempt_sha256, "--try-is-over", "it hangs, and will not go on")
        ended = self._met(
            self._ground.command(*settle, config=config, point=self._given), lambda: self._ground.command(*settle)
        )
        # It wakes up; whatever it still does, it has no session to do it with, or a fence that it does not hold.
        self._left, self._command = self._ended_by_an_operator()
        hanging.go_on()
        said = hanging.end()
        if said["end"] == "SUCCEEDED":
            self._wrong.append("a try whose session was ended was told of success")
        return ended

    def _reconciling(self, config: Any) -> dict[str, Any]:
        """The target's name is away when its outcome is read: COMMIT_UNKNOWN. Then it is back, and an operator asks."""
        point = {"step": "read_outcome", "moment": "before", "fault": "duplicate", "number": 0}
        unlucky = self._ground.attempt("flights", self._where, point=point)
        assert unlucky.wait_for_point()
        mart = self._ground.mart
        self._ground.clickhouse(f"RENAME TABLE {mart}.flights TO {mart}.away")
        unlucky.go_on()
        unlucky.end()
        self._ground.clickhouse(f"RENAME TABLE {mart}.away TO {mart}.flights")
        operation = self._ground.operation(self._where)
        assert operation is not None and operation.state == "COMMIT_UNKNOWN", operation
        reconcile = ("attempts", "reconcile", operation.attempt_sha256)
        return self._met(
            self._ground.command(*reconcile, config=config, point=self._given),
            lambda: self._ground.command(*reconcile),
        )

    # The end

    def _ended_by_an_operator(self) -> tuple[str, str]:
        """The state that was left, and the commands that ended it."""
        left = self._ground.operation(self._where)
        if left is None or left.settled:
            return "nothing" if left is None else left.state, ""
        used = []
        if left.state == "RUNNING":
            self._ground.settle(left)
            used.append("settle")
        now = self._ground.operation(self._where)
        if now is not None and now.state == "COMMIT_UNKNOWN":
            self._ground.dponectl("attempts", "reconcile", left.attempt_sha256)
            used.append("reconcile")
        return left.state, ", ".join(used)

    def _compare(self, final: Operation | None) -> None:
        rows = self._ground.rows(self._cell.workload)
        effect = rows == self._after
        if not effect and rows != self._before:
            self._wrong.append(f"the target holds neither what it held nor what was to come: {rows}")
        if final is None:
            if effect:
                self._wrong.append("an effect of nobody")
            return
        self._wrong += self._ground.wrong_about(final)
        if self._cell.workload == "shop":
            self._compare_dbt(final, effect)
        elif effect != (final.state == "SUCCEEDED"):
            self._wrong.append(f"{final.state}, and the target {'was' if effect else 'was not'} replaced")

    def _compare_dbt(self, final: Operation, effect: bool) -> None:
        changes = self._ground.evidence(final, "outcome")["changes"]
        if final.state == "SUCCEEDED":
            if not effect:
                self._wrong.append("SUCCEEDED, and the model was not built")
            if "run_results.json" not in self._ground.artifacts(final):
                self._wrong.append("SUCCEEDED, and its artifacts were not kept")
        elif effect and "raw.shop" not in changes:
            self._wrong.append(f"FAILED, and its partial effect is not named: {changes}")
