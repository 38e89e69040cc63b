"""A model of one publication to ClickHouse: staged by an ingest principal, exchanged once by a publisher.

The worker may die, hang or lose an acknowledgement at any step. An insert may wait on the server and an EXCHANGE may
wait behind another query, and both run after their senders are gone. A settlement closes, looks and decides. The rights
that EXCHANGE needs are also enough to make a table of the staging name, so a publisher that is open may do that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.model import exploration
from tests.model.exploration import Model

GUARDS = {
    "ingest_closed": "exchanging a table that its ingest principal may still write",
    "ingest_drained": "exchanging a table while an accepted insert waits",
    "intent_first": "an EXCHANGE whose pair of uuids is not stored",
    "sent_once": "sending EXCHANGE again after a lost answer",
    "publisher_closed": "deciding while the publisher may still send",
    "staging_renamed": "deciding while an accepted EXCHANGE may still find its table",
    "pair_decides": "deciding by the worker's word or its death",
}

#: The worker: staging rows, publishing, thinks it is done, dead.
STAGING, PUBLISHING, REPORTED, DEAD = range(4)
UNDECIDED, PUBLISHED, NOT_PUBLISHED = range(3)


class State(NamedTuple):
    worker: int = STAGING
    ingest_open: bool = True
    inserting: bool = False
    publisher_open: bool = True
    intent: bool = False
    #: EXCHANGE statements that were sent, and those of them that the server accepted and has not run.
    sent: int = 0
    accepted: int = 0
    swapped: bool = False
    renamed: bool = False
    verdict: int = UNDECIDED


Step = exploration.Step[State]


def steps(state: State, rules: frozenset[str]) -> Iterator[Step]:
    yield from worker_steps(state, rules)
    yield from server_steps(state)
    if state.worker != STAGING:
        yield from settlement_steps(state, rules)


def worker_steps(state: State, rules: frozenset[str]) -> Iterator[Step]:
    if state.worker == STAGING:
        if state.ingest_open and not state.inserting:
            yield "inserts", state._replace(inserting=True), None
        if state.ingest_open:
            yield "closes its ingest principal", state._replace(ingest_open=False), None
        closed = not state.ingest_open or "ingest_closed" not in rules
        drained = not state.inserting or "ingest_drained" not in rules
        if closed and drained:
            if not state.intent:
                yield "stores its intent", state._replace(intent=True), None
            if state.intent or "intent_first" not in rules:
                yield "goes to publish", state._replace(worker=PUBLISHING), None
    again = "sent_once" not in rules and state.sent == 1
    if state.worker == PUBLISHING and state.publisher_open and (state.sent == 0 or again):
        yield "sends EXCHANGE", state._replace(sent=state.sent + 1, accepted=state.accepted + 1), None
    if state.worker == PUBLISHING and state.publisher_open and state.renamed:
        yield "makes a table of the staging name", state._replace(renamed=False), None
    if state.worker == PUBLISHING and state.sent:
        yield "reports", state._replace(worker=REPORTED), None
    if state.worker in (STAGING, PUBLISHING):
        yield "dies", state._replace(worker=DEAD), None
    if state.worker == DEAD and state.publisher_open and state.intent and state.sent == 0:
        yield "an EXCHANGE of the dead arrives", state._replace(sent=1, accepted=1), None


def server_steps(state: State) -> Iterator[Step]:
    if state.inserting:
        late = "rows came into a published table" if state.swapped else None
        yield "the insert runs", state._replace(inserting=False), late
    if state.accepted:
        after = state._replace(accepted=state.accepted - 1)
        if state.renamed:
            yield "EXCHANGE finds no table", after, None
        else:
            late = "the target changed after the verdict" if state.verdict != UNDECIDED else None
            yield "EXCHANGE runs", after._replace(swapped=not state.swapped), late
    if state.ingest_open and state.swapped and not state.inserting:
        yield "the ingest principal inserts late", state._replace(inserting=True), None


def settlement_steps(state: State, rules: frozenset[str]) -> Iterator[Step]:
    if state.verdict != UNDECIDED:
        return
    if state.ingest_open or state.publisher_open:
        yield "closes both principals", state._replace(ingest_open=False, publisher_open=False), None
    closed = not state.publisher_open or "publisher_closed" not in rules
    if closed and not state.renamed:
        yield "renames the staging name away", state._replace(renamed=True), None
    if not closed or (not state.renamed and "staging_renamed" in rules):
        return
    if "pair_decides" not in rules:
        claimed = PUBLISHED if state.worker == REPORTED else NOT_PUBLISHED
        yield "believes the worker", state._replace(verdict=claimed), None
    elif state.intent or state.sent == 0:
        yield "reads the pair", state._replace(verdict=PUBLISHED if state.swapped else NOT_PUBLISHED), None


def broken(state: State) -> str | None:
    if state.sent > 1 and not state.swapped and not state.accepted:
        return "the tables were exchanged back"
    if state.verdict == PUBLISHED and not state.swapped:
        return "PUBLISHED, and the target is the old one"
    if state.verdict == NOT_PUBLISHED and state.swapped:
        return "NOT_PUBLISHED, and the target is the new one"
    return None


def can_be_ended(state: State, rules: frozenset[str]) -> bool:
    """Without a stored pair nobody can tell what an EXCHANGE did."""
    return state.intent or state.sent == 0 or "pair_decides" not in rules


PUBLICATION = Model(GUARDS, State(), steps, broken, can_be_ended)
