"""A state machine over the real ledger: the product's own attempts, gates and settlements on a real endpoint.

Airflow delivers tries of two tasks on the same data, again and in any order. Processes are stopped for a while, go on
after their successors, die anywhere, and lose the acknowledgement of any control commit, whether it happened or not.
Operators sweep, reconcile, retire and restart everything. After each rule the promises are looked at in the database,
by somebody who is none of them:

1. one holder: no two unresolved operations on one guard;
2. one executor: an operation is executed by one process and has one effect at most;
3. order: a try is admitted only after all its predecessors, and closed only by itself, by a later try or by a sweep
   that was told that it is over;
4. forward: states, proofs and epochs only move forward, epochs by one;
5. truth: SUCCEEDED has its effect, FAILED has none, and who is told of success has succeeded;
6. quiet: what is proven quiescent has a closed gate, a disabled login, no session, and writes no more;
7. no dead end: whatever happened, an operator brings every operation and every activation to its end.
"""

from __future__ import annotations

import contextlib
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from airflow_provider_dpone.attempts import GuardedAttempt, Settlement, sweep
from airflow_provider_dpone.contracts import lifecycle
from airflow_provider_dpone.contracts.errors import GuardError, LedgerTampered
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.principal import Principal
from airflow_provider_dpone.drivers import Connect, drain, quote_mssql
from airflow_provider_dpone.drivers.mssql import MsSqlDsn, connect
from airflow_provider_dpone.gates.mssql import MsSqlLoginGate
from airflow_provider_dpone.ledger import Activation, ActivationStore, AttemptStore, install
from airflow_provider_dpone.routes.interface import Observation, Outcome
from tests.machine.process import Fate, Killed, Line, Pool, Process, Stopping
from tests.support import ledger_records as make
from tests.support.live_gate import LiveGate, TableRoute

TASKS = ("load", "other")
WHICH = st.integers(0, 7)
#: How many calls a process goes on; a whole attempt has about fifteen.
CALLS = st.sampled_from([1, 3, 6, 0])
FATES: tuple[Fate, ...] = ("reply", "request", "late", "cut")

#: Every operation of a run with its gate, its login, its sessions and its effects, then owners and domains.
LOOK = """
SET TRANSACTION ISOLATION LEVEL SNAPSHOT;
SELECT o.operation_key, o.state, c.task_id, c.try_number, g.gate_state, o.closed_gates_proof_sha256,
    o.quiescence_proof_sha256, o.outcome_proof_sha256,
    (SELECT COUNT(*) FROM dpone_control.composition_proofs AS p WHERE p.operation_key = o.operation_key AND p.proof_kind = 'QUIESCENCE'),
    l.is_disabled,
    (SELECT COUNT(*) FROM sys.dm_exec_sessions AS s WHERE s.original_security_id = g.login_sid),
    (SELECT COUNT(*) FROM {effects} AS e WHERE e.operation_key COLLATE Latin1_General_100_BIN2 = o.operation_key)
FROM dpone_control.composition_operations AS o
INNER JOIN dpone_ext.attempt_coordinates AS c ON c.operation_key = o.operation_key
INNER JOIN dpone_control.composition_login_gates AS g ON g.operation_key = o.operation_key
LEFT JOIN sys.server_principals AS l ON l.sid = g.login_sid
WHERE c.run_id = ?;
SELECT owner_key, state FROM dpone_control.composition_owners;
SELECT guard_id, fencing_epoch FROM dpone_control.composition_domains;
"""


@dataclass(frozen=True)
class Seen:
    """One operation as the database has it."""

    state: str
    task_id: str
    try_number: int
    gate: str
    bound: tuple[str | None, str | None, str | None]
    quiet: bool
    disabled: bool | None
    sessions: int
    effects: int


@dataclass
class Look:
    operations: dict[str, Seen]
    owners: dict[str, str]
    epochs: dict[str, int]


