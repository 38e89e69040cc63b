"""The two JSON encoders of the wire formats, their digests, and the strict way back.

*Exact* encodes what it is given. *Fingerprint* (the older one) first folds ``\\`` into ``/`` in every string value and
sorts arrays of objects that carry a string ``id``. Stored bytes are always exact; which digest a record uses is part
of its format and the two are never mixed. Neither accepts a float: no field of these formats is one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

#: Limits of stored documents, in bytes.
EXECUTION_DOCUMENT_LIMIT = 8 * 1024 * 1024
QUALIFICATION_DOCUMENT_LIMIT = 1024 * 1024
SIGNATURE_BUNDLE_LIMIT = 8 * 1024 * 1024


class StrictJsonError(ValueError):
    """Bytes that are not exactly one JSON object in UTF-8, without duplicate keys, a BOM or non-finite numbers."""


def exact_bytes(value: object) -> bytes:
    """Encode without any normalisation. A lone surrogate raises UnicodeEncodeError, a float TypeError."""
    return _encode(_plain(value, fold=False))


def fingerprint_bytes(value: object) -> bytes:
    """Encode with the folding of the older fingerprint."""
    return _encode(_plain(value, fold=True))


def exact_sha256(value: object) -> str:
    return sha256_text(exact_bytes(value))


def fingerprint_sha256(value: object) -> str:
    return sha256_text(fingerprint_bytes(value))


def sha256_text(data: bytes) -> str:
    """Digest text: ``sha256:`` and 64 lower-case hexadecimal digits."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def strict_object(data: bytes, *, limit: int = EXECUTION_DOCUMENT_LIMIT) -> dict[str, Any]:
    """Decode stored bytes. Whoever stores documents also re-encodes what was decoded and compares the bytes."""
    if len(data) > limit:
        raise StrictJsonError(f"JSON document is larger than {limit} bytes")
    try:
        value = json.loads(
            data.decode("utf-8", errors="strict"), object_pairs_hook=_unique, parse_constant=_refuse_constant
        )
    except StrictJsonError:
        raise
    except (ValueError, RecursionError) as err:
        raise StrictJsonError("invalid JSON") from err
    if not isinstance(value, dict):
        raise StrictJsonError("JSON root must be an object")
    return value


def _encode(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _plain(value: object, *, fold: bool) -> object:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return value.replace("\\", "/") if fold else value
    if isinstance(value, Mapping):
        plain: dict[str, object] = {}
        for key, member in value.items():
            if not isinstance(key, str):
                raise TypeError("a JSON object key must be text")
            plain[key] = _plain(member, fold=fold)
        return plain
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        items = [_plain(item, fold=fold) for item in value]
        if fold and items and all(isinstance(item, dict) and isinstance(item.get("id"), str) for item in items):
            items.sort(key=_item_id)
        return items
    raise TypeError(f"a canonical document has no place for {type(value).__name__}")


def _item_id(item: object) -> str:
    assert isinstance(item, dict)
    return str(item["id"])


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise StrictJsonError("duplicate JSON key")
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise StrictJsonError(f"non-finite JSON constant: {name}")
