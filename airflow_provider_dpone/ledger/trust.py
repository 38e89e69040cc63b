"""Nonproduction trust: append-only policy revisions, each with the trust root that it pins.

The last revision of an environment is in force. A provisioner appends; nothing else writes, and nothing changes what
was appended. Whoever decides by a policy compares the exact revision under the exclusive control lock, in the
transaction of the decision: an equal policy under another number is another revision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_dpone.contracts import canonical, rules
from airflow_provider_dpone.contracts.errors import (
    AdmissionRefused,
    AuthorityRefused,
    ControlUnavailable,
    LedgerTampered,
)
from airflow_provider_dpone.contracts.nonproduction.policy import AuthorityPolicy, decode_policy
from airflow_provider_dpone.drivers import Connect
from airflow_provider_dpone.ledger.groups import GroupLedger
from airflow_provider_dpone.ledger.settings import LedgerSettings
from airflow_provider_dpone.ledger.transaction import ControlTransaction


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustRevision:
    """One policy of an environment as stored, with its number and the trust root's own bytes."""

    environment_id: str
    revision: int
    policy: AuthorityPolicy
    trust_root: bytes


class TrustStore:
    """The policies of the environments. It verifies no signature and admits no work."""

    def __init__(self, connect: Connect, settings: LedgerSettings, *, role: str = "trust provisioner") -> None:
        self._ledger = GroupLedger(connect, settings, "trust", role=role)

    def append(self, policy: AuthorityPolicy, trust_root: bytes, *, after: int) -> TrustRevision:
        """Store the revision that follows number ``after`` (0: the first one), and return it as read back.

        Refused (AuthorityRefused) when another revision is already there (``trust_revision``), when the revocation
        epoch goes back or a revoked grant disappears (``trust_revocation``), and when the bytes are not the trust root
        that the policy pins (``trust_root``). Appending the same again after a lost answer is the same answer.
        """
        with rules.refusing_as(AuthorityRefused):
            rules.record(policy, AuthorityPolicy, "policy")
            rules.whole_number(after, "trust_revision", at_least=0, at_most=rules.INT_MAX - 1)
        document = policy.document()
        _require_sizes(document, trust_root)
        if canonical.sha256_text(trust_root) != policy.signer.trust_root_sha256:
            raise _refused("trust_root", "the bytes are not the trust root that the policy pins.")
        wanted = TrustRevision(
            environment_id=policy.environment_id, revision=after + 1, policy=policy, trust_root=trust_root
        )

        def work(transaction: ControlTransaction) -> TrustRevision | None:
            history = read_history(transaction, policy.environment_id)
            if wanted in history[-1:]:
                return wanted
            _require_next(history, wanted)
            transaction.run(
                (
                    "insert_policy",
                    [
                        wanted.environment_id,
                        wanted.revision,
                        policy.sha256,
                        document,
                        policy.signer.trust_root_sha256,
                        trust_root,
                        policy.revocation_epoch,
                    ],
                )
            )
            return None

        def readback(transaction: ControlTransaction) -> TrustRevision | None:
            return wanted if wanted in read_history(transaction, policy.environment_id) else None

        return self._ledger.mutate("append policy", work, readback)

    def read(self, environment_id: str) -> TrustRevision:
        """The revision in force. Refused (``policy_absent``) for an environment without a policy."""
        environment = _environment(environment_id)
        return self._ledger.read(lambda transaction: _current(read_history(transaction, environment)))

    def history(self, environment_id: str) -> tuple[TrustRevision, ...]:
        """Every revision in order."""
        environment = _environment(environment_id)
        return self._ledger.read(lambda transaction: read_history(transaction, environment))


def require_revision(transaction: ControlTransaction, expected: TrustRevision) -> TrustRevision:
    """The revision in force if it is exactly this one, read under the exclusive lock of this transaction.

    Raises AuthorityRefused ``trust_revision_changed`` when another one is in force, and ControlUnavailable
    ``trust_lock`` when the transaction does not hold the control lock exclusively: then nothing may be decided by it.
    """
    [lock] = transaction.run(("lock_mode", []))
    if lock != [("Exclusive",)]:
        raise ControlUnavailable(
            "trust_lock",
            happened=f"the transaction holds the control lock as {lock[0][0]}, not exclusively.",
            not_done="no policy was read for a decision.",
        )
    current = _current(read_history(transaction, expected.environment_id))
    if current != expected:
        raise _refused(
            "trust_revision_changed",
            f"revision {current.revision} is in force; the decision was prepared under {expected.revision}.",
        )
    return current


