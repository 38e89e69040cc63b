"""The qualification owner, its operations and their keys.

They share the ledger with executions but no field is borrowed: there is no pack, deployment or task in them. A
replacement of action, plan or epochs cannot turn one runner invocation into a second admission, because the
invocation key (the replay key) names only the owner, the work item, the invocation and its try.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from airflow_provider_dpone.contracts import canonical, rules
from airflow_provider_dpone.contracts.attempt import GuardEpochs
from airflow_provider_dpone.contracts.errors import AdmissionRefused
from airflow_provider_dpone.contracts.ownership import PhysicalClaim, claim_from, owner_key

OWNER_SCHEMA = "dpone.composition-qualification-owner.v1"
OPERATION_SCHEMA = "dpone.composition-qualification-operation.v1"
INVOCATION_SCHEMA = "dpone.composition-qualification-invocation-key.v1"

Action = Literal["fixture_seed", "route_qualification", "source_seal"]
ACTIONS: tuple[Action, ...] = ("fixture_seed", "route_qualification", "source_seal")
GUARDS_MAX = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class QualificationOwner:
    """The complete physical scope of one qualification run, over all three engines."""

    qualification_run_id: str
    consumption_subject_sha256: str
    grant_sha256: str
    fixture_plan_sha256: str
    qualification_plan_sha256: str
    scope_sha256: str
    environment_id: str
    campaign_id: str
    claims: tuple[PhysicalClaim, ...]

    def __post_init__(self) -> None:
        with rules.refusing_as(AdmissionRefused, "qualification_owner"):
            rules.uuid4_text(self.qualification_run_id, "uuid")
            rules.uuid4_text(self.campaign_id, "uuid")
            rules.uuid_text(self.environment_id, "uuid", nil=False)
            for value in (
                self.consumption_subject_sha256,
                self.grant_sha256,
                self.fixture_plan_sha256,
                self.qualification_plan_sha256,
                self.scope_sha256,
            ):
                rules.digest(value)
        rules.records(self.claims, PhysicalClaim, "qualification_owner_claims", at_most=GUARDS_MAX)
        rules.ascending([claim.guard_id for claim in self.claims], "qualification_owner")
        if {claim.connector for claim in self.claims} != {"mssql", "clickhouse", "postgres"}:
            rules.refuse("qualification_owner_partition")

    @property
    def owner_key(self) -> str:
        return owner_key("qualification", self.qualification_run_id)

    @property
    def sha256(self) -> str:
        return canonical.exact_sha256(self.members())

    def members(self) -> dict[str, object]:
        return {
            "schema": OWNER_SCHEMA,
            "qualification_run_id": self.qualification_run_id,
            "consumption_subject_sha256": self.consumption_subject_sha256,
            "grant_sha256": self.grant_sha256,
            "fixture_plan_sha256": self.fixture_plan_sha256,
            "qualification_plan_sha256": self.qualification_plan_sha256,
            "scope_sha256": self.scope_sha256,
            "environment_id": self.environment_id,
            "campaign_id": self.campaign_id,
            "claims": [claim.members() for claim in self.claims],
        }

    def document(self) -> bytes:
        """The bytes that the ledger stores as the owner's subject."""
        return canonical.exact_bytes(self.members())


@dataclass(frozen=True, slots=True, kw_only=True)
class QualificationOperation:
    """One invocation of one planned work item at exact guard epochs."""

    owner_key: str
    owner_subject_sha256: str
    qualification_run_id: str
    grant_sha256: str
    fixture_plan_sha256: str
    qualification_plan_sha256: str
    work_item_id: str
    work_item_sha256: str
    action: Action
    runner_invocation_id: str
    try_number: int
    guard_epochs: GuardEpochs

    def __post_init__(self) -> None:
        with rules.refusing_as(AdmissionRefused, "qualification_operation"):
            for value in (
                self.owner_key,
                self.owner_subject_sha256,
                self.grant_sha256,
                self.fixture_plan_sha256,
                self.qualification_plan_sha256,
                self.work_item_sha256,
            ):
                rules.digest(value)
            rules.uuid4_text(self.qualification_run_id, "uuid")
            rules.uuid4_text(self.runner_invocation_id, "uuid")
            rules.trimmed_text(self.work_item_id, "text")
        rules.one_of(self.action, ACTIONS, "qualification_operation_action")
        rules.whole_number(self.try_number, "qualification_operation_positive_bigint", at_least=1)
        _require_epochs(self.guard_epochs)
        if self.owner_key != owner_key("qualification", self.qualification_run_id):
            rules.refuse("qualification_operation_owner")

    @property
    def sha256(self) -> str:
        """The operation key."""
        return canonical.exact_sha256(self.members())

    @property
    def invocation_key(self) -> str:
        """The replay key."""
        return invocation_key(
            owner_key=self.owner_key,
            work_item_id=self.work_item_id,
            runner_invocation_id=self.runner_invocation_id,
            try_number=self.try_number,
        )

    def members(self) -> dict[str, object]:
        return {
            "schema": OPERATION_SCHEMA,
            "owner_key": self.owner_key,
            "owner_subject_sha256": self.owner_subject_sha256,
            "qualification_run_id": self.qualification_run_id,
            "grant_sha256": self.grant_sha256,
            "fixture_plan_sha256": self.fixture_plan_sha256,
            "qualification_plan_sha256": self.qualification_plan_sha256,
            "work_item_id": self.work_item_id,
            "work_item_sha256": self.work_item_sha256,
            "action": self.action,
            "runner_invocation_id": self.runner_invocation_id,
            "try_number": self.try_number,
            "guard_epochs": self.guard_epochs,
        }

    def document(self) -> bytes:
        return canonical.exact_bytes(self.members())


