"""Every pair of an owner with its operation and somebody who comes after it, of both kinds, in both directions.

The axes: the kind and state of the owner that was there first, the state of its operation, who has its domains now, and
who comes: an activation or an attempt through the stores, or a qualification run or one of its invocations as rows that
the database itself has to accept or refuse, because nothing writes those yet. What has to come out is said by the rules
of this file, which were written from the design and know nothing of the product.

No cell is kept: a store's call stops at its commit, rows are taken back. The ledger is the same for all of them.
"""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import pytest

from airflow_provider_dpone.contracts.activation import ActivationRequest
from airflow_provider_dpone.contracts.errors import AdmissionRefused, Duplicate, Overlap, ParentNotActive, StaleEpoch
from airflow_provider_dpone.contracts.operation import OperationState
from airflow_provider_dpone.contracts.ownership import OwnerKind
from airflow_provider_dpone.drivers import drain
from airflow_provider_dpone.ledger import ActivationStore, AttemptStore, install
from tests.integration.ledger.conftest import drop_database, fresh_database
from tests.support import ledger_records as make
from tests.support import planted_rows as plant
from tests.support.ledger_contents import contents
from tests.support.live_ledger import open_ledger
from tests.support.planted_rows import ENDED, PATHS, Domain, PlantedOperation, PlantedOwner, Write
from tests.support.stopping_connection import StoppingAtCommit, would_commit

KINDS: tuple[OwnerKind, ...] = get_args(OwnerKind)
OPERATION_STATES: tuple[str | None, ...] = (None, *get_args(OperationState))
UNRESOLVED = ("RUNNING", "COMMIT_UNKNOWN")


@dataclass(frozen=True, kw_only=True)
class First:
    """Who was there first. ``now`` is the kind of owner that took the domains over after the first one had ended."""

    kind: OwnerKind
    state: str
    operation: str | None
    now: OwnerKind | None = None

    def __str__(self) -> str:
        parts = [self.kind, self.state, self.operation or "no operation"]
        return " ".join(parts + ([f"then {self.now}"] if self.now else []))

    @property
    def holder(self) -> tuple[OwnerKind, str] | None:
        """The kind and state of whoever has the domains."""
        if self.now is not None:
            return self.now, "ACTIVE"
        return None if self.state in ENDED else (self.kind, self.state)

    @property
    def unresolved(self) -> bool:
        return self.operation in UNRESOLVED


EVERY = [
    First(kind=kind, state=state, operation=operation)
    for kind in KINDS
    for state in PATHS[kind]
    for operation in OPERATION_STATES
]


# What cannot be there at all


def impossible(first: First) -> str | None:
    """The rule of the database by which nobody can write this, lock or not."""
    if first.operation is None:
        return None
    if first.state == "PREPARED":
        return "operation_owner"  # nothing is admitted before its owner is ACTIVE
    if first.kind == "qualification" and first.operation != "RUNNING":
        return "operation_proofs"  # nothing ends without proofs, and this family has none yet: its life is closed
    if first.state in ENDED and first.unresolved:
        return "owner_unresolved"  # an owner does not end over an open outcome
    return None


FIRSTS = [
    replace(first, now=now)
    for first in EVERY
    if impossible(first) is None
    for now in ((None, *KINDS) if first.state in ENDED and first.operation != "FAILED" else (None,))
]


# What has to come out


def acquiring(first: First, comer: OwnerKind, overlap: str) -> str:
    """Of a new owner: a domain has one owner at a time, whatever its kind, its state and what it claims of it."""
    if overlap == "same request":
        return "answered"
    if overlap == "same id":
        return "duplicate" if comer == first.kind else "admitted"
    return "overlap" if first.holder and overlap != "elsewhere" else "admitted"


def attempting(first: First, overlap: str) -> str:
    """Of a new attempt."""
    if overlap == "elsewhere":
        return "admitted"
    if first.holder != ("execution", "ACTIVE"):
        return "parent"  # also where no activation ever had the domains
    if overlap == "stale epoch":
        return "stale"
    if overlap in ("same try", "earlier try"):
        return "duplicate"
    if overlap == "beside it":
        return "admitted"
    return "overlap" if first.unresolved else "admitted"


