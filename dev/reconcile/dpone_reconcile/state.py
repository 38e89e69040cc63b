"""The state behind the rows: which table stands under a published name, what a target's own database recorded of its
loads, who owns the guards, and how many source bytes were charged."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from dpone_reconcile.check import Check, unless
from dpone_reconcile.engines import ClickHouse, SqlServer, bracketed
from dpone_reconcile.ledger import AttemptRow

_SNAPSHOTS = "SELECT operation_key, revision, state, record_document FROM dpone_ext.snapshot_records ORDER BY revision"
_CHARGES = """
SELECT owner_key, workload_sha256, operation_key, charged_bytes, cumulative_bytes, ceiling_bytes
FROM dpone_ext.source_charges
ORDER BY owner_key, workload_sha256, charge_number
"""
_DOMAINS = """
SELECT d.guard_id, d.fencing_epoch, w.owner_id, w.state
FROM dpone_control.composition_domains AS d
LEFT JOIN dpone_control.composition_owners AS w ON w.owner_key = d.owner_key
"""
_MARKERS = "SELECT operation_key, row_count FROM dpone_fence.markers"
_UUID = "SELECT toString(uuid) FROM system.tables WHERE database = {database:String} AND name = {table:String}"


def published_tables(control: SqlServer, clickhouse: ClickHouse, attempts: Sequence[AttemptRow]) -> Check:
    """The table under each published name is the very one that the last successful attempt put there."""
    records: dict[str, tuple[str, dict[str, Any]]] = {}
    for key, _, state, raw in control.rows(_SNAPSHOTS):
        records[str(key)] = (str(state), json.loads(bytes(raw))["intent"])
    last, problems = {}, []
    for attempt in attempts:
        state, intent = records.get(attempt.operation_key, ("", None))
        if (state == "PUBLISHED") != (attempt.state == "SUCCEEDED") and attempt.publishes:
            problems.append(f"{attempt.workload_id} is {attempt.state}, and its publication {state or 'unknown'}")
        elif intent is not None and state == "PUBLISHED":
            target = intent["target"]
            last[target["database"], target["target_table"]] = intent["generation"]["new_generation_uuid"]
    for (database, table), wanted in last.items():
        found = [uuid for (uuid,) in clickhouse.rows(_UUID, {"database": database, "table": table})]
        if found != [wanted]:
            problems.append(f"{database}.{table} is the table {found}, and {wanted} was published")
    if not last:
        problems.append("nothing was published")
    return unless(
        problems, name="each published table is the one that its attempt exchanged in", good=f"{len(last)} tables"
    )


def markers(warehouse: SqlServer, attempts: Sequence[AttemptRow]) -> Check:
    """The target itself, in the transaction that replaced its rows, recorded each load that succeeded, and no other."""
    recorded: dict[str, int] = dict(warehouse.rows(_MARKERS))
    problems = []
    writers = [attempt for attempt in attempts if attempt.writes_sql_server]
    for attempt in writers:
        if (attempt.operation_key in recorded) != (attempt.state == "SUCCEEDED"):
            problems.append(f"{attempt.workload_id} try {attempt.try_number} is {attempt.state}: its marker disagrees")
        elif attempt.loads and recorded.get(attempt.operation_key, attempt.rows) != attempt.rows:
            problems.append(f"{attempt.workload_id}: {recorded[attempt.operation_key]} rows in its marker")
    if not writers:
        problems.append("nothing was loaded")
    return unless(problems, name="the target's own markers = the successful loads", good=f"{len(writers)} attempts")


def guards(control: SqlServer, attempts: Sequence[AttemptRow]) -> Check:
    """The activation that these attempts ran under still owns their guards, under the same epochs."""
    domains = {str(guard): (int(epoch), owner, state) for guard, epoch, owner, state in control.rows(_DOMAINS)}
    problems = {
        f"{attempt.workload_id} held {guard} at the epoch {epoch}, which is {domains.get(guard)}"
        for attempt in attempts
        for guard, epoch in attempt.guard_epochs.items()
        if domains.get(guard) != (epoch, attempt.activation_id, "ACTIVE")
    }
    held = {guard for attempt in attempts for guard in attempt.guard_epochs}
    if not held:
        problems.add("no attempt held a guard")
    return unless(
        sorted(problems), name="ledger: the activation still owns every guard at its epoch", good=f"{len(held)} guards"
    )


def source_bytes(control: SqlServer, warehouse: SqlServer, attempts: Sequence[AttemptRow]) -> Check:
    """What was charged for a publication is what its source holds, counted here, and what all tries charged adds up.

    Those are the bytes of the source's values. What went over HTTP is another number, in another format.
    """
    charged: dict[str, int] = {}
    totals: dict[tuple[str, str], int] = defaultdict(int)
    problems = []
    for owner, workload, key, size, cumulative, ceiling in control.rows(_CHARGES):
        totals[owner, workload] += int(size)
        charged[str(key)] = int(size)
        if cumulative != totals[owner, workload] or cumulative > ceiling:
            problems.append(f"{cumulative} bytes stand as the sum of {totals[owner, workload]}, below {ceiling}")
    told = []
    for attempt in attempts:
        if attempt.publishes and attempt.state == "SUCCEEDED":
            schema, table = attempt.evidence["clickhouse_generation"]["source"]["table"]
            held, paid = _held(warehouse, schema, table), charged.get(attempt.operation_key, 0)
            told.append(f"{table} {paid:,} (as HTTP {attempt.wire_bytes:,})")
            if not held == paid == attempt.bytes:
                problems.append(f"{schema}.{table} holds {held} bytes; charged {paid}, reported {attempt.bytes}")
    if not told:
        problems.append("nothing was charged")
    return unless(problems, name="source bytes charged = bytes that the sources hold", good=", ".join(told))


def _held(warehouse: SqlServer, schema: str, table: str) -> int:
    query = "SELECT COLUMN_NAME FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
    columns = [bracketed(name) for (name,) in warehouse.rows(query, (schema, table))]
    sizes = ", ".join(f"SUM(CAST(DATALENGTH({column}) AS bigint))" for column in columns)
    [counted] = warehouse.rows(f"SELECT {sizes} FROM {bracketed(schema)}.{bracketed(table)}")
    return sum(size or 0 for size in counted)
