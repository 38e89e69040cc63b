"""What only a complete audit looks at: identities, claims, charges, and the originals of the qualification family.

Nothing at run time decides by these bytes, or it decides by the few of them that it reads. Qualification rows are
understood here and opened nowhere: that their originals can be read back gives nobody an owner or an operation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from airflow_provider_dpone.contracts.canonical import StrictJsonError, exact_bytes, strict_object
from airflow_provider_dpone.contracts.errors import AdmissionRefused, LedgerTampered
from airflow_provider_dpone.contracts.ownership import guard_id
from airflow_provider_dpone.contracts.qualification import (
    QualificationOwner,
    decode_qualification_operation,
    decode_qualification_owner,
)
from airflow_provider_dpone.ledger.charges import require_sequence
from airflow_provider_dpone.ledger.enroll import mssql_physical_subject_sha256

Rows = Sequence[tuple[Any, ...]]


def verify(results: Sequence[Rows]) -> int:
    """Refuse by the name of the first thing that is wrong in the eight result sets of ``inventory``; how many domains."""
    domains, enrollments, claims, charges, gate_evidence, owners, operations, scopes = results
    _verify_identities(domains, enrollments)
    for owner, _, document in claims:
        _verify_claim(owner, document)
    _verify_charges(charges)
    for key, kind in gate_evidence:
        raise LedgerTampered("gate_evidence", happened=f"the {kind} evidence of the login gate of {key} was changed.")
    _verify_qualification(owners, claims, operations, scopes)
    return len(domains)


def verify_rights(rows: Rows) -> None:
    """Nobody has a right in the control database that no role needs. The result set of ``foreign_rights``."""
    if rows:
        named = [f"{who} has {right} on {what}" for who, right, what in rows]
        raise LedgerTampered(
            "foreign_right",
            happened=f"rights were given in the control database that no role has: {'; '.join(sorted(named)[:6])}.",
            check="docs/roles.md and `dponectl ledger render-grants`, and who gave them.",
            details={"rights": sorted(named)},
        )


def _verify_identities(domains: Rows, enrollments: Rows) -> None:
    """A guard is the digest of its domain's identity, and a database's identity is its domain's subject."""
    subjects = {}
    for guard, connector, service_id, subject in domains:
        try:
            own = guard_id(connector=connector, service_id=service_id, physical_subject_sha256=subject)
        except AdmissionRefused:
            own = None
        if own != guard:
            raise LedgerTampered("domain_identity", happened=f"domain {guard} has another identity.")
        subjects[guard] = (connector, subject)
    for guard, database_guid, create_token in enrollments:
        try:
            subject = mssql_physical_subject_sha256(database_guid, create_token)
        except AdmissionRefused:
            subject = None
        if subjects.get(guard) != ("mssql", subject):
            raise LedgerTampered(
                "enrollment_identity", happened=f"the enrollment of {guard} is not of the database that it stands for."
            )


def _verify_claim(owner: str, document: bytes) -> None:
    try:
        exact = exact_bytes(strict_object(document)) == document
    except (StrictJsonError, TypeError, ValueError) as err:
        raise LedgerTampered("claim", happened=f"a claim of owner {owner} cannot be read back.") from err
    if not exact:
        raise LedgerTampered("claim", happened=f"a claim of owner {owner} is not exactly encoded.")


def _verify_charges(charges: Rows) -> None:
    grouped: dict[tuple[str, str], list[tuple[Any, ...]]] = defaultdict(list)
    for owner, workload, *charge in charges:
        grouped[owner, workload].append(tuple(charge))
    for (owner, workload), sequence in grouped.items():
        require_sequence(sequence, f"{workload} of {owner}")


def _verify_qualification(owners: Rows, claims: Rows, operations: Rows, scopes: Rows) -> None:
    runs: dict[str, QualificationOwner] = {}
    for key, owner_id, sha256, document in owners:
        try:
            run = decode_qualification_owner(document, sha256)
        except AdmissionRefused as err:
            raise _tampered(key, "its original cannot be read back") from err
        held = {guard: claim for owner, guard, claim in claims if owner == key}
        if (run.owner_key, run.qualification_run_id) != (key, owner_id):
            raise _tampered(key, "it is not the run of its original")
        if held != {claim.guard_id: claim.document() for claim in run.claims}:
            raise _tampered(key, "its claims are not those of its original")
        runs[key] = run
    for key, owner, sha256, replay_key, document in operations:
        try:
            operation = decode_qualification_operation(document, key)
        except AdmissionRefused as err:
            raise _tampered(key, "its original cannot be read back") from err
        scope = tuple((guard, epoch) for found, guard, epoch in scopes if found == key)
        known = runs.get(owner)
        if known is None or (operation.owner_key, operation.owner_subject_sha256) != (owner, known.sha256):
            raise _tampered(key, "its owner is not that of its original")
        if (operation.owner_subject_sha256, operation.invocation_key) != (sha256, replay_key):
            raise _tampered(key, "its keys are not those of its original")
        if scope != operation.guard_epochs:
            raise _tampered(key, "its partitions are not those of its original")


def _tampered(key: str, what: str) -> LedgerTampered:
    return LedgerTampered("qualification_original", happened=f"qualification {key}: {what}.")
