"""The configuration of the running command."""

from __future__ import annotations

import click

from airflow_provider_dpone.cli.configuration import Configuration


def configuration(context: click.Context) -> Configuration:
    """The configuration that `--config` named; a usage error when it named none."""
    if context.obj is None:
        raise click.UsageError("this command needs --config FILE (or DPONE_CONFIG)")
    assert isinstance(context.obj, Configuration)
    return context.obj
