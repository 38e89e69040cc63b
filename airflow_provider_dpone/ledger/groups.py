"""The two optional groups of the ledger: nonproduction trust, and the registration of grants under it.

Each has its own schema, its own version row and its own catalog digest. A ledger without them is complete for
executions; whoever uses a group audits it in the same transaction, after the ledger itself. Registration rests on
trust, so whoever audits it audits both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from airflow_provider_dpone.contracts.errors import ConfigurationError, LedgerTampered, OutcomeUnknown
from airflow_provider_dpone.drivers import Connect
from airflow_provider_dpone.ledger.audit import CatalogDifference
from airflow_provider_dpone.ledger.definition import structure_lines, structure_sha256
from airflow_provider_dpone.ledger.settings import LedgerSettings
from airflow_provider_dpone.ledger.transaction import ControlLedger, ControlTransaction

T = TypeVar("T")

GROUP_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One optional group: its name, which is also the stem of its statements, its file, and what it rests on."""

    name: str
    requires: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        return (f"install_{self.name}",)

    def schema(self, settings: LedgerSettings) -> str:
        return str(getattr(settings, f"{self.name}_schema"))


GROUPS = {"trust": Group(name="trust"), "registration": Group(name="registration", requires=("trust",))}


def group(name: str) -> Group:
    """A group by its name."""
    if type(name) is not str or name not in GROUPS:
        raise ConfigurationError(
            "ledger_group", happened=f"the ledger has no group {name!r}; it has {', '.join(sorted(GROUPS))}."
        )
    return GROUPS[name]


class GroupLedger:
    """The ledger's transactions, each of which audits the groups in use before anything of them is believed."""

    def __init__(self, connect: Connect, settings: LedgerSettings, *names: str, role: str) -> None:
        self._ledger = ControlLedger(connect, settings, role=role)
        self._groups = tuple(group(name) for name in names)

    def mutate(
        self,
        step: str,
        work: Callable[[ControlTransaction], T | None],
        readback: Callable[[ControlTransaction], T | None],
        *,
        unknown: type[OutcomeUnknown] = OutcomeUnknown,
    ) -> T:
        """``ControlLedger.mutate`` with the session options that the groups' triggers ask for."""

        def audited_work(transaction: ControlTransaction) -> T | None:
            transaction.run(("sound_session", []))
            self._verify(transaction)
            return work(transaction)

        def audited_readback(transaction: ControlTransaction) -> T | None:
            self._verify(transaction)
            return readback(transaction)

        return self._ledger.mutate(step, audited_work, audited_readback, unknown=unknown)

    def read(self, query: Callable[[ControlTransaction], T]) -> T:
        """``ControlLedger.read``."""

        def audited(transaction: ControlTransaction) -> T:
            self._verify(transaction)
            return query(transaction)

        return self._ledger.read(audited)

    def _verify(self, transaction: ControlTransaction) -> None:
        verify(transaction, self._ledger.settings, *self._groups)


def verify(transaction: ControlTransaction, settings: LedgerSettings, *groups: Group) -> None:
    """Audit groups in this transaction: version, service and catalog. One round trip if nothing is wrong."""
    results = transaction.run(*((f"audit_{each.name}", []) for each in groups))
    for number, each in enumerate(groups):
        version, structure, checks = results[3 * number : 3 * number + 3]
        _verify_group(transaction, settings, each, version, structure, checks)


def installed(transaction: ControlTransaction) -> tuple[Group, ...]:
    """The groups of which anything is there, in the order in which they rest on each other."""
    results = transaction.run(*((f"audit_{name}", []) for name in GROUPS))
    structures = results[1::3]
    return tuple(each for each, rows in zip(GROUPS.values(), structures, strict=True) if rows != [(None,)])


def _verify_group(
    transaction: ControlTransaction,
    settings: LedgerSettings,
    each: Group,
    version: Sequence[tuple[Any, ...]],
    structure: Sequence[tuple[Any, ...]],
    checks: Sequence[tuple[Any, ...]],
) -> None:
    name, schema = each.name, each.schema(settings)
    if structure == [(None,)]:
        raise ConfigurationError(
            f"{name}_absent",
            happened=f"the ledger has no {name} group in the schema {schema}, or this login may not see it.",
            check=f"`dponectl ledger install --group {name}`, and the grants of this login.",
        )
    if not version:
        raise ConfigurationError(
            f"{name}_partial",
            happened=f"the schema {schema} holds a part of the {name} group and no version of it.",
            check="who changed the control database; nothing completes a part of a group.",
            avoid="create the missing objects by hand.",
        )
    if len(version) != 1 or version[0][0] != GROUP_VERSION:
        raise ConfigurationError(
            f"{name}_version",
            happened=f"the {name} group has the version rows {[row[0] for row in version]}; "
            f"this program speaks version {GROUP_VERSION} only.",
        )
    if version[0][1] != settings.service_id:
        raise LedgerTampered(f"{name}_service_id", happened=f"the {name} group belongs to another ledger.")
    if structure != [(structure_sha256(settings, each.files),)]:
        difference = compare(transaction, settings, each)
        raise LedgerTampered(
            f"{name}_catalog",
            happened=f"the catalog of the {name} group is not the installed one: {difference.sentence()}.",
            details={"missing": list(difference.missing), "unexpected": list(difference.unexpected)},
        )
    if checks != [(version[0][2],)]:
        raise LedgerTampered(
            f"{name}_catalog_checks",
            happened=f"the text of a CHECK constraint of the {name} group is not the one that was installed.",
        )


def compare(transaction: ControlTransaction, settings: LedgerSettings, each: Group) -> CatalogDifference:
    """Fetch the catalog lines of a group and name the differences."""
    [rows] = transaction.run((f"{each.name}_catalog_lines", []))
    found = {str(line) for (line,) in rows}
    expected = set(structure_lines(settings, each.files))
    return CatalogDifference(missing=tuple(sorted(expected - found)), unexpected=tuple(sorted(found - expected)))
