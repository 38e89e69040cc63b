"""`dponectl campaign run`: a release from its activation to its retirement, with one folder of evidence."""

from __future__ import annotations

import datetime
import shlex
import shutil
import subprocess
import uuid
from pathlib import Path

import click

from airflow_provider_dpone.cli.context import configuration
from airflow_provider_dpone.composition import release
from airflow_provider_dpone.composition.factory import build_composition_activation
from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.ledger import AttemptStore, GateReceiptStore


@click.group()
def campaign() -> None:
    """Run a composition once, from its activation to its retirement, and keep the evidence."""


@campaign.command()
@click.argument("release_folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--airflow", "url", required=True, help="Address of Airflow's API server.")
@click.option("--airflow-user", required=True)
@click.option("--airflow-password-file", required=True, type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option("--evidence", required=True, type=click.Path(path_type=Path), help="A new folder.")
@click.option("--reconcile", required=True, help="The reconciler: run with the evidence folder as its last argument.")
@click.option("--parent", help="The parent DAG, also one that was written by hand; the release's own by default.")
@click.option("--dag", "dags", multiple=True, help="A constituent's DAG, likewise, in order.")
@click.option("--source", type=click.Path(path_type=Path), default=Path(), help="The checkout whose commit is noted.")
@click.option(
    "--timeout", type=click.IntRange(min=1, max=7 * 86400), default=3600, show_default=True, help="Seconds for the run."
)
@click.option("--keep", is_flag=True, help="Leave the activation in force at the end.")
@click.pass_context
def run(
    context: click.Context,
    release_folder: Path,
    url: str,
    airflow_user: str,
    airflow_password_file: Path,
    evidence: Path,
    reconcile: str,
    parent: str | None,
    dags: tuple[str, ...],
    source: Path,
    timeout: float,
    keep: bool,
) -> None:
    """Put RELEASE_FOLDER in force, run it by an explicit trigger, reconcile it, and retire it.

    Exits with 0 only if the run succeeded, the reconciler exits with 0, and the activation was retired.
    """
    from airflow_provider_dpone.campaign import AirflowApi, Campaign, EvidenceFolder  # its HTTP client, only here

    settings = configuration(context)
    by_hand = frozenset(filter(None, (parent, *dags)))
    released = release.read(release_folder)
    parent, dags = _order(released, parent, dags)
    reconciler = _program(reconcile)
    services = settings.services()
    airflow = AirflowApi(url, airflow_user, _password(airflow_password_file))
    folder = EvidenceFolder(evidence)
    folder.create()
    steps = Campaign(
        activation=build_composition_activation(settings.release_root, services),
        attempts=AttemptStore(services.control, services.ledger),
        airflow=airflow,
        evidence=folder,
        say=click.echo,
    )
    server = GateReceiptStore(services.control, services.ledger).standing().server
    steps.begin(source, f"{server.name} {server.product_version}")
    active = steps.put_in_force(release_folder)
    click.echo(f"in force: {active.activation_id}")
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    run_id = f"campaign__{stamp}__{uuid.uuid4().hex[:6]}"
    try:
        steps.run_dags(parent, dags, run_id, timeout=timeout, release_id=released.release_id, by_hand=by_hand)
        verdict = subprocess.run([*reconciler, str(evidence)], check=False).returncode == 0
        steps.reconciled(verdict)
        if not keep:
            steps.retire(active)
    except BaseException as err:
        # Also for Ctrl-C: whoever stopped this has to know what goes on.
        click.echo(
            f"Stopped: {active.activation_id} stays in force (or RETIRING), and {run_id} of {parent} may still run."
            f" `dponectl composition retire {active.activation_id}` ends it. Evidence so far: {evidence}",
            err=True,
        )
        if isinstance(err, TimeoutError):
            raise click.ClickException(str(err)) from err
        raise
    if not keep:
        click.echo(f"retired: {active.activation_id}; no SQL is undone")
    click.echo(f"Evidence: {evidence}")
    if not (verdict and steps.succeeded):
        context.exit(1)


def _program(command: str) -> list[str]:
    """The reconciler's command, known to be one before anything is put in force."""
    try:
        words = shlex.split(command)
    except ValueError as err:
        raise click.UsageError(f"--reconcile {command!r} is no command: {err}.") from err
    if not words or shutil.which(words[0]) is None:
        raise click.UsageError(f"--reconcile {command!r} names no program that can be run.")
    return words


def _password(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    except ValueError:
        # Not the error's own text: that of a decoding error repeats what stands in the file.
        raise click.UsageError(f"the password file {file} is not UTF-8.") from None


def _order(released: release.Release, parent: str | None, dags: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    declared = released.composition.parent
    if declared is not None:
        parent, dags = parent or declared.dag_id, dags or declared.order
    if parent is None or not dags:
        raise ConfigurationError(
            "campaign_parent",
            happened="the release declares no parent, and --parent and --dag do not name one with its constituents.",
        )
    return parent, dags
