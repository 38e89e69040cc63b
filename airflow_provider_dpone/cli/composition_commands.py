"""`dponectl compose …` works on files; `dponectl composition …` on the ledger."""

from __future__ import annotations

import json
from pathlib import Path

import click

from airflow_provider_dpone.cli.context import configuration
from airflow_provider_dpone.composition import manifest, release
from airflow_provider_dpone.composition.activation import CompositionActivation, Standing
from airflow_provider_dpone.composition.dbt_manifest import PARSE_TIMEOUT
from airflow_provider_dpone.composition.execution_plan import plan_composition_execution
from airflow_provider_dpone.composition.factory import build_composition_activation
from airflow_provider_dpone.composition.rollback import kept_deployments, rollback_target
from airflow_provider_dpone.composition.sources import build_composition_source_reader
from airflow_provider_dpone.contracts.errors import AdmissionRefused
from airflow_provider_dpone.ledger import Activation

_FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)
_EXPECT = click.option("--expect", "expected", help="Refuse any other release id.")
_PATIENCE = click.option(
    "--patience",
    type=click.IntRange(min=0, max=86400),
    default=600,
    show_default=True,
    help="Seconds to wait for the last attempt of the predecessor.",
)
_DBT_TIMEOUT = click.option(
    "--dbt-timeout",
    type=click.IntRange(min=1, max=86400),
    default=int(PARSE_TIMEOUT),
    show_default=True,
    help="Seconds that dbt may take to parse a project.",
)
_NO_SQL_UNDONE = "No SQL is undone: tables and views stay as they are."


@click.group()
def compose() -> None:
    """Freeze an author's folder into a release, and look into one."""


@compose.command()
@click.argument("source", type=_FOLDER)
@click.argument("destination", type=click.Path(path_type=Path))
@_DBT_TIMEOUT
def build(source: Path, destination: Path, dbt_timeout: int) -> None:
    """Freeze SOURCE into the new folder DESTINATION."""
    click.echo(release.build(source, destination, dbt_timeout=dbt_timeout).release_id)


@compose.command()
@click.argument("folder", type=_FOLDER)
@click.option("--runtime", "workload_id", help="Print the generated runtime manifest of this workload, to the byte.")
def show(folder: Path, workload_id: str | None) -> None:
    """Verify a release and list its workloads, what they write, and their logical outlets."""
    verified = release.read(folder)
    if workload_id is not None:
        click.echo(verified.workload(workload_id).runtime, nl=False)
        return
    click.echo(verified.release_id)
    for workload in verified.workloads:
        constituent = workload.manifest.constituent_id
        click.echo(f"{workload.workload_id}  {constituent}  {workload.manifest.cell}  {workload.pack_sha256}")
        for relation in workload.relations:
            click.echo(f"    {relation.role:12} {relation.schema}.{relation.name}")
        click.echo(f"    {'runtime':12} {workload.plan_sha256}")
        for outlet in workload.outlets:
            click.echo(f"    {'outlet':12} {outlet}")


@compose.command()
@click.argument("folder", type=_FOLDER)
@_EXPECT
@click.option("--executable", is_flag=True, help="Also refuse a workload that is outside of the execution matrix.")
@click.option(
    "--rebuild",
    is_flag=True,
    help="Also build it again from its own files: dbt is asked again what each project writes.",
)
@_DBT_TIMEOUT
def verify(folder: Path, expected: str | None, executable: bool, rebuild: bool, dbt_timeout: int) -> None:
    """Verify every byte of a release, and say which of its workloads can be executed."""
    sources = build_composition_source_reader().read_sources(folder, expected_release_id=expected)
    click.echo(f"{sources.release_id}  verified: {len(sources.workloads)} workloads")
    if rebuild:
        release.require_rebuilt(folder, sources.release_id, dbt_timeout=dbt_timeout)
        click.echo("rebuilt: the same release")
    try:
        plan = plan_composition_execution(sources)
    except AdmissionRefused as err:
        if executable:
            raise
        click.echo(f"not executable: {err.happened}")
    else:
        click.echo(f"executable: {', '.join(sorted(plan.cells))}")


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
@_EXPECT
@click.pass_context
def prepare(context: click.Context, release_folder: Path, expected: str | None) -> None:
    """Seal a release and reserve its guards. Nobody is admitted; `reconcile` goes on, `retire` gives it up."""
    _print(_activation(context).prepare(release_folder, expected_release_id=expected))


@composition.command()
@click.argument("release_folder", type=_FOLDER)
@_EXPECT
@click.option("--drain", is_flag=True, help="Hand over from the activation in force: retire it first.")
@_PATIENCE
@click.pass_context
def activate(context: click.Context, release_folder: Path, expected: str | None, drain: bool, patience: int) -> None:
    """Activate a release. A predecessor that is in force is refused, or drained first with --drain."""
    activation = _activation(context)
    if drain:
        _print(activation.hand_over(release_folder, expected_release_id=expected, patience=patience))
    else:
        _print(activation.activate(release_folder, expected_release_id=expected))


