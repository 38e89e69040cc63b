"""Names that an attempt's ClickHouse objects have before they exist, so that any process can look for them later.

A staging table's UUID is derived from the attempt: after EXCHANGE it is the published table's UUID, and the pair of
UUIDs alone tells what happened. No other attempt can have the same name or UUID.
"""

from __future__ import annotations

import uuid

_STAGING = uuid.UUID("5d0fd3f4-95fd-4b86-8d6b-3c6f0ac4f3f7")


def staging_table(attempt_sha256: str) -> str:
    """The staging table's name: the first half of the attempt digest in hexadecimal, behind a fixed word."""
    return f"dpone_stg_{attempt_sha256.removeprefix('sha256:')[:32]}"


def retired_table(attempt_sha256: str) -> str:
    """The name that the staging name is renamed to before the deciding UUID read."""
    return f"dpone_old_{attempt_sha256.removeprefix('sha256:')[:32]}"


def staging_uuid(attempt_sha256: str) -> uuid.UUID:
    """The UUID that the staging table is created with."""
    return uuid.uuid5(_STAGING, attempt_sha256)


def query_id(attempt_sha256: str, purpose: str) -> str:
    """The query id of the one statement of a purpose: what the server's query_log is searched by."""
    return f"dpone-{purpose}-{attempt_sha256.removeprefix('sha256:')}"