def invocation_key(*, owner_key: str, work_item_id: str, runner_invocation_id: str, try_number: int) -> str:
    """What one try of one invocation may use once, whatever else changes."""
    with rules.refusing_as(AdmissionRefused, "qualification_operation"):
        rules.digest(owner_key)
        rules.trimmed_text(work_item_id, "text")
        rules.uuid4_text(runner_invocation_id, "uuid")
        rules.whole_number(try_number, "number", at_least=1)
    return canonical.exact_sha256(
        {
            "schema": INVOCATION_SCHEMA,
            "owner_key": owner_key,
            "work_item_id": work_item_id,
            "runner_invocation_id": runner_invocation_id,
            "try_number": try_number,
        }
    )


def _require_epochs(value: object) -> None:
    reason = "qualification_operation_epochs"
    if type(value) is not tuple or not 0 < len(value) <= GUARDS_MAX:
        rules.refuse(reason)
    if any(type(pair) is not tuple or len(pair) != 2 for pair in value):
        rules.refuse(reason)
    for guard, epoch in value:
        rules.digest(guard, "qualification_operation")
        rules.whole_number(epoch, "qualification_operation_positive_bigint", at_least=1)
    rules.ascending([guard for guard, _ in value], "qualification_operation")


@rules.shaped("qualification_owner")
def qualification_owner_from(body: Mapping[str, Any]) -> QualificationOwner:
    """Rebuild the typed record from decoded members."""
    values = dict(body)
    if values.pop("schema", None) != OWNER_SCHEMA:
        rules.refuse("qualification_owner")
    values["claims"] = tuple(claim_from(item) for item in rules.array(values.get("claims"), "qualification_owner"))
    return QualificationOwner(**values)


@rules.shaped("qualification_operation")
def qualification_operation_from(body: Mapping[str, Any]) -> QualificationOperation:
    """Rebuild the typed record from decoded members."""
    values = dict(body)
    if values.pop("schema", None) != OPERATION_SCHEMA:
        rules.refuse("qualification_operation")
    pairs = rules.array(values.get("guard_epochs"), "qualification_operation_epochs")
    values["guard_epochs"] = tuple(rules.array(pair, "qualification_operation_epochs") for pair in pairs)
    return QualificationOperation(**values)


def decode_qualification_owner(document: bytes, sha256: str) -> QualificationOwner:
    """Read a stored owner subject back: same digest *and* same bytes."""
    owner = qualification_owner_from(_stored(document, "qualification_owner"))
    if owner.sha256 != rules.digest(sha256) or owner.document() != document:
        rules.refuse("qualification_owner")
    return owner


def decode_qualification_operation(document: bytes, sha256: str) -> QualificationOperation:
    """Read a stored operation back: same digest *and* same bytes."""
    operation = qualification_operation_from(_stored(document, "qualification_operation"))
    if operation.sha256 != rules.digest(sha256) or operation.document() != document:
        rules.refuse("qualification_operation")
    return operation


def _stored(document: bytes, reason: str) -> dict[str, Any]:
    if type(document) is not bytes:
        rules.refuse(reason)
    try:
        return canonical.strict_object(document, limit=canonical.QUALIFICATION_DOCUMENT_LIMIT)
    except canonical.StrictJsonError as err:
        raise AdmissionRefused(reason) from err