@composition.command()
@click.option(
    "--deployment",
    "deployment_id",
    help="The deployment to go back to, as `deployments` lists it; the one before the current one by default.",
)
@_PATIENCE
@click.pass_context
def rollback(context: click.Context, deployment_id: str | None, patience: int) -> None:
    """Hand over to a deployment that was in force before. No SQL is undone."""
    target = rollback_target(configuration(context).release_root, deployment_id)
    same = " (which is the one in force: it is activated again)" if target.current else ""
    click.echo(f"going back to the deployment {target.deployment_id}{same}", err=True)
    click.echo(f"    release {target.release_id}, sealed {target.sealed:%Y-%m-%d %H:%M} UTC", err=True)
    click.echo(f"    {_NO_SQL_UNDONE}", err=True)
    _print(_activation(context).roll_back(deployment_id=target.deployment_id, patience=patience))


@composition.command()
@click.pass_context
def deployments(context: click.Context) -> None:
    """The sealed deployments under the release root, the latest first: what --deployment of `rollback` takes.

    The current one is that of the last activation here; `status` says whether that is still in force.
    """
    for kept in kept_deployments(configuration(context).release_root):
        click.echo(kept.deployment_id)
        marks = [mark for mark, holds in (("current", kept.current), ("before the current", kept.previous)) if holds]
        said = (
            f"    release {kept.release_id} for {kept.environment}" if kept.problem is None else f"    {kept.problem}"
        )
        click.echo(said)
        activated = f"activated {kept.activations} times" if kept.activations != 1 else "activated once"
        click.echo(f"    {', '.join([f'sealed {kept.sealed:%Y-%m-%d %H:%M} UTC', activated, *marks])}")


@composition.command()
@click.argument("activation_id")
@_PATIENCE
@click.pass_context
def reconcile(context: click.Context, activation_id: str, patience: int) -> None:
    """End an activation that was left half done: it goes on where the ledger stands. Repeatable."""
    _print(_activation(context).reconcile(activation_id, patience=patience))


@composition.command()
@click.argument("activation_id")
@click.pass_context
def retire(context: click.Context, activation_id: str) -> None:
    """Close admission, and release the guards when every attempt is resolved. No SQL is undone."""
    retired = _activation(context).retire(activation_id)
    if retired is None:
        click.echo(f"{activation_id}  given up: the ledger never held it")
    else:
        _print(retired)
        click.echo(_NO_SQL_UNDONE)


@composition.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document, for a program.")
@click.pass_context
def status(context: click.Context, as_json: bool) -> None:
    """What the ledger says of the current activation, and what was left half done. Exits with 3 if something was."""
    standing = _activation(context).status()
    if as_json:
        click.echo(json.dumps(_document(standing), ensure_ascii=False))
    elif standing.current is None:
        click.echo("no composition has been activated here")
    else:
        _print(standing.current)
        place = standing.current.request.context
        click.echo(f"    release {place.release_id} for {place.environment}")
        click.echo(f"    deployment {place.deployment_id}")
        before = place.previous_deployment_id
        click.echo(f"    before it {'none' if before is None else f'the deployment {before}'}")
        if standing.current.state == "RETIRED":
            click.echo("Nothing is in force: this activation was the last one here, and it is out of force.")
    if standing.unfinished:
        for left in () if as_json else standing.unfinished:
            state = left.state or "not in the ledger"
            problem = f" {left.problem}" if left.problem else ""
            click.echo(f"Recovery is required: {left.activation_id} is {state}.{problem} This ends it: {left.command}")
        context.exit(3)


def _document(standing: Standing) -> dict[str, object]:
    current = standing.current
    return {
        "current": None
        if current is None
        else {
            "activation_id": current.activation_id,
            "state": current.state,
            "request_sha256": current.request_sha256,
            "release_id": current.request.context.release_id,
            "deployment_id": current.request.context.deployment_id,
            "previous_deployment_id": current.request.context.previous_deployment_id,
            "guard_epochs": [list(pair) for pair in current.guard_epochs],
        },
        "recovery_required": bool(standing.unfinished),
        "unfinished": [
            {
                "activation_id": left.activation_id,
                "state": left.state,
                "command": left.command,
                "problem": left.problem,
            }
            for left in standing.unfinished
        ],
    }


def _activation(context: click.Context) -> CompositionActivation:
    settings = configuration(context)
    return build_composition_activation(settings.release_root, settings.services())


def _print(activation: Activation) -> None:
    click.echo(f"{activation.activation_id}  {activation.state}  {activation.request_sha256}")
    for guard, epoch in activation.guard_epochs:
        click.echo(f"    {guard}  epoch {epoch}")
