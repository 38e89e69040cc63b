"""The server process: starts the engine as its child, waits until it answers, and serves the access proxy.

It ends on SIGTERM, when its standard input ends (unless told to outlive its parent), and when the engine ends.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from dpone_embedded.clickhouse import config
from dpone_embedded.clickhouse.access import CLASS_GRANTS, AccessBook
from dpone_embedded.clickhouse.proxy import AccessProxy

ADMINISTRATOR = "dpone_admin"
log = logging.getLogger("dpone_embedded.clickhouse")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start_engine(state: Path, port: int) -> subprocess.Popen[bytes]:
    with open(state / "engine.log", "ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "dpone_embedded.clickhouse.engine", str(state)],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    deadline = time.monotonic() + 45
    while True:
        if process.poll() is not None:
            tail = (state / "engine.log").read_text(errors="replace")[-2000:]
            raise SystemExit(f"the engine ended at its start:\n{tail}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/ping", timeout=2) as reply:
                if reply.read() == b"Ok.\n":
                    return process
        except (urllib.error.URLError, ConnectionError):
            if time.monotonic() > deadline:
                process.kill()
                raise SystemExit("the engine did not answer in 45 seconds") from None
            time.sleep(0.05)


async def _serve(state: Path, arguments: dict[str, object]) -> None:
    layout = config.Layout(state)
    used = set(json.loads(layout.access.read_text())["observed"]) if layout.access.exists() else set()
    accounts: dict[str, tuple[str, ...]] = {ADMINISTRATOR: ()}
    asked = arguments["accounts"]
    assert isinstance(asked, dict)
    accounts |= {str(name): tuple(grants) for name, grants in asked.items()}
    found = config.load_secrets(layout, list(accounts), used)
    engine_port = _free_port()
    config.write(layout, found, accounts, engine_port)
    book = AccessBook(layout.access, {kind: found.pool_of(kind) for kind in CLASS_GRANTS})
    engine = _start_engine(state, engine_port)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if not arguments["outlive"]:
        loop.add_reader(0, lambda: None if os.read(0, 1024) else stop.set())
    try:
        server = await AccessProxy(book, found, engine_port, ADMINISTRATOR).serve(int(str(arguments["port"])))
        port = server.sockets[0].getsockname()[1]
        draft = layout.readiness.with_suffix(".draft")
        draft.write_text(json.dumps({"port": port, "administrator": ADMINISTRATOR, "engine_pid": engine.pid}))
        os.replace(draft, layout.readiness)
        log.info("serving on 127.0.0.1:%s", port)
        while not stop.is_set():
            if engine.poll() is not None:
                raise SystemExit(f"the engine ended with code {engine.returncode}; its log is {layout.log}")
            try:
                await asyncio.wait_for(stop.wait(), 0.2)
            except TimeoutError:
                continue
        server.close()
    finally:
        layout.readiness.unlink(missing_ok=True)
        engine.terminate()
        try:
            engine.wait(10)
        except subprocess.TimeoutExpired:
            engine.kill()
            engine.wait()


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    asyncio.run(_serve(Path(sys.argv[1]), json.loads(sys.argv[2])))


if __name__ == "__main__":
    main()
