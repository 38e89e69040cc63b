"""The complete history scan, which stands before every epoch that moves and every admission.

The statement looks at every owner and every operation original of every family, whatever the partitions and domain
pointers say, and answers only the rows that contradict. It relies on three invariants of the ledger: each epoch of a
domain has exactly one partition, numbered from 1; the text of an operation original contains its guard epochs exactly
as its partitions spell them; and originals hold no backslash (admission refuses one), so the two JSON encoders agree
and a stored digest is the SHA-256 of the stored bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider_dpone.contracts.errors import LedgerTampered

#: What each result set of the statement ``history`` finds wrong, in order.
FINDINGS = (
    "domain_epochs",
    "domain_owner",
    "owner_original",
    "owner_partition",
    "operation_original",
    "operation_partition",
    "operation_proofs",
    "proof_original",
    "login_gate",
)

_SENTENCES = {
    "domain_epochs": "the epochs of a domain and its partitions do not tell the same story",
    "domain_owner": "a domain names another owner than its newest partition",
    "owner_original": "an owner's original does not have its digest or its identity",
    "owner_partition": "an owner's partitions are missing or are not in its original",
    "operation_original": "an operation's original does not have its digest, its owner, its replay key or its coordinates",
    "operation_partition": "an operation's partitions are missing or are not those of its original",
    "operation_proofs": "an ended operation lacks one of its three proofs, or its outcome proof says another state",
    "proof_original": "a proof does not have its digest, its operation, its kind or exactly the journaled principals",
    "login_gate": "a journaled SQL Server login lacks its gate, its identity or its closing, which was proven",
}

_NAMED_KEYS = 10


def verify(results: Sequence[Sequence[tuple[Any, ...]]]) -> None:
    """Refuse a ledger whose history contradicts itself, by the name of the first finding and with the keys."""
    for finding, rows in zip(FINDINGS, results, strict=True):
        if rows:
            keys = [str(row[0]) for row in rows]
            shown = ", ".join(keys[:_NAMED_KEYS])
            raise LedgerTampered(
                f"history_{finding}",
                happened=f"{_SENTENCES[finding]}: {shown}.",
                details={"finding": finding, "keys": keys[:_NAMED_KEYS], "count": len(keys)},
            )
