"""A model of the guarded protocol, small enough to be explored to its end.

Three deliveries are modelled: A and B are the same try, started twice; C is the next try of the same task. A and B name
one operation (the bytes of an attempt are deterministic), C names another; both need the same data. Every process may
stop after any step, for good or for a while, and its session stays on the server. An admission and a commit travel,
a login takes two steps. Closing may be done by anybody, again, at any time that the rules allow.

``GUARDS`` are the rules of the protocol, one name each, and ``ATTEMPTS`` is the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.model import exploration
from tests.model.exploration import Model

#: Each rule, and what it forbids.
GUARDS = {
    "overlap_running": "admission over a RUNNING operation of the same data",
    "overlap_unknown": "admission over a COMMIT_UNKNOWN operation of the same data",
    "readback_before_work": "work by a process whose admission was sent and not read back",
    "identities_with_admission": "an admission that does not journal, in its own transaction, who will write",
    "own_identity": "work by a process that reads back identities that are not its own",
    "late_try": "admission of a try when an equal or later one of the task instance is in the ledger",
    "strictly_later_try": "closing by a twin of the same try",
    "try_is_over": "a sweep of a try that nobody said is over, because of its age",
    "issue_once": "issuing from any gate state but JOURNALED",
    "logon_barrier": "a login whose gate is not READY",
    "absence_under_closing": "concluding that a login never existed while it may still be created",
    "close_before_quiescence": "a quiescence proof of a gate that is not CLOSED",
    "session_absence": "a quiescence proof while a session or transaction is there",
    "logging_in": "a quiescence proof while a login is under way",
    "outcome_after_quiescence": "reading the outcome of a writer that may still write",
    "evidence_decides": "an outcome from the worker's word or its death",
    "end_sessions": "leaving the sessions of a closed login alone",
    "tombstone": "leaving a login that was never created without a way to be closed",
}

NONE, RUNNING, SUCCEEDED, FAILED, UNKNOWN = range(5)
JOURNALED, READY, CLOSING, CLOSED = range(4)
#: Sessions: none, logging in, idle, in a transaction, commit under way.
ABSENT, ENTERING, IDLE, WRITING, COMMITTING = range(5)
#: Workers: not started, started, asking for admission, admitted and not told so yet, admitted, knows the password,
#: connected, ended by itself, dead, dead with its question still under way, refused.
WAITING, STARTED, ASKING, UNTOLD, ADMITTED, ISSUED, CONNECTED, ENDED, DEAD, DEAD_ASKING, REFUSED = range(11)

HOLDS = (RUNNING, UNKNOWN)
EXECUTES = (UNTOLD, ADMITTED, ISSUED, CONNECTED)


class Op(NamedTuple):
    """One operation with its gate, its login's session, its proofs and the truth about its effect."""

    state: int = NONE
    executor: int = -1
    journaled: bool = False
    gate: int = JOURNALED
    login: bool = False
    session: int = ABSENT
    closed: bool = False
    quiet: bool = False
    committed: bool = False


class State(NamedTuple):
    """Operation 0 is of A and B (workers 0 and 1), operation 1 is of C (worker 2)."""

    ops: tuple[Op, Op] = (Op(), Op())
    workers: tuple[int, int, int] = (WAITING, WAITING, WAITING)


Step = exploration.Step[State]
OPERATION_OF = (0, 0, 1)
NAMES = "ABC"


def with_op(state: State, index: int, op: Op, worker: int | None = None, phase: int = 0) -> State:
    ops = (op, state.ops[1]) if index == 0 else (state.ops[0], op)
    workers = state.workers
    if worker is not None:
        workers = (*workers[:worker], phase, *workers[worker + 1 :])  # type: ignore[assignment]  # stays three long
    return State(ops, workers)