@dataclass
class Ground:
    """One deployment for all examples: its accounts, its connections and its current activation."""

    live: LiveGate
    #: Whether control connections are used again; a login is most of what a short transaction costs.
    pooled: bool = True
    pool: Pool = field(default_factory=Pool)
    examples: int = 0
    #: How often each thing happened: what a run that found nothing has looked at.
    happened: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.activation: Activation = self.live.activation
        # A look waits for no writer: a process may stand still in the middle of its transaction.
        self.live.as_dba(f"ALTER DATABASE {quote_mssql(self.live.target)} SET ALLOW_SNAPSHOT_ISOLATION ON;")

    def account(self, role: str) -> Connect:
        dsn: MsSqlDsn = getattr(self.live, role)
        return self.pool.over(role, lambda: connect(dsn)) if self.pooled else lambda: connect(dsn)

    def attempts(self, line: Line) -> AttemptStore:
        return AttemptStore(line.over(self.account("controller")), self.live.settings)

    def activations(self, line: Line) -> ActivationStore:
        return ActivationStore(line.over(self.account("controller")), self.live.settings)

    def gate(self, line: Line) -> MsSqlLoginGate:
        return MsSqlLoginGate(
            issuer=line.over(self.account("issuer")),
            closer=line.over(self.account("closer")),
            controller=self.live.controller.user,
            settings=self.live.settings,
        )

    def look(self, run_id: str) -> Look:
        """By the DBA, around every store."""
        connection = self.pool.over("dba", lambda: connect(self.live.dba))()
        try:
            connection.setautocommit(True)  # type: ignore[attr-defined]  # mssql-python's connection
            effects = f"{quote_mssql(self.live.target)}.[raw].[effects]"
            operations, owners, epochs = drain(connection, LOOK.format(effects=effects), run_id)
        finally:
            connection.close()
        return Look(
            operations={
                key: Seen(state, task, number, gate, (closed, quiet, end), bool(proven), disabled, sessions, effects)
                for key, state, task, number, gate, closed, quiet, end, proven, disabled, sessions, effects in operations
            },
            owners=dict(owners),
            epochs=dict(epochs),
        )

    def audit(self) -> None:
        """Every byte of the ledger."""
        install.audit(self.account("controller"), self.live.settings)

    def close(self) -> None:
        self.pool.drop()


class _Attempt(GuardedAttempt):
    """Says when it has been told that it is the one that executes."""

    admitted: Callable[[str], None]

    def admit(self) -> Operation:
        operation = super().admit()
        self.admitted(operation.attempt_sha256)
        return operation


class Route(TableRoute):
    """Writes one row, with a stop before its commit and a reply that may be lost after it."""

    observable: bool = True

    def outcome(self, ctx: Observation) -> Outcome:
        if not self.observable:
            return Outcome(state="COMMIT_UNKNOWN", evidence={"schema": "test.outcome.v1", "marker_rows": None})
        return super().outcome(ctx)


class _Gate:
    """Remembers who closes whom."""

    def __init__(self, gate: MsSqlLoginGate, closes: Any) -> None:
        self._gate = gate
        self._closes = closes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gate, name)

    def close(self, operation: Operation, principal: Principal) -> Mapping[str, object]:
        self._closes(operation)
        return self._gate.close(operation, principal)


def _ending(process: Process) -> str:
    """What became of a process, by the name of what it raised."""
    return "succeeded" if process.answer is not None else type(process.error).__name__


