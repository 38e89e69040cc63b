"""A password that does not print itself."""

from __future__ import annotations

import secrets
from typing import NoReturn


class Secret:
    """Holds a secret in this process's memory. repr, str and format hide it; pickling it is refused."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    @classmethod
    def generate(cls) -> Secret:
        """A random password of 43 URL-safe characters with every class that a password policy may ask for."""
        return cls(f"{secrets.token_urlsafe(30)}-Aa9")

    def reveal(self) -> str:
        """The clear text. Call it only in the expression that hands it to a driver."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret stays in the process that made it")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and secrets.compare_digest(self._value.encode(), other._value.encode())

    __hash__ = None  # type: ignore[assignment]  # a hash would let the value be probed through a dict
