"""The guarded seed routine of a PostgreSQL database: how a DBA installs it, and how an attempt's gate in it moves.

An attempt that seeds has one right: to call a routine that applies the plan its gate row was opened for. The routine
holds that row to the end of its transaction; closing takes it in a conflicting mode, so it waits for a call that was
accepted, and every call that waits behind it finds the gate closed. All of it stands in the schema ``dpone_seed``,
which belongs to a role that nobody logs in as. The runtime compares it with what was rendered; it never makes it.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_dpone.contracts.errors import ConfigurationError, GateTampered
from airflow_provider_dpone.drivers import load_sql, quote_postgres

if TYPE_CHECKING:
    from airflow_provider_dpone.gates.postgres_roles import Session

SQL = load_sql("airflow_provider_dpone.gates", "sql/postgres_seed.sql")

#: The role that owns the routine and what it makes, and the one that attempts are members of while they seed.
SEED_OWNER, SEEDER = "dpone_seed_owner", "dpone_seeder"
_INSTALLATION = ("table_schemas", "table_gates", "routine_gate_moves", "routine_open_gate", "routine_close_gate")
_BODY = re.compile(r"AS \$body\$(.*?)\$body\$", re.DOTALL)
_SAID = re.compile(r"DPONE_SEED: ([a-z_]+)")
#: Name, arguments, settings and who executes it.
_ROUTINES = {
    "seed": (
        "plan text",
        "search_path=pg_catalog, pg_temp;row_security=off;DateStyle=ISO, YMD;TimeZone=UTC;bytea_output=hex;"
        "standard_conforming_strings=on;transform_null_equals=off;default_tablespace=;default_table_access_method=heap",
    ),
    "open_gate": ("operation_key text, role_name text, plan_sha256 text", "search_path=pg_catalog, pg_temp"),
    "close_gate": ("operation_key text, role_name text", "search_path=pg_catalog, pg_temp"),
    "gate_moves": ("", "search_path=pg_catalog, pg_temp"),
}
_COLUMNS = {
    "schemas": (("schema_name", "text", True),),
    "gates": (
        ("role_name", "text", True),
        ("operation_key", "text", True),
        ("plan_sha256", "text", False),
        ("state", "text", True),
        ("applied_rows", "bigint", False),
        ("content_sha256", "text", False),
        ("table_oid", "oid", False),
    ),
}
#: As the server names those that the script does not; NOT NULL stands with the columns.
_CONSTRAINTS = (
    ("schemas", "p", "schemas_pkey"),
    ("gates", "p", "gates_pkey"),
    ("gates", "u", "gates_operation_key_key"),
    ("gates", "c", "gates_operation_key_check"),
    ("gates", "c", "gates_plan_sha256_check"),
    ("gates", "c", "gates_state_check"),
    ("gates", "c", "gates_check"),
    ("gates", "c", "gates_check1"),
)
#: BEFORE UPDATE OR DELETE for each row, and BEFORE TRUNCATE.
_TRIGGERS = (("gate_moves", 27), ("gate_stays", 34))

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedAuthority:
    """The roles of the seed routine in one database, by name."""

    issuer: str
    observer: str
    owner: str = SEED_OWNER
    seeder: str = SEEDER


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedGate:
    """A gate row as the observer sees it. ``content_sha256`` is None where nothing was applied."""

    operation_key: str
    plan_sha256: str | None
    closed: bool
    rows: int | None
    content_sha256: str | None
    table_oid: int | None


def seed_script(authority: SeedAuthority, database: str, schemas: Sequence[str], source_role: str) -> str:
    """What a superuser runs once in the database, when issuer, observer and source role are there."""
    roles = {name: quote_postgres(getattr(authority, name)) for name in ("owner", "seeder", "issuer", "observer")}
    parts = [
        SQL.text("accounts", owner=roles["owner"], seeder=roles["seeder"], issuer=roles["issuer"]),
        SQL.text("begin", owner=roles["owner"], seeder=roles["seeder"], database=quote_postgres(database)),
        *(SQL.text(name) for name in (*_INSTALLATION, "routine_seed")),
        SQL.text("rights", seeder=roles["seeder"], issuer=roles["issuer"], observer=roles["observer"]),
        *(schema_script(authority, schema, source_role) for schema in schemas),
    ]
    return "\n".join(parts)


def schema_script(authority: SeedAuthority, schema: str, source_role: str) -> str:
    """One more schema in which fixtures may be seeded."""
    return SQL.text(
        "allow_schema",
        schema=quote_postgres(schema),
        schema_text="'" + schema.replace("'", "''") + "'",
        owner=quote_postgres(authority.owner),
        observer=quote_postgres(authority.observer),
        source_role=quote_postgres(source_role),
    )


def require_installed(session: Session, authority: SeedAuthority) -> None:
    """Refuse a routine, an owner or rights that are not the rendered ones, and a server that can prepare transactions."""
    require_no_prepared_transactions(session)
    found = {str(line) for (line,) in session.execute(SQL.text("installed").encode(), {"owner": authority.owner})}
    expected = _rendered(authority)
    if not any(line.startswith("schema|") for line in found):
        raise _absent("nothing was issued.")
    if found != expected:
        wrong = sorted(f"missing {line}" for line in expected - found)
        wrong += sorted(f"unexpected {line}" for line in found - expected)
        raise GateTampered(
            "postgres_seed_routine",
            happened=f"the seed routine is not as it was rendered: {'; '.join(wrong[:4])}.",
            not_done="nothing was issued, proven or sealed.",
            check="who changes the schema dpone_seed; a superuser drops it and runs `dponectl source render-seed` again.",
        )


def require_no_prepared_transactions(session: Session) -> None:
    """A transaction that goes on without a session would outlive the closing of its writer, under any name."""
    row = session.execute(SQL.text("prepared_transactions").encode()).fetchone()
    if row is None or row[0] != 0:
        raise ConfigurationError(
            "postgres_prepared_transactions",
            happened="the server lets transactions be prepared, which would go on without the session that made them.",
            not_done="nothing was seeded or sealed.",
            check="max_prepared_transactions = 0, which is PostgreSQL's default, and a restart.",
        )


def open_gate(session: Session, operation_key: str, name: str, plan_sha256: str) -> None:
    """In the issuer's transaction that makes the role."""
    given = {"operation_key": operation_key, "name": name, "plan_sha256": plan_sha256}
    session.execute(SQL.text("open_gate").encode(), given)


