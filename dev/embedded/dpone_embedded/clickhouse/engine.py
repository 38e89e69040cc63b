"""The engine's own process: ClickHouse from the chdb-core wheel, started as clickhouse-local and told to listen on
HTTP.

Run as ``python -m dpone_embedded.clickhouse.engine STATE_DIR``. It ends when its standard input ends, which happens
when the process that started it ends by any death; it is killed rather than unwound, because recovery after a kill
is ClickHouse's own.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import os
import signal
import sys
import threading
from pathlib import Path
from types import ModuleType

KEEP_SERVING = (
    "SYSTEM START LISTEN HTTP; "
    "SELECT sleepEachRow(1) FROM system.numbers "
    "SETTINGS function_sleep_max_microseconds_per_block = 0, max_block_size = 1 FORMAT Null"
)


def load_engine() -> ModuleType:
    """Load the extension alone: importing the package ``chdb`` would open an engine of its own in this process."""
    package = importlib.util.find_spec("chdb")
    if package is None or package.origin is None:
        raise SystemExit("the package chdb-core is not installed: install the extra that holds the embedded ClickHouse")
    path = str(Path(package.origin).with_name("_chdb.abi3.so"))
    ctypes.CDLL(path, mode=sys.getdlopenflags() | os.RTLD_DEEPBIND)
    loader = importlib.machinery.ExtensionFileLoader("_chdb", path)
    spec = importlib.util.spec_from_file_location("_chdb", path, loader=loader)
    assert spec is not None
    engine = importlib.util.module_from_spec(spec)
    loader.exec_module(engine)
    return engine


def _end_with_parent() -> None:
    while os.read(0, 1024):
        continue
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    state = Path(sys.argv[1])
    os.chdir(state)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    load_engine().query(KEEP_SERVING, "TabSeparated", path=str(state / "data"))


if __name__ == "__main__":
    main()
