"""sys.dm_tran_locks, and who is blocked by whom: databases, application locks, and the keys that are known by name."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tsqldev.session.applocks import Resource
from tsqldev.session.keylocks import Key
from tsqldev.session.locktable import Lock
from tsqldev.session.registry import Registry, SessionRecord

if TYPE_CHECKING:
    from tsqldev.session.session import SqlSession

Rows = list[dict[str, object]]

# As sys.partitions numbers them.
_FIRST_PARTITION = 72057594000000000


def blocked(registry: Registry) -> dict[int, set[int]]:
    """The waiting sessions, each with those it waits for, here or in PostgreSQL."""
    found = {spid: set(others) for spid, others in registry.outside().items() if others}
    for record in registry.listed():
        others = registry.locks.blockers(record.spid)
        if others:
            found.setdefault(record.spid, set()).update(others)
    return found


def rows(session: SqlSession, records: Sequence[SessionRecord]) -> Rows:
    """The locks of the sessions that the caller may see."""
    seen = {record.spid for record in records}
    result: Rows = [
        {
            "resource_type": "DATABASE",
            "resource_subtype": "",
            "resource_database_id": record.database_id,
            "resource_description": "",
            "resource_associated_entity_id": 0,
            "resource_lock_partition": 0,
            "request_mode": "S",
            "request_type": "LOCK",
            "request_status": "GRANT",
            "request_reference_count": 1,
            "request_lifetime": 0,
            "request_session_id": record.spid,
            "request_exec_context_id": 0,
            "request_request_id": 0,
            "request_owner_type": "SHARED_TRANSACTION_WORKSPACE",
            "request_owner_id": 0,
        }
        for record in records
    ]
    held = [lock for lock in session.engine.registry.locks.locks() if lock.owner.spid in seen]
    result.extend(_application(lock, lock.resource) for lock in held if isinstance(lock.resource, Resource))
    result.extend(_keys(session, held))
    return result


def _application(lock: Lock, resource: Resource) -> dict[str, object]:
    return _request(
        lock,
        lock.mode,
        resource_type="APPLICATION",
        resource_database_id=resource.database_id,
        resource_description=f"0:[{resource.name[:32]}]:(00000000)",
        resource_associated_entity_id=0,
    )


def _keys(session: SqlSession, locks: list[Lock]) -> Rows:
    """Tables as OBJECT; whole keys of an index as KEY, of its partition; the ranges in between are not shown."""
    keys = [(lock, lock.resource) for lock in locks if isinstance(lock.resource, Key)]
    if not keys:
        return []
    tables = ", ".join(sorted({str(key.table) for _, key in keys}))
    rows, _ = session.backend.run(
        "select o.object_id, o.database_id, i.index_id, count(c.column_id) filter (where c.key_ordinal > 0)"
        " from meta.objects o left join meta.indexes i using (object_id)"
        f" left join meta.index_columns c using (object_id, index_id) where o.object_id in ({tables})"
        " group by o.object_id, o.database_id, i.index_id"
    )
    databases = {row[0]: row[1] for row in rows}
    widths = {(row[0], row[2]): row[3] for row in rows}
    result: Rows = []
    for lock, key in keys:
        if not key.values and key.index_id == 0:
            result.append(
                _request(
                    lock,
                    lock.mode,
                    resource_type="OBJECT",
                    resource_database_id=databases.get(key.table, 0),
                    resource_description="",
                    resource_associated_entity_id=key.table,
                )
            )
        elif key.values and widths.get((key.table, key.index_id)) == len(key.values):
            digest = hashlib.blake2b(repr(key.values).encode(), digest_size=6).hexdigest()
            result.append(
                _request(
                    lock,
                    "X" if lock.mode in ("IX", "SIX", "UIX") else lock.mode,
                    resource_type="KEY",
                    resource_database_id=databases.get(key.table, 0),
                    resource_description=f"({digest})",
                    resource_associated_entity_id=_FIRST_PARTITION + key.table * 1000 + key.index_id,
                )
            )
    return result


def _request(lock: Lock, mode: str, **resource: object) -> dict[str, object]:
    return {
        "resource_subtype": "",
        "resource_lock_partition": 0,
        "request_mode": mode,
        "request_type": "LOCK",
        "request_status": lock.status,
        "request_reference_count": 1,
        "request_lifetime": 33554432,
        "request_session_id": lock.owner.spid,
        "request_exec_context_id": 0,
        "request_request_id": 0,
        "request_owner_type": "TRANSACTION" if lock.owner.transaction else "SESSION",
        "request_owner_id": lock.owner.transaction,
        **resource,
    }
