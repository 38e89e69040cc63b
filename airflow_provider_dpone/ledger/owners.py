"""Activations: the execution owners of physical domains.

prepare reserves every domain of the request at its next epoch, activate opens admission, begin_retirement closes it
and finalize_retirement gives the domains back when nothing is unresolved. Each step is repeatable: asked again with the
same request, it answers what is stored. prepare and activate pass the door first: a recorded gate profile that unlocks
the ledger's authority on the server as it is in that transaction. withdraw is the way out of PREPARED when it does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

from airflow_provider_dpone.contracts.activation import ActivationRequest, decode_request
from airflow_provider_dpone.contracts.errors import (
    ActivationUnknown,
    AdmissionRefused,
    ConfigurationError,
    Duplicate,
    LedgerTampered,
    Overlap,
    ParentNotActive,
    StaleEpoch,
)
from airflow_provider_dpone.contracts.ownership import owner_key
from airflow_provider_dpone.contracts.rules import coordinate_text, record
from airflow_provider_dpone.drivers import Connect
from airflow_provider_dpone.ledger import history
from airflow_provider_dpone.ledger.gate_receipts import STANDING, standing_of
from airflow_provider_dpone.ledger.questions import Question, Results
from airflow_provider_dpone.ledger.records import Activation, OwnerState
from airflow_provider_dpone.ledger.settings import LedgerSettings
from airflow_provider_dpone.ledger.transaction import ControlLedger, ControlTransaction, Part

Rows = Sequence[tuple[Any, ...]]

#: The states an owner passes, in order; a step is done when the owner is at or past its target.
_LIFE: tuple[OwnerState, ...] = ("PREPARED", "ACTIVE", "RETIRING", "RETIRED")


class ActivationStore:
    """The life of execution owners."""

    def __init__(self, connect: Connect, settings: LedgerSettings) -> None:
        self._ledger = ControlLedger(connect, settings)

    def prepare(self, request: ActivationRequest) -> Activation:
        """Reserve all domains of the request for a new PREPARED owner, each at its next epoch.

        Refuses with Overlap while another owner holds one of them, with ConfigurationError when one is not enrolled,
        with Duplicate when the activation id was used with another request, and with AdmissionRefused when no recorded
        gate profile unlocks this ledger's authority on this server.
        """
        _require_admissible(request)

        def work(transaction: ControlTransaction) -> Activation | None:
            results = transaction.run(
                ("owner_rows", [request.owner_key]), ("owned_domains", []), STANDING, ("history", [])
            )
            history.verify(results[6:])
            standing_of(results[4:6]).require_unlocked()
            owner, partitions, _, domains = results[:4]
            if owner:
                return _exact(_activation(owner[0], partitions), request)
            transaction.write(*_acquisition(request, domains))
            return None

        return self._ledger.mutate("prepare", work, _reached(request, "PREPARED"), unknown=ActivationUnknown)

    def activate(self, request: ActivationRequest) -> Activation:
        """Open admission: PREPARED -> ACTIVE. Refused as ``prepare`` is when the door is shut."""
        return self._advance(request, "PREPARED", "ACTIVE")

    def withdraw(self, request: ActivationRequest) -> Activation:
        """Take back what was only prepared: PREPARED -> RETIRING in one transaction, so that nobody is ever admitted."""
        return self._advance(request, "PREPARED", "ACTIVE", "RETIRING")

    def begin_retirement(self, request: ActivationRequest) -> Activation:
        """Close admission: ACTIVE -> RETIRING. Operations that run go on to their end."""
        return self._advance(request, "ACTIVE", "RETIRING")

    def finalize_retirement(self, request: ActivationRequest) -> Activation:
        """Release all domains: RETIRING -> RETIRED. Refuses with Overlap while an operation is unresolved."""
        return self._advance(request, "RETIRING", "RETIRED")

    def require_active(self, request: ActivationRequest) -> Activation:
        """The stored activation, if it is ACTIVE, exactly this request, and still holds all its domains."""
        record(request, ActivationRequest, "request")

        def held(results: Results) -> Activation:
            owner, partitions, _ = results
            if not owner:
                raise ParentNotActive(
                    "parent_absent", happened=f"the ledger has no activation {request.activation_id}."
                )
            activation = _exact(_activation(owner[0], partitions), request)
            if activation.state != "ACTIVE":
                raise ParentNotActive("parent_state", happened=f"the activation is {activation.state}.")
            _require_held(activation, partitions)
            return activation

        return self._ledger.read(Question((("owner_rows", [request.owner_key]),), held))

    def read(self, activation_id: str) -> Activation | None:
        """One activation, exactly as stored."""
        return self._ledger.read(_stored(owner_key("execution", activation_id)))

    def list(self, *, retired: bool = True) -> tuple[Activation, ...]:
        """Every activation, by its id; those that are RETIRED too, of which there may be many, unless told otherwise."""
        return self._ledger.read(THE_ACTIVATIONS if retired else _LIVING_ACTIVATIONS)

    def _advance(self, request: ActivationRequest, before: OwnerState, *states: OwnerState) -> Activation:
        """Through the states to the last of them, in one transaction."""
        after = states[-1]
        record(request, ActivationRequest, "request")

        def work(transaction: ControlTransaction) -> Activation | None:
            door = (STANDING,) if after == "ACTIVE" else ()
            results = transaction.run(("owner_rows", [request.owner_key]), ("history", []), *door)
            owner, partitions, unresolved = results[:3]
            past = results[3 : 3 + len(history.FINDINGS)]
            history.verify(past)
            if door:
                standing_of(results[3 + len(past) :]).require_unlocked()
            if not owner:
                raise ParentNotActive(
                    "parent_absent", happened=f"the ledger has no activation {request.activation_id}."
                )
            activation = _exact(_activation(owner[0], partitions), request)
            if activation.state == after:
                return activation
            if activation.state != before:
                raise ParentNotActive(
                    "owner_transition",
                    happened=f"the activation is {activation.state}; only {before} can become {after}.",
                    not_done="its state was not changed.",
                )
            _require_held(activation, partitions)
            *between, last = pairwise((before, *states))
            for step in between:
                transaction.run(("advance_owner", [activation.owner_key, *step]))
            parts: list[Part] = [("advance_owner", [activation.owner_key, *last])]
            if after == "RETIRED":
                if unresolved:
                    raise Overlap(
                        "owner_unresolved",
                        blockers=[f"{key} ({state})" for key, _, state in unresolved],
                        not_done="the activation stays RETIRING and keeps its domains.",
                    )
                parts.append(("release_domains", []))
            transaction.write(*parts)
            return None

        return self._ledger.mutate(after.lower(), work, _reached(request, after), unknown=ActivationUnknown)


def _activations(results: Results) -> tuple[Activation, ...]:
    owners, partitions = results
    by_owner: dict[str, list[tuple[Any, ...]]] = {row[0]: [] for row in owners}
    for key, *partition in partitions:
        by_owner.setdefault(key, []).append(tuple(partition))
    return tuple(_activation(row, by_owner[row[0]]) for row in owners)


#: Every activation, every byte verified, by its id.
THE_ACTIVATIONS = Question((("all_owners", [1]),), _activations)
_LIVING_ACTIVATIONS = Question((("all_owners", [0]),), _activations)


def _stored(key: str) -> Question[Activation | None]:
    def exactly(results: Results) -> Activation | None:
        owner, partitions, _ = results
        return _activation(owner[0], partitions) if owner else None

    return Question((("owner_rows", [key]),), exactly)


def _reached(request: ActivationRequest, state: OwnerState) -> Question[Activation | None]:
    """The activation if it reached a state. Another request under its id is nothing that this step wrote."""

    def judged(activation: Activation | None) -> Activation | None:
        if activation is None:
            return None
        past = _LIFE.index(_exact(activation, request).state) >= _LIFE.index(state)
        return activation if past else None

    return _stored(request.owner_key).then(judged)


def _require_admissible(request: ActivationRequest) -> None:
    record(request, ActivationRequest, "request")
    for workload in request.workloads:
        coordinate_text(workload.workload_id)
    if request.execution_grant_sha256 is not None:
        raise ConfigurationError(
            "nonproduction_request", happened="activation of the nonproduction family is not available yet."
        )


def _acquisition(request: ActivationRequest, domains: Rows) -> list[Part]:
    """The batch that reserves every domain, or the refusal that says which one cannot be had."""
    known = {row[0]: row for row in domains}
    parts: list[Part] = [
        ("insert_owner", [request.owner_key, request.activation_id, request.sha256, request.document()])
    ]
    holders: list[str] = []
    for resource in request.resources:
        row = known.get(resource.guard_id)
        if row is None:
            raise ConfigurationError(
                "domain_not_enrolled",
                happened=f"the {resource.connector} domain {resource.guard_id} is not enrolled in the ledger.",
                check="`dponectl ledger enroll mssql` or `enroll clickhouse`, and whether the database was replaced since it was enrolled.",
            )
        if row[1:4] != (resource.connector, resource.service_id, resource.physical_subject_sha256):
            raise LedgerTampered("domain_identity", happened=f"domain {resource.guard_id} has another identity.")
        epoch, holder = row[4], row[5]
        if holder is not None:
            kind, identity, state = row[6:9]
            holders.append(f"{kind} {identity} ({state}) on {resource.connector} {resource.guard_id}")
        parts.append(("acquire_domain", [resource.guard_id, resource.guard_id, resource.document(), epoch + 1]))
    if holders:
        raise Overlap(
            "domain_owned",
            blockers=holders,
            not_done="nothing was reserved.",
            check="retire the owner named here first, with `dponectl composition retire`.",
        )
    return parts


def _activation(owner: tuple[Any, ...], partitions: Rows) -> Activation:
    """Rebuild an activation; ``partitions`` start with guard, epoch, claim. Every byte has to be the original one."""
    key, owner_id, sha256, document, state = owner
    try:
        request = decode_request(document, sha256)
    except AdmissionRefused as err:
        raise LedgerTampered("owner_original", happened=f"the original of owner {key} cannot be read back.") from err
    claims = {resource.guard_id: resource.document() for resource in request.resources}
    if request.owner_key != key or request.activation_id != owner_id or state not in _LIFE:
        raise LedgerTampered("owner_original", happened=f"owner {key} is not the activation of its original.")
    if {row[0]: row[2] for row in partitions} != claims:
        raise LedgerTampered(
            "owner_partition", happened=f"the partitions of owner {key} are not those of its original."
        )
    return Activation(
        owner_key=key,
        activation_id=owner_id,
        request=request,
        request_sha256=sha256,
        state=cast("OwnerState", state),
        guard_epochs=tuple(sorted((row[0], row[1]) for row in partitions)),
    )


def _exact(activation: Activation, request: ActivationRequest) -> Activation:
    if activation.request != request:
        raise Duplicate(
            "activation_id_reused",
            happened=f"the activation id {request.activation_id} is in the ledger with another request.",
            not_done="the stored activation was not changed.",
            check="the stored request, with `dponectl composition status`.",
            avoid="replace a request: a new occurrence has a new activation id.",
        )
    return activation


def _require_held(activation: Activation, partitions: Rows) -> None:
    """``partitions`` as ``owner_rows`` has them: guard, epoch, claim, the domain's epoch, the domain's owner."""
    for guard, epoch, _, current, holder in partitions:
        if (current, holder) != (epoch, activation.owner_key):
            raise StaleEpoch(
                "domain_moved_on",
                happened=f"domain {guard} is at epoch {current}; the activation acquired it at epoch {epoch}.",
            )
