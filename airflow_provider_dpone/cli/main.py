"""The entry point of `dponectl`, and how every command ends: a typed error is printed whole and exits with 1."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from airflow_provider_dpone.cli.attempt_commands import attempts
from airflow_provider_dpone.cli.campaign_commands import campaign
from airflow_provider_dpone.cli.component_check import component_check
from airflow_provider_dpone.cli.composition_commands import compose, composition
from airflow_provider_dpone.cli.configuration import Configuration
from airflow_provider_dpone.cli.installation_commands import gate, ledger, source, target
from airflow_provider_dpone.contracts.errors import GuardError


@click.group()
@click.option(
    "--config",
    "config",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="DPONE_CONFIG",
    help="TOML file with hosts, accounts and where their passwords are.",
)
@click.pass_context
def cli(context: click.Context, config: Path | None) -> None:
    """Guarded attempts: install, activate, inspect, close and reconcile."""
    context.obj = None if config is None else Configuration.read(config)


for command in (ledger, gate, target, source, compose, composition, campaign, attempts, component_check):
    cli.add_command(command)


def main() -> None:
    try:
        # Without standalone mode click hands an exit code back instead of ending the process.
        sys.exit(cli.main(standalone_mode=False) or 0)
    except GuardError as err:
        print(err, file=sys.stderr)
        sys.exit(1)
    except click.ClickException as err:
        err.show()
        sys.exit(err.exit_code)
    except OSError as err:
        print(f"dponectl: {err}", file=sys.stderr)
        sys.exit(1)
    except click.Abort:
        sys.exit(130)


if __name__ == "__main__":
    main()
