"""`python -m dpone_embedded up|down|status|run`: the stack from a terminal."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpone_embedded.addresses import Addresses
from dpone_embedded.errors import StackError
from dpone_embedded.service import SERVICES
from dpone_embedded.stack import Stack


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="dpone-embedded", description=__doc__)
    parser.add_argument("command", choices=("up", "down", "status", "run"))
    parser.add_argument("--state-dir", type=Path, help="data, logs, passwords (default: outside the clone)")
    parser.add_argument("--services", default=",".join(SERVICES), help="a comma-separated part of: %(default)s")
    parser.add_argument("--dags-folder", type=Path, help="what Airflow parses (default: dags_examples of this clone)")
    parser.add_argument("--airflow-port", type=int, default=0, help="0 picks a free one")
    options = parser.parse_args(arguments)
    # SIGINT too: a shell script starts its background jobs with it ignored.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _as_interrupt)
    try:
        stack = Stack(
            options.state_dir,
            services=options.services.split(","),
            dags_folder=options.dags_folder,
            airflow_port=options.airflow_port,
        )
        return _COMMANDS[options.command](stack)
    except StackError as err:
        print(f"error: {err}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; the stack is stopped", file=sys.stderr)
        return 130


def _up(stack: Stack) -> int:
    addresses = stack.start(progress=_Progress())
    stack.detach()
    _show(stack, addresses)
    return 0


def _run(stack: Stack) -> int:
    addresses = stack.start(progress=_Progress())
    try:
        _show(stack, addresses)
        print("Ctrl-C stops it.", flush=True)
        while stack.status()["phase"] == "ready":
            signal.sigtimedwait([], 1)
        error = stack.status().get("error", "the stack stopped")
        print(f"error: {error}", file=sys.stderr)
        return 1
    finally:
        stack.stop()


def _down(stack: Stack) -> int:
    if stack.status()["phase"] != "stopped":
        print(f"stopping what runs in {stack.state.path} …", flush=True)
    stack.stop()
    return 0


def _status(stack: Stack) -> int:
    status = stack.status()
    print(status["phase"])
    for name, entry in status["services"].items():
        print(f"  {name:12} {entry['state']:9} {entry.get('seconds', ''):>6}")
    if "error" in status:
        print(status["error"])
    if status["phase"] == "ready":
        _show(stack, stack.addresses)
    return 0 if status["phase"] == "ready" else 3


_COMMANDS = {"up": _up, "run": _run, "down": _down, "status": _status}


class _Progress:
    def __init__(self) -> None:
        self._seen: set[str] = set()

    def __call__(self, status: Mapping[str, Any]) -> None:
        for name, entry in status["services"].items():
            if entry.get("state") == "ready" and name not in self._seen:
                self._seen.add(name)
                print(f"  {name:12} ready after {entry['seconds']:.1f} s", flush=True)


def _show(stack: Stack, addresses: Addresses) -> None:
    for name in ("sqlserver", "postgres", "clickhouse"):
        address = getattr(addresses, name)
        if address is not None:
            print(f"  {name:12} {address.host}:{address.port}  user {address.user}")
    if addresses.airflow is not None:
        print(f"  airflow      {addresses.airflow.url}  user {addresses.airflow.user}")
    print(f"  passwords    {stack.state.path / 'stack.json'}")
    print(f"  logs         {stack.state.logs}", flush=True)


def _as_interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    # A broken pipe while printing must not hide what happened to the stack.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    os.umask(0o077)
    sys.exit(main())
