"""What every transaction checks before it believes a row: version, service, incarnation and catalog.

The begin batch brings the five result sets along, so the audit costs no round trip of its own. Only when a digest
disagrees are the catalog lines fetched, to say by name what is different.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_dpone.contracts.errors import ConfigurationError, LedgerTampered
from airflow_provider_dpone.drivers import Connection, drain
from airflow_provider_dpone.ledger.definition import structure_lines, structure_sha256
from airflow_provider_dpone.ledger.settings import LedgerSettings
from airflow_provider_dpone.ledger.statements import LedgerSql

SCHEMA_VERSION = 2
EXTENSION_VERSION = 2

#: How many result sets the audit answers where there is a ledger.
RESULT_SETS = 5

#: How many differing catalog lines an error names.
_NAMED_DIFFERENCES = 6

Rows = Sequence[Sequence[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogDifference:
    """Catalog lines that should be there and are not, and the other way round."""

    missing: tuple[str, ...]
    unexpected: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected)

    def sentence(self) -> str:
        parts = [f"missing {line}" for line in self.missing] + [f"unexpected {line}" for line in self.unexpected]
        more = len(parts) - _NAMED_DIFFERENCES
        shown = "; ".join(parts[:_NAMED_DIFFERENCES])
        return shown if more <= 0 else f"{shown}; and {more} more"


def verify(connection: Connection, sql: LedgerSql, settings: LedgerSettings, results: Rows) -> None:
    """Check the five result sets of the audit. Raises ConfigurationError or LedgerTampered by name."""
    if not results:
        raise ConfigurationError(
            "ledger_absent",
            happened=f"there is no ledger in the schemas {settings.control_schema} and {settings.extension_schema} "
            "of this database, or this login may not see it.",
            check="the control connection's database, and `dponectl ledger install`.",
        )
    authority, incarnation, live, structure, checks = results
    _verify_authority(authority, settings)
    pinned_checks = _verify_incarnation(incarnation, live)
    if structure != [(structure_sha256(settings),)]:
        difference = compare(connection, sql, settings)
        raise LedgerTampered(
            "catalog",
            happened=f"the catalog of the ledger is not the installed one: {difference.sentence()}.",
            details={"missing": list(difference.missing), "unexpected": list(difference.unexpected)},
        )
    if checks != [(pinned_checks,)]:
        raise LedgerTampered(
            "catalog_checks", happened="the text of a CHECK constraint is not the one that was installed."
        )


def compare(connection: Connection, sql: LedgerSql, settings: LedgerSettings) -> CatalogDifference:
    """Fetch the catalog lines and name the differences."""
    [rows] = drain(connection, sql.text("catalog_lines"))
    found = {str(line) for (line,) in rows}
    expected = set(structure_lines(settings))
    return CatalogDifference(missing=tuple(sorted(expected - found)), unexpected=tuple(sorted(found - expected)))


def _verify_authority(rows: Sequence[tuple[Any, ...]], settings: LedgerSettings) -> None:
    if len(rows) != 1:
        raise LedgerTampered("authority", happened=f"the authority of the ledger has {len(rows)} rows instead of one.")
    version, service_id = rows[0]
    if version != SCHEMA_VERSION:
        raise ConfigurationError(
            "ledger_version",
            happened=f"the ledger has schema version {version}; this program speaks version {SCHEMA_VERSION} only.",
        )
    if service_id != settings.service_id:
        raise ConfigurationError(
            "ledger_service_id",
            happened=f"the ledger belongs to the service {service_id}; the configuration pins {settings.service_id}.",
            check="whether the control connection reaches the intended server.",
        )


def _verify_incarnation(rows: Sequence[tuple[Any, ...]], live: Sequence[tuple[Any, ...]]) -> str:
    if len(rows) != 1:
        raise LedgerTampered("incarnation", happened=f"the incarnation has {len(rows)} rows instead of one.")
    version, database_guid, recovery_fork_guid, create_token, checks_sha256 = rows[0]
    if version != EXTENSION_VERSION:
        raise ConfigurationError(
            "ledger_extension_version",
            happened=f"the extension group has version {version}; this program speaks {EXTENSION_VERSION} only.",
            check="which version of this provider installed the ledger; a ledger is not converted.",
        )
    if len(live) != 1 or None in live[0][:2]:
        raise ConfigurationError(
            "ledger_incarnation_visibility",
            happened="the control login cannot see the identity of its database in sys.database_recovery_status.",
            check="VIEW ANY DEFINITION (SQL Server 2022: VIEW SERVER SECURITY STATE) of the control login.",
        )
    if live[0][:3] != (database_guid, recovery_fork_guid, create_token):
        raise LedgerTampered(
            "incarnation",
            happened="the control database is not the one the ledger was installed in: it is a copy, or it was "
            "restored to another point.",
            check="which database is the original; a restored ledger does not know what happened since its backup.",
            avoid="update the incarnation by hand.",
        )
    if live[0][4] != 0:
        # ALLOWED too: whoever else commits here may then be forgotten after this program has read what it wrote.
        raise ConfigurationError(
            "ledger_durability",
            happened="the control database may acknowledge a commit before it is on disk: a crash would forget it.",
            not_done="nothing was read or written.",
            check="ALTER DATABASE CURRENT SET DELAYED_DURABILITY = DISABLED, which is the server's default.",
        )
    return str(checks_sha256)
