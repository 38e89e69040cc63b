"""The server-wide LOGON trigger: the reconnect barrier in front of every attempt's login.

Ours are told by the tag in the sixteen bytes of their SID, so a renamed login does not slip through. All others return
before the trigger reads a table. Ours fail closed: no row, another state, an unreachable control database or any error
refuses the login. The row is read with a lock that lasts until the login is through, so once a gate is CLOSING every
earlier login is either refused or visible as a session.

A DBA installs it. If it ever locks people out, a sysadmin reaches the server over the dedicated administrator
connection and runs DISABLE TRIGGER.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_dpone.contracts.errors import ConfigurationError, GateTampered
from airflow_provider_dpone.contracts.principal import SID_TAG
from airflow_provider_dpone.drivers import Connection, Secret, drain, go_batches, load_sql, quote_mssql
from airflow_provider_dpone.drivers.mssql_password import hashed_password
from airflow_provider_dpone.drivers.quoting import quote_in_script
from airflow_provider_dpone.ledger import LedgerSettings
from airflow_provider_dpone.ledger.transaction import driver_errors

TRIGGER = "dpone_logon_gate"
READER = "dpone_gate_reader"

_SQL = load_sql("airflow_provider_dpone.gates", "sql/logon_gate.sql")


def trigger_text(settings: LedgerSettings, control_database: str) -> str:
    """The one accepted definition."""
    return _SQL.text(
        "trigger",
        trigger=quote_mssql(TRIGGER),
        reader_text=f"N'{READER}'",
        tag="0x" + SID_TAG.hex().upper(),
        database=quote_in_script(control_database),
        control=quote_mssql(settings.control_schema),
    ).strip()


def render(settings: LedgerSettings, control_database: str) -> str:
    """The whole installation as GO-separated batches for a DBA. The ledger must be installed before."""
    reader = _SQL.text(
        "reader",
        reader=quote_mssql(READER),
        hash=hashed_password(Secret.generate()),
        database=quote_in_script(control_database),
        control=quote_mssql(settings.control_schema),
    )
    return f"{reader}{trigger_text(settings, control_database)}\nGO\n"


def apply(connection: Connection, settings: LedgerSettings, control_database: str) -> None:
    """Install once; a second installation is refused. The connection is in autocommit and belongs to a sysadmin."""
    if _installed(connection, settings):
        raise ConfigurationError(
            "logon_gate_installed",
            happened=f"the LOGON trigger {TRIGGER} is installed on this server.",
            check="which ledger it reads: a server has one; `dponectl gate render` prints what belongs there.",
        )
    for batch in go_batches(render(settings, control_database)):
        drain(connection, batch)


def verify(connection: Connection, settings: LedgerSettings, control_database: str) -> None:
    """Refuse unless exactly the rendered trigger is installed and enabled, as the disabled reader, for LOGON.

    The connection is in the control database.
    """
    require_rendered(_installed(connection, settings), settings, control_database)


def reader_may_read(connection: Connection, settings: LedgerSettings) -> bool:
    """Whether the gate reader can read the gate rows, as the server itself judges it.

    The connection is in the control database and may impersonate the reader, as a sysadmin may. It is the caller's own
    identity again before the answer is read.
    """
    gates = quote_mssql(settings.control_schema, "composition_login_gates")
    try:
        [[(may,)]] = drain(connection, _SQL.text("reader_probe", reader_text=f"N'{READER}'"), gates)
    except driver_errors() as err:
        raise ConfigurationError(
            "logon_gate_reader",
            happened=f"the account {READER} could not be asked: {' '.join(str(err).split())[:400]}",
            check="that the barrier was installed with `dponectl gate render`, and that this account is a sysadmin.",
        ) from err
    return bool(may)


def installed(settings: LedgerSettings) -> tuple[str, str]:
    """The statement that reads the trigger for `require_rendered`, and its one parameter."""
    gates = quote_mssql(settings.control_schema, "composition_login_gates").replace("'", "''")
    return _SQL.text("installed", gates_text=f"N'{gates}'"), TRIGGER


def require_rendered(rows: Sequence[tuple[object, ...]], settings: LedgerSettings, control_database: str) -> None:
    """The same, of what was read in a batch of somebody else."""
    if not rows:
        raise ConfigurationError(
            "logon_gate_missing",
            happened=f"the LOGON trigger {TRIGGER} is not installed, or this account cannot see it.",
            not_done="no login was created.",
            check="`dponectl gate render`, and VIEW ANY DEFINITION of the role issuer in docs/roles.md.",
        )
    ((definition, trigger_disabled, runs_as, reader_disabled, event, rights),) = rows if len(rows) == 1 else (rows[0],)
    wrong = [
        name
        for name, bad in (
            ("events", len(rows) != 1 or event != "LOGON"),
            ("text", str(definition).strip() != trigger_text(settings, control_database)),
            ("disabled", bool(trigger_disabled)),
            ("execute_as", runs_as != READER or not reader_disabled),
            ("reader_right", type(rights) is not int or rights < 1),
        )
        if bad
    ]
    if wrong:
        raise GateTampered(
            f"logon_gate_{wrong[0]}",
            happened=f"the LOGON trigger {TRIGGER} differs from the rendered one in: {', '.join(wrong)}.",
            check="who changed it; `dponectl gate render` prints the accepted text.",
        )


def _installed(connection: Connection, settings: LedgerSettings) -> list[tuple[object, ...]]:
    (rows,) = drain(connection, *installed(settings))
    return rows
