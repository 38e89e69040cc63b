"""`dponectl compose …` works on files; `dponectl composition …` on the ledger."""

from __future__ import annotations

import json
from pathlib import Path

import click

from airflow_provider_dpone.cli.context import configuration
from airflow_provider_dpone.composition import manifest, release
from airflow_provider_dpone.composition.activation import CompositionActivation
from airflow_provider_dpone.composition.services import observe_domains
from airflow_provider_dpone.ledger import Activation, ActivationStore

_FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)


@click.group()
def compose() -> None:
    """Freeze an author's folder into a release, and look into one."""


@compose.command()
@click.argument("source", type=_FOLDER)
@click.argument("destination", type=click.Path(path_type=Path))
def build(source: Path, destination: Path) -> None:
    """Freeze SOURCE into the new folder DESTINATION."""
    click.echo(release.build(source, destination).release_id)


@compose.command()
@click.argument("folder", type=_FOLDER)
def show(folder: Path) -> None:
    """Verify a release and list its workloads and what they write."""
    verified = release.read(folder)
    click.echo(verified.release_id)
    for workload in verified.workloads:
        click.echo(f"{workload.workload_id}  {workload.manifest.cell}  {workload.pack_sha256}")
        for relation in workload.relations:
            click.echo(f"    {relation.role:12} {relation.schema}.{relation.name}")


@compose.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def schemas(folder: Path) -> None:
    """Write the JSON schemas of the two manifest documents."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, schema in manifest.schemas().items():
        (folder / name).write_text(json.dumps(schema, indent=2, sort_keys=True) + "\n", encoding="utf-8")


@click.group()
def composition() -> None:
    """Put a release in force, and out of force again."""


@composition.command()
@click.argument("release_folder", type=_FOLDER)
@click.option("--expect", "expected", help="Refuse any other release id.")
@click.pass_context
def activate(context: click.Context, release_folder: Path, expected: str | None) -> None:
    """Activate a release. A predecessor that still holds its guards is refused: retire it first."""
    _print(_activation(context).activate(release_folder, expected_release_id=expected))


@composition.command()
@click.argument("activation_id")
@click.pass_context
def resume(context: click.Context, activation_id: str) -> None:
    """Go on with an activation whose acknowledgement was lost."""
    _print(_activation(context).resume(activation_id))


@composition.command()
@click.argument("activation_id")
@click.pass_context
def retire(context: click.Context, activation_id: str) -> None:
    """Close admission, and release the guards when every attempt is resolved. No SQL is undone."""
    _print(_activation(context).retire(activation_id))


@composition.command()
@click.pass_context
def status(context: click.Context) -> None:
    """What the ledger says of the current activation."""
    current = _activation(context).status()
    if current is None:
        click.echo("no composition has been activated here")
    else:
        _print(current)


def _activation(context: click.Context) -> CompositionActivation:
    settings = configuration(context)
    services = settings.services()
    return CompositionActivation(
        settings.release_root,
        ActivationStore(services.control, services.ledger),
        lambda verified: observe_domains(services, verified),
    )


def _print(activation: Activation) -> None:
    click.echo(f"{activation.activation_id}  {activation.state}  {activation.request_sha256}")
    for guard, epoch in activation.guard_epochs:
        click.echo(f"    {guard}  epoch {epoch}")
