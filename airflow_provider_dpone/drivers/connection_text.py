"""What no driver can send as part of a connection is refused here.

The error that a driver raises for it holds the text that it was making, with the password in it.
"""

from __future__ import annotations

from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.drivers.secret import Secret


def require_text(engine: str, password: Secret, **settings: str) -> None:
    """Refuse NUL and half of a character (a lone surrogate) in any member of a connection, the password included."""
    for name, value in {**settings, "password": password.reveal()}.items():
        if any(character == "\x00" or "\ud800" <= character <= "\udfff" for character in value):
            raise ConfigurationError(
                "connection_text",
                happened=f"the {name} of a {engine} connection contains NUL or half of a character.",
                not_done="no connection was tried.",
            )
