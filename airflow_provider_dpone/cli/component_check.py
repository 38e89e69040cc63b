"""`dponectl component-check`: one component profile (docs/component-profiles.md), from a clean checkout.

The cases, the endpoint and the runner belong to the checkout and not to the product, which imports none of them: the
runner is started as a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.contracts.gate_profile import PROFILE_CASES

RUNNER = Path("dev", "profiles", "component_profile.py")


@click.command("component-check")
@click.option("--profile", type=click.Choice(list(PROFILE_CASES)), required=True)
@click.option(
    "--output-dir", type=click.Path(path_type=Path), required=True, help="A new folder for the two artefacts."
)
@click.option(
    "--checkout",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path(),
    help="A folder in the checkout whose cases run; this one by default.",
)
@click.option("--dsn", metavar="TEXT", help="'SERVER=host,port;UID=sa' of an empty SQL Server, without its password.")
@click.option("--password-file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--disposable", is_flag=True, help="Everything on the server of --dsn may be removed.")
@click.option("--bulk-file", metavar="PATH", help="A file of that server with the bytes '1' and line feed.")
@click.pass_context
def component_check(
    context: click.Context,
    profile: str,
    output_dir: Path,
    checkout: Path,
    dsn: str | None,
    password_file: Path | None,
    disposable: bool,
    bulk_file: str | None,
) -> None:
    """Run the cases of a profile on an endpoint of their own, and write summary.json and junit.xml."""
    runner = _root(checkout) / RUNNER
    command = [sys.executable, str(runner), "--profile", profile, "--output-dir", str(output_dir.absolute())]
    for name, value in (("--dsn", dsn), ("--password-file", password_file), ("--bulk-file", bulk_file)):
        if value is not None:
            command += [name, str(value)]
    if disposable:
        command.append("--disposable")
    context.exit(subprocess.call(command))


def _root(checkout: Path) -> Path:
    """The top of the git checkout that a folder is in, if it is one of this provider."""
    asked = ["git", "-C", str(checkout), "rev-parse", "--show-toplevel"]
    try:
        root = Path(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.removesuffix("\n"))
    except (OSError, subprocess.CalledProcessError) as err:
        raise _no_checkout(f"{checkout.absolute()} is in no git checkout") from err
    if not (root / RUNNER).is_file():
        raise _no_checkout(f"{root} is no checkout of this provider: it has no {RUNNER}")
    return root


def _no_checkout(what: str) -> ConfigurationError:
    return ConfigurationError(
        "component_checkout",
        happened=f"{what}.",
        not_done="no case was run.",
        check="run it in a clean, committed checkout of the provider, whose development packages are installed.",
    )
