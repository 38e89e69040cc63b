"""The validation vocabulary of all records. Each rule returns the value or refuses with the reason of its field."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NoReturn, TypeVar

from airflow_provider_dpone.contracts.errors import AdmissionRefused

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")

#: The longest identity text, in characters.
IDENTITY_LIMIT = 512
#: The largest epoch, try number or size: SQL Server's bigint.
BIGINT_MAX = 2**63 - 1

T = TypeVar("T")


def refuse(reason: str) -> NoReturn:
    raise AdmissionRefused(reason)


def digest(value: object, reason: str = "digest") -> str:
    """``sha256:`` and 64 lower-case hexadecimal digits."""
    if type(value) is not str or not _DIGEST.fullmatch(value):
        refuse(reason)
    return value


def uuid_text(value: object, reason: str) -> str:
    """Any UUID in canonical lower-case text."""
    if type(value) is not str or not _UUID.fullmatch(value):
        refuse(reason)
    return value


def uuid4_text(value: object, reason: str) -> str:
    """A random (version 4) UUID in canonical lower-case text."""
    if type(value) is not str or not _UUID4.fullmatch(value):
        refuse(reason)
    return value


def identity_text(value: object, reason: str = "identity", *, limit: int = IDENTITY_LIMIT) -> str:
    """Text that names something: not empty, no surrounding space, no NUL, valid UTF-8, at most 512 characters."""
    if type(value) is not str or not value or len(value) > limit or value != value.strip() or "\x00" in value:
        refuse(reason)
    try:
        value.encode()
    except UnicodeEncodeError:
        refuse(reason)
    return value


def coordinate_text(value: object) -> str:
    """Identity text that execution admission accepts: without a backslash.

    Attempt digests use the fingerprint encoder, which folds a backslash into a slash, so two different coordinates
    could share one digest.
    """
    text = identity_text(value)
    if "\\" in text:
        raise AdmissionRefused(
            "identity_backslash",
            happened="an identity contains a backslash, which the attempt digest cannot tell from a slash.",
            not_done="nothing was admitted.",
            check="the DAG id, run id, task id and workload id of this task; rename the one with the backslash.",
        )
    return text


def whole_number(value: object, reason: str, *, at_least: int, at_most: int = BIGINT_MAX) -> int:
    """An int and not a bool, within its bounds."""
    if type(value) is not int or not at_least <= value <= at_most:
        refuse(reason)
    return value


def one_of(value: object, allowed: Collection[T], reason: str) -> T:
    """One of a closed set, compared without any coercion."""
    for member in allowed:
        if type(value) is type(member) and value == member:
            return member
    refuse(reason)


def ascending(values: object, reason: str, *, unique: bool = True) -> tuple[str, ...]:
    """A tuple of texts in strictly ascending code point order."""
    if type(values) is not tuple or any(type(value) is not str for value in values):
        refuse(reason)
    if list(values) != sorted(values) or (unique and len(set(values)) != len(values)):
        refuse(reason)
    return values
