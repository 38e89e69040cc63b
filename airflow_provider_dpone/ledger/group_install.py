"""Installing an optional group into a ledger that is there, its rights, and verifying all of it.

A group is installed once, under the control lock, into a ledger that audits clean. A second installation, a part of a
group, foreign objects in its schema and a missing group below it are refused by name; nothing is adopted or completed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.drivers import Connect
from airflow_provider_dpone.drivers.dbapi import read_all
from airflow_provider_dpone.drivers.quoting import quote_in_script
from airflow_provider_dpone.ledger import groups, registration, trust
from airflow_provider_dpone.ledger.definition import install_batches
from airflow_provider_dpone.ledger.groups import GROUPS, Group
from airflow_provider_dpone.ledger.settings import LedgerSettings
from airflow_provider_dpone.ledger.statements import LedgerSql
from airflow_provider_dpone.ledger.transaction import ControlLedger, ControlTransaction

#: The accounts of the groups, and the blocks of groups.sql that are their rights.
ROLES: dict[str, tuple[str, ...]] = {
    "trust-provisioner": ("grant_audited", "grant_trust_reader", "grant_trust_provisioner"),
    "registrar": ("grant_audited", "grant_trust_reader", "grant_registration_reader", "grant_registrar"),
    "authority-reader": ("grant_audited", "grant_trust_reader", "grant_registration_reader"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsReport:
    """What a complete audit of the installed groups looked at. None: the group is not installed."""

    policy_revisions: int | None
    registered_grants: int | None


def render(settings: LedgerSettings, name: str) -> str:
    """The installation of one group as GO-separated batches, for a DBA to run in the control database."""
    sql = LedgerSql(settings)
    batches = [sql.text("begin_install"), *_batches(sql, settings, groups.group(name)), sql.text("commit")]
    return "".join(f"{batch}\nGO\n" for batch in batches)


def apply(connect: Connect, settings: LedgerSettings, name: str) -> None:
    """Install one group, in one transaction, and read its catalog back on another connection."""
    each = groups.group(name)
    ledger = ControlLedger(connect, settings, role="installer")

    def work(transaction: ControlTransaction) -> bool | None:
        _require_place(transaction, settings, each)
        with transaction.callback() as cursor:
            for batch in _batches(ledger.sql, settings, each):
                read_all(cursor, batch)
        return None

    def readback(transaction: ControlTransaction) -> bool | None:
        if each not in groups.installed(transaction):
            return None
        groups.verify(transaction, settings, each)
        return True

    ledger.mutate(f"install {name}", work, readback)


def role_grants(settings: LedgerSettings, role: str, login: str) -> str:
    """GO-separated batches with everything that one role needs; the login may have other roles as well.

    Run them as a sysadmin in the control database; they make the login's user if it has none, and end in master.
    """
    if role not in ROLES:
        raise ConfigurationError("ledger_role", happened=f"{role!r} is none of {', '.join(ROLES)}.")
    sql, user = LedgerSql(settings), quote_in_script(login)
    in_text = "N'" + login.replace("'", "''") + "'"
    batches = [sql.text("group_user", user=user, user_text=in_text)]
    batches += [sql.text(name, user=user) for name in ROLES[role]]
    batches += [sql.text("master"), sql.text("grant_definitions", user=user)]
    return "".join(f"{batch}\nGO\n" for batch in batches)


def audit(connect: Connect, settings: LedgerSettings) -> GroupsReport:
    """Verify every stored byte of the groups that are installed, as one consistent state."""

    def query(transaction: ControlTransaction) -> GroupsReport:
        found = groups.installed(transaction)
        if found:
            groups.verify(transaction, settings, *found)
        names = {each.name for each in found}
        if "registration" in names and "trust" not in names:
            raise ConfigurationError(
                "trust_absent", happened="the ledger has the registration group without the trust group below it."
            )
        return GroupsReport(
            policy_revisions=trust.audit(transaction) if "trust" in names else None,
            registered_grants=registration.audit(transaction) if "registration" in names else None,
        )

    return ControlLedger(connect, settings).read(query)


def _batches(sql: LedgerSql, settings: LedgerSettings, each: Group) -> Iterator[str]:
    """Schema, tables, the version row, and the triggers at last."""
    blocks = install_batches(settings, each.files)
    yield sql.text(f"create_{each.name}_schema")
    yield from (text for name, text in blocks if name.startswith("table_"))
    yield sql.text(f"seed_{each.name}_version")
    yield from (text for name, text in blocks if name.startswith("trigger_"))


def _require_place(transaction: ControlTransaction, settings: LedgerSettings, each: Group) -> None:
    """The schema is free, and what the group rests on is there and intact."""
    below = [GROUPS[name] for name in each.requires]
    if below:
        groups.verify(transaction, settings, *below)
    if each not in groups.installed(transaction):
        return
    difference = groups.compare(transaction, settings, each)
    if not difference.missing:
        reason, what = f"{each.name}_present", f"the ledger already has its {each.name} group"
    else:
        reason = f"{each.name}_partial"
        what = f"the schema {each.schema(settings)} is not empty and is no {each.name} group: {difference.sentence()}"
    raise ConfigurationError(
        reason,
        happened=f"{what}.",
        not_done="nothing was installed.",
        check="`dponectl ledger audit`.",
        avoid="drop or repair a group that may hold authority.",
    )
