"""The validation vocabulary of all records. Each rule returns the value or refuses with the reason of its field."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, NoReturn, TypeVar

from airflow_provider_dpone.contracts.errors import AdmissionRefused

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_CONTROL = re.compile(r"[\x00-\x1f]")

#: The longest identity text, in characters.
IDENTITY_LIMIT = 512
#: The largest epoch, try number or size: SQL Server's bigint.
BIGINT_MAX = 2**63 - 1
#: The largest try number and map index that the ledger can store: SQL Server's int, which is also Airflow's.
INT_MAX = 2**31 - 1
_NIL_UUID = "00000000-0000-0000-0000-000000000000"

T = TypeVar("T")


def refuse(reason: str) -> NoReturn:
    raise AdmissionRefused(reason)


@contextmanager
def refusing_as(error: type[AdmissionRefused], reason: str | None = None) -> Iterator[None]:
    """Turn a rule's refusal inside the block into another class, and into one fixed reason if one is given."""
    try:
        yield
    except AdmissionRefused as err:
        if type(err) is error and reason is None:
            raise
        raise error(reason or err.reason) from err


@contextmanager
def shaped(reason: str) -> Iterator[None]:
    """Refuse, by one reason, what has another shape than the block takes apart: another type, a member more or less."""
    try:
        yield
    except (TypeError, ValueError, KeyError, AttributeError) as err:
        raise AdmissionRefused(reason) from err


def record(value: object, kind: type[T], reason: str) -> T:
    """A record of exactly this kind."""
    if type(value) is not kind:
        refuse(reason)
    return value


def digest(value: object, reason: str = "digest") -> str:
    """``sha256:`` and 64 lower-case hexadecimal digits."""
    if type(value) is not str or not _DIGEST.fullmatch(value):
        refuse(reason)
    return value


def uuid_text(value: object, reason: str, *, nil: bool = True) -> str:
    """Any UUID in canonical lower-case text; the nil UUID only where a record has always allowed it."""
    if type(value) is not str or not _UUID.fullmatch(value) or (not nil and value == _NIL_UUID):
        refuse(reason)
    return value


def uuid4_text(value: object, reason: str) -> str:
    """A random (version 4) UUID in canonical lower-case text."""
    if type(value) is not str or not _UUID4.fullmatch(value):
        refuse(reason)
    return value


def identity_text(value: object, reason: str = "identity", *, limit: int = IDENTITY_LIMIT) -> str:
    """Text that names something: 1 to 512 characters, no control character, valid UTF-8. Kept as it is."""
    if type(value) is not str or not value or len(value) > limit or _CONTROL.search(value):
        refuse(reason)
    try:
        value.encode()
    except UnicodeEncodeError:
        refuse(reason)
    return value


def trimmed_text(value: object, reason: str, *, limit: int = IDENTITY_LIMIT) -> str:
    """Identity text without surrounding space."""
    text = identity_text(value, reason, limit=limit)
    if text != text.strip():
        refuse(reason)
    return text


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


def records(value: object, kind: type[T], reason: str, *, at_most: int, empty: bool = False) -> tuple[T, ...]:
    """A tuple of records of one kind, not empty unless said so."""
    if type(value) is not tuple or len(value) > at_most or (not value and not empty):
        refuse(reason)
    if any(type(member) is not kind for member in value):
        refuse(reason)
    return value


def ascending(keys: Collection[Any], reason: str) -> None:
    """Strictly ascending: sorted and without repetition."""
    if any(not left < right for left, right in pairwise(keys)):
        refuse(reason)


def digests(value: object, reason: str = "closure", *, empty: bool = False, member_reason: str = "digest") -> None:
    """A tuple of strictly ascending digests."""
    if type(value) is not tuple or (not value and not empty):
        refuse(reason)
    for member in value:
        digest(member, member_reason)
    ascending(value, reason)


def members(value: object, names: Collection[str], reason: str = "fields") -> dict[str, Any]:
    """A decoded object with exactly these members."""
    if not isinstance(value, Mapping) or set(value) != set(names):
        refuse(reason)
    return dict(value)


def array(value: object, reason: str = "array") -> tuple[Any, ...]:
    """A decoded array, as the tuple that records hold."""
    if type(value) is not list:
        refuse(reason)
    return tuple(value)


def utc_seconds(value: object, reason: str = "timestamp") -> datetime:
    """``YYYY-MM-DDTHH:MM:SSZ`` and nothing else."""
    if type(value) is not str or len(value) != 20:
        refuse(reason)
    try:
        moment = datetime.strptime(value, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        refuse(reason)
    if moment.strftime("%Y-%m-%dT%H:%M:%SZ") != value:
        refuse(reason)
    return moment
