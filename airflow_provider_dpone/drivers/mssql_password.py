"""SQL Server's password hash, computed on this side, so that no clear password stands in a statement."""

from __future__ import annotations

import hashlib
import secrets

from airflow_provider_dpone.drivers.secret import Secret

#: Version 2 of the format (SQL Server 2012 and later): salted SHA-512 over the UTF-16LE password.
_VERSION = b"\x02\x00"
_SALT_BYTES = 4


def hashed_password(secret: Secret) -> str:
    """What stands in ``CREATE LOGIN … WITH PASSWORD = <this> HASHED``: a binary literal with a fresh salt."""
    salt = secrets.token_bytes(_SALT_BYTES)
    digest = hashlib.sha512(secret.reveal().encode("utf-16-le") + salt).digest()
    return "0x" + (_VERSION + salt + digest).hex().upper()
