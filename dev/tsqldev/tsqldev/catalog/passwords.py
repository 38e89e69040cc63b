"""Password hashes in the form that SQL Server 2012 and later store: 0x0200, four bytes of salt, SHA-512."""

from __future__ import annotations

import hashlib
import hmac
import secrets

_HEADER = b"\x02\x00"


def hash_password(password: str, salt: bytes | None = None) -> bytes:
    salt = secrets.token_bytes(4) if salt is None else salt
    return _HEADER + salt + hashlib.sha512(password.encode("utf-16-le") + salt).digest()


def is_hash(value: bytes) -> bool:
    return value.startswith(_HEADER) and len(value) == 70


def verify_password(password: str, stored: bytes) -> bool:
    return hmac.compare_digest(hash_password(password, stored[2:6]), stored)


def meets_policy(password: str, name: str) -> bool:
    """The complexity rule that CHECK_POLICY = ON applies: eight characters, three of four classes, not the name."""
    classes = (
        any(c.isupper() for c in password),
        any(c.islower() for c in password),
        any(c.isdigit() for c in password),
        any(not c.isalnum() for c in password),
    )
    contains_name = len(name) > 2 and name.casefold() in password.casefold()
    return len(password) >= 8 and sum(classes) >= 3 and not contains_name