def worker_steps(state: State, worker: int, rules: frozenset[str]) -> Iterator[Step]:
    """What one process may do next."""
    index = OPERATION_OF[worker]
    op, phase, name = state.ops[index], state.workers[worker], NAMES[worker]
    if phase == WAITING:
        yield f"Airflow starts {name}", with_op(state, index, op, worker, STARTED), None
    if phase == STARTED:
        yield f"{name} asks for admission", with_op(state, index, op, worker, ASKING), None
    if phase in (ASKING, DEAD_ASKING):
        yield admission(state, worker, rules)
        lost = DEAD if phase == DEAD_ASKING else STARTED
        yield f"the admission of {name} is lost", with_op(state, index, op, worker, lost), None
    if phase == ASKING:
        yield f"{name} dies", with_op(state, index, op, worker, DEAD_ASKING), None
        if "readback_before_work" not in rules:
            broken = "work without an operation" if op.state == NONE else None
            yield f"{name} works before it reads", with_op(state, index, op, worker, ADMITTED), broken
    if phase == UNTOLD:
        yield f"{name} reads that it is admitted", with_op(state, index, op, worker, ADMITTED), None
    if phase == ADMITTED and (op.gate == JOURNALED or "issue_once" not in rules):
        yield f"{name} issues", with_op(state, index, op._replace(gate=READY, login=True), worker, ISSUED), None
    if phase == ISSUED and op.session == ABSENT and (op.gate == READY or "logon_barrier" not in rules):
        yield f"{name} logs in", with_op(state, index, op._replace(session=ENTERING), worker, CONNECTED), None
    if phase == CONNECTED:
        if op.session == IDLE:
            yield f"{name} writes", with_op(state, index, op._replace(session=WRITING)), None
            yield f"{name} disconnects", with_op(state, index, op._replace(session=ABSENT), worker, ENDED), None
        if op.session == WRITING:
            yield f"{name} sends COMMIT", with_op(state, index, op._replace(session=COMMITTING)), None
        if op.session == ABSENT:
            yield f"{name} finds its session ended", with_op(state, index, op, worker, ENDED), None
    if phase in (UNTOLD, ADMITTED, ISSUED):
        yield f"{name} gives up", with_op(state, index, op, worker, ENDED), None
    if phase in EXECUTES:
        yield f"{name} dies", with_op(state, index, op, worker, DEAD), None


def admission(state: State, worker: int, rules: frozenset[str]) -> Step:
    """One transaction: refuse, or journal a RUNNING operation with the identities of this process."""
    index = OPERATION_OF[worker]
    op, other, name = state.ops[index], state.ops[1 - index], NAMES[worker]
    dead = state.workers[worker] == DEAD_ASKING
    refused, admitted, again = (DEAD, DEAD, DEAD) if dead else (REFUSED, UNTOLD, STARTED)
    if op.state != NONE:
        if "own_identity" in rules:
            return f"{name} is a duplicate", with_op(state, index, op, worker, refused), None
        return f"{name} takes the operation for its own", with_op(state, index, op, worker, admitted), None
    blocked = (other.state == RUNNING and "overlap_running" in rules) or (
        other.state == UNKNOWN and "overlap_unknown" in rules
    )
    late = index == 0 and other.state != NONE
    if late and "late_try" in rules:
        return f"{name} is late", with_op(state, index, op, worker, refused), None
    if blocked:
        # Refused now; the task may ask again later.
        return f"{name} is refused as overlapping", with_op(state, index, op, worker, again), None
    broken = "an earlier try was admitted after a later one" if late else None
    row = Op(RUNNING, worker, journaled="identities_with_admission" in rules)
    return f"{name} is admitted", with_op(state, index, row, worker, admitted), broken


def server_steps(state: State, index: int) -> Iterator[Step]:
    """What the server does by itself."""
    op = state.ops[index]
    if op.session == ENTERING:
        yield f"login {index} is through", with_op(state, index, op._replace(session=IDLE)), None
    if op.session == COMMITTING:
        done = op._replace(session=IDLE, committed=True)
        broken = "a finalized operation wrote" if op.state in (SUCCEEDED, FAILED) else None
        if state.ops[1].state != NONE and index == 0 and state.ops[1].executor >= 0:
            broken = broken or "an operation wrote after its successor was admitted"
        yield f"commit {index} arrives", with_op(state, index, done), broken
    if op.executor >= 0 and state.workers[op.executor] == DEAD and op.session in (IDLE, WRITING, COMMITTING):
        yield f"server drops session {index}", with_op(state, index, op._replace(session=ABSENT)), None


def may_close(state: State, index: int, rules: frozenset[str]) -> str | None:
    """Who is allowed to close now: None for nobody, else a label."""
    op = state.ops[index]
    if op.state == NONE:
        return None
    alive = any(state.workers[w] in EXECUTES for w in range(3) if OPERATION_OF[w] == index)
    if not alive or "try_is_over" not in rules:
        return "sweep of a living try" if alive else "sweep"
    if index == 0 and state.workers[2] == STARTED:
        return "C"
    if "strictly_later_try" not in rules and REFUSED in state.workers[:2] and index == 0:
        return "twin"
    return None


