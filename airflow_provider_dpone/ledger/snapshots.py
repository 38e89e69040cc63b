"""Snapshot records of ClickHouse publications: the intent before the one EXCHANGE, and the verdict after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider_dpone.contracts import rules
from airflow_provider_dpone.contracts.attempt import Attempt
from airflow_provider_dpone.contracts.errors import AdmissionRefused, LedgerTampered, OutcomeUnknown
from airflow_provider_dpone.contracts.snapshot import SnapshotRecord, decode_snapshot_record
from airflow_provider_dpone.drivers import Connect
from airflow_provider_dpone.ledger.questions import Question
from airflow_provider_dpone.ledger.records import operation_key
from airflow_provider_dpone.ledger.settings import LedgerSettings
from airflow_provider_dpone.ledger.transaction import ControlLedger, ControlTransaction

#: An undecided publication is decided again, by somebody who could read the pair.
_DECIDABLE = ("EXCHANGE_INTENT", "COMMIT_UNKNOWN")


class SnapshotStore:
    """Append-only revisions, one chain an attempt. The intent never changes along a chain."""

    def __init__(self, connect: Connect, settings: LedgerSettings) -> None:
        self._ledger = ControlLedger(connect, settings)

    def put(self, record: SnapshotRecord) -> SnapshotRecord:
        """Store the next revision and return it as read back. The same record again is the same answer.

        EXCHANGE may be sent only after the EXCHANGE_INTENT revision came back from here.
        """
        key = rules.record(record, SnapshotRecord, "snapshot_record").intent.attempt.sha256

        def work(transaction: ControlTransaction) -> SnapshotRecord | None:
            state, rows = transaction.run(("snapshot_rows", [key]))
            if not state:
                raise AdmissionRefused("operation_absent", happened=f"the ledger has no execution operation {key}.")
            chain = _chain(key, rows)
            if record in chain:
                return record
            _require_next(chain, record)
            if state[0][0] not in ("RUNNING", "COMMIT_UNKNOWN") or (
                state[0][0] == "COMMIT_UNKNOWN" and record.state in ("PREPARED", "EXCHANGE_INTENT")
            ):
                raise AdmissionRefused(
                    "snapshot_operation",
                    happened=f"the operation is {state[0][0]}; it publishes nothing any more.",
                    not_done="the record was not stored.",
                )
            transaction.write(
                ("insert_snapshot", [key, record.revision, record.state, record.sha256, record.document()])
            )
            return None

        readback = the_chain(key).then(lambda chain: record if record in chain else None)
        return self._ledger.mutate("snapshot", work, readback)

    def read(self, attempt: Attempt | str) -> SnapshotRecord | None:
        """The last revision."""
        chain = self.history(attempt)
        return chain[-1] if chain else None

    def history(self, attempt: Attempt | str) -> tuple[SnapshotRecord, ...]:
        """Every revision in order."""
        return self._ledger.read(the_chain(operation_key(attempt)))


def the_chain(key: str) -> Question[tuple[SnapshotRecord, ...]]:
    """Every revision of an operation's snapshot record."""
    return Question((("snapshot_rows", [key]),), lambda results: _chain(key, results[1]))


def _chain(key: str, rows: Sequence[tuple[Any, ...]]) -> tuple[SnapshotRecord, ...]:
    chain: list[SnapshotRecord] = []
    for number, (revision, state, sha256, document) in enumerate(rows, 1):
        try:
            record = decode_snapshot_record(document, sha256)
        except AdmissionRefused as err:
            raise LedgerTampered("snapshot", happened=f"snapshot {revision} of {key} cannot be read back.") from err
        if (record.revision, record.state) != (revision, state) or revision != number:
            raise LedgerTampered("snapshot", happened=f"snapshot {revision} of {key} is not what its row says.")
        if record.intent.attempt.sha256 != key or (chain and record.intent != chain[0].intent):
            raise LedgerTampered("snapshot", happened=f"snapshot {revision} of {key} has another intent.")
        chain.append(record)
    return tuple(chain)


def _require_next(chain: tuple[SnapshotRecord, ...], record: SnapshotRecord) -> None:
    """The revision follows the last one by the state machine, with the same intent."""
    last = chain[-1] if chain else None
    expected = 1 if last is None else last.revision + 1
    if last is None:
        fits = record.state == "PREPARED"
    elif last.state == "PREPARED":
        fits = record.state == "EXCHANGE_INTENT"
    else:
        fits = last.state in _DECIDABLE and record.state not in ("PREPARED", "EXCHANGE_INTENT")
    if record.revision == expected and fits and (last is None or record.intent == last.intent):
        return
    if last is not None and last.state in ("PUBLISHED", "NOT_PUBLISHED") and record.state != last.state:
        raise OutcomeUnknown(
            "snapshot_conflict",
            happened=f"the publication is recorded as {last.state}, and another observation says {record.state}.",
            not_done="the second verdict was not stored.",
        )
    raise AdmissionRefused(
        "snapshot_revision",
        happened=f"revision {record.revision} ({record.state}) does not follow "
        + ("an empty chain." if last is None else f"revision {last.revision} ({last.state})."),
        not_done="the record was not stored.",
    )
