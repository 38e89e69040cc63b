"""A PostgreSQL source with the guarded seed routine, and plans for it with names that some quoting forgets."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

import psycopg
from psycopg import sql
from tsqldev.pgserver import PostgresProcess

from airflow_provider_dpone.contracts.nonproduction.seed import SeedColumn, SeedPlan
from airflow_provider_dpone.gates.postgres import PostgresGate
from airflow_provider_dpone.gates.postgres_seed import SeedAuthority, seed_script
from tests.support import ledger_records as make
from tests.support import live_postgres
from tests.support.live_postgres import DATABASE, ISSUER, OBSERVER, SOURCE_ROLE, LivePostgres

SCHEMA = "fix'tu\"res %s {{schema}}"
AUTHORITY = SeedAuthority(issuer=ISSUER, observer=OBSERVER, owner="own'e\"r %s ß", seeder="see'd\"er %")
#: One column of each type of the closed list, by names that are no plain words.
COLUMNS = tuple(
    SeedColumn(name=name, type=kind, nullable=name != "i\"d'")
    for name, kind in (
        ("i\"d'", "integer"),
        ("b%s", "boolean"),
        ("small", "smallint"),
        ("big", "bigint"),
        ("amount; --", "numeric(12,4)"),
        ("t", "text"),
        ("ß é", "character varying(8)"),
        ("raw", "bytea"),
        ("select", "uuid"),
        ("day", "date"),
        ("hour", "time without time zone"),
        ("at", "timestamp without time zone"),
        ("at_zone", "timestamp with time zone"),
    )
)
ROWS = (
    (
        *("1", "true", "-32768", "9223372036854775807", "-1234.5000", "a ß 𝄞 '\"%s\\ {{x}}\n", "äöü", "\\x00ff"),
        *("0f8fad5b-d9cd-469f-a165-70867728950e", "0001-01-01", "23:59:59.999999", "9999-12-31 00:00:00"),
        "2026-11-30 01:02:03.5+00",
    ),
    ("2", "false", "0", "-1", "0.0000", "", "", "\\x", *(None,) * 5),
    ("3", *(None,) * 12),
    ("4", *(None,) * 12),
)


def provision(server: PostgresProcess) -> LivePostgres:
    """What the DBA does once, for extraction and for seeds."""
    live = live_postgres.provision(server)
    with psycopg.connect(live.owner, autocommit=True) as owner:
        owner.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(SCHEMA)))
        owner.execute(seed_script(AUTHORITY, DATABASE, [SCHEMA], SOURCE_ROLE).encode())
    return live


def gate(live: LivePostgres, **changes: Any) -> PostgresGate:
    return live.gate(seed=AUTHORITY, **changes)


def plan(**changes: Any) -> SeedPlan:
    """Of a table that no other test has."""
    given = SeedPlan(
        fixture_plan_sha256=make.sha("fixture plan"),
        work_item_sha256=make.sha("work item"),
        object_id="source",
        qualified_name=(DATABASE, SCHEMA, f"pla'ne\"s %s {secrets.token_hex(4)}"),
        columns=COLUMNS,
        key=("i\"d'",),
        rows=ROWS,
    )
    return replace(given, **changes)
