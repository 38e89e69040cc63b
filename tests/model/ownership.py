"""A model of the owners of one physical domain: two activations, one after the other, each with one attempt.

An attempt names the epoch that its worker read when it planned, maybe long ago. Everything may stop for a while.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.model import exploration
from tests.model.exploration import Model

GUARDS = {
    "domain_free": "preparing an activation over a domain that another one holds",
    "epoch_advances": "giving a domain to its next owner under the epoch of the last one",
    "parent_active": "admission under an activation that is not ACTIVE",
    "exact_epoch": "admission at another epoch than the one at which the activation holds the domain",
    "running_holds": "retiring an activation that has a RUNNING operation",
    "unknown_holds": "retiring an activation that has a COMMIT_UNKNOWN operation",
}

ABSENT, PREPARED, ACTIVE, RETIRING, RETIRED = range(5)
NONE, RUNNING, UNKNOWN, SETTLED = range(4)
NAMES = "PQ"


class Owner(NamedTuple):
    state: int = ABSENT
    #: The epoch at which it acquired the domain.
    epoch: int = 0
    operation: int = NONE
    #: The epoch that the worker read when it planned; None before.
    planned: int | None = None


class State(NamedTuple):
    owners: tuple[Owner, Owner] = (Owner(), Owner())
    epoch: int = 0
    holder: int | None = None


Step = exploration.Step[State]


def changed(state: State, index: int, /, **fields: int | None) -> State:
    owner = state.owners[index]._replace(**fields)
    return state._replace(owners=(owner, state.owners[1]) if index == 0 else (state.owners[0], owner))


def steps(state: State, rules: frozenset[str]) -> Iterator[Step]:
    for index in range(2):
        yield from owner_steps(state, index, rules)
        yield from attempt_steps(state, index, rules)


def owner_steps(state: State, index: int, rules: frozenset[str]) -> Iterator[Step]:
    owner, name = state.owners[index], NAMES[index]
    if owner.state == ABSENT and (state.holder is None or "domain_free" not in rules):
        epoch = state.epoch + 1 if "epoch_advances" in rules else max(state.epoch, 1)
        used = any(other.epoch == epoch for other in state.owners)
        broken = "two owners had one epoch" if used else None
        prepared = changed(state, index, state=PREPARED, epoch=epoch)
        yield f"{name} is prepared", prepared._replace(epoch=epoch, holder=index), broken
    if owner.state == PREPARED:
        yield f"{name} is activated", changed(state, index, state=ACTIVE), None
        yield f"{name} is withdrawn", changed(state, index, state=RETIRING), None
    if owner.state == ACTIVE:
        yield f"{name} begins to retire", changed(state, index, state=RETIRING), None
    held = (owner.operation == RUNNING and "running_holds" in rules) or (
        owner.operation == UNKNOWN and "unknown_holds" in rules
    )
    if owner.state == RETIRING and not held:
        yield f"{name} is retired", changed(state, index, state=RETIRED)._replace(holder=None), None


def attempt_steps(state: State, index: int, rules: frozenset[str]) -> Iterator[Step]:
    owner, name = state.owners[index], NAMES[index]
    if owner.operation == NONE and owner.planned is None and owner.state != ABSENT:
        yield f"a worker of {name} plans", changed(state, index, planned=owner.epoch), None
        if state.owners[1 - index].epoch:
            stale = state.owners[1 - index].epoch
            yield f"a worker of {name} plans by what it read before", changed(state, index, planned=stale), None
    if owner.operation == NONE and owner.planned is not None:
        holds = (state.epoch, state.holder) == (owner.planned, index)
        if (owner.state == ACTIVE or "parent_active" not in rules) and (holds or "exact_epoch" not in rules):
            broken = None if owner.state == ACTIVE else "admitted under an activation that does not admit"
            yield f"an attempt of {name} is admitted", changed(state, index, operation=RUNNING), broken
    if owner.operation == RUNNING:
        yield f"the attempt of {name} cannot be told", changed(state, index, operation=UNKNOWN), None
    if owner.operation in (RUNNING, UNKNOWN):
        yield f"the attempt of {name} is settled", changed(state, index, operation=SETTLED), None


def broken(state: State) -> str | None:
    holding = [owner for owner in state.owners if owner.state in (PREPARED, ACTIVE, RETIRING)]
    if len(holding) > 1:
        return "two owners of one domain"
    for owner in state.owners:
        if owner.operation in (RUNNING, UNKNOWN) and owner.state == RETIRED:
            return "an unresolved operation of a retired owner"
        if owner.operation != NONE and owner.planned != owner.epoch:
            return "an operation at an epoch that its owner never had"
    return None


def can_be_ended(state: State, rules: frozenset[str]) -> bool:
    """Whatever waits, an owner that is there gets to RETIRED, and the domain to its successor."""
    for index, owner in enumerate(state.owners):
        if owner.state in (ABSENT, RETIRED):
            continue
        after = changed(state, index, state=RETIRING, operation=SETTLED)
        if not any(label.endswith("is retired") for label, _, _ in owner_steps(after, index, rules)):
            return False
    return True


OWNERSHIP = Model(GUARDS, State(), steps, broken, can_be_ended)
