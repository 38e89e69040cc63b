"""The attempt identity: one try of one workload under one activation, at exact guard epochs.

Its fingerprint digest is the operation key and the replay key of the ledger. Its bytes are deterministic: a twin of
the same try has the same digest, so the digest alone never tells who executes (see ``principal``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.errors import AdmissionRefused
from airflow_provider_dpone.contracts.rules import (
    ascending,
    coordinate_text,
    digest,
    identity_text,
    refuse,
    shaped,
    whole_number,
)

SCHEMA = "dpone.composition-attempt.v1"

GuardEpochs = tuple[tuple[str, int], ...]


def guard_epochs(value: object) -> GuardEpochs:
    """A non-empty tuple of (guard digest, epoch > 0), ascending by guard and without repetition."""
    if type(value) is not tuple or any(type(pair) is not tuple or len(pair) != 2 for pair in value):
        refuse("attempt_guard_epochs")
    if not value:
        refuse("closure")
    for guard, epoch in value:
        digest(guard)
        whole_number(epoch, "attempt_guard_epochs", at_least=1)
    ascending([guard for guard, _ in value], "closure")
    return value


def guard_epochs_sha256(epochs: GuardEpochs) -> str:
    """The subject by which proofs bind the epochs."""
    return canonical.fingerprint_sha256({"guard_epochs": guard_epochs(epochs)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    activation_request_sha256: str
    workload_id: str
    constituent_id: str
    pack_sha256: str
    plan_sha256: str
    dag_run_id: str
    task_id: str
    try_number: int
    map_index: int
    guard_epochs: GuardEpochs

    def __post_init__(self) -> None:
        digest(self.activation_request_sha256)
        digest(self.pack_sha256)
        digest(self.plan_sha256)
        for text in (self.workload_id, self.constituent_id, self.dag_run_id, self.task_id):
            identity_text(text)
        if type(self.try_number) is not int or self.try_number < 1:
            refuse("scheduler_attempt")
        if type(self.map_index) is not int or self.map_index < -1:
            refuse("scheduler_attempt")
        guard_epochs(self.guard_epochs)

    @property
    def sha256(self) -> str:
        return canonical.fingerprint_sha256({"schema": SCHEMA, **self.members()})

    @property
    def guard_ids(self) -> tuple[str, ...]:
        return tuple(guard for guard, _ in self.guard_epochs)

    @property
    def guard_epochs_sha256(self) -> str:
        return guard_epochs_sha256(self.guard_epochs)

    def members(self) -> dict[str, object]:
        """The members as they stand inside other documents, without the schema."""
        return {
            "activation_request_sha256": self.activation_request_sha256,
            "workload_id": self.workload_id,
            "constituent_id": self.constituent_id,
            "pack_sha256": self.pack_sha256,
            "plan_sha256": self.plan_sha256,
            "dag_run_id": self.dag_run_id,
            "task_id": self.task_id,
            "try_number": self.try_number,
            "map_index": self.map_index,
            "guard_epochs": self.guard_epochs,
        }

    def document(self) -> bytes:
        """The bytes that the ledger stores: exact, although the digest is a fingerprint."""
        return canonical.exact_bytes({"schema": SCHEMA, **self.members()})

    def require_admissible(self) -> Attempt:
        """Refuse identity texts whose folding could make two attempts share one digest."""
        for text in (self.workload_id, self.constituent_id, self.dag_run_id, self.task_id):
            coordinate_text(text)
        return self


@shaped("attempt_members")
def attempt_from(members: Mapping[str, Any]) -> Attempt:
    """Rebuild the typed record from decoded members (without the schema)."""
    values = dict(members)
    epochs = values.get("guard_epochs")
    if type(epochs) is list and all(type(pair) is list for pair in epochs):
        values["guard_epochs"] = tuple(tuple(pair) for pair in epochs)
    return Attempt(**values)


def decode_attempt(document: object, sha256: object) -> Attempt:
    """Read a stored attempt back: same digest *and* same bytes, or ``attempt_persistence_readback``."""
    expected = digest(sha256)
    if type(document) is not bytes:
        refuse("attempt_persistence_readback")
    try:
        members = canonical.strict_object(document)
        if members.pop("schema", None) != SCHEMA:
            refuse("attempt_persistence_readback")
        attempt = attempt_from(members)
    except (canonical.StrictJsonError, AdmissionRefused) as err:
        raise AdmissionRefused("attempt_persistence_readback") from err
    if attempt.sha256 != expected or attempt.document() != document:
        refuse("attempt_persistence_readback")
    return attempt
