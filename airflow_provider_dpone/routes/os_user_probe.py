"""Run as another OS user: says what that user cannot use. Imports nothing of the provider.

Started as `python -I os_user_probe.py FOLDER FILE... -- MODULE...`. Prints one line for each obstacle and ends with 3
when there is one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec


def obstacles(folder: str, files: list[str], modules: list[str]) -> Iterator[str]:
    if not os.access(folder, os.X_OK):
        yield f"the work folder {folder}"
    yield from (f"the file {path}" for path in files if not os.access(path, os.R_OK))
    for name in modules:
        try:
            found = find_spec(name) is not None
        except (ImportError, OSError):
            found = False
        if not found:
            yield f"the Python module {name}"


def main(arguments: list[str]) -> int:
    separator = arguments.index("--")
    found = list(obstacles(arguments[0], arguments[1:separator], arguments[separator + 1 :]))
    print("\n".join(found))
    return 3 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