class LedgerLife(RuleBasedStateMachine):
    """Give it a ``ground`` by making a subclass."""

    ground: Ground
    #: Whether anything was done to a server since the last look.
    touched = False

    @initialize()
    def begin(self) -> None:
        ground = self.ground
        ground.examples += 1
        self.run_id = ground.live.run_id()
        self.processes: list[Process] = []
        self.tries: dict[int, tuple[str, int]] = {}
        self.executors: dict[str, set[int]] = {}
        self.wrong: list[str] = []
        self.operator = Line(self.ground.happened)
        self.observable = True
        self.seen = ground.look(self.run_id)

    # What happens

    @rule(task_id=st.sampled_from(TASKS), try_number=st.integers(1, 3), calls=CALLS)
    def deliver(self, task_id: str, try_number: int, calls: int) -> None:
        """Airflow starts a try, any try, maybe again, and it is stopped somewhere."""
        activation = self.ground.activation
        where = make.coordinates(self.run_id, task_id=task_id, try_number=try_number)

        def work(process: Process) -> Operation:
            attempt = _Attempt(
                make.attempt(activation.request, "w000", activation.epochs_of("w000"), where),
                where,
                route=Stopping(self.route(process), process),
                gates={"mssql": Stopping(_Gate(self.ground.gate(process.line), self.closing_by(process)), process)},
                ledger=Stopping(self.ground.attempts(process.line), process),
                quiescence_seconds=10.0,
            )
            attempt.admitted = lambda key: self.executors.setdefault(key, set()).add(id(process))
            return attempt.run().operation

        process = Process(work, Line(self.ground.happened))
        self.tries[id(process)] = (task_id, try_number)
        self.processes.append(process)
        self.advance(process, calls)

    @precondition(lambda self: self.somebody_lives())
    @rule(which=WHICH, calls=st.integers(1, 4))
    def pause(self, which: int, calls: int) -> None:
        """A process goes on a little and is stopped again."""
        self.advance(self.living(which), calls)

    @precondition(lambda self: self.somebody_lives())
    @rule(which=WHICH)
    def resume(self, which: int) -> None:
        """A process goes on to its end, maybe as a zombie whose successor is done."""
        self.advance(self.living(which), None)

    @precondition(lambda self: self.somebody_lives())
    @rule(which=WHICH, fate=st.sampled_from(FATES), calls=CALLS)
    def lose_ack(self, which: int, fate: Fate, calls: int) -> None:
        """A process goes on, and its next control transaction loses its connection."""
        process = self.living(which)
        process.line.fate = fate
        self.advance(process, calls)

    @precondition(lambda self: self.somebody_lives())
    @rule(which=WHICH, how=st.sampled_from(["killed", "terminated", "dies before", "dies after"]))
    def kill(self, which: int, how: str) -> None:
        """A process dies where it stands, is asked to end, or dies around its next control commit."""
        process = self.living(which)
        self.touched = True
        if how == "killed":
            process.kill()
            self.ground.happened[_ending(process)] += 1
        elif how == "terminated":
            process.terminated = True
            self.advance(process, None)
        else:
            process.line.fate = "dies before" if how == "dies before" else "dies after"
            self.advance(process, None)

    @precondition(lambda self: self.somebody_lives())
    @rule()
    def restart(self) -> None:
        """Everything stops, and nothing that was in memory is left."""
        self.stop()
        self.ground.pool.drop()

    @precondition(lambda self: self.unresolved("RUNNING"))
    @rule(fate=st.none() | st.sampled_from(FATES))
    def sweep(self, fate: Fate | None) -> None:
        """What was left by tries that are over is settled. A try that only stands still is not over."""
        self.touched = True
        self.operator.fate = fate
        with contextlib.suppress(GuardError):
            swept = sweep(self.ground.attempts(self.operator), is_over=self.is_over, settlement_of=self.settlement)
            self.ground.happened["swept"] += len(swept)

    @precondition(lambda self: self.unresolved("COMMIT_UNKNOWN"))
    @rule(fate=st.none() | st.sampled_from(FATES))
    def reconcile(self, fate: Fate | None) -> None:
        self.touched = True
        self.operator.fate = fate
        with contextlib.suppress(GuardError):
            for operation in self.ground.attempts(self.operator).unresolved():
                if operation.state == "COMMIT_UNKNOWN":
                    self.settlement(operation).reconcile()
                    self.ground.happened["reconciled"] += 1

    @rule(seen=st.booleans())
    def observe(self, seen: bool) -> None:
        """The outcome can be read, or cannot."""
        self.observable = seen

    @rule(often=st.integers(0, 3), fate=st.none() | st.sampled_from(FATES))
    def retire(self, often: int, fate: Fate | None) -> None:
        """The activation is retired, unless something holds it, and its successor is activated at the next epoch."""
        if often:
            # It costs as much as an attempt, and says less.
            return
        ground = self.ground
        self.touched = True
        self.operator.fate = fate
        with contextlib.suppress(GuardError):
            store = ground.activations(self.operator)
            store.begin_retirement(ground.activation.request)
            store.finalize_retirement(ground.activation.request)
            self.succeed()
            ground.happened["retired"] += 1

    def succeed(self) -> None:
        ground = self.ground
        old = ground.activation.request
        request = replace(old, context=replace(old.context, activation_id=str(uuid.uuid4())))
        store = ground.activations(Line(ground.happened))
        store.prepare(request)
        ground.activation = store.activate(request)

    # How it is done

    def stop(self) -> None:
        for process in self.processes:
            if process.alive:
                self.touched = True
                process.kill()
        self.operator = Line(self.ground.happened)

    def somebody_lives(self) -> bool:
        return any(process.alive for process in self.processes)

    def living(self, which: int) -> Process:
        alive = [process for process in self.processes if process.alive]
        return alive[which % len(alive)]

    def unresolved(self, *states: str) -> bool:
        """As last seen."""
        return any(seen.state in states for seen in self.seen.operations.values())

    def advance(self, process: Process, calls: int | None) -> None:
        self.touched = True
        process.move(calls)
        if process.ended:
            self.ground.happened[_ending(process)] += 1
        if process.error is not None and not isinstance(process.error, GuardError | Killed | SystemExit):
            raise process.error
        # Nobody tampers here: a rule of the database that had to refuse is a rule of the product that did not.
        assert not isinstance(process.error, LedgerTampered), process.error
        if process.answer is not None:
            found = self.ground.look(self.run_id).operations[process.answer.attempt_sha256]
            assert (found.state, found.effects) == ("SUCCEEDED", 1)

    def route(self, process: Process) -> Route:
        return self.observing(
            Route(
                target=self.target,
                observer=self.observer,
                before_commit=lambda ctx, connection: process.reach("commit"),
                after_commit=lambda ctx: process.reach("committed"),
            )
        )

    @property
    def target(self) -> MsSqlDsn:
        return replace(self.ground.live.controller, database=self.ground.live.target)

    @property
    def observer(self) -> Connect:
        return self.ground.account("observer")

    def observing(self, route: Route) -> Route:
        route.observable = self.observable
        return route

    def settlement(self, operation: Operation) -> Settlement:
        return Settlement(
            operation,
            route=self.observing(Route(target=self.target, observer=self.observer)),
            gates={"mssql": self.ground.gate(self.operator)},
            ledger=self.ground.attempts(self.operator),
            quiescence_seconds=10.0,
        )

    def is_over(self, operation: Operation) -> bool:
        where = operation.coordinates
        mine = (where.task_id, where.try_number)
        return not any(p.alive for p in self.processes if self.tries[id(p)] == mine)

    def closing_by(self, process: Process) -> Any:
        def closes(operation: Operation) -> None:
            task_id, try_number = self.tries[id(process)]
            where = operation.coordinates
            mine = self.executors.get(operation.attempt_sha256) == {id(process)}
            later = where.task_id == task_id and where.try_number < try_number
            if not (later or mine):
                # Noted, because a settlement answers for whatever a gate raises.
                self.wrong.append(f"try {try_number} of {task_id} closes try {where.try_number} of {where.task_id}")

        return closes

    # What always holds

    @invariant()
    def promises(self) -> None:
        self.ground.happened["step"] += 1
        if not self.touched:
            return
        self.touched = False
        assert not self.wrong, self.wrong
        for line in (self.operator, *(process.line for process in self.processes)):
            line.settle()
        before, now = self.seen, self.ground.look(self.run_id)
        self.seen = now
        unresolved = [seen for seen in now.operations.values() if seen.state in ("RUNNING", "COMMIT_UNKNOWN")]
        assert len(unresolved) <= 1, "two unresolved operations on one guard"
        assert all(len(executors) == 1 for executors in self.executors.values()), "two executors"
        for key, seen in now.operations.items():
            self.one(seen)
            if key in before.operations:
                self.forward(before.operations[key], seen)
            else:
                self.admitted(seen, before)
        for key, state in before.owners.items():
            assert now.owners[key] == state or self.reachable(lifecycle.EXECUTION_OWNER, state, now.owners[key])
        for guard, epoch in before.epochs.items():
            assert now.epochs[guard] in (epoch, epoch + 1), "an epoch moved by more than one"

    def one(self, seen: Seen) -> None:
        assert seen.effects <= 1, "an operation took effect twice"
        if seen.state in ("SUCCEEDED", "FAILED"):
            assert (seen.state == "SUCCEEDED") == (seen.effects == 1), f"{seen.state} with {seen.effects} effects"
        if seen.state != "RUNNING":
            assert seen.quiet and all(seen.bound), "an operation ended without its proofs"
        if seen.quiet:
            found = (seen.gate, seen.disabled, seen.sessions)
            assert found == ("CLOSED", True, 0), f"proven quiescent, and {found}"

    def forward(self, before: Seen, now: Seen) -> None:
        assert now.state == before.state or self.reachable(lifecycle.OPERATION, before.state, now.state)
        assert now.gate == before.gate or self.reachable(lifecycle.LOGIN_GATE, before.gate, now.gate)
        assert now.quiet >= before.quiet
        assert all(old in (None, new) for old, new in zip(before.bound[:2], now.bound[:2], strict=True))
        if before.quiet:
            assert now.effects == before.effects, "a quiescent operation wrote"

    def admitted(self, seen: Seen, before: Look) -> None:
        earlier = [other for other in before.operations.values() if other.task_id == seen.task_id]
        assert all(other.try_number < seen.try_number for other in earlier), "an earlier try came after a later one"

    @staticmethod
    def reachable(machine: lifecycle.Arrows, state: str, target: str) -> bool:
        reached, todo = {state}, [state]
        while todo:
            for following in machine[todo.pop()] - reached:
                reached.add(following)
                todo.append(following)
        return target in reached

    def settle(self) -> None:
        """What an operator does who sees the targets, when all processes are gone."""
        self.stop()
        self.observable = True
        for operation in self.ground.attempts(self.operator).unresolved():
            self.settlement(operation).reconcile()

    def teardown(self) -> None:
        """No dead end: everything gets to its end."""
        if not hasattr(self, "seen"):
            return
        self.settle()
        self.touched = True
        self.promises()
        assert all(seen.state in ("SUCCEEDED", "FAILED") for seen in self.seen.operations.values())
        ended = self.seen.owners[self.ground.activation.owner_key]
        if ended != "ACTIVE":
            store = self.ground.activations(self.operator)
            if ended == "RETIRING":
                store.finalize_retirement(self.ground.activation.request)
            self.succeed()