def invoking(first: First, overlap: str) -> str:
    """Of a new invocation of a qualification run."""
    if overlap == "elsewhere":
        return "admitted"
    if first.holder is None or first.holder[0] == "execution":
        return "foreign"
    if overlap == "same invocation":
        return "duplicate"
    if first.holder[1] not in ("ACTIVE", "SEALING"):
        return "parent"
    if overlap == "stale epoch":
        return "foreign"
    if overlap == "beside it":
        return "admitted"
    return "overlap" if first.unresolved else "admitted"


# The cells

SHARED = ("its first guard", "its second guard", "all of its guards", "a guard of it and another")
OWNER_OVERLAPS = ("elsewhere", "one clickhouse domain", "one mssql domain", "all domains", "same id")


def attempt_overlaps(first: First) -> tuple[str, ...]:
    """Where no activation of these domains is ACTIVE, one guard is as good as another: the parent refuses."""
    tries = ("same try", "earlier try", "next try") if first.kind == "execution" and first.operation else ()
    free = () if first.now else ("elsewhere",)
    if first.holder != ("execution", "ACTIVE"):
        return (*free, "all of its guards", *tries)
    return (*free, "beside it", "stale epoch", *SHARED, *tries)


def invocation_overlaps(first: First) -> tuple[str, ...]:
    again = ("same invocation", "next try") if first.kind == "qualification" and first.operation else ()
    return ("elsewhere", "beside it", "stale epoch", *SHARED, *again)


ACTIVATIONS = [
    (first, overlap)
    for first in FIRSTS
    for overlap in (*OWNER_OVERLAPS, "same request")
    if (overlap != "same request" or first.kind == "execution") and (overlap != "elsewhere" or not first.now)
]
RUNS = list(itertools.product(FIRSTS, OWNER_OVERLAPS))
ATTEMPTS = [(first, overlap) for first in FIRSTS for overlap in attempt_overlaps(first)]
INVOCATIONS = [(first, overlap) for first in FIRSTS for overlap in invocation_overlaps(first)]


# The planted ledger

#: Each workload by the domains that it writes; the operation that was there first has `ab`.
WORKLOADS = {"w_a": "a", "w_ab": "ab", "w_b": "b", "w_bc": "bc", "w_d": "d"}
WORKLOAD_OF = {
    "beside it": "w_d",
    "its first guard": "w_a",
    "its second guard": "w_b",
    "all of its guards": "w_ab",
    "a guard of it and another": "w_bc",
    "stale epoch": "w_ab",
}
CONNECTORS = {"a": "clickhouse", "b": "mssql", "c": "clickhouse", "d": "clickhouse", "p": "postgres"}


def new_domains() -> dict[str, Domain]:
    return {name: Domain.new(connector) for name, connector in CONNECTORS.items()}


def owner_over(
    kind: OwnerKind,
    domains: Mapping[str, Domain],
    *,
    id_: str | None = None,
    had_before: Iterable[Domain] = (),
) -> PlantedOwner:
    epochs = {domain.guard: 2 for domain in had_before}
    if kind == "qualification":
        return PlantedOwner(subject=plant.qualification_over(list(domains.values()), run_id=id_), epochs=epochs)
    workloads = {name: [domains[each] for each in scope] for name, scope in WORKLOADS.items()}
    return PlantedOwner(subject=plant.request_over(workloads, activation_id=id_), epochs=epochs)


@dataclass(frozen=True, kw_only=True)
class Planted:
    """One first owner in the ledger, and its successor if it has one."""

    first: First
    domains: dict[str, Domain]
    owner: PlantedOwner
    operation: PlantedOperation | None
    successor: PlantedOwner | None

    @classmethod
    def of(cls, first: First) -> Planted:
        domains = new_domains()
        owner = owner_over(first.kind, domains)
        operation: PlantedOperation | None = None
        if first.operation is not None and first.kind == "execution":
            operation = plant.attempt_of(owner, "w_ab", make.coordinates(f"run {uuid.uuid4()}", try_number=2))
        elif first.operation is not None:
            operation = plant.invocation_of(owner, [domains["a"].guard, domains["b"].guard])
        successor = None
        if first.now is not None:
            had = [domain for domain in domains.values() if domain.guard in owner.claims]
            successor = owner_over(first.now, domains, had_before=had)
        return cls(first=first, domains=domains, owner=owner, operation=operation, successor=successor)

    def writes(self) -> Iterator[Write]:
        yield from (domain.enrolled() for domain in self.domains.values())
        yield from plant.life(self.owner, self.first.state, self.operation, self.first.operation)
        if self.successor is not None:
            yield from plant.life(self.successor, "ACTIVE", None, None)