def read_history(transaction: ControlTransaction, environment_id: str) -> tuple[TrustRevision, ...]:
    """Every revision of an environment, decoded strictly: one wrong byte in any of them refuses all."""
    [rows] = transaction.run(("policy_rows", [_environment(environment_id)]))
    history: list[TrustRevision] = []
    for number, row in enumerate(rows, 1):
        revision = _revision(environment_id, row)
        if revision.revision != number:
            raise _tampered(environment_id, number, "its number does not follow the one before it")
        if history and not _follows(history[-1].policy, revision.policy):
            raise _tampered(environment_id, number, "it takes back a revocation")
        history.append(revision)
    return tuple(history)


def audit(transaction: ControlTransaction) -> int:
    """Verify every revision of every environment; how many there are."""
    [environments] = transaction.run(("all_environments", []))
    return sum(len(read_history(transaction, environment)) for (environment,) in environments)


def _revision(environment_id: str, row: Sequence[Any]) -> TrustRevision:
    number, policy_sha256, document, root_sha256, trust_root, epoch = row
    try:
        policy = decode_policy(document, policy_sha256)
    except AdmissionRefused as err:
        raise _tampered(environment_id, number, "its policy cannot be read back") from err
    if policy.environment_id != environment_id or policy.revocation_epoch != epoch:
        raise _tampered(environment_id, number, "its columns are not those of its policy")
    if (
        type(trust_root) is not bytes
        or canonical.sha256_text(trust_root) != root_sha256
        or root_sha256 != policy.signer.trust_root_sha256
    ):
        raise _tampered(environment_id, number, "its trust root is not the one that the policy pins")
    return TrustRevision(environment_id=environment_id, revision=number, policy=policy, trust_root=trust_root)


def _current(history: Sequence[TrustRevision]) -> TrustRevision:
    if not history:
        raise _refused("policy_absent", "the environment has no policy.")
    return history[-1]


def _require_next(history: Sequence[TrustRevision], wanted: TrustRevision) -> None:
    last = history[-1] if history else None
    number = last.revision if last else 0
    if wanted.revision != number + 1:
        raise _refused(
            "trust_revision",
            f"revision {number} is in force, and the new one was prepared after {wanted.revision - 1}.",
        )
    if last is not None and not _follows(last.policy, wanted.policy):
        raise _refused(
            "trust_revocation",
            "the new policy has an earlier revocation epoch, or a grant that is revoked now is missing from its list.",
        )


def _follows(before: AuthorityPolicy, after: AuthorityPolicy) -> bool:
    """A revocation is never taken back."""
    return after.revocation_epoch >= before.revocation_epoch and set(before.revoked_grant_ids) <= set(
        after.revoked_grant_ids
    )


def _environment(environment_id: object) -> str:
    with rules.refusing_as(AuthorityRefused):
        return rules.uuid_text(environment_id, "uuid", nil=False)


def _require_sizes(document: bytes, trust_root: object) -> None:
    if len(document) > canonical.QUALIFICATION_DOCUMENT_LIMIT:
        raise _refused("trust_size", f"the policy has {len(document)} bytes; the limit is 1 MiB.")
    if type(trust_root) is not bytes or not 1 <= len(trust_root) <= canonical.QUALIFICATION_DOCUMENT_LIMIT:
        raise _refused("trust_root", "a trust root is 1 byte to 1 MiB.")


def _refused(reason: str, happened: str) -> AuthorityRefused:
    return AuthorityRefused(
        reason,
        happened=happened,
        not_done="nothing was stored.",
        check="the policy in force, and what the new one was prepared from.",
    )


def _tampered(environment_id: str, number: object, what: str) -> LedgerTampered:
    return LedgerTampered(
        "trust_revision",
        happened=f"revision {number} of the environment {environment_id}: {what}.",
        details={"environment_id": environment_id, "revision": number},
    )
