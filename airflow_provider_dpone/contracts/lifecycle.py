"""The state machines, as functions. Every other module asks them; none draws its own arrows.

Execution owner       PREPARED -> ACTIVE -> RETIRING -> RETIRED
Qualification owner   PREPARED -> ACTIVE -> SEALING -> SEALED -> TRANSFERRED; PREPARED -> SEALING;
                      SEALING -> RETIRED; SEALED -> RETIRED
Operation             RUNNING -> SUCCEEDED | FAILED | COMMIT_UNKNOWN; COMMIT_UNKNOWN -> SUCCEEDED | FAILED,
                      by explicit reconciliation only
Login gate            JOURNALED -> READY | CLOSING; READY -> CLOSING; CLOSING -> CLOSED
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from airflow_provider_dpone.contracts import rules
from airflow_provider_dpone.contracts.ownership import OWNER_KINDS, OwnerKind

Arrows = Mapping[str, frozenset[str]]


def _machine(*arrows: tuple[str, Iterable[str]]) -> Arrows:
    return MappingProxyType({state: frozenset(targets) for state, targets in arrows})


EXECUTION_OWNER: Arrows = _machine(
    ("PREPARED", ["ACTIVE"]), ("ACTIVE", ["RETIRING"]), ("RETIRING", ["RETIRED"]), ("RETIRED", [])
)
QUALIFICATION_OWNER: Arrows = _machine(
    ("PREPARED", ["ACTIVE", "SEALING"]),
    ("ACTIVE", ["SEALING"]),
    ("SEALING", ["SEALED", "RETIRED"]),
    ("SEALED", ["TRANSFERRED", "RETIRED"]),
    ("TRANSFERRED", []),
    ("RETIRED", []),
)
OPERATION: Arrows = _machine(
    ("RUNNING", ["SUCCEEDED", "FAILED", "COMMIT_UNKNOWN"]),
    ("COMMIT_UNKNOWN", ["SUCCEEDED", "FAILED"]),
    ("SUCCEEDED", []),
    ("FAILED", []),
)
LOGIN_GATE: Arrows = _machine(
    ("JOURNALED", ["READY", "CLOSING"]), ("READY", ["CLOSING"]), ("CLOSING", ["CLOSED"]), ("CLOSED", [])
)

#: Operations in these states hold their guards against every other operation of any family.
BLOCKING_OPERATION_STATES = frozenset({"RUNNING", "COMMIT_UNKNOWN"})


@rules.shaped("state_machine")
def may_move(machine: Arrows, state: str, target: str) -> bool:
    """Whether the arrow exists. Staying in a state is no arrow."""
    return target in machine.get(state, frozenset())


def require_move(machine: Arrows, state: str, target: str, reason: str) -> str:
    if not may_move(machine, state, target):
        rules.refuse(reason)
    return target


def move_owner(kind: OwnerKind, state: str, target: str) -> str:
    rules.one_of(kind, OWNER_KINDS, "owner_kind")
    machine = EXECUTION_OWNER if kind == "execution" else QUALIFICATION_OWNER
    return require_move(machine, state, target, "owner_transition")


def move_operation(state: str, target: str, *, reconciling: bool) -> str:
    """A RUNNING operation is finalized; a COMMIT_UNKNOWN one moves only when somebody reconciles it."""
    if reconciling != (state == "COMMIT_UNKNOWN"):
        rules.refuse("operation_transition")
    return require_move(OPERATION, state, target, "operation_transition")


def move_login_gate(state: str, target: str) -> str:
    return require_move(LOGIN_GATE, state, target, "login_gate_transition")


def qualification_allows(state: str, action: str) -> bool:
    """SEALING permits the read-only seal and nothing else; SEALED permits nothing."""
    if action == "source_seal":
        return state == "SEALING"
    return action in ("fixture_seed", "route_qualification") and state == "ACTIVE"
