"""Running one cell of the fault matrix: the fault, what was left, the operator's command, and the comparison."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from airflow_provider_dpone.contracts.operation import Operation
from tests.faults.cells import ON_THE_WIRE, Cell
from tests.faults.ground import Ground
from tests.faults.worker import HANG_SECONDS, Worker
from tests.support.tcp_proxy import Ending, Fate, TcpProxy


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
            "number": cell.number,
        }
        self._loses_the_reply = cell.fault in ON_THE_WIRE and cell.moment == "applied" and cell.step != "dbt_build"
        if self._loses_the_reply:
            # The reply does not arrive: that is arranged before the request is sent.
            self._given |= {"moment": "before", "on_the_wire": True}

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
            if self._cell.holds_a_lock:
                time.sleep(HANG_SECONDS)
                worker.go_on()
            self._wrong += self._doubled(second)
            if not self._cell.holds_a_lock:
                worker.go_on()
        elif self._loses_the_reply or self._cell.fault in ("reset", "close"):
            way = self._lose(ON_THE_WIRE[self._cell.fault])
            worker.go_on()
            if way is not None and self._cell.fault in ("hang", "kill"):
                self._wait_for(lambda: way.has_lost)
                (worker.kill if self._cell.fault == "kill" else worker.time_out)()
            ended = worker.end()
            if way is not None and not way.has_lost:
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
        way = self._ways[self._cell.engine]
        fate = Fate(loss="request" if self._cell.moment == "before" else "reply", ending=ending)
        if self._cell.step == "read_outcome":
            way.arm_next(fate)  # what reads opens a connection for it
        else:
            way.arm(fate)
        return way

    def _wait_for_a_session(self) -> None:
        """dbt has a session, and is at work."""
        way = self._ways["mssql"]
        opened = way.opened
        self._wait_for(lambda: way.opened > opened)

    def _wait_for(self, true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not true() and time.monotonic() < deadline:
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
