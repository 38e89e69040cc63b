"""What the ledger's calls are given, looked at before a connection is opened.

Records, digests and closed sets are refused by ``contracts.rules``. Here is the rest: functions, sequences, and texts that
are searched for or that name something on a server, which may be any text that a server could hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from airflow_provider_dpone.contracts.errors import ConfigurationError

T = TypeVar("T")


def function(value: T, what: str) -> T:
    """Something that can be called."""
    if not callable(value):
        raise _refused("function", f"{what} is not a function")
    return value


def sequence(value: object, kind: type[T], reason: str) -> Sequence[T]:
    """A list or a tuple of records of exactly one kind."""
    if not isinstance(value, list | tuple) or any(type(member) is not kind for member in value):
        raise _refused(reason, f"this is no list of {kind.__name__}")
    return value


def text(value: object, what: str) -> str:
    """Text without NUL and without a lone surrogate. It may be empty, long and hostile: it is a parameter or quoted."""
    if type(value) is not str or "\x00" in value:
        raise _refused("text", f"{what} is not a text that a server could hold")
    try:
        value.encode()
    except UnicodeEncodeError as err:
        raise _refused("text", f"{what} contains a lone surrogate") from err
    return value


def _refused(reason: str, what: str) -> ConfigurationError:
    return ConfigurationError(reason, happened=f"{what}.", not_done="nothing was sent.")
