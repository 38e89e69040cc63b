"""`dponectl attempts …`: look at operations, end what a dead try left, and reconcile what evidence left open."""

from __future__ import annotations

import json

import click

from airflow_provider_dpone.attempts import Settlement
from airflow_provider_dpone.attempts import sweep as sweep_ledger
from airflow_provider_dpone.cli.context import configuration
from airflow_provider_dpone.composition.services import free_ledger, resume_attempt
from airflow_provider_dpone.contracts.errors import AdmissionRefused, ConfigurationError
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.ledger import AttemptStore


def _reason(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if not value.strip():
        raise click.BadParameter("say how you know it")
    return value


@click.group()
def attempts() -> None:
    """Guarded attempts in the ledger."""


@attempts.command("list")
@click.option("--unresolved", is_flag=True, help="Only RUNNING and COMMIT_UNKNOWN.")
@click.option("--limit", default=50, show_default=True)
@click.pass_context
def list_attempts(context: click.Context, unresolved: bool, limit: int) -> None:
    """One line an operation, newest first."""
    store = _store(context)
    found = store.recent(limit=limit, unresolved=unresolved)
    for operation in found:
        click.echo(_line(operation))
    if len(found) == limit:
        click.echo(f"Only the newest {limit} are shown; --limit shows more.", err=True)


@attempts.command()
@click.argument("attempt_sha256")
@click.pass_context
def show(context: click.Context, attempt_sha256: str) -> None:
    """Coordinates, principals, proofs and evidence of one operation."""
    store = _store(context)
    operation = _required(store, attempt_sha256)
    click.echo(_line(operation))
    for principal in operation.principals:
        click.echo(f"    principal {principal.purpose:8} {principal.connector:10} {principal.name}")
    for proof in operation.proofs:
        click.echo(f"    proof     {proof.kind:12} {proof.sha256}")
    for entry in store.evidence_history(operation.attempt_sha256):
        click.echo(f"    evidence  {entry.kind:12} {entry.sha256}")
        click.echo(json.dumps(entry.document, indent=2, ensure_ascii=False, default=str))


_try_is_over = click.option(
    "--try-is-over",
    required=True,
    metavar="WHY",
    callback=_reason,
    help="How you know that the task try has ended; its writer is closed whatever it is doing.",
)


@attempts.command()
@click.argument("attempt_sha256")
@_try_is_over
@click.pass_context
def close(context: click.Context, attempt_sha256: str, try_is_over: str) -> None:
    """Close the writers and prove them gone, and conclude nothing. Needs the ledger alone, no release."""
    settings = configuration(context)
    store = _store(context)
    operation = _required(store, attempt_sha256)
    if not operation.settled:
        _record_reason(store, operation, try_is_over)
        settlement = resume_attempt(settings.services(), settings.release_root, operation)
        settlement.close()
        settlement.prove_quiescence()
        operation = settlement.operation
    click.echo(_line(operation))
    for proof in operation.proofs:
        click.echo(f"    proof     {proof.kind:12} {proof.sha256}")


@attempts.command()
@click.argument("attempt_sha256")
@_try_is_over
@click.pass_context
def settle(context: click.Context, attempt_sha256: str, try_is_over: str) -> None:
    """Close the writers, prove them gone, read the outcome and finalize."""
    settings = configuration(context)
    store = _store(context)
    operation = _required(store, attempt_sha256)
    if operation.settled:
        click.echo(f"{_line(operation)}  has ended; nothing was done")
        return
    _record_reason(store, operation, try_is_over)
    settled = resume_attempt(settings.services(), settings.release_root, operation).settle()
    click.echo(_line(settled))


@attempts.command()
@click.option("--dag-id", required=True)
@click.option("--run-id", required=True)
@click.option(
    "--tries-are-over",
    required=True,
    metavar="WHY",
    callback=_reason,
    help="How you know that every task try of this run has ended; age alone is no reason.",
)
@click.pass_context
def sweep(context: click.Context, dag_id: str, run_id: str, tries_are_over: str) -> None:
    """Settle every RUNNING operation of one DAG run whose tries are over."""
    settings = configuration(context)
    services = settings.services()
    store = _store(context)

    def is_over(operation: Operation) -> bool:
        return (operation.coordinates.dag_id, operation.coordinates.run_id) == (dag_id, run_id)

    def settlement_of(operation: Operation) -> Settlement:
        _record_reason(store, operation, tries_are_over)
        return resume_attempt(services, settings.release_root, operation)

    if holder := free_ledger(services):
        click.echo(f"ended {holder}, which held the ledger's lock")
    swept = sweep_ledger(store, is_over=is_over, settlement_of=settlement_of)
    for entry in swept:
        click.echo(_line(entry.operation) + (f"  not settled: {entry.error.reason}" if entry.error else ""))
    if any(entry.error for entry in swept):
        raise click.exceptions.Exit(1)


@attempts.command()
@click.argument("attempt_sha256")
@click.option("--verdict", type=click.Choice(["SUCCEEDED", "FAILED"]), help="Without it: observe again.")
@click.option("--operator", default="", help="Who says so.")
@click.option("--statement", default="", help="What was looked at and found.")
@click.pass_context
def reconcile(context: click.Context, attempt_sha256: str, verdict: str | None, operator: str, statement: str) -> None:
    """Resolve a COMMIT_UNKNOWN operation, from a new observation or from a signed-for verdict."""
    settings = configuration(context)
    operation = _required(_store(context), attempt_sha256)
    if operation.settled:
        click.echo(f"{_line(operation)}  is known; nothing was done")
        return
    settlement = resume_attempt(settings.services(), settings.release_root, operation)
    resolved = settlement.reconcile(
        verdict="SUCCEEDED" if verdict == "SUCCEEDED" else "FAILED" if verdict == "FAILED" else None,
        operator=operator,
        statement=statement,
    )
    click.echo(_line(resolved))


def _record_reason(store: AttemptStore, operation: Operation, why: str) -> None:
    document = {"schema": "dpone.settled-by-operator.v1", "why": why}
    store.put_evidence(operation.attempt_sha256, "settled_by_operator", document)


def _store(context: click.Context) -> AttemptStore:
    services = configuration(context).services()
    return AttemptStore(services.control, services.ledger)


def _required(store: AttemptStore, attempt_sha256: str) -> Operation:
    key = attempt_sha256 if attempt_sha256.startswith("sha256:") else f"sha256:{attempt_sha256}"
    try:
        operation = store.read_exact(key)
    except AdmissionRefused as err:
        raise ConfigurationError(
            "attempt_id",
            happened=f"{attempt_sha256!r} is not the digest of an attempt: 64 hexadecimal digits, lower case.",
            not_done="nothing was looked for.",
            check="`dponectl attempts list`, which prints the whole of it.",
        ) from err
    if operation is None:
        raise ConfigurationError("attempt_unknown", happened=f"the ledger holds no operation {key}.")
    return operation


def _line(operation: Operation) -> str:
    at = operation.coordinates
    return (
        f"{operation.attempt_sha256}  {operation.state:14} {operation.attempt.workload_id:24}"
        f"  {at.dag_id}.{at.task_id} run {at.run_id} try {at.try_number} map {at.map_index}"
    )
