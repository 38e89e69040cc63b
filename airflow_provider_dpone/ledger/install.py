"""Installing a ledger once, and verifying all of it.

The runtime never creates, repairs or adopts its own authority: this module is called by ``dponectl ledger``, as the
installer. The same batches are printed for a DBA and sent to the server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from airflow_provider_dpone.contracts.errors import (
    ConfigurationError,
    ControlUnavailable,
    LedgerTampered,
)
from airflow_provider_dpone.contracts.gate_profile import AUTHORITY_CLASSES, AuthorityClass, may_be_production
from airflow_provider_dpone.drivers import Connect, Connection, drain
from airflow_provider_dpone.ledger import history, inventory
from airflow_provider_dpone.ledger.arguments import function
from airflow_provider_dpone.ledger.completion import require_evidence
from airflow_provider_dpone.ledger.definition import install_batches, table_names
from airflow_provider_dpone.ledger.gate_receipts import THE_STANDING, server_of
from airflow_provider_dpone.ledger.owners import THE_ACTIVATIONS
from airflow_provider_dpone.ledger.reading import operation_from, the_evidence
from airflow_provider_dpone.ledger.settings import LedgerSettings
from airflow_provider_dpone.ledger.snapshots import the_chain
from airflow_provider_dpone.ledger.statements import LedgerSql
from airflow_provider_dpone.ledger.transaction import ControlLedger, ControlTransaction, driver_errors

#: Writable tables of layouts before schema version 2. A ledger beside one of them would not be the only truth.
LEGACY_TABLES = frozenset({"composition_activations", "composition_attempts", "composition_attempt_domains"})

#: SQL Server 2019: the oldest whose catalog views and permissions the ledger and the gate are written for.
OLDEST_MAJOR_VERSION = 15
#: The collation in which CHECK texts and comparisons of the ledger's databases are known.
DATABASE_COLLATION = "SQL_Latin1_General_CP1_CI_AS"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """What a complete audit looked at. It is only made when everything agreed."""

    activations: int
    operations: int
    proofs: int
    evidence_documents: int
    snapshot_records: int
    domains: int
    gate_receipts: int


def render(settings: LedgerSettings, *, authority: AuthorityClass) -> str:
    """The whole installation as GO-separated batches, for a DBA to read and to run in the empty control database."""
    sql = LedgerSql(settings)
    batches = [sql.text("allow_snapshot"), *_transaction_batches(settings, authority), sql.text("commit")]
    return "".join(f"{batch}\nGO\n" for batch in batches)


def apply(connect: Connect, settings: LedgerSettings, *, authority: AuthorityClass) -> None:
    """Install the ledger into the database of the connection, in one transaction, with its class of authority for good.

    Refused with ConfigurationError when anything is already in its place: a ledger, a part of one, another version, or
    tables of an older layout; and for production authority on anything but SQL Server. Verified on another connection
    before it returns.
    """
    sql = LedgerSql(settings)
    _require_class(authority)
    connection = function(connect, "what gives connections of the installer")()
    try:
        cast("Any", connection).setautocommit(True)
        _require_database(connection, sql, authority)
        _require_empty(connection, sql, settings)
        drain(connection, sql.text("allow_snapshot"))
        for batch in _transaction_batches(settings, authority):
            drain(connection, batch)
            if batch == sql.text("begin_install"):
                # Looked at again under the lock: another installer may have been faster.
                _require_empty(connection, sql, settings)
        drain(connection, sql.text("commit"))
    except driver_errors() as err:
        raise ControlUnavailable(
            "ledger_install",
            happened=f"the installation stopped: {' '.join(str(err).split())[:400]}",
            not_done="the transaction was rolled back, unless it was its commit that was lost.",
            check="`dponectl ledger audit` says whether a ledger is there.",
        ) from err
    finally:
        connection.close()
    ControlLedger(connect, settings).read(lambda transaction: transaction.run())


def audit(connect: Connect, settings: LedgerSettings) -> AuditReport:
    """Verify the catalog, the history and every stored byte, as one consistent state.

    Raises by the name of the first thing that is wrong. It reads each operation by itself, so it takes time that grows
    with the ledger; no other call does.
    """

    def query(transaction: ControlTransaction) -> AuditReport:
        keys, rights, *results = transaction.run(
            ("all_keys", []), ("foreign_rights", []), ("history", []), ("inventory", [])
        )
        inventory.verify_rights(rights)
        history.verify(results[: len(history.FINDINGS)])
        domains = inventory.verify(results[len(history.FINDINGS) :])
        proofs = evidence = records = 0
        for (key,) in keys:
            *rows, stored = transaction.run(("operation_by_key", [key]), ("evidence_digests", []))
            operation = operation_from(rows)
            if operation is None:
                raise LedgerTampered("operation_absent", happened=f"operation {key} cannot be read.")
            require_evidence(operation, {sha256 for (sha256,) in stored})
            proofs += len(operation.proofs)
            evidence += len(the_evidence(key)(transaction))
            records += len(the_chain(key)(transaction))
        return AuditReport(
            activations=len(THE_ACTIVATIONS(transaction)),
            operations=len(keys),
            proofs=proofs,
            evidence_documents=evidence,
            snapshot_records=records,
            domains=domains,
            gate_receipts=len(THE_STANDING(transaction).receipts),
        )

    return ControlLedger(connect, settings).read(query)


def _transaction_batches(settings: LedgerSettings, authority: AuthorityClass) -> list[str]:
    """Everything between the begin and the commit: schemas, tables, the two seed rows, and the triggers at last."""
    _require_class(authority)
    sql = LedgerSql(settings)
    blocks = install_batches(settings)
    tables = [text for name, text in blocks if name.startswith("table_")]
    triggers = [text for name, text in blocks if name.startswith("trigger_")]
    schemas = [sql.text("create_control_schema"), sql.text("create_extension_schema")]
    seeds = [sql.text("seed_authority"), sql.text("seed_incarnation", authority_class=f"'{authority}'")]
    return [sql.text("begin_install"), *schemas, *tables, *seeds, *triggers]


def _require_class(authority: AuthorityClass) -> None:
    if type(authority) is not str or authority not in AUTHORITY_CLASSES:
        raise ConfigurationError("authority_class", happened=f"a ledger is {' or '.join(AUTHORITY_CLASSES)}.")


def _require_database(connection: Connection, sql: LedgerSql, authority: AuthorityClass) -> None:
    [[row]] = drain(connection, sql.text("database"))
    name, collation, containment, trustworthy, chaining, forgets, major_version, version_text, product_version = row
    wrong = []
    if major_version < OLDEST_MAJOR_VERSION:
        wrong.append(f"its server has the major version {major_version}, and 15 (SQL Server 2019) is the oldest")
    if collation != DATABASE_COLLATION:
        wrong.append(f"its collation is {collation} instead of {DATABASE_COLLATION}")
    if containment != 0:
        wrong.append("it is a contained database")
    if trustworthy or chaining:
        wrong.append("TRUSTWORTHY or DB_CHAINING is on")
    if forgets:
        wrong.append("DELAYED_DURABILITY is not DISABLED")
    if wrong:
        raise ConfigurationError(
            "control_database",
            happened=f"the database {name} cannot hold a ledger: {'; '.join(wrong)}.",
            not_done="nothing was installed.",
            check="docs/roles.md on the control database; make a new one for the ledger alone.",
        )
    server = server_of(version_text, product_version)
    if authority == "production" and not may_be_production(server):
        raise ConfigurationError(
            "production_authority",
            happened=f"a ledger with production authority stands on SQL Server only, and this server calls itself "
            f"{server.name!r}.",
            not_done="nothing was installed.",
            check="whether this is the intended server; for tests and demonstrations, `--authority nonproduction`.",
        )


def _require_empty(connection: Connection, sql: LedgerSql, settings: LedgerSettings) -> None:
    [rows] = drain(connection, sql.text("present"))
    if not rows:
        return
    tables = {(schema, name) for schema, name, kind in rows if kind == "U"}
    expected = table_names(settings)
    legacy = sorted(f"{schema}.{name}" for schema, name in tables if name in LEGACY_TABLES)
    if legacy:
        reason, what = "ledger_legacy", f"tables of an older layout are in the database: {', '.join(legacy)}"
    elif tables >= expected:
        reason, what = "ledger_present", "the database already has a ledger"
    elif tables & expected:
        missing = sorted(f"{schema}.{name}" for schema, name in expected - tables)
        reason, what = "ledger_partial", f"a part of a ledger is in the database; missing {', '.join(missing[:5])}"
    else:
        names = ", ".join(f"{schema}.{name}" for schema, name, _ in rows[:5])
        reason, what = "ledger_place_taken", f"objects stand where the ledger would be installed: {names}"
    raise ConfigurationError(
        reason,
        happened=f"{what}.",
        not_done="nothing was installed.",
        check="`dponectl ledger audit`; a new ledger needs a new, empty control database.",
        avoid="drop or repair a ledger that may own physical domains.",
    )
