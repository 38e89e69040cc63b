"""Which ledger a process speaks to: pinned outside of the database, so that the database cannot answer for itself."""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_provider_dpone.contracts.errors import AdmissionRefused, ConfigurationError
from airflow_provider_dpone.contracts.rules import uuid_text

_SCHEMA_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerSettings:
    """The pinned service incarnation, the schemas, and how long a mutation may wait for the control lock.

    ``service_id`` is compared with the authority row in every transaction. ``lock_timeout_seconds`` bounds the wait for
    the lock; a wait that ends without it raises ControlUnavailable and has changed nothing. The schemas of trust and
    registration are those of the two optional groups.
    """

    service_id: str
    control_schema: str = "dpone_control"
    extension_schema: str = "dpone_ext"
    lock_timeout_seconds: int = 30
    trust_schema: str = "dpone_trust"
    registration_schema: str = "dpone_registration"

    def __post_init__(self) -> None:
        try:
            uuid_text(self.service_id, "ledger_service_id")
        except AdmissionRefused as err:
            raise ConfigurationError(
                "ledger_service_id",
                happened="the pinned service id of the ledger is not a UUID in canonical lower-case text.",
                check="the service id in the configuration: the new UUID that was chosen for this ledger before it was installed.",
            ) from err
        schemas = (self.control_schema, self.extension_schema, self.trust_schema, self.registration_schema)
        for name in schemas:
            if type(name) is not str or not _SCHEMA_NAME.fullmatch(name):
                raise ConfigurationError(
                    "ledger_schema",
                    happened="a schema of the ledger is not a plain name of letters, digits and underscores.",
                    check="control_schema, extension_schema, trust_schema and registration_schema.",
                )
        if len({name.lower() for name in schemas}) != len(schemas):
            raise ConfigurationError("ledger_schema", happened="two schemas of the ledger have the same name.")
        if type(self.lock_timeout_seconds) is not int or not 0 <= self.lock_timeout_seconds <= 3600:
            raise ConfigurationError(
                "ledger_lock_timeout", happened="lock_timeout_seconds is not a whole number between 0 and 3600."
            )
