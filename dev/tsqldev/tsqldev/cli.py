"""`tsqldev serve`: the endpoint as a process."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import secrets
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="tsqldev",
        description="An emulation of a SQL Server endpoint on PostgreSQL, for development and tests on one machine.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="serve on 127.0.0.1 until SIGTERM or SIGINT")
    serve.add_argument("--data", type=Path, required=True, help="folder that keeps the databases; made if missing")
    serve.add_argument("--port", type=int, default=0, help="TCP port; 0 chooses a free one")
    serve.add_argument("--port-file", type=Path, help="file to write the port to when clients can connect")
    password = serve.add_mutually_exclusive_group()
    password.add_argument("--password-file", type=Path, help="file whose first line is the password of sa")
    password.add_argument("--password-env", metavar="NAME", help="environment variable with the password of sa")
    serve.add_argument("--certificate-file", type=Path, help="file to write the server's certificate (PEM) to")
    serve.add_argument(
        "--trace",
        type=Path,
        help="file to which every batch is appended, one JSON line each; without it, a file of its own in the folder that "
        "TSQLDEV_TRACES in the environment names, if it does",
    )
    serve.add_argument("--with-parent", action="store_true", help="stop when standard input ends")
    serve.add_argument("-v", "--verbose", action="store_true")
    return _serve(parser.parse_args(arguments))


def _serve(options: argparse.Namespace) -> int:
    logging.basicConfig(
        level=logging.DEBUG if options.verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    logging.getLogger("psycopg").setLevel(logging.WARNING)
    try:
        password = _password(options)
    except (OSError, KeyError) as error:
        print(f"tsqldev: the password of sa could not be read ({error}); nothing was started.", file=sys.stderr)
        return 2
    trace: Path | None = options.trace
    if trace is None and (folder := os.environ.get("TSQLDEV_TRACES")):
        trace = Path(folder, f"{os.getpid()}-{secrets.token_hex(4)}.trace")
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    if options.with_parent:
        threading.Thread(target=_wait_for_end_of_input, args=(stop,), daemon=True).start()

    # Imported late: --help and a wrong option need not wait for it.
    from tsqldev.catalog.bootstrap import MadeByAnother
    from tsqldev.endpoint import endpoint
    from tsqldev.pgserver import PostgresFailed

    try:
        with endpoint(options.data, password, port=options.port, trace=trace) as served:
            if options.certificate_file:
                _write(options.certificate_file, served.certificate)
            if options.port_file:
                _write(options.port_file, f"{served.port}\n")
            print(f"tsqldev: ready on {served.host}:{served.port}", flush=True)
            # What is there by now stays: the collector need not look at all of it again and again.
            gc.freeze()
            gc.set_threshold(10_000, 10, 10)
            stop.wait()
            if options.port_file:
                options.port_file.unlink(missing_ok=True)
    except (PostgresFailed, MadeByAnother, OSError) as error:
        print(f"tsqldev: {error}", file=sys.stderr)
        return 1
    return 0


def _password(options: argparse.Namespace) -> str:
    if options.password_file:
        first: str = options.password_file.read_text(encoding="utf-8").split("\n", 1)[0]
        return first
    if options.password_env:
        return os.environ.pop(options.password_env)
    # Nobody is told: only logins that were made before can then be used.
    return secrets.token_urlsafe(24)


def _wait_for_end_of_input(stop: threading.Event) -> None:
    while sys.stdin.buffer.read(4096):
        continue
    stop.set()


def _write(file: Path, text: str) -> None:
    """Complete or not at all: a reader never sees half a file."""
    building = file.with_name(f".{file.name}.{os.getpid()}")
    building.write_text(text, encoding="utf-8")
    building.replace(file)
