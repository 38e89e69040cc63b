"""A model of one change of the ledger: a transaction, its commit that travels, and what its caller is told.

The client writes twice in one transaction and commits. The server may roll the transaction back without a word, after
which the second write stands alone in a new one. The connection may break at any moment: the server may learn of it
late, so a commit that is under way can still arrive, or never. Then the client finds out what happened.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.model import exploration
from tests.model.exploration import Model

GUARDS = {
    "identity": "a write in another transaction than the one that was begun",
    "absence_under_lock": "concluding that a commit did not happen while its session may still hold the lock",
    "no_blind_repeat": "sending a change again before its commit was looked for",
    "lock_ends_with_session": "a lock that outlives the session which took it",
}

#: The client: before its transaction, after its first write, after its second, commit sent, connection lost with the
#: commit sent, told that it is done, told that nothing was done.
IDLE, FIRST, SECOND, SENT, LOST, DONE, NOTHING = range(7)


class State(NamedTuple):
    client: int = IDLE
    #: Writes of the open transaction, by number; None when there is none. Holding a transaction is holding the lock.
    writes: tuple[int, ...] | None = None
    #: Whether a commit is under way, and whether its client is gone.
    travelling: bool = False
    orphan: bool = False
    committed: tuple[tuple[int, ...], ...] = ()
    acknowledged: bool = False


Step = exploration.Step[State]


def steps(state: State, rules: frozenset[str]) -> Iterator[Step]:
    yield from client_steps(state, rules)
    yield from server_steps(state, rules)


def client_steps(state: State, rules: frozenset[str]) -> Iterator[Step]:
    free = state.writes is None
    if state.client == IDLE and free and len(state.committed) < 2:
        yield "takes the lock and writes", state._replace(client=FIRST, writes=(1,), orphan=False), None
    if state.client == FIRST:
        if state.writes == (1,):
            yield "writes again", state._replace(client=SECOND, writes=(1, 2)), None
        elif "identity" in rules:
            yield "finds another transaction", state._replace(client=NOTHING, writes=None), None
        else:
            yield "writes again, in another transaction", state._replace(client=SECOND, writes=(2,)), None
    if state.client == SECOND:
        yield "sends the commit", state._replace(client=SENT, travelling=True), None
    if state.client in (FIRST, SECOND):
        yield "loses the connection before its commit", state._replace(client=NOTHING, orphan=True), None
    if state.client == SENT:
        yield "loses the connection", state._replace(client=LOST, orphan=True), None
        if state.acknowledged:
            yield "reads it back", state._replace(client=DONE), None
    if state.client == LOST:
        if "no_blind_repeat" not in rules and free:
            yield "sends everything again", state._replace(client=FIRST, writes=(1,), orphan=False), None
        if free or "absence_under_lock" not in rules:
            found = DONE if state.committed else NOTHING
            yield "looks for its change", state._replace(client=found), None


def server_steps(state: State, rules: frozenset[str]) -> Iterator[Step]:
    if state.travelling and state.writes is not None:
        after = state._replace(
            travelling=False, writes=None, committed=(*state.committed, state.writes), acknowledged=True
        )
        told = "it happened, and its caller was told that it did not" if state.client == NOTHING else None
        yield "the commit arrives", after, told
    if state.client == FIRST and state.writes == (1,):
        yield "the server rolls back without a word", state._replace(writes=()), None
    if state.orphan and state.writes is not None and "lock_ends_with_session" in rules:
        yield "the server notices that its client is gone", state._replace(writes=None, travelling=False), None


def broken(state: State) -> str | None:
    if any(writes != (1, 2) for writes in state.committed):
        return "half of a change was committed"
    if len(state.committed) > 1:
        return "it happened twice"
    if state.client == DONE and not state.committed:
        return "it did not happen, and its caller was told that it did"
    return None


def can_be_ended(state: State, rules: frozenset[str]) -> bool:
    """A lost session can be ended, and the lock with it."""
    return not state.orphan or state.writes is None or "lock_ends_with_session" in rules


CHANGE = Model(GUARDS, State(), steps, broken, can_be_ended)