def close_gate(session: Session, operation_key: str, name: str, *, milliseconds: int) -> None:
    """Close the gate for good. Raises psycopg's LockNotAvailable when a seed held it all that time."""
    with session.transaction():
        session.execute(SQL.text("wait_for_the_gate", milliseconds=str(milliseconds)).encode())
        session.execute(SQL.text("close_gate").encode(), {"operation_key": operation_key, "name": name})


def close_behind_the_last(
    issuer: Session, operation_key: str, name: str, *, milliseconds: int, end: Callable[[], object]
) -> None:
    """Close the gate after the seed that was accepted. One that does not end in time loses its session by ``end``."""
    import psycopg

    try:
        try:
            close_gate(issuer, operation_key, name, milliseconds=milliseconds)
        except psycopg.errors.LockNotAvailable:
            _log.warning("the seed of %s did not end; ending its session", name)
            end()
            close_gate(issuer, operation_key, name, milliseconds=milliseconds)
    except psycopg.errors.RaiseException as err:
        raise _wrong_gate(name, f"closing it answered {reason_of(err) or err}") from err
    except (psycopg.errors.InvalidSchemaName, psycopg.errors.UndefinedFunction) as err:
        raise _absent("the role was barred, and its gate not closed.") from err


def closed_evidence(observer: Session, authority: SeedAuthority, operation_key: str, name: str) -> dict[str, object]:
    """A closed gate by the observer's own eyes, of the rendered routine, on a server where nothing can be prepared."""
    require_installed(observer, authority)
    gate = gate_of(observer, name)
    if gate is None or not gate.closed or gate.operation_key != operation_key:
        raise _wrong_gate(name, "it is not the closed one of this operation")
    return {
        "seed_gate": "CLOSED",
        "seeded_rows": gate.rows,
        "seeded_content_sha256": gate.content_sha256,
        "max_prepared_transactions": 0,
    }