def closing_steps(state: State, index: int, rules: frozenset[str], who: str) -> Iterator[Step]:
    """The idempotent steps towards a settled operation, one at a time."""
    op = state.ops[index]
    broken = f"a {who} closed it" if who in ("twin", "sweep of a living try") else None
    if not op.journaled:
        # Nobody knows which login to bar, to end and to look for.
        yield f"{who} has nothing to close for {index}", with_op(state, index, op._replace(closed=True)), broken
    elif op.gate in (JOURNALED, READY):
        yield f"{who} bars gate {index}", with_op(state, index, op._replace(gate=CLOSING)), broken
        if "absence_under_closing" not in rules and not op.login:
            yield f"{who} sees no login {index}", with_op(state, index, op._replace(closed=True)), broken
    if op.gate in (CLOSING, CLOSED) and op.session >= IDLE and "end_sessions" in rules:
        yield f"{who} ends session {index}", with_op(state, index, op._replace(session=ABSENT)), broken
    if op.gate == CLOSING and (op.login or "tombstone" in rules):
        yield f"{who} closes gate {index}", with_op(state, index, op._replace(gate=CLOSED, closed=True)), broken
    seen = (op.session >= IDLE and "session_absence" in rules) or (op.session == ENTERING and "logging_in" in rules)
    if not op.quiet and (op.closed or "close_before_quiescence" not in rules) and not (seen and op.journaled):
        yield f"{who} proves {index} quiescent", with_op(state, index, op._replace(quiet=True)), broken
    if op.state == RUNNING and (op.quiet or "outcome_after_quiescence" not in rules):
        yield from verdicts(state, index, rules, who)
    if op.state == UNKNOWN:
        yield f"{who} reconciles {index}", with_op(state, index, op._replace(state=truth(op))), None


def verdicts(state: State, index: int, rules: frozenset[str], who: str) -> Iterator[Step]:
    """Finalizing: what evidence shows, or that it shows nothing."""
    op = state.ops[index]
    if "evidence_decides" in rules:
        yield f"{who} finalizes {index}", with_op(state, index, op._replace(state=truth(op))), None
    else:
        # The worker died or reported an error, so the work is taken for failed; it reported success, so it is done.
        ended_well = op.executor >= 0 and state.workers[op.executor] == ENDED
        claimed = SUCCEEDED if ended_well else FAILED
        yield f"{who} believes the worker of {index}", with_op(state, index, op._replace(state=claimed)), None
    yield f"{who} cannot tell {index}", with_op(state, index, op._replace(state=UNKNOWN)), None


def truth(op: Op) -> int:
    return SUCCEEDED if op.committed else FAILED


def steps(state: State, rules: frozenset[str]) -> Iterator[Step]:
    for worker in range(3):
        yield from worker_steps(state, worker, rules)
    for index in range(2):
        yield from server_steps(state, index)
        who = may_close(state, index, rules)
        if who is not None:
            yield from closing_steps(state, index, rules, who)


def broken_promise(state: State) -> str | None:
    """The promises that hold in every state."""
    for index, op in enumerate(state.ops):
        if op.state == SUCCEEDED and not op.committed:
            return "SUCCEEDED without an effect"
        if op.state == FAILED and op.committed:
            return "FAILED with an effect"
        if op.quiet and op.session != ABSENT:
            return "a session after the quiescence proof"
        if sum(state.workers[w] in EXECUTES for w in range(3) if OPERATION_OF[w] == index) > 1:
            return "two processes execute one operation"
    if state.ops[0].state in HOLDS and state.ops[1].state in HOLDS:
        return "two unresolved operations on the same data"
    return None


def can_be_settled(state: State, rules: frozenset[str]) -> bool:
    """Whether an operator can end every operation from here although no worker ever moves again."""
    for index in range(2):
        for _ in range(12):
            op = state.ops[index]
            if op.state in (NONE, SUCCEEDED, FAILED):
                break
            moves = [*closing_steps(state, index, rules, "operator")]
            useful = [after for label, after, _ in moves if after != state and "cannot tell" not in label]
            if not useful:
                useful = [after for label, after, _ in server_steps(state, index) if "is through" in label]
            if not useful:
                return False
            state = useful[0]
        else:
            return False
    return True


ATTEMPTS = Model(GUARDS, State(), steps, broken_promise, can_be_settled)
