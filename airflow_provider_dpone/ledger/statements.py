"""The ledger's SQL, rendered for one pair of schemas.

Every statement stands in a named block of ``ledger/sql/*.sql``. Slots are the two quoted schema names, the same names
as text, the pinned service id, the lock time-out, and a few fragments that several statements share. Batches that set
session options carry no parameters, because their options would end with a parameterised batch; everywhere else values
are parameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.drivers import SqlFile, load_sql, quote_mssql
from airflow_provider_dpone.ledger.settings import LedgerSettings

#: Files that hold statements, in the order in which a name is looked up. The three install files hold the definition.
INSTALL_FILES = ("install_common", "install_gate", "install_extension")
#: The definitions of the optional groups.
GROUP_FILES = ("install_trust", "install_registration")
FILES = (
    *INSTALL_FILES,
    *GROUP_FILES,
    "installation",
    "grants",
    "transaction",
    "history",
    "owners",
    "operations",
    "proofs",
    "gates",
    "records",
    "groups",
    "trust",
    "registration",
)

#: Blocks of transaction.sql, operations.sql and groups.sql that are parts of other statements.
_FRAGMENTS = {
    "audit": "audit",
    "catalog": "catalog",
    "checks": "checks",
    "live_incarnation": "live_incarnation",
    "require_lock": "require_lock",
    "require_session": "require_session",
    "operation_rows": "operation_rows",
}

#: The catalog of an optional group is the ledger's catalog statement over that group's schema.
_GROUP_FRAGMENTS = {
    f"{group}_{fragment}": (fragment, f"{group}_text")
    for group in ("trust", "registration")
    for fragment in ("catalog", "checks")
}


class LedgerSql:
    """Statements by name, for one ``LedgerSettings``."""

    def __init__(self, settings: LedgerSettings) -> None:
        if type(settings) is not LedgerSettings:
            raise ConfigurationError("ledger_settings", happened="these are not the settings of a ledger.")
        self._slots = {
            "control": quote_mssql(settings.control_schema),
            "extension": quote_mssql(settings.extension_schema),
            "control_text": _text(settings.control_schema),
            "extension_text": _text(settings.extension_schema),
            "authority_text": _text(quote_mssql(settings.control_schema, "composition_authority")),
            "incarnation_text": _text(quote_mssql(settings.extension_schema, "incarnation")),
            "receipts_text": _text(quote_mssql(settings.extension_schema, "gate_receipts")),
            "trust": quote_mssql(settings.trust_schema),
            "registration": quote_mssql(settings.registration_schema),
            "trust_text": _text(settings.trust_schema),
            "registration_text": _text(settings.registration_schema),
            "trust_version_text": _text(quote_mssql(settings.trust_schema, "trust_version")),
            "registration_version_text": _text(quote_mssql(settings.registration_schema, "registration_version")),
            "service_text": _text(settings.service_id),
            "lock_timeout_ms": str(settings.lock_timeout_seconds * 1000),
        }
        self._rendered: dict[str, str] = {}

    def text(self, name: str, /, **identifiers: str) -> str:
        """The statement as it is sent. Identifiers that only this statement has arrive quoted."""
        if identifiers or name not in self._rendered:
            file = _file_of(name)
            slots = {slot: identifiers.get(slot) or self._slot(slot) for slot in file.slots(name)}
            rendered = file.text(name, **slots).strip()
            if identifiers:
                return rendered
            self._rendered[name] = rendered
        return self._rendered[name]

    def _slot(self, slot: str) -> str:
        if slot in _FRAGMENTS:
            return self.text(_FRAGMENTS[slot])
        if slot in _GROUP_FRAGMENTS:
            fragment, schema = _GROUP_FRAGMENTS[slot]
            return self.text(fragment, control_text=self._slots[schema], extension_text=self._slots[schema])
        return self._slots[slot]


def names() -> Iterator[str]:
    """Every statement name, for tests and for rendering the definition."""
    for path in FILES:
        yield from _load(path).names


def install_names(path: str) -> tuple[str, ...]:
    """The blocks of one install file in order."""
    return _load(path).names


@cache
def _file_of(name: str) -> SqlFile:
    for path in FILES:
        file = _load(path)
        if name in file.names:
            return file
    raise KeyError(name)


def _load(path: str) -> SqlFile:
    return load_sql("airflow_provider_dpone.ledger", f"sql/{path}.sql")


def _text(name: str) -> str:
    return "N'" + name.replace("'", "''") + "'"