@dataclass(kw_only=True)
class Matrix:
    activations: ActivationStore
    attempts: AttemptStore
    session: Any
    planted: dict[First, Planted]
    fresh: dict[str, Domain] = field(default_factory=new_domains)
    elsewhere: dict[OwnerKind, PlantedOwner] = field(default_factory=dict)

    def accepts(self, writes: Iterable[Write]) -> str:
        """What the database says to rows of whoever holds the lock; they are taken back in any case."""
        text, parameters = plant.batch(writes, commit=False)
        try:
            drain(self.session, text, *parameters)
        except Exception as err:
            drain(self.session, "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;")
            return str(err)
        return "accepted"


@pytest.fixture(scope="module")
def matrix(tsql_server: Any) -> Iterator[Matrix]:
    """All first owners in one ledger. Afterwards it is byte for byte what it was, and audits clean."""
    database = fresh_database(tsql_server)
    ledger = open_ledger(database)
    session = ledger.connect()
    session.setautocommit(True)  # type: ignore[attr-defined]  # mssql-python's connection
    stopping = StoppingAtCommit(ledger.connect)
    stopped = ledger.through(stopping)
    found = Matrix(
        activations=stopped.activations,
        attempts=stopped.attempts,
        session=session,
        planted={first: Planted.of(first) for first in FIRSTS},
    )
    for planted in found.planted.values():
        text, parameters = plant.batch(planted.writes(), commit=True)
        drain(session, text, *parameters)
    for kind in KINDS:
        domains = new_domains()
        found.elsewhere[kind] = owner_over(kind, domains)
        writes = [*(domain.enrolled() for domain in domains.values())]
        text, parameters = plant.batch([*writes, *plant.life(found.elsewhere[kind], "ACTIVE", None, None)], commit=True)
        drain(session, text, *parameters)
    text, parameters = plant.batch([domain.enrolled() for domain in found.fresh.values()], commit=True)
    drain(session, text, *parameters)
    install.audit(ledger.connect, ledger.settings)
    before = contents(session)
    yield found
    after = contents(session)
    stopping.close()
    session.close()
    drop_database(tsql_server, database)
    assert after == before


def named(value: object) -> str:
    return str(value).replace(" ", "-")


def test_every_combination_is_either_planted_or_refused_by_a_named_rule() -> None:
    assert len(EVERY) == (4 + 6) * 5
    assert {replace(first, now=None) for first in FIRSTS} == {first for first in EVERY if impossible(first) is None}
    assert len(ACTIVATIONS) + len(RUNS) + len(ATTEMPTS) + len(INVOCATIONS) > 600


@pytest.mark.parametrize("first", [first for first in EVERY if impossible(first)], ids=named)
def test_what_cannot_be_is_refused_to_whoever_holds_the_lock(matrix: Matrix, first: First) -> None:
    assert str(impossible(first)) in matrix.accepts(Planted.of(first).writes())


@pytest.mark.parametrize(("first", "overlap"), ACTIVATIONS, ids=named)
def test_an_activation_that_comes_after(matrix: Matrix, first: First, overlap: str) -> None:
    planted = matrix.planted[first]
    scope = {
        "elsewhere": (),
        "same id": (),
        "one clickhouse domain": "a",
        "one mssql domain": "b",
        "all domains": "abcd",
    }.get(overlap, ())
    shared = {name: planted.domains[name] for name in scope}
    id_ = planted.owner.owner_id if overlap == "same id" else None
    request = owner_over("execution", {**matrix.fresh, **shared}, id_=id_).subject
    if overlap == "same request":
        request = planted.owner.subject
    assert isinstance(request, ActivationRequest)

    verdict, blockers = outcome_of(lambda: matrix.activations.prepare(request))

    assert verdict == acquiring(first, "execution", overlap)
    if verdict == "overlap":
        holder = planted.successor or planted.owner
        assert all(f"{holder.kind} {holder.owner_id}" in blocker for blocker in blockers)
        assert len(blockers) == len(scope)


