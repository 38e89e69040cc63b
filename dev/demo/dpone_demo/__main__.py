"""`python -m dpone_demo run`: the main job on the embedded stack, with one line a phase and its time.

`python -m dpone_demo external` runs the same on servers that are there already.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from dpone_embedded import Stack, StackError
from dpone_embedded.statedir import StateDir

from airflow_provider_dpone.contracts.errors import GuardError
from dpone_demo import provisioning
from dpone_demo.campaign import Campaign
from dpone_demo.dbt_user import dbt_settings
from dpone_demo.gate_profile import GateProfile
from dpone_demo.installation import ExternalInstallation


def main() -> int:
    arguments = _parse(sys.argv[1:])
    # A termination ends a run as Ctrl-C does: what was started is stopped before this process ends.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return _external(arguments) if arguments.command == "external" else _embedded(arguments)


def _external(arguments: argparse.Namespace) -> int:
    clock = Phases()
    installation = ExternalInstallation(arguments.addresses, arguments.state_dir)
    campaign = Campaign(installation, arguments.release_root, lambda: arguments.gate_profile)
    try:
        reconciled = campaign.run(clock.phase, chaos=False)
    except (GuardError, TimeoutError) as err:
        print(f"\n{err}", file=sys.stderr)
        return 1
    print(f"Evidence: {campaign.evidence}")
    return 0 if reconciled else 1


def _embedded(arguments: argparse.Namespace) -> int:
    state = Stack(arguments.state_dir).state
    try:
        with state.driven():
            return _drive(arguments, state)
    except StackError as err:
        print(err, file=sys.stderr)
        return 1


def _drive(arguments: argparse.Namespace, state: StateDir) -> int:
    release_root = state.path / "dpone"
    stack = Stack(state.path)
    clock = Phases()
    # A stack that an earlier run left up is used as it is, and left up.
    ours = stack.status()["phase"] != "ready"
    keep = arguments.keep or not ours
    background = ExitStack()
    try:
        if arguments.fresh:
            stack.erase()
        elif ours and provisioning.half_made(state):
            print(
                "  An earlier run ended while it set up its databases; starting from an empty state folder.", flush=True
            )
            stack.erase()
        if ours:
            state.create()
            settings = {"release_root": str(release_root), **dbt_settings(state.path / "attempts")}
            # By itself Airflow stores a DAG that changed at most every 30 s; after a handover somebody waits for it.
            settings_by_section = {"dpone": settings, "core": {"min_serialized_dag_update_interval": "2"}}
            stack = Stack(state.path, airflow_port=arguments.port, airflow_settings=settings_by_section)
        gate_profile = background.enter_context(GateProfile(state))
        if ours:
            with clock.phase("start SQL Server endpoint, PostgreSQL, ClickHouse and Airflow"):
                stack.start()
        airflow = stack.addresses.airflow
        assert airflow is not None
        end = "it stays up" if keep else "it ends with this run; --keep leaves it up"
        print(f"  Airflow UI: {airflow.url}  user {airflow.user}  password {airflow.password}  ({end})", flush=True)
        campaign = Campaign(stack, release_root, gate_profile.folder)
        reconciled = campaign.run(clock.phase, chaos=arguments.chaos, retire=not keep)
        if not keep:
            _stop(stack, clock)
        clock.total()
        print(f"Evidence: {campaign.evidence}")
        if keep:
            stack.detach()
            print(f"Airflow:  {airflow.url}  user {airflow.user}  password {airflow.password}")
            dponectl = Path(sys.executable).with_name("dponectl")
            file = provisioning.write_operator_file(stack, release_root)
            print(
                f"Look:     {dponectl} --config '{file}' attempts list    (or composition status, ledger audit, --help)"
            )
            print(f"Stop it:  {stack.state.command('down')}")
        print("Reconciled." if reconciled else "NOT reconciled: see the lines marked FAIL above.", flush=True)
        return 0 if reconciled else 1
    except (StackError, GuardError, TimeoutError) as err:
        keep = not ours
        print(f"\n{err}\nLogs: {stack.state.logs}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        keep = not ours
        print("\nInterrupted; everything that was started is being stopped.", file=sys.stderr)
        return 130
    finally:
        background.close()
        if not keep:
            _stop(stack, clock)


def _stop(stack: Stack, clock: Phases) -> None:
    """Says so, for it takes a while. Safe to repeat, and silent then."""
    if stack.status()["phase"] != "stopped":
        with clock.phase("stop what was started"):
            stack.stop()


class Phases:
    """Prints each phase with its duration in seconds."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        print(f"  {name} …", flush=True)
        yield
        print(f"  {name}: {time.monotonic() - started:.1f} s", flush=True)

    def total(self) -> None:
        print(f"  total: {time.monotonic() - self._started:.1f} s", flush=True)


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="dpone-demo", description=__doc__)
    commands = parser.add_subparsers(required=True, dest="command")
    run = commands.add_parser("run", help="run the main job and reconcile it")
    run.add_argument("--keep", action="store_true", help="leave the stack up and print the address of the Airflow UI")
    run.add_argument(
        "--chaos", action="store_true", help="kill -9 the dbt task in the middle; its retry must settle it"
    )
    run.add_argument("--fresh", action="store_true", help="start from an empty state folder")
    run.add_argument("--port", type=int, default=0, help="port of the Airflow UI (a free one by default)")
    run.add_argument("--state-dir", type=Path, default=None, help="where data, logs and passwords are kept")
    external = commands.add_parser("external", help="run it on servers that somebody else started")
    external.add_argument("--addresses", type=Path, required=True, help="JSON file with hosts and DBA logins")
    external.add_argument("--state-dir", type=Path, required=True, help="where passwords and evidence are kept")
    external.add_argument(
        "--gate-profile",
        type=Path,
        required=True,
        help="the result folder of the gate profile on a server of this version",
    )
    external.add_argument("--release-root", type=Path, required=True, help="the folder of [dpone] release_root")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
