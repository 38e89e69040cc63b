"""Evidence documents as the ledger stores them: exact JSON objects with a schema member, read back strictly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.errors import ConfigurationError, LedgerTampered

_KIND = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


def require_kind(kind: str) -> str:
    """Evidence kinds are short plain names."""
    if type(kind) is not str or not _KIND.fullmatch(kind):
        raise ConfigurationError("evidence_kind", happened=f"{kind!r} is not a plain name of at most 64 characters.")
    return kind


def encode(document: Mapping[str, object]) -> bytes:
    """The stored bytes. Refuses what JSON cannot carry exactly, and documents over the limit."""
    try:
        if not isinstance(document, Mapping):
            raise TypeError("no object")
        data = canonical.exact_bytes(document)
    except (TypeError, ValueError) as err:
        raise ConfigurationError(
            "evidence_document",
            happened=f"the evidence is not an exact JSON object: {err}.",
            not_done="it was not stored.",
        ) from err
    if len(data) > canonical.EXECUTION_DOCUMENT_LIMIT:
        raise ConfigurationError(
            "evidence_size",
            happened=f"the evidence has {len(data)} bytes; the limit is {canonical.EXECUTION_DOCUMENT_LIMIT}.",
            not_done="it was not stored.",
        )
    return data


def decode(data: object, sha256: str) -> Mapping[str, Any]:
    """The document, if its bytes have the stored digest and are the exact encoding of what they say."""
    try:
        if type(data) is not bytes:
            raise canonical.StrictJsonError("not bytes")
        document = canonical.strict_object(data)
    except canonical.StrictJsonError as err:
        raise LedgerTampered("evidence", happened=f"evidence {sha256} cannot be read back.") from err
    if canonical.sha256_text(data) != sha256 or canonical.exact_bytes(document) != data:
        raise LedgerTampered("evidence", happened=f"evidence {sha256} is not what was stored.")
    return document
