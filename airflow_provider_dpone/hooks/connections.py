"""From an Airflow connection to a DSN of ours, with every form of the password given to Airflow's masker.

Airflow masks the extra of a connection that it read from the environment, but not its password, and it never masks the
URL-encoded form: both happen here, at the one place where a connection is read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus

from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.drivers.secret import Secret

if TYPE_CHECKING:
    from airflow.sdk import Connection


MISSING = "connection_missing"
#: The longest time that a connection may be waited for.
MOST_SECONDS = 3600


def read(conn_id: str, conn_type: str) -> Connection:
    """The connection, refused by name when it is of another type or lacks what a login needs."""
    from airflow.sdk import BaseHook
    from airflow.sdk.exceptions import AirflowNotFoundException

    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as err:
        raise ConfigurationError(
            MISSING,
            happened=f"Airflow has no connection {conn_id!r}.",
            check="the connections in Airflow, and docs/roles.md for which role it serves.",
        ) from err
    if connection.password:
        mask(connection.password)
    if connection.conn_type != conn_type:
        raise ConfigurationError(
            "connection_type",
            happened=f"the connection {conn_id!r} is of type {connection.conn_type!r}, not {conn_type!r}.",
            check="the connection's type in Airflow.",
        )
    missing = [name for name in ("host", "login", "password") if not getattr(connection, name)]
    if missing:
        raise ConfigurationError(
            "connection_incomplete",
            happened=f"the connection {conn_id!r} has no {' and no '.join(missing)}.",
            check="the connection in Airflow, and the secrets backend that serves it.",
        )
    return connection


def mask(secret: str) -> None:
    """Teach the log masker this secret in the forms in which a driver or a library may print it."""
    from airflow.sdk.log import mask_secret

    for form in {secret, quote(secret, safe=""), quote_plus(secret), secret.replace("}", "}}")}:
        mask_secret(form)


def password(connection: Connection) -> Secret:
    """The password, wrapped so that no repr shows it."""
    assert connection.password is not None
    return Secret(connection.password)


def seconds(extra: dict[str, Any], name: str, default: int) -> int:
    """An extra that is a time: a whole number of seconds, 1 or more. The form stores a number; a URI stores text."""
    value = extra.get(name)
    if value is None or value == "":
        return default
    if not re.fullmatch("[1-9][0-9]{0,3}", str(value)) or int(value) > MOST_SECONDS:
        raise ConfigurationError(
            "connection_seconds",
            happened=f"the extra {name!r} of the connection is not a whole number of seconds from 1 to {MOST_SECONDS}.",
            check="the connection's extra fields in Airflow.",
        )
    return int(value)


def flag(extra: dict[str, Any], name: str, default: bool) -> bool:
    """A boolean extra. The form stores booleans; a URI stores text."""
    value = extra.get(name)
    if value is None or value == "":
        return default
    if isinstance(value, bool):
        return value
    return str(value).lower() in ("1", "true", "yes", "on")
