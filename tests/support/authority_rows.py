"""A transaction of the optional groups that answers from rows in memory, which a test may damage."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from airflow_provider_dpone.contracts.canonical import sha256_text
from airflow_provider_dpone.contracts.nonproduction.grants import (
    ExecutionGrant,
    Grant,
    consumption_subject_sha256,
    signature_subject,
)
from airflow_provider_dpone.contracts.nonproduction.registration import GrantOriginals, ceilings, members_of
from airflow_provider_dpone.ledger.transaction import ControlTransaction, Part
from airflow_provider_dpone.ledger.trust import TrustRevision
from tests.support import nonproduction as make

ENVIRONMENT, CAMPAIGN = str(uuid.uuid4()), str(uuid.uuid4())
Row = list[Any]


@dataclass
class Rows:
    """A transaction that answers statements by their names, from rows that a test may damage."""

    policies: list[Row] = field(default_factory=list)
    grants: list[Row] = field(default_factory=list)
    ceilings: list[Row] = field(default_factory=list)
    members: list[Row] = field(default_factory=list)
    bundles: dict[str, object] = field(default_factory=dict)
    lock: str = "Exclusive"

    def run(self, *parts: Part) -> list[list[tuple[Any, ...]]]:
        return [[tuple(row) for row in rows] for name, values in parts for rows in self._answer(name, values)]

    def _answer(self, name: str, values: Sequence[Any]) -> Sequence[Sequence[Row]]:
        if name == "bundle_of":
            return [[[self.bundles[values[0]]]] if values[0] in self.bundles else []]
        if name == "registered_as":
            return [[[ENVIRONMENT, CAMPAIGN]] if values[0] in self.bundles else []]
        if name == "exclusive_rows":
            return [[[row[2]] for row in self.grants if [row[3], row[6]] == list(values)]]
        if name.startswith("insert_"):
            self._insert(name.removeprefix("insert_"), list(values))
            return []
        answers: dict[str, Sequence[Sequence[Row]]] = {
            "policy_rows": [self.policies],
            "all_environments": [[[ENVIRONMENT]] if self.policies else []],
            "lock_mode": [[[self.lock]]],
            "campaign_rows": [self.grants, self.ceilings, self.members],
            "all_campaigns": [
                [[ENVIRONMENT, CAMPAIGN]] if self.grants else [],
                [[subject] for subject in sorted(self.bundles)],
            ],
        }
        return answers[name]

    def _insert(self, table: str, values: Row) -> None:
        if table == "policy":
            self.policies.append(values[1:])
        elif table == "grant":
            subject, registration_id, _, _, order, *columns, request_sha256, request = values
            bundle = columns[10]
            columns[10:11] = [len(bundle), sha256_text(bundle)]
            self.grants.append([order, registration_id, subject, *columns, request_sha256 or None, request or None])
            self.bundles[subject] = bundle
        elif table == "ceiling":
            self.ceilings.append([*values[:2], values[2] or None, *values[3:]])
        else:
            self.members = sorted([*self.members, values[2:]])

    @property
    def transaction(self) -> ControlTransaction:
        return cast("ControlTransaction", self)

    def append(self, **changes: Any) -> TrustRevision:
        policy = make.policy(ENVIRONMENT, **changes)
        number = len(self.policies) + 1
        root = policy.signer.trust_root_sha256
        self.policies.append([number, policy.sha256, policy.document(), root, make.TRUST_ROOT, policy.revocation_epoch])
        return TrustRevision(environment_id=ENVIRONMENT, revision=number, policy=policy, trust_root=make.TRUST_ROOT)

    def register(self, grant: Grant, under: TrustRevision, bundle: bytes = make.BUNDLE) -> GrantOriginals:
        """What the store writes, as the server would answer it."""
        originals = make.originals(grant, bundle)
        subject, signed = consumption_subject_sha256(grant), signature_subject(grant, under.policy)
        request = originals.request
        self.grants.append(
            [
                *(len(self.grants) + 1, str(uuid.uuid4()), subject, grant.phase, grant.grant_id),
                *(originals.subject_id, originals.exclusive_id),
                len(grant.workloads) if isinstance(grant, ExecutionGrant) else 0,
                *(under.revision, under.policy.sha256, grant.sha256, grant.document()),
                *(sha256_text(bundle), len(bundle), sha256_text(bundle), signed.sha256, signed.document()),
                *((None, None) if request is None else (request.sha256, request.document())),
            ]
        )
        self.ceilings += [
            [subject, number, each.workload_sha256, *each.limits.members().values()]
            for number, each in enumerate(ceilings(grant, under.policy))
        ]
        self.bundles[subject] = bundle
        return originals

    def complete(self, *grants: Grant) -> None:
        registered = [(consumption_subject_sha256(grant), grant) for grant in grants]
        self.members = [
            [each.workload_sha256, each.document, each.first_consumption_subject_sha256]
            for each in members_of(registered)
        ]
