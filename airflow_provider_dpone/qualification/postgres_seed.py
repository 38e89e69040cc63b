"""Applying a seed plan, as the attempt's role: one call of the guarded routine, committed once.

Whether it happened is never concluded from the reply: a call that was not answered can be made again, and after the
closing the gate's row says what was applied.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_dpone.contracts.errors import (
    ConfigurationError,
    ControlUnavailable,
    Fenced,
    GuardError,
    OutcomeUnknown,
)
from airflow_provider_dpone.contracts.nonproduction.seed import SeedPlan
from airflow_provider_dpone.drivers.postgres import PostgresDsn, connect
from airflow_provider_dpone.gates import postgres_seed

if TYPE_CHECKING:
    import psycopg

#: What the routine says of a gate that this attempt no longer has.
_FENCED = frozenset({"gate_closed", "gate_missing"})
#: Rolled back for a reason of the server's own: a conflict with another transaction, no room, a lock that is held.
_ROLLED_BACK = ("40", "53", "55")


def apply_seed(seeder: PostgresDsn, plan: SeedPlan) -> str:
    """Seed with the plan and return the digest of what stands there now. The same call again does nothing twice.

    ``seeder`` is the attempt's own role in the database of the plan. Raises Fenced when its gate is closed,
    OutcomeUnknown when the reply was lost, ControlUnavailable when the server rolled it back and it can be made again,
    and ConfigurationError with the routine's reason when it refused.
    """
    import psycopg

    if seeder.database != plan.qualified_name[0]:
        raise ConfigurationError(
            "postgres_seed_database",
            happened=f"the plan is one of {plan.qualified_name[0]}; the role was issued for {seeder.database}.",
            not_done="nothing was seeded.",
        )
    try:
        settings = (("search_path", "pg_catalog"), ("client_encoding", "UTF8"))
        with connect(replace(seeder, settings=settings)) as session:
            given = {"plan": plan.document().decode()}
            row = session.execute(postgres_seed.SQL.text("seed").encode(), given).fetchone()
    except psycopg.Error as err:
        raise _meaning(err, plan) from err
    assert row is not None
    return str(row[0])


def _meaning(err: psycopg.Error, plan: SeedPlan) -> GuardError:
    reason = postgres_seed.reason_of(err)
    place = ".".join(plan.qualified_name)
    if reason in _FENCED:
        return Fenced(
            "postgres_seed_gate", happened=f"the seed gate of this role is closed ({reason}).", not_done=f"{place}."
        )
    if reason is None and err.sqlstate is not None and err.sqlstate.startswith(_ROLLED_BACK):
        return ControlUnavailable(
            "postgres_seed_server",
            happened=f"the seed of {place} was rolled back by the server: {' '.join(str(err).split())[:500]}",
            not_done="nothing of it.",
            check="the server's disk, and who holds the table, then repeat the same call.",
        )
    # An operator's intervention (class 57) or a lost connection says nothing about the transaction.
    if reason is not None or (err.sqlstate is not None and not err.sqlstate.startswith(("57", "08"))):
        return ConfigurationError(
            f"postgres_seed_{reason or 'refused'}",
            happened=f"the seed of {place} was refused: {' '.join(str(err).split())[:500]}",
            not_done="nothing of it: the routine's transaction was rolled back.",
            check="the plan, and `dponectl source render-seed` for the schemas in which fixtures may be seeded.",
        )
    return OutcomeUnknown(
        "postgres_seed_reply",
        happened=f"the seed of {place} was sent and not answered: {' '.join(str(err).split())[:200]}",
        not_done="it was not sent again.",
        check="call again with the same role, or close it: its gate's row then says whether it was applied.",
    )