def gate_of(observer: Session, name: str) -> SeedGate | None:
    row = observer.execute(SQL.text("gate").encode(), {"name": name}).fetchone()
    if row is None:
        return None
    operation_key, plan_sha256, state, rows, content, table_oid = row
    return SeedGate(
        operation_key=str(operation_key),
        plan_sha256=None if plan_sha256 is None else str(plan_sha256),
        closed=state == "CLOSED",
        rows=None if rows is None else int(rows),
        content_sha256=None if content is None else str(content),
        table_oid=None if table_oid is None else int(table_oid),
    )


def gates_not_closed(observer: Session) -> list[str]:
    """The roles behind whose gate somebody may still seed in this database."""
    return [str(name) for (name,) in observer.execute(SQL.text("gates_not_closed").encode())]


def may_only_seed(session: Session) -> bool:
    """What the attempt's own session says of its rights on the routine."""
    row = session.execute(SQL.text("own_rights").encode()).fetchone()
    return row is not None and (bool(row[0]), bool(row[1])) == (True, False)


def reason_of(err: Exception) -> str | None:
    """Why the routine refused, if it was the routine."""
    match = _SAID.search(str(err))
    return None if match is None else match[1]


def _absent(not_done: str) -> ConfigurationError:
    return ConfigurationError(
        "postgres_seed_absent",
        happened="there is no seed routine in this database.",
        not_done=not_done,
        check="`dponectl source render-seed`, which a superuser runs once.",
    )


def _wrong_gate(name: str, why: str) -> GateTampered:
    return GateTampered(
        "postgres_seed_gate",
        happened=f"the seed gate of {name}: {why}.",
        not_done="no proof was made.",
        check="who writes to dpone_seed.gates, which only a superuser can; then close again.",
    )


def _rendered(authority: SeedAuthority) -> set[str]:
    owner, issuer, observer, seeder = authority.owner, authority.issuer, authority.observer, authority.seeder
    lines = {"setting|encoding|UTF8", "owner|false|0", f"schema|{owner}"}
    lines |= {f"grant|schema|{role}|USAGE" for role in (issuer, observer, seeder)}
    for table, columns in _COLUMNS.items():
        lines |= {f"relation|{table}|r|{owner}|false|false", f"grant|{table}|{observer}|SELECT"}
        lines |= {
            f"column|{table}|{number}|{name}|{kind}|{str(required).lower()}|false"
            for number, (name, kind, required) in enumerate(columns, 1)
        }
    lines |= {f"constraint|dpone_seed.{table}|{kind}|{name}|true" for table, kind, name in _CONSTRAINTS}
    lines |= {f"trigger|gates|{name}|O|{kind}|gate_moves" for name, kind in _TRIGGERS}
    for name, (arguments, settings) in _ROUTINES.items():
        body = _BODY.search(SQL.text(f"routine_{name}"))
        assert body is not None, name
        digest = hashlib.sha256(body[1].encode()).hexdigest()
        definer = str(name != "gate_moves").lower()
        lines.add(f"routine|{name}|{arguments}|{owner}|{definer}|{settings}|{digest}")
    lines |= {f"grant|{name}|{issuer}|EXECUTE" for name in ("open_gate", "close_gate")}
    lines.add(f"grant|seed|{seeder}|EXECUTE")
    return lines