REFUSALS = {
    "overlap": r"domain_still_owned|operation_overlap",
    "duplicate": r"(?i)duplicate key|PRIMARY KEY|UNIQUE KEY",
    "parent": "operation_owner",
    "foreign": r"operation_domain_epoch|FOREIGN KEY",
}


def refusal(said: str) -> str:
    if said == "accepted":
        return "admitted"
    found = [name for name, pattern in REFUSALS.items() if re.search(pattern, said)]
    return found[0] if len(found) == 1 else said


@pytest.mark.parametrize(("first", "overlap"), RUNS, ids=named)
def test_a_qualification_run_that_comes_after(matrix: Matrix, first: First, overlap: str) -> None:
    planted = matrix.planted[first]
    scope = {"one clickhouse domain": "a", "one mssql domain": "b", "all domains": "abcd"}.get(overlap, "")
    shared = {name: planted.domains[name] for name in scope}
    id_ = planted.owner.owner_id if overlap == "same id" else None
    run = owner_over("qualification", {**matrix.fresh, **shared}, id_=id_, had_before=shared.values())

    assert refusal(matrix.accepts(run.acquired())) == acquiring(first, "qualification", overlap)


def outcome_of(call: Callable[[], object]) -> tuple[str, tuple[str, ...]]:
    try:
        return ("admitted" if would_commit(call) else "answered"), ()
    except Overlap as err:
        return "overlap", err.blockers
    except Duplicate:
        return "duplicate", ()
    except StaleEpoch:
        return "stale", ()
    except ParentNotActive:
        return "parent", ()
    except AdmissionRefused as err:
        return err.reason, ()


@pytest.mark.parametrize(("first", "overlap"), ATTEMPTS, ids=named)
def test_an_attempt_that_comes_after(matrix: Matrix, first: First, overlap: str) -> None:
    planted = matrix.planted[first]
    current = planted.successor or planted.owner
    if overlap == "elsewhere":
        current = matrix.elsewhere["execution"]
    elif current.kind == "qualification":
        # An activation that could not be prepared, or one that has ended.
        current = planted.owner if first.kind == "execution" else owner_over("execution", planted.domains)
    where = None
    if overlap.endswith(" try"):
        assert isinstance(planted.operation, plant.PlantedAttempt)
        number = {"same try": 2, "earlier try": 1, "next try": 3}[overlap]
        where = replace(planted.operation.coordinates, try_number=number)
    ahead = int(overlap == "stale epoch")
    asked = plant.attempt_of(current, WORKLOAD_OF.get(overlap, "w_ab"), where, ahead=ahead)

    verdict, blockers = outcome_of(
        lambda: matrix.attempts.admit_once(asked.attempt, asked.coordinates, asked.principals)
    )

    assert verdict == attempting(first, overlap)
    if verdict == "overlap":
        assert planted.operation is not None
        assert blockers == (f"execution {planted.operation.key} ({first.operation})",)


@pytest.mark.parametrize(("first", "overlap"), INVOCATIONS, ids=named)
def test_an_invocation_that_comes_after(matrix: Matrix, first: First, overlap: str) -> None:
    planted = matrix.planted[first]
    current = planted.successor or planted.owner
    guards = [planted.domains[name].guard for name in WORKLOADS[WORKLOAD_OF.get(overlap, "w_ab")]]
    if overlap == "elsewhere":
        current = matrix.elsewhere["qualification"]
        guards = sorted(current.claims)[:2]
    elif first.holder is None or first.holder[0] == "execution":
        # Guards that its own run does not have.
        current = replace(matrix.elsewhere["qualification"], epochs=current.epochs)
    invocation: dict[str, Any] = {"ahead": int(overlap == "stale epoch")}
    if overlap in ("same invocation", "next try"):
        assert isinstance(planted.operation, plant.PlantedInvocation)
        invocation["invocation_id"] = planted.operation.operation.runner_invocation_id
        invocation["try_number"] = 1 if overlap == "same invocation" else 2
        guards = guards if overlap == "next try" else [planted.domains["d"].guard]
    asked = plant.invocation_of(current, guards, **invocation)

    assert refusal(matrix.accepts(asked.admitted())) == invoking(first, overlap)
